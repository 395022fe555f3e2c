"""`zvcore info PATH`: what a person wants to know first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands import FormatNames

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "info",
        parents=[common],
        help="format, shape, chunks, codec, size on disk; the map of a shard",
        description="Show what is at a path: an array, a group, a volume, a Zarr Vectors store, or one shard or "
        "chunk file; and what lies in a folder of several. For a shard, a map of its live bytes, dead bytes and index "
        "is drawn. Exit status 1: it is, or holds, the destination of an unfinished conversion, or something is broken "
        "(documents, and of an array the indexes of its shards, are all that is looked at).",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    parser.add_argument("--format", metavar="F", choices=FormatNames(), help="%(choices)s (default: detected)")
    parser.add_argument("--attributes", action="store_true", help="the user's attributes too")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands.terminal import is_incomplete, print_json, put, reading
    from zvcore.errors import UnsupportedError

    with reading(options.path):
        try:
            found = zvcore.inspect(options.path, threads=options.threads, format=options.format)
        except UnsupportedError:
            several = None if options.format else folder_of_several(options.path)
            if several is None:
                raise
            found = several
    if options.json:
        print_json(found)
    else:
        put(*lines(found, options.attributes))
    return int(is_incomplete(found))


def folder_of_several(path: str) -> dict[str, Any] | None:
    """What lies in a folder of data sets that is none itself, as `tree` shows it; None for any other place."""
    from zvcore.commands.tree import inspected
    from zvcore.converting.note import unfinished_around
    from zvcore.errors import NotFoundError

    if unfinished_around(path) is not None:
        return None
    try:
        found = inspected(path)
    except NotFoundError:
        return None
    members = found.get("members", {}).values()
    return found if any("format" in one or one.get("kind") == "broken" for one in members) else None


def lines(found: dict[str, Any], attributes: bool = False) -> Iterator[str]:
    """What `zvcore.inspect` found, in words that line up."""
    from zvcore.wording import printable, table

    yield from table((name, printable(value)) for name, value in facts(found))
    for part in (scales(found), members(found), levels(found), drawing(found)):
        if part:
            yield ""
            yield from part
    if attributes:
        import json

        from zvcore.commands.terminal import plain

        yield ""
        yield from json.dumps(plain(found.get("attributes", {})), indent=2).splitlines()


def facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, what to say) of what is there."""
    from zvcore.commands.terminal import damage_of
    from zvcore.wording import human_size

    several = found["kind"] == "folder"
    yield "format", "a folder of several data sets" if several else f"{found.get('format', '?')} {found['kind']}"
    if found.get("error"):
        yield "error", str(found["error"])
    if found.get("unfinished"):
        yield "state", str(found["unfinished"]["what"])
    for name in ("key", "version", "type", "position", "region", "shape", "dtype", "channels", "chunks", "shards"):
        value = found.get(name)
        if value is not None and not (name == "chunks" and isinstance(value, int)):
            yield name, words(value)
    if "codecs" in found:
        yield "codecs", ", ".join(codec_words(one) for one in found["codecs"])
    for name in ("fill_value", "dimension_names", "resolution", "voxel_offset", "geometry", "ndim", "chunk_shape"):
        if found.get(name) is not None:
            yield name.replace("_", " "), words(found[name])
    for name in ("lines", "vertices"):
        if isinstance(found.get(name), int):
            yield name, str(found[name])
    for name in ("vertex_attributes", "line_attributes", "groups"):
        if isinstance(found.get(name), dict) and found[name]:
            yield name.replace("_", " "), ", ".join(f"{key} ({value})" for key, value in found[name].items())
    if found.get("unlisted"):
        yield "members", "as its documents tell: this server does not list what it has, there may be more"
    if "nbytes" in found:
        yield "values", human_size(found["nbytes"])
    if isinstance(found.get("chunks"), int):
        slots = f" of {found['slots']}" if "slots" in found else ""
        yield "chunks", f"{found['chunks']}{slots}"
    if "size" in found:
        yield "size", human_size(found["size"])
    if "stored_bytes" in found:
        yield "on disk", f"{human_size(found['stored_bytes'])} in {found['objects']} files"
    if found.get("ratio"):
        yield "ratio", f"{found['ratio']:.2f}"
    if found.get("missing"):
        yield "missing", found["missing"]
    if "live" in found:
        parts = ", ".join(f"{human_size(found[kind])} {kind}" for kind in ("live", "dead", "index"))
        yield "bytes", parts
    if found.get("order"):
        yield "order", str(found["order"])
    details = found.get("shard_details")
    if details:
        dead = sum(one["dead"] for one in details.values())
        yield "dead bytes", f"{human_size(dead)} in {sum(one['dead'] > 0 for one in details.values())} shards"
    damage = damage_of(found)
    if damage is not None:
        yield "damaged", damage


def words(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(one, (list, tuple)) and len(one) == 2 for one in value):
            return " ".join(f"{one[0]}:{one[1]}" for one in value)
        return " ".join(str(one) for one in value)
    return str(value)


def codec_words(codec: Any) -> str:
    """A codec as metadata have it, in a few words."""
    if not isinstance(codec, dict):
        return str(codec)
    settings = codec.get("configuration", {key: value for key, value in codec.items() if key not in ("name", "type")})
    name = str(codec.get("name", codec.get("type", "?")))
    if name == "sharding_indexed" and isinstance(settings.get("codecs"), list):
        return f"{name}({', '.join(codec_words(one) for one in settings['codecs'])})"
    told = " ".join(f"{key}={value}" for key, value in settings.items() if isinstance(value, (str, int, float)))
    return f"{name} {told}".strip()


