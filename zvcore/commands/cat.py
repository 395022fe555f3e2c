"""`zvcore cat PATH [REGION]`: values on stdout."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

# What is read at once, in bytes.
SLAB = 32 << 20


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "cat",
        parents=[common],
        help="print values of an array, attributes of a group",
        description="Print the values of an array, or of a region of it, one line per row of the last axis. Of a "
        "group, its attributes as JSON. Of a volume, the finest scale.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    parser.add_argument("region", metavar="REGION", nargs="?", help='as inside a[...], such as "0:10,:,5"')
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--raw", action="store_true", help="the bytes of the values, little endian, in C order")
    how.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands.terminal import open_array, parse_region, print_json, reading

    with reading(options.path):
        if options.region is None and not options.raw:
            opened = zvcore.open(options.path) if is_dataset(options.path) else None
            if opened is not None and opened.kind in ("group", "image"):
                print_json(dict(opened.attrs))
                return 0
        array = open_array(options.path)
    region = parse_region(options.region, array.shape)
    if options.json:
        print_json(array.read(region, threads=options.threads))
        return 0
    for values in slabs(array, region, options.threads):
        if options.raw:
            little = values.astype(values.dtype.newbyteorder("<"), copy=False)
            sys.stdout.buffer.write(little.tobytes())
        else:
            rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
            for row in rows.tolist():
                print(*row)
    sys.stdout.flush()
    return 0


def is_dataset(path: str) -> bool:
    """Whether something can be opened right at the path, not only around it."""
    from zvcore.care.verbs import find

    return find(path)[2] is None


def slabs(array: Any, region: tuple[Any, ...], threads: int | None) -> Iterator[Any]:
    """The region's values, in pieces along its first axis that fit into memory."""
    import numpy as np

    full = list(region)
    if ... in full:
        place = full.index(...)
        full[place : place + 1] = [slice(None)] * (array.ndim - len(full) + 1)
    full += [slice(None)] * (array.ndim - len(full))
    axis = next((i for i, part in enumerate(full) if isinstance(part, slice)), None)
    if axis is None:
        yield np.asarray(array.read(tuple(full), threads=threads))
        return
    span = range(array.shape[axis])[full[axis]]
    others = [
        len(range(n)[part])
        for i, (n, part) in enumerate(zip(array.shape, full))
        if i != axis and isinstance(part, slice)
    ]
    row = max(1, int(np.prod(others, dtype=object)) * array.dtype.itemsize)
    # Whole chunks where they fit: each is decoded once then.
    step = max(1, SLAB // row)
    if step > array.chunks[axis]:
        step -= step % array.chunks[axis]
    for first in range(0, len(span), step):
        part = span[first : first + step]
        stop = part.stop if part.step > 0 or part.stop >= 0 else None
        full[axis] = slice(part.start, stop, part.step)
        yield np.asarray(array.read(tuple(full), threads=threads))
