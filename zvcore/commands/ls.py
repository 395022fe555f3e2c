"""`zvcore ls PATH`: what a group, volume or store has, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from zvcore.stores import Store


# In an object store each is a request, of which many are under way at once.
_MOST_ASKED = 1000


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "ls",
        parents=[common],
        help="list the members of a group, the scales of a volume, the levels of a store",
        description="List what a group, volume or Zarr Vectors store has. Alone: names; with -l: shapes, sizes. "
        "Exit status 1: it is, or holds, the destination of an unfinished conversion, or with -l, something is broken, "
        "as `zvcore info` has it.",
    )
    parser.add_argument("path", metavar="PATH", nargs="?", default=".", help="a path or URL (default: here)")
    parser.add_argument("-l", "--long", action="store_true", help="with kinds, shapes and sizes on disk")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    from zvcore.commands.terminal import is_incomplete, print_json, put, reading, tell_unfinished

    with reading(options.path):
        found = listed(options.path, sizes=options.long)
    members = found["members"]
    unfinished = tell_unfinished(options.path)
    beside = {name: f"{name}: {one['unfinished']['what']}" for name, one in members.items() if "unfinished" in one}
    if options.json or options.long:
        put(*beside.values(), words=True)
    if options.json:
        print_json(members if options.long else list(members))
    elif options.long:
        from zvcore.commands.info import member_table

        if members:
            put(*member_table(members))
    else:
        put(*(beside.get(name, name) for name in members))
    return int(unfinished or is_incomplete(found))


def listed(path: str, sizes: bool) -> dict[str, Any]:
    """What is known of a path; its members are the things that lie directly below it, by their names."""
    import zvcore
    from zvcore.care.verbs import find
    from zvcore.commands.terminal import damage_of, put
    from zvcore.commands.tree import folder

    below = entries(path)
    if below is not None:
        return folder(path, below) if sizes else {"members": below}
    if sizes:
        found = zvcore.inspect(path)
        if found.get("unlisted"):
            put(
                f"{path}: what its documents tell of; this server does not list what it has, there may be more",
                words=True,
            )
        if found["kind"] == "group" and "error" in found:
            put(f"{path}: {found['error']}", words=True)
        damage = damage_of(found)
        if damage is not None:
            put(f"{path}: damaged: {damage}", words=True)
        if found["kind"] == "volume":
            return {"members": {**{one.get("key", "?"): one for one in found["scales"]}, **found["members"]}}
        if found["kind"] == "vectors":
            return {"members": {str(one["level"]): {"kind": "level", **one} for one in found["levels"]}}
        return {"members": {}, **found}
    store, format, only = find(path)
    glimpse = format.glimpse(store)
    if glimpse is not None and glimpse.error is None:
        return {"members": {}}  # skeletons, annotations and the like: ids are no names of members
    opened = format.open(store, "r")
    if only is not None or isinstance(opened, zvcore.Array):
        return {"members": {}}
    return {"members": with_unfinished(store, {name: {} for name in opened.children()})}


def entries(path: str) -> dict[str, Any] | None:
    """Folders, and files that may be datasets, of a place that is no dataset itself: a bucket, a folder of several."""
    from zvcore.errors import NotFoundError, UnsupportedError
    from zvcore.opening import detect, may_be_dataset, store_at, unreadable

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
    files = list(filter(may_be_dataset, objects))
    if not (folders or files) or unreadable(store) is not None:
        return None
    kinds = ((folders, "folder"), (files, "file"))
    return with_unfinished(store, {name: {"kind": kind} for names, kind in kinds for name in sorted(names)})


def with_unfinished(store: Store, members: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The members of a place; those that are the destination of an unfinished conversion say so."""
    from zvcore.commands.terminal import put
    from zvcore.converting.note import unfinished_member
    from zvcore.stores.request_threads import LIMIT, side_by_side

    asked = list(members)
    if store.local_root is None:  # each is a request
        asked = asked[:_MOST_ASKED]
        if len(members) > _MOST_ASKED:
            put(f"only the first {_MOST_ASKED} were asked whether they are unfinished conversions", words=True)
    found = side_by_side(lambda name: unfinished_member(store, name), asked, 1 if store.local_root else LIMIT)
    for name, unfinished in zip(asked, found, strict=True):
        if unfinished is not None:
            members[name]["unfinished"] = unfinished.to_json()
    return members
