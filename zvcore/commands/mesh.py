"""`zvcore mesh VOLUME`: a mesh of each segment of a segmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands import convert

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
zvcore mesh seg                                      # a volume: into its folder mesh, which its info then names
zvcore mesh labels.zarr meshes --lods 4 --dust 100
zvcore mesh seg few --ids 7,12 --simplify 1 --legacy
zvcore mesh seg --level 1 --dry-run
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    import argparse

    parser: argparse.ArgumentParser = commands.add_parser(
        "mesh",
        parents=[common],
        help="make a mesh of each segment of a segmentation",
        description="Make meshes of the segments of VOLUME, a segmentation of any format, for Neuroglancer: in boxes "
        "that overlap, joined so that each mesh is closed. Vertices are in nanometers. The same command resumes an "
        "interrupted run. Needs zvcore[mesh].",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source_options(parser, "mesh")
    parser.add_argument(
        "--legacy", action="store_true", help="one fragment each, in files of their own, without levels"
    )
    parser.add_argument(
        "--lods", type=int, default=3, metavar="N", help="levels of detail (3); small meshes have fewer"
    )
    parser.add_argument(
        "--simplify", type=int, default=100, metavar="N", help="aim at so many times fewer triangles (100); 1: keep all"
    )
    parser.add_argument(
        "--max-error",
        type=float,
        metavar="NM",
        help="how far surfaces may be moved by that (the longest side of a voxel)",
    )
    parser.add_argument("--dust", type=int, default=0, metavar="N", help="leave out segments of fewer voxels")
    box_options(parser, "256,256,256")
    return parser


def source_options(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument("volume", metavar="VOLUME", help="a path or URL: an array, a multiscale set, a volume")
    parser.add_argument(
        "dst", nargs="?", metavar="DST", help=f"a path or URL; of a volume, the folder {folder} that its info names"
    )
    parser.add_argument(
        "--level", type=int, default=0, metavar="N", help="which level of a multiscale set (0: the finest)"
    )
    parser.add_argument("--image", metavar="PATH", help="one segmentation among several in VOLUME")
    parser.add_argument(
        "--voxel-size", metavar="Z,Y,XUNIT", help="such as 40,8,8nm, from the slowest axis to the fastest"
    )
    parser.add_argument("--ids", type=numbers, metavar="A,B,...", help="only these segments")


def box_options(parser: argparse.ArgumentParser, box: str) -> None:
    parser.add_argument(
        "--box",
        type=convert.sizes,
        default=convert.sizes(box),
        metavar="X,Y,Z",
        help=f"voxels worked on at once ({box})",
    )
    parser.add_argument(
        "--sharding",
        default="advise",
        metavar="advise|none|JSON",
        help="how objects lie in shards (advise); none: in files",
    )
    parser.add_argument(
        "--memory", type=convert.memory, metavar="SIZE", help="most for all boxes at once, such as 16G (4G)"
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="work on the cluster of this scheduler")
    convert.part_options(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace the set that is at DST")
    parser.add_argument("--no-resume", action="store_true", help="do not resume an interrupted run")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and write nothing")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def numbers(text: str) -> list[int]:
    import argparse

    parts = text.replace(" ", "").split(",")
    if not all(part.isascii() and part.isdigit() and int(part) < 2**64 for part in parts):
        raise argparse.ArgumentTypeError(f"ids such as 7,12, not {text!r}")
    return [int(part) for part in parts]


def run(options: argparse.Namespace) -> int:
    import zvcore

    return forged(
        options, zvcore.mesh, kind="legacy" if options.legacy else "multires", lods=options.lods,
        simplify=options.simplify, max_error=options.max_error,
    )  # fmt: skip


def forged(options: argparse.Namespace, make: Any, **own: Any) -> int:
    """Make what was asked for, and tell of it."""
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import asking, is_empty_folder
    from zvcore.distributed import cluster
    from zvcore.errors import NotFoundError

    sharding = None if options.sharding == "none" else convert.specification(options.sharding)

    def planned(with_options: bool) -> Any:
        # What says which array is meant, and how its objects are to lie.
        given = {"ids": options.ids, "box": options.box, "sharding": sharding, **own} if with_options else {}
        return make(
            options.volume, options.dst, level=options.level, image=options.image, voxel_size=options.voxel_size,
            overwrite=options.overwrite, resume=not options.no_resume, dry_run=True, **given,
        )  # fmt: skip

    with cluster(options.dask) as client, asking(planned):
        try:
            report = make(
                options.volume, options.dst, ids=options.ids, dust=options.dust, level=options.level,
                image=options.image, voxel_size=options.voxel_size, box=options.box,
                sharding=sharding, overwrite=options.overwrite,
                resume=not options.no_resume, dry_run=options.dry_run, progress=not options.quiet,
                threads=options.threads, client=client, part=options.part, finish=options.finish,
                **({} if options.memory is None else {"memory": options.memory}), **own,
            )  # fmt: skip
        except NotFoundError as error:
            if is_empty_folder(error, options.volume):
                raise
            raise UsageError(str(error)) from error
    if options.dry_run:
        convert.tell_plan(options, report.plan)
        return 0
    return convert.tell(options, report)
