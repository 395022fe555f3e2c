"""`zvcore get PATH [REGION] -o FILE`: a region, a chunk or a value into a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "get",
        parents=[common],
        help="write a region of an array, a chunk, or a value by its id, to a file",
        description="Write a region of an array to a .npy file, or its bytes in C order to any other; a chunk as it "
        "is stored (--chunk); or a skeleton, mesh manifest or other value of a sharded store by its id (--id).",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    parser.add_argument("region", metavar="REGION", nargs="?", help='as inside a[...], such as "0:10,:,5"')
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="where to; - is stdout")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--chunk", metavar="I,J,K", help="the stored bytes of the chunk at this grid position")
    what.add_argument("--id", metavar="N", help="the bytes of the value with this id")
    return parser


def run(options: argparse.Namespace) -> int:
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import open_array, parse_region, reading

    if options.region is not None and (options.chunk or options.id):
        raise UsageError("a region, --chunk or --id: one of them")
    with reading(options.path):
        if options.id is not None:
            return put(options.output, value(options.path, options.id))
        array = open_array(options.path)
    if options.chunk is not None:
        return put(options.output, chunk(array, options.chunk))
    region = parse_region(options.region, array.shape)
    return write(array, region, options.output, options.threads)


def put(output: str, data: bytes) -> int:
    if output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        with open(output, "wb") as file:
            file.write(data)
    return 0


def chunk(array: Any, text: str) -> bytes:
    """The stored bytes of one chunk."""
    from zvcore.commands import UsageError
    from zvcore.errors import NotFoundError

    try:
        position = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--chunk is a grid position such as 0,2,1, not {text!r}") from None
    if len(position) != array.ndim or any(not 0 <= i < n for i, n in zip(position, array.grid, strict=False)):
        raise UsageError(f"the chunk {text} does not lie in the grid {array.grid}")
    data = array.read_encoded(position)
    if data is None:
        raise NotFoundError("the chunk is not stored: it reads as the fill value", chunk=position)
    return bytes(data)


def value(path: str, text: str) -> bytes:
    """The value of an id in sharded skeletons, meshes or a volume's scale."""
    import zvcore
    from zvcore.care.verbs import find
    from zvcore.commands import UsageError
    from zvcore.errors import NotFoundError

    if not (text.isascii() and text.isdigit()) or int(text) >= 2**64:
        raise UsageError(f"--id is a number of 64 bits, not {text!r}")
    found = zvcore.inspect(path)
    spec = found.get("sharding")
    if spec is None:
        scales = found.get("scales") or []
        inside = [scale["key"] for scale in scales if isinstance(scale, dict) and scale.get("sharding") is not None]
        hint = f"; say which scale: {', '.join(f'{path}/{key}' for key in inside)}" if inside else ""
        raise UsageError(f"{path} has no values by id: --id is for sharded skeletons, meshes and scales{hint}")
    store, format, inside_of = find(path)
    data = format.stored_value(store if inside_of is None else store.child(inside_of), spec, int(text))
    if data is None:
        raise NotFoundError(f"{path} has no value with this id", found=text)
    return bytes(data)


def write(array: Any, region: tuple[Any, ...], output: str, threads: int | None) -> int:
    """A region to a file, piece by piece."""
    import numpy as np

    from zvcore.commands import UsageError
    from zvcore.commands.cat import slabs
    from zvcore.engine import Selection

    if array.dtype.hasobject:
        raise UsageError("items of any length have no file format here; `zvcore cat` prints them")
    shape = tuple(Selection.basic(region, array.shape).result_shape)
    little = array.dtype.newbyteorder("<")
    file: Any = sys.stdout.buffer if output == "-" else open(output, "wb")  # noqa: SIM115
    try:
        if output == "-" or output.endswith(".npy"):
            header = {"descr": np.lib.format.dtype_to_descr(little), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        for values in slabs(array, region, threads):
            file.write(np.ascontiguousarray(values.astype(little, copy=False)).tobytes())
        file.flush()
    finally:
        if output != "-":
            file.close()
    return 0
