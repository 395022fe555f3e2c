"""`zvcore get PATH [REGION] -o FILE`: a region, a chunk or a value into a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands.regions import add_region, chosen_region

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "get",
        parents=[common],
        help="write a region of an array, a chunk, or a value by its id, to a file",
        description="Write a region of an array to a file, as what its name ends with: "
        ".npy, .npz, .tif (an OME-TIFF where the axes have names), .nii or .nii.gz, .raw (bytes in C order); "
        "annotations or points as .csv, .parquet or .npz; lines as .trx, .trk or .tck; a chunk as it is stored "
        "(--chunk); a mesh as .obj, .ply or .stl or a skeleton as .swc (in micrometers) by its segment's id (--id); or "
        "the bytes of a skeleton, mesh manifest or other value of a sharded store.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    add_region(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="where to; - is stdout, as .npy")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--chunk", metavar="I,J,K", help="the stored bytes of the chunk at this grid position")
    what.add_argument("--id", metavar="N", help="the mesh of this segment, or the bytes of the value with this id")
    parser.add_argument("--lod", metavar="N", type=int, default=0, help="the mesh's level of detail, 0 for the finest")
    return parser


def run(options: argparse.Namespace) -> int:
    from zvcore.commands import UsageError
    from zvcore.commands.files import check_folder, check_name, put_bytes, write_region
    from zvcore.commands.terminal import open_array, reading, say
    from zvcore.stores.overlap import are_same

    if (options.region is not None or options.at is not None) and (options.chunk or options.id):
        raise UsageError("a region, --chunk or --id: one of them")
    if options.lod and options.id is None:
        raise UsageError("--lod is for a mesh: --id says which")
    check_folder(options.output)
    stored = options.chunk is not None or options.id is not None
    if not stored and (write_rows(options) or write_lines(options)):
        return 0
    if not stored:
        check_name(options.output)
    with reading(options.path):
        if options.id is not None:
            data, lost = value(options.path, options.id, options.output, options.lod)
            put_bytes(options.output, data)
            for loss in lost:
                say(options, f"lost: {loss}")
            return 0
        array = open_array(options.path)
    if options.output != "-" and are_same(array.store, options.output):
        raise UsageError(f"{options.output} is the file that is read: it would be replaced by a part of itself")
    if stored:
        put_bytes(options.output, chunk(array, options.chunk))
        return 0
    region = chosen_region(options, array)
    if array.dtype.hasobject:
        raise UsageError("items of any length have no file format here; `zvcore cat` prints them")
    for loss in write_region(array, region, options.output, options.threads, progress=not options.quiet):
        say(options, f"lost: {loss}")
    return 0


def write_rows(options: argparse.Namespace) -> bool:
    """Whether there were annotations or points, which are written as a table."""
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import reading, say
    from zvcore.converting.rows import rows_of
    from zvcore.converting.table_writing import table_losses, write_table
    from zvcore.converting.tables import WRITTEN, ending_of

    if ending_of(options.output) not in WRITTEN or options.region is not None or options.at is not None:
        return False
    import zvcore

    with reading(options.path):
        rows = rows_of(zvcore.open(options.path))
        if rows is None:
            if ending_of(options.output) == ".npz":
                return False  # arrays may be written so too
            raise UsageError(f"{options.path}: only annotations and points are written as {options.output}")
        write_table(options.output, rows)
    dropped = [f"{name}: {what}" if name else what for name, what in table_losses(options.output, rows)]
    for loss in [*rows.losses, *dropped]:
        say(options, f"lost: {loss}")
    return True


def write_lines(options: argparse.Namespace) -> bool:
    """Whether the output is a file of lines, by its name; then it is written."""
    import zvcore
    from zvcore.array import Array
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import reading, say
    from zvcore.format import formats

    makers = [one for one in formats().values() if one.takes_lines and one.names_file(options.output)]
    if not makers:
        return False
    if options.region is not None or options.at is not None:
        raise UsageError("a file of lines has all of them: it takes no region")
    with reading(options.path):
        if isinstance(zvcore.open(options.path), Array):
            raise UsageError(f"{options.path}: only lines are written as {options.output}")
        report = zvcore.convert(options.path, options.output, format=makers[0].name, overwrite=True)
    for loss in report.losses:
        say(options, f"lost: {loss.what}")
    return True


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


def value(path: str, text: str, output: str, lod: int) -> tuple[bytes, list[str]]:
    """A mesh or skeleton as a file of the kind that `output` names, or the value of an id in shards; what is lost."""
    import os

    import zvcore
    from zvcore.care.verbs import find
    from zvcore.commands import UsageError
    from zvcore.errors import NotFoundError

    if not (text.isascii() and text.isdigit()) or int(text) >= 2**64:
        raise UsageError(f"--id is a number of 64 bits, not {text!r}")
    store, format, inside_of = find(path)
    made = format.object_file(store, inside_of, int(text), os.path.splitext(output)[1].lower(), lod)
    if made is not None:
        return made
    found = zvcore.inspect(path)
    spec = found.get("sharding")
    if spec is None:
        scales = found.get("scales") or []
        inside = [scale["key"] for scale in scales if isinstance(scale, dict) and scale.get("sharding") is not None]
        hint = f"; say which scale: {', '.join(f'{path}/{key}' for key in inside)}" if inside else ""
        raise UsageError(f"{path} has no values by id: --id is for sharded skeletons, meshes and scales{hint}")
    data = format.stored_value(store if inside_of is None else store.child(inside_of), spec, int(text))
    if data is None:
        raise NotFoundError(f"{path} has no value with this id", found=text)
    return bytes(data), []