def scales(found: dict[str, Any]) -> list[str]:
    """The scales of a volume."""
    from zvcore.wording import human_size, printable, table

    if not found.get("scales"):
        return []
    rows: list[tuple[str, ...]] = [("scale", "shape", "chunks", "codecs", "files", "on disk", "ratio")]
    for one in found["scales"]:
        if "error" in one:
            rows.append((printable(one["error"]), "", "", "", "", "", ""))
            continue
        files, size = (str(one["objects"]), human_size(one["stored_bytes"])) if "objects" in one else ("-", "-")
        ratio = f"{one['ratio']:.2f}" if one.get("ratio") else "-"
        rows.append((
            printable(one["key"]), words(one["shape"]), words(one["chunks"]), " ".join(one["codecs"]),
            files, size, ratio,
        ))  # fmt: skip
    return list(table(rows, "    rrr"))


def members(found: dict[str, Any]) -> list[str]:
    """What a group has."""
    if not found.get("members"):
        return []
    return list(member_table(found["members"]))


def member_table(members: dict[str, Any]) -> Iterator[str]:
    from zvcore.commands.terminal import damage_of
    from zvcore.wording import human_size, printable, table

    rows: list[tuple[str, ...]] = [("name", "kind", "shape", "dtype", "files", "on disk", "ratio")]
    for name, one in members.items():
        files, stored = total(one) if counted(one) else ("-", None)
        kind = f"{one['kind']}, unfinished" if one.get("unfinished") else one["kind"]
        kind += ", with a broken document" if one["kind"] == "group" and "error" in one else ""
        kind += ", damaged" if damage_of(one) is not None else ""
        ratio = f"{one['ratio']:.2f}" if one.get("ratio") else "-"
        rows.append((
            printable(name), kind, words(one.get("shape", "-")), str(one.get("dtype", "-")), str(files),
            "-" if stored is None else human_size(stored), ratio,
        ))  # fmt: skip
    yield from table(rows, "    rrr")


def _below(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [*found.get("members", {}).values(), *found.get("scales", ()), *found.get("levels", ())]


def counted(found: dict[str, Any]) -> bool:
    """Whether files and bytes were counted: not in what only lies beside others in a folder, nor within one file."""
    if "stored_bytes" in found:
        return True
    if found["kind"] in ("folder", "file", "broken", "unsupported", "array"):
        return False
    below = _below(found)
    return not below or any(map(counted, below))


def total(found: dict[str, Any]) -> tuple[int, int]:
    """(files, bytes) of something and all that is in it."""
    files, size = found.get("objects", 0), found.get("stored_bytes", 0)
    for one in _below(found):
        more = total(one)
        files, size = files + more[0], size + more[1]
    return files, size


def levels(found: dict[str, Any]) -> list[str]:
    """The levels of a pyramid, of vectors or of an image."""
    from zvcore.wording import human_size, table

    rows: list[tuple[str, ...]]
    if found.get("levels"):
        rows = [("level", "vertices", "objects", "chunks", "files", "on disk")]
        for one in found["levels"]:
            counts = [one.get(name) for name in ("vertices", "objects_indexed", "chunks", "objects")]
            rows.append((
                str(one["level"]), *("-" if value is None else str(value) for value in counts),
                human_size(one.get("stored_bytes", 0)),
            ))  # fmt: skip
        return list(table(rows, " rrrrr"))
    if found.get("multiscale"):
        rows = [("level", "axes", "resolution", "offset", "units")]
        axes = told(found["multiscale"]["axes"])
        for one in found["multiscale"]["levels"]:
            rows.append((
                one["path"] or "-", axes, *(told(one[name]) for name in ("resolution", "offset", "units")),
            ))  # fmt: skip
        return list(table(rows))
    return image_levels(found)


def told(values: Sequence[Any]) -> str:
    """What is said of each axis, in one cell of a table."""
    from zvcore.wording import printable

    return printable(" ".join("-" if value is None else str(value) for value in values))


def image_levels(found: dict[str, Any]) -> list[str]:
    """The levels of the image that a group's attributes describe."""
    from zvcore.errors import MetadataError
    from zvcore.format import get_format
    from zvcore.wording import printable, table

    if found["kind"] != "group":
        return []
    try:
        described = get_format(found["format"]).described_levels(found.get("attributes", {}))
    except (MetadataError, AttributeError, TypeError, ValueError):
        return []  # `zvcore verify` says what is wrong with it
    if not described:
        return []
    rows: list[tuple[str, ...]] = [("level", "axes", "resolution", "offset", "units")]
    for path, axes in described:
        columns: list[list[Any]] = [
            [a.name for a in axes],
            [a.scale for a in axes],
            [a.offset for a in axes],
            [a.unit for a in axes],
        ]
        rows.append((printable(path), *map(told, columns)))
    return list(table(rows))


def drawing(found: dict[str, Any]) -> list[str]:
    """The map of a shard, over several lines of the terminal."""
    import shutil

    from zvcore.commands.terminal import bar, can_print

    if not found.get("map"):
        return []
    signs = {"live": "█", "dead": "·", "index": "▒"}
    if not can_print("".join(signs.values())):
        signs = {"live": "#", "dead": ".", "index": "="}
    width = max(20, min(100, shutil.get_terminal_size().columns))
    drawn = bar(found["map"], 4 * width, signs)
    legend = "   ".join(f"{sign} {kind}" for kind, sign in signs.items())
    return [*(drawn[at : at + width] for at in range(0, len(drawn), width)), legend]
