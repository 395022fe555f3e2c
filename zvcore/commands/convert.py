"""`zvcore convert SRC DST --format F`: from any array format to any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands import FormatNames

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
zvcore convert fly.n5/volumes/raw fly.zarr --format zarr3 --chunks 64,64,64 --shards 512,512,512 --codec zstd:level=5
zvcore convert fly.n5/volumes/raw fly --format precomputed --sharding advise --levels 4 --verify
zvcore convert labels.zarr labels --format precomputed --set encoding=compressed_segmentation --set type=segmentation
zvcore convert fly.zarr part.zarr --format zarr3 --region 0:512,0:512,:
zvcore convert fly.zarr fly.n5 --format n5 --dry-run
"""


# What of the options says where and how a conversion is done, rather than what it makes.
_HOW = ("format", "overwrite", "resume", "strict", "skip_unsupported")


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    import argparse

    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        parents=[common],
        help="write an array, a group or a pyramid in another format or layout",
        description="Write the data at SRC to DST. Options that are not given are taken from the source; sizes are in "
        "DST's order of axes: the memory order stays the same, so that N5 (x, y, z) becomes Zarr (z, y, x). Chunks "
        "that differ only in their container are copied as they are. The same command resumes an interrupted run. Exit "
        "status 0: done, 1: failed, 2: wrong usage, 3: done but for what was left out (--skip-unsupported); with "
        "--dry-run, what it would be.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("src", metavar="SRC", help="a path or URL: an array, a group, a volume")
    parser.add_argument("dst", metavar="DST", help="a path or URL")
    parser.add_argument(
        "--format",
        metavar="F",
        choices=FormatNames("conversions"),
        help="the format of DST (by default what its name says: .zarr is zarr3; else that of what DST lies in): "
        "%(choices)s",
    )
    parser.add_argument("--chunks", type=sizes, metavar="A,B,C", help="the shape of a chunk")
    parser.add_argument("--shards", type=shard_sizes, metavar="A,B,C|none", help="the shape of a shard, or no shards")
    parser.add_argument("--codec", type=codec, metavar="NAME[:KEY=VALUE,...]", help="such as zstd:level=5, or none")
    parser.add_argument("--sharding", metavar="advise|JSON", help="shards of a suitable size, or a specification")
    pyramid_options(parser, "how many coarser levels to add")
    parser.add_argument("--region", metavar="REGION", help='a part of SRC, as inside a[...]: "0:512,0:512,:"')
    parser.add_argument("--at", metavar="PLACE", help="a part of SRC in its own coordinates: 1030:1040nm,2050:2060,110")
    parser.add_argument("--dtype", type=dtype, metavar="TYPE", help="another data type, such as uint8")
    parser.add_argument("--clip", action="store_true", help="values that it cannot hold become the nearest ones it can")
    parser.add_argument(
        "--set", dest="options", action="append", default=[], type=setting, metavar="KEY=VALUE",
        help="options of the format, as in zvcore.create: encoding=jpeg, resolution=[8,8,40]",
    )  # fmt: skip
    image_options(parser)
    parser.add_argument("--strict", action="store_true", help="refuse to begin where anything would be lost")
    parser.add_argument(
        "--skip-unsupported", action="store_true", help="leave out what cannot be converted, and tell it as a loss"
    )
    parser.add_argument(
        "--consolidate", action=argparse.BooleanOptionalAction,
        help="write consolidated metadata of Zarr (by default, if SRC has them)",
    )  # fmt: skip
    parser.add_argument(
        "--manifest", action="store_true", help="leave a checksum of every object, which verify checks later"
    )
    run_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and write nothing")
    return parser


def _ome(text: str) -> str | bool:
    return text if text != "no" else False


def image_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", metavar="PATH", help="one image among several in SRC; '' is that of SRC itself")
    parser.add_argument(
        "--ome",
        nargs="?",
        const=True,
        type=_ome,
        metavar="0.4|0.5|no",
        help="make an image (OME-Zarr) of a single array too; no: of an image with one level, a single array",
    )
    parser.add_argument(
        "--voxel-size", metavar="Z,Y,XUNIT", help="such as 0.5,0.1,0.1um, from the slowest axis to the fastest"
    )
    parser.add_argument("--axes", metavar="NAMES", help="names of axes, such as tczyx, from the slowest to the fastest")
    parser.add_argument("--channels", metavar="NAME[:RRGGBB],...", help="names of channels, and colours")
    parser.add_argument("--name", metavar="NAME", help="what the image is called")


def pyramid_options(parser: argparse.ArgumentParser, levels: str) -> None:
    parser.add_argument("--levels", type=count, metavar="N", help=levels)
    parser.add_argument("--method", choices=("mean", "mode"), help="mean for images, mode for labels")
    parser.add_argument("--factors", type=sizes, metavar="A,B,C", help="how much coarser a level is (2 along x, y, z)")


def run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verify", action="store_true", help="read both sides back and compare their checksums")
    parser.add_argument("--memory", type=memory, metavar="SIZE", help="how much memory to use, such as 512M (1G)")
    parser.add_argument("--dask", metavar="ADDRESS", help="work on the cluster of this scheduler")
    part_options(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace what is at DST")
    parser.add_argument("--no-resume", action="store_true", help="do not resume an interrupted run, but start over")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def part_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--part", type=part, metavar="K/N", help="do only the K-th of N parts, as one of N jobs; the last closes it"
    )
    parser.add_argument("--finish", action="store_true", help="close what all parts have done, if the last one died")


