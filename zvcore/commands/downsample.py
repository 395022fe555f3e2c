"""`zvcore downsample PATH`: coarser levels of images and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands import convert

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "downsample",
        parents=[common],
        help="add coarser levels to a pyramid",
        description="Add coarser levels to a volume, or to a group of N5 or Zarr whose attributes name its levels. To "
        "make a pyramid of an array alone, convert it with --levels.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    convert.pyramid_options(parser, "how many coarser levels to make (1)")
    parser.add_argument("--verify", action="store_true", help="compare each level with what the finer one gives")
    parser.add_argument("--memory", type=convert.memory, metavar="SIZE", help="most to hold at once, such as 512M (1G)")
    parser.add_argument("--dask", metavar="ADDRESS", help="work on the cluster of this scheduler")
    convert.part_options(parser)
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands.terminal import asking, reading
    from zvcore.distributed import cluster

    with reading(options.path), cluster(options.dask) as client, asking():
        report = zvcore.downsample(
            options.path, levels=1 if options.levels is None else options.levels, method=options.method,
            factors=options.factors, verify=options.verify, progress=not options.quiet, threads=options.threads,
            client=client, part=options.part, finish=options.finish,
            **({} if options.memory is None else {"memory": options.memory}),
        )  # fmt: skip
    return convert.tell(options, report)
