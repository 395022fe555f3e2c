"""`zvcore preview PATH -o x.png`: a picture of what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

HOW = """\
zvcore preview brain.zarr -o brain.png                   the middle plane
zvcore preview brain.zarr --axis x --index 100 -o x.png  plane 100 along x
zvcore preview brain.zarr --max -o max.png               a maximum projection
zvcore preview tracts.zarrvectors -o tracts.png          lines and points
zvcore preview brain.zarr --sizes -o sizes.svg           how large the chunks are
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    import argparse

    parser: argparse.ArgumentParser = commands.add_parser(
        "preview",
        parents=[common],
        help="write a picture of a slice, a projection, or the sizes of chunks",
        description="Write a picture: a plane of an array, a projection, lines and points, or the sizes of chunks.",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", help="an array, an image pyramid, a volume, a Zarr Vectors store: a path or URL")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the picture: .png (with --sizes also .svg)"
    )
    parser.add_argument("--axis", help="the axis along which one looks: its name or number (default: z)")
    parser.add_argument("--index", type=int, metavar="N", help="which plane of the finest level (default: the middle)")
    parser.add_argument("--at", metavar="PLACE", help="which plane by its coordinate, in voxels or units: 110, 4.4um")
    parser.add_argument("--max", action="store_true", help="the largest value along the axis; of labels, the first")
    parser.add_argument("--level", type=int, metavar="N", help="level of a pyramid (default: what fills the picture)")
    parser.add_argument("--channel", type=int, metavar="N", help="which channel")
    parser.add_argument("--size", type=int, default=1024, metavar="PIXELS", help="the longest side (default: 1024)")
    parser.add_argument(
        "--contrast", type=float, nargs=2, metavar=("BLACK", "WHITE"), help="values that become black and white"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--labels", action="store_true", default=None, help="a colour for each value")
    kind.add_argument("--image", dest="labels", action="store_false", help="shades of grey")
    parser.add_argument("--sizes", action="store_true", help="plot sizes and ratios of the stored chunks instead")
    return parser


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    import zvcore
    from zvcore.commands import UsageError
    from zvcore.commands.files import check_folder, put_bytes
    from zvcore.commands.terminal import asking, reading, say
    from zvcore.pictures import png_bytes, preview
    from zvcore.wording import human_size

    check_folder(options.output)
    target = Path(options.output)
    endings = (".png", ".svg") if options.sizes else (".png",)
    if target.suffix.lower() not in endings:
        raise UsageError(f"the picture's name must end with {' or '.join(endings)}, not {target.name!r}")
    if not 1 <= options.size <= 16384:
        raise UsageError(f"--size is 1 to 16384, not {options.size}")
    if options.max and options.index is not None:
        raise UsageError("--max looks at all planes, --index at one")
    if options.at is not None and (options.max or options.index is not None):
        raise UsageError("--at, --index or --max: one of them")
    if options.sizes:
        _check_alone(options)
    with reading(options.path):
        node = zvcore.open(options.path)
    if options.sizes:
        data = _sizes(node, options, target.suffix.lower())
        shape = ""
    else:
        with asking():
            pixels = preview(
                node, axis=options.axis, index=options.index, at=options.at, projection=options.max,
                level=options.level, labels=options.labels, channel=options.channel,
                limits=None if options.contrast is None else (options.contrast[0], options.contrast[1]),
                size=options.size, threads=options.threads,
            )  # fmt: skip
        data = png_bytes(pixels)
        shape = f"{pixels.shape[1]} x {pixels.shape[0]} pixels, "
    put_bytes(str(target), data)
    say(options, f"{target}: {shape}{human_size(len(data))}")
    return 0


def _check_alone(options: argparse.Namespace) -> None:
    """What says how values are seen says nothing of the sizes of chunks."""
    from zvcore.commands import UsageError

    given = {
        "--axis": options.axis, "--index": options.index, "--at": options.at, "--max": options.max or None,
        "--channel": options.channel, "--contrast": options.contrast, "--labels or --image": options.labels,
    }  # fmt: skip
    wrong = next((name for name, value in given.items() if value is not None), None)
    if wrong is not None:
        raise UsageError(f"--sizes looks at no values: {wrong} does not apply")


def _sizes(node: Any, options: argparse.Namespace, ending: str) -> bytes:
    from zvcore.errors import UnsupportedError
    from zvcore.pictures import png_bytes
    from zvcore.pictures.preview import image_of
    from zvcore.pictures.sizes import chunk_sizes, plot_sizes

    pyramid = image_of(node)
    if pyramid is None:
        raise UnsupportedError("only arrays, image pyramids and volumes have chunks to measure", key=options.path)
    level = options.level or 0
    if not -len(pyramid.arrays) <= level < len(pyramid.arrays):
        from zvcore.commands import UsageError

        raise UsageError(f"there is no level {level}: there are {len(pyramid.arrays)}")
    array = pyramid.arrays[level]
    codec = "/".join(one.name for one in array.codecs)
    chunk = "x".join(map(str, array.chunks))
    name = options.path.rstrip("/").rpartition("/")[2]
    drawing = plot_sizes(chunk_sizes(array), f"{name}: {array.format}, {array.dtype}, chunks {chunk}, {codec or 'raw'}")
    return drawing.svg() if ending == ".svg" else png_bytes(drawing.pixels())
