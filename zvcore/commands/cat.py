"""`zvcore cat PATH [REGION]`: values on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands.regions import add_region, chosen_region

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

# More numbers than this are for programs, which say so.
LIMIT = 20_000


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "cat",
        parents=[common],
        help="print values of an array, attributes of a group",
        description="Print the values of an array, or of a region of it, one line per row of the last axis. Of a "
        "group, its attributes as JSON. Of a volume or an image, the finest level.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    add_region(parser)
    parser.add_argument(
        "--limit", type=count, metavar="N", default=LIMIT,
        help="print so many values at most (%(default)s); 0: all. What is left out is said. --raw has no limit",
    )  # fmt: skip
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--raw", action="store_true", help="the bytes of the values, little endian, in C order")
    how.add_argument("--json", action="store_true", help="as JSON")
    return parser


def count(text: str) -> int:
    import argparse

    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"a number of values, not {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    import math

    from zvcore.commands import UsageError
    from zvcore.commands.terminal import bytes_out, flush, open_array, print_json, put, reading, tell_unfinished
    from zvcore.engine import Selection
    from zvcore.images.slabs import slabs
    from zvcore.opening import open_silently, store_at

    with reading(options.path):
        if options.region is None and options.at is None and not options.raw:
            opened = open_silently(store_at(options.path)) if is_dataset(options.path) else None
            if opened is not None and opened.kind in ("group", "image"):
                tell_unfinished(options.path)
                print_json(dict(opened.attrs))
                return 0
        array = open_array(options.path)
    region = chosen_region(options, array)
    if options.raw:
        if array.dtype.hasobject:
            raise UsageError("items of any length have no bytes of their own; without --raw they are printed")
        out = bytes_out()
        for values in slabs(array, region, options.threads):
            out.write(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
        flush()
        return 0
    total = math.prod(Selection.basic(region, array.shape).result_shape)
    if options.json:
        if options.limit and total > options.limit:
            raise UsageError(f"{total} values are more than --limit {options.limit}; --limit 0 prints all of them")
        print_json(array.read(region, threads=options.threads))
        return 0
    if options.limit and total > options.limit:
        region = beginning_of(region, array.shape, options.limit)
    print_rows(slabs(array, region, options.threads), options.limit or total)
    flush()
    if options.limit and total > options.limit:
        # With --quiet too: what was left out matters.
        put(
            f"zvcore cat: {options.limit} of {total} values; {total - options.limit} are left out. "
            "--limit 0 prints all; say a region for others",
            words=True,
        )
    return 0


def beginning_of(region: tuple[Any, ...], shape: tuple[int, ...], most: int) -> tuple[Any, ...]:
    """The part of a region with its first values: a single row may have more than there is memory or time for."""
    from zvcore.images.slabs import as_slice, whole_region

    full = whole_region(region, len(shape))
    for axis in reversed(range(len(full))):
        if isinstance(full[axis], slice):
            span = range(shape[axis])[full[axis]]
            full[axis] = as_slice(span[:most])
            most = -(-most // len(span))
    return tuple(full)


def print_rows(parts: Iterable[Any], most: int) -> None:
    """Values, one line for each row of the last axis, until there were so many."""
    from zvcore.casting import in_words
    from zvcore.commands.terminal import put

    for values in parts:
        rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
        for row in rows:
            if most <= 0:
                return
            put(" ".join(map(str, in_words(row[:most]).tolist())))
            most -= len(row)


def is_dataset(path: str) -> bool:
    """Whether something can be opened right at the path, not only around it."""
    from zvcore.care.verbs import find

    return find(path)[2] is None
