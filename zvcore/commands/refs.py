"""`zvcore refs PATH -o FILE`: references with which other tools read any format as Zarr, without copying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "refs",
        parents=[common],
        help="write references with which other tools read the data as Zarr where it lies",
        description="Write kerchunk's references (file, offset, length) to the chunks at PATH, for fsspec's reference "
        "file system, zarr-python, xarray and VirtualiZarr. Anything that Zarr cannot express is refused by name. "
        "Exit status 0: done, 1: failed, 2: wrong usage, 3: done but for what was left out (--skip-unsupported).",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL: an array, a group, a volume, a file")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help=".json, or .parquet for a folder of tables; - is stdout"
    )
    parser.add_argument(
        "--inline", action="store_true",
        help="chunks that cannot be read where they lie, such as those cut at the end, become part of the references",
    )  # fmt: skip
    parser.add_argument(
        "--skip-unsupported", action="store_true", help="leave out what Zarr cannot express, and tell it as a loss"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands import NOT_SUPPORTED, UsageError
    from zvcore.commands.files import check_folder
    from zvcore.commands.terminal import print_json, put, reading, say
    from zvcore.report import What

    if options.output != "-" and not options.output.lower().endswith((".json", ".parquet", ".parq")):
        raise UsageError(f"{options.output}: the name must end with .json or .parquet, which says what is written")
    if options.output.lower().endswith(".json"):
        check_folder(options.output)
    losses: list[Any] = []
    asked: dict[str, Any] = {
        "inline": options.inline, "skip_unsupported": options.skip_unsupported, "losses": losses,
    }  # fmt: skip
    with reading(options.path):
        if options.output == "-":
            print_json(zvcore.references(options.path, **asked))
        else:
            count = zvcore.write_references(options.path, options.output, **asked)
    put(*(f"lost: {loss}" for loss in losses), words=True)
    if options.output != "-":
        say(options, f"{options.output}: {count} chunks")
    return NOT_SUPPORTED if any(one.kind is What.UNSUPPORTED for one in losses) else 0
