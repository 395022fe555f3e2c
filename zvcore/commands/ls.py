"""`zvcore ls PATH`: what a group, volume or store has, one line each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "ls",
        parents=[common],
        help="list the members of a group, the scales of a volume, the levels of a store",
        description="List what a group, volume or Zarr Vectors store has. Alone: names; with -l: shapes, sizes.",
    )
    parser.add_argument("path", metavar="PATH", nargs="?", default=".", help="a path or URL (default: here)")
    parser.add_argument("-l", "--long", action="store_true", help="with kinds, shapes and sizes on disk")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    from zvcore.commands.terminal import print_json, reading, tell_unfinished
    from zvcore.wording import printable

    with reading(options.path):
        members = listed(options.path, sizes=options.long)
    tell_unfinished(options.path)
    for name, one in members.items():
        if one and "unfinished" in one:
            print(printable(f"{name}: {one['unfinished']['what']}"), file=sys.stderr)
    if options.json:
        print_json(members if options.long else list(members))
    elif options.long:
        from zvcore.commands.info import member_table

        if members:
            print("\n".join(member_table(members)))
    else:
        for name in members:
            print(printable(name))
    return 0


def listed(path: str, sizes: bool) -> dict[str, Any]:
    """Name -> what it is, of the things that lie directly below a path."""
    import zvcore
    from zvcore.care.verbs import find

    below = entries(path)
    if below is not None:
        return below
    if sizes:
        found = zvcore.inspect(path)
        if found["kind"] == "volume":
            return {**{one.get("key", "?"): one for one in found["scales"]}, **found["members"]}
        if found["kind"] == "vectors":
            return {str(one["level"]): {"kind": "level", **one} for one in found["levels"]}
        return dict(found.get("members", {}))
    store, format, only = find(path)
    glimpse = format.glimpse(store)
    if glimpse is not None and glimpse.error is None:
        return {}  # skeletons, annotations and the like: ids are no names of members
    opened = format.open(store, "r")
    if only is not None or isinstance(opened, zvcore.Array):
        return {}
    return dict.fromkeys(opened.children())


def entries(path: str) -> dict[str, Any] | None:
    """Folders, and files that may be datasets, of a place that is no dataset itself: a bucket, a folder of several."""
    from zvcore.converting.note import unfinished_at
    from zvcore.errors import NotFoundError, UnsupportedError
    from zvcore.format import formats
    from zvcore.opening import detect, store_at, unreadable

    try:
        store = store_at(path)
    except NotFoundError:
        return None  # opening it will say what is wrong
    if store.file is not None or detect(store) is not None:
        return None
    try:
        folders, objects = store.list_dir()
    except UnsupportedError:  # a web server that does not list
        return None
    if not folders and not objects:
        raise NotFoundError("there is nothing here", key=path)
    endings = tuple(suffix for one in formats().values() for suffix in (*one.suffixes, ".zip", ".ozx"))
    files = [name for name in objects if name.lower().endswith(endings)]
    if not (folders or files) or unreadable(store) is not None:
        return None
    kinds = ((folders, "folder"), (files, "file"))
    found: dict[str, Any] = {name: {"kind": kind} for names, kind in kinds for name in sorted(names)}
    # In an object store each would be a request.
    for name in folders if store.local_root is not None else ():
        unfinished = unfinished_at(store.child(name))
        if unfinished is not None:
            found[name]["unfinished"] = unfinished.to_json()
    return found
