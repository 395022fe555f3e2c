"""`zvcore skeletonize VOLUME`: a skeleton of each segment of a segmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands.mesh import box_options, forged, source_options

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
zvcore skeletonize seg                               # a volume: into its folder skeletons, which its info then names
zvcore skeletonize labels.zarr bones --scale 1.5 --const 300 --ticks 3500
zvcore skeletonize seg --level 2 --dust 200 --dry-run
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    import argparse

    parser: argparse.ArgumentParser = commands.add_parser(
        "skeletonize",
        parents=[common],
        help="make a skeleton of each segment of a segmentation",
        description="Make skeletons of the segments of VOLUME, a segmentation of any format, for Neuroglancer: in "
        "boxes that share a layer of voxels, joined and freed of loops. Vertices and radii are in nanometers. The same "
        "command resumes an interrupted run. Needs zvcore[skeletonize].",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source_options(parser, "skeletons")
    parser.add_argument(
        "--scale", type=float, default=1.5, metavar="N", help="paths keep away from others by so many radii (1.5)"
    )
    parser.add_argument("--const", type=float, default=300, metavar="NM", help="and by so many nanometers more (300)")
    parser.add_argument("--length", type=float, default=0, metavar="NM", help="leave out what is shorter altogether")
    parser.add_argument("--ticks", type=float, default=0, metavar="NM", help="cut off branches that are shorter")
    parser.add_argument(
        "--dust", type=int, default=1000, metavar="N", help="leave out parts within a box of fewer voxels (1000)"
    )
    box_options(parser, "512,512,512")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore

    return forged(
        options, zvcore.skeletonize, scale=options.scale, const=options.const, length=options.length,
        ticks=options.ticks,
    )  # fmt: skip
