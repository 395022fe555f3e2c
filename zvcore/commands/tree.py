"""`zvcore tree PATH`: everything below a path, drawn as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "tree",
        parents=[common],
        help="everything below a path, drawn as a tree",
        description="Draw the groups and arrays below a path, the scales of a volume, the levels of a store. "
        "Exit status 1: something of it is unfinished or broken, as `zvcore info` has it.",
    )
    parser.add_argument("path", metavar="PATH", nargs="?", default=".", help="a path or URL (default: here)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    from zvcore.commands.terminal import can_print, is_incomplete, print_json, put, reading
    from zvcore.errors import without_credentials

    with reading(options.path):
        found = inspected(options.path)
    if options.json:
        print_json(found)
        return int(is_incomplete(found))
    signs = ("├── ", "└── ", "│   ") if can_print("├└│") else ("|-- ", "`-- ", "|   ")
    put(f"{without_credentials(options.path)}  {summary(found)}")
    for line in drawn(found, "", signs):
        put(line)
    return int(is_incomplete(found))


def inspected(path: str) -> dict[str, Any]:
    """What lies at a path; of a folder that is no dataset itself, what lies in it."""
    import zvcore
    from zvcore.commands.ls import entries

    below = entries(path)
    return zvcore.inspect(path) if below is None else folder(path, below)


def folder(path: str, below: Mapping[str, Any]) -> dict[str, Any]:
    """What these are that lie in a folder that is no dataset itself."""
    import zvcore
    from zvcore.care.refusals import refusal
    from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
    from zvcore.opening import store_at

    def looked_at(name: str) -> Any:
        try:
            return zvcore.inspect(f"{path.rstrip('/')}/{name}")
        except (NotFoundError, UnsupportedError):
            return below[name]
        except (ZvcoreError, OSError) as error:
            return {"kind": "broken", "error": str(refusal(error))}

    found = store_at(path).each(looked_at, [*below])
    return {"kind": "folder", "members": dict(zip(below, found, strict=True))}


def children(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(name, what it is) of what lies directly below."""
    below = [(str(one.get("key", "?")), one) for one in found.get("scales", ())]
    below += [(str(one["level"]), {"kind": "level", **one}) for one in found.get("levels", ())]
    return [*below, *found.get("members", {}).items()]


def drawn(found: dict[str, Any], before: str, signs: tuple[str, str, str]) -> Iterator[str]:
    below = children(found)
    for number, (name, one) in enumerate(below):
        last = number == len(below) - 1
        yield f"{before}{signs[1] if last else signs[0]}{name}  {summary(one)}".rstrip()
        yield from drawn(one, before + ("    " if last else signs[2]), signs)


def summary(found: dict[str, Any]) -> str:
    """A few words."""
    from zvcore.commands.terminal import damage_of

    damage, unfinished = damage_of(found), found.get("unfinished")
    damaged = "" if damage is None else f", damaged: {damage}"
    return described(found) + damaged + ("" if unfinished is None else f", {unfinished['what']}")


def described(found: dict[str, Any]) -> str:
    from zvcore.commands.info import words
    from zvcore.wording import human_size

    if found.get("error"):
        return f"{found['kind']}: {found['error']}"
    if found["kind"] == "array":
        # How much of one file something in it takes is not known.
        stored = f" {human_size(found['stored_bytes'])}" if "stored_bytes" in found else ""
        return f"{found['dtype']} ({words(found['shape']).replace(' ', ', ')}){stored}"
    if found["kind"] == "level":
        return f"{found.get('vertices', '?')} vertices {human_size(found.get('stored_bytes', 0))}"
    if "values" in found:
        return f"{found['values']} {found['kind']}"
    listed = ", unlisted: as its documents tell" if found.get("unlisted") else ""
    return f"{found.get('format', '')} {found['kind']}{listed}".strip()