def part(text: str) -> Any:
    import argparse

    from zvcore.converting.share import Share

    try:
        return Share.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands import NOT_SUPPORTED, UsageError
    from zvcore.commands.terminal import asking, reading, say
    from zvcore.converting.naming import chosen_format
    from zvcore.converting.rows import is_table
    from zvcore.distributed import cluster

    try:
        format, why = chosen_format(options.format, options.dst)
    except TypeError as error:
        raise UsageError(str(error)) from error
    with reading(options.src):
        source = options.src if is_table(options.src) else zvcore.open(options.src)
    given: dict[str, Any] = dict(options.options)
    if options.sharding is not None:
        given["sharding"] = specification(options.sharding)
    asked: dict[str, Any] = dict(
        # A plan tells why itself.
        format=None if options.dry_run and why else format,
        chunks=options.chunks, shards=options.shards, codec=options.codec, levels=options.levels,
        method=options.method, factors=options.factors, region=region_of(options, source),
        dtype=options.dtype, clip=options.clip,
        overwrite=options.overwrite, resume=not options.no_resume, strict=options.strict,
        image=options.image, ome=options.ome, voxel_size=options.voxel_size, axes=options.axes,
        channels=options.channels, name=options.name,
        skip_unsupported=options.skip_unsupported, consolidate=options.consolidate,
        **({} if options.memory is None else {"memory": options.memory}),
    )  # fmt: skip
    running: dict[str, Any] = {
        "verify": options.verify, "progress": not options.quiet, "threads": options.threads,
        "manifest": options.manifest, "part": options.part, "finish": options.finish,
    }  # fmt: skip
    for name in given:
        if name in ("src", "dst", "client", *asked, *running):
            raise UsageError(f"--set {name}: this is no option of a format; see zvcore convert --help")

    def planned(with_options: bool) -> Any:
        kept = {name: asked[name] for name in _HOW}
        return zvcore.plan(source, options.dst, **({**asked, **running, **given} if with_options else kept))

    if options.dry_run:
        with asking(planned):
            plan = planned(True)
        tell_plan(options, plan)
        # As the conversion would end.
        return NOT_SUPPORTED if plan.skipped else 0
    if why:
        say(options, f"{options.dst}: {why}")
    with cluster(options.dask) as client, asking(planned):
        report = zvcore.convert(source, options.dst, client=client, **asked, **running, **given)
    return tell(options, report)


def region_of(options: argparse.Namespace, source: Any) -> Any:
    """The region that the options choose, if they do."""
    from zvcore.commands import UsageError
    from zvcore.commands.regions import chosen_region
    from zvcore.converting.sources import finest_array

    if options.region is None and options.at is None:
        return None
    if source is options.src:
        raise UsageError("a region is a part of an array: a table has none")
    return chosen_region(options, finest_array(source, options.image))


def tell_plan(options: argparse.Namespace, plan: Any) -> None:
    from zvcore.commands.cli import in_options
    from zvcore.commands.terminal import print_json, put

    if options.json:
        print_json(plan.to_json())
    else:
        put(*in_options(str(plan), options.parser).split("\n"))


def tell(options: argparse.Namespace, report: Any) -> int:
    from zvcore.commands import NOT_SUPPORTED
    from zvcore.commands.cli import in_options
    from zvcore.commands.terminal import print_json, put, say

    status = 1 if not report.ok else NOT_SUPPORTED if report.skipped else 0
    if options.json:
        print_json(report.to_json())
        return status
    lines = in_options(str(report), options.parser).split("\n")
    if report.ok:
        say(options, *lines)
    else:
        put(*lines)
    return status


# --- what the options say


def dtype(text: str) -> Any:
    import argparse

    from zvcore.converting.casts import item_type

    try:
        return item_type(text)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def sizes(text: str) -> tuple[int, ...]:
    parts = text.replace(" ", "").split(",")
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        import argparse

        raise argparse.ArgumentTypeError(f"sizes such as 64,64,64, not {text!r}")
    return tuple(int(part) for part in parts)


def shard_sizes(text: str) -> tuple[int, ...] | bool:
    return False if text == "none" else sizes(text)


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 64):
        import argparse

        raise argparse.ArgumentTypeError(f"a number of levels, not {text!r}")
    return int(text)


def memory(text: str) -> int:
    import argparse

    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    bare = text.upper().removesuffix("B").removesuffix("I")
    unit = bare[-1:] if bare[-1:] in ("K", "M", "G", "T") else ""
    try:
        size = int(float(bare.removesuffix(unit)) * units[unit])
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"a size such as 512M or 2G, not {text!r}")
    return size


def value_of(text: str) -> Any:
    """A value as JSON has it, or text that is none."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def setting(text: str) -> tuple[str, Any]:
    import argparse

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"KEY=VALUE, not {text!r}")
    return name, value_of(value)


def codec(text: str) -> Any:
    """`zstd`, `zstd:level=5`, `blosc:cname=zstd,clevel=5`, or several joined by "+"."""
    import argparse

    if text == "none":
        return "raw"
    found: list[Any] = []
    for one in text.split("+"):
        name, _, rest = one.partition(":")
        parameters: dict[str, Any] = {}
        for item in filter(None, rest.split(",")):
            key, equals, value = item.partition("=")
            if not equals:
                raise argparse.ArgumentTypeError(f"NAME:KEY=VALUE,..., not {text!r}")
            parameters[key] = value_of(value)
        if not name:
            raise argparse.ArgumentTypeError(f"NAME or NAME:KEY=VALUE,..., not {text!r}")
        found.append({"name": name, **parameters} if parameters else name)
    return found[0] if len(found) == 1 else found


def specification(text: str) -> Any:
    """What `--sharding` says."""
    from zvcore.commands import UsageError

    if text == "advise":
        return text
    given = value_of(text)
    if not isinstance(given, dict):
        raise UsageError(f"--sharding is advise or a specification as JSON, not {text!r}")
    return given
