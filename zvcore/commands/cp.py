"""`zvcore cp SRC DST`: a store, or a file, to another place, as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "cp",
        parents=[common],
        help="copy a store or a file between any two places, as it is stored",
        description="Copy everything at SRC to DST, object by object: folders, archives (.zip), object stores. "
        "Objects that are there already and are the same are left alone, so the same command resumes. "
        "An object that is there and differs is not touched unless --overwrite, and makes the exit status 1.",
    )
    add_places(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace objects that are there and differ")
    return parser


def add_places(parser: argparse.ArgumentParser) -> None:
    """What `cp` and `sync` have in common."""
    from zvcore.commands.cli import storage_option

    parser.add_argument("src", metavar="SRC", help="a path or URL: a folder, an archive, a file")
    parser.add_argument("dst", metavar="DST", help="a path or URL")
    parser.add_argument("--verify", action="store_true", help="read every copy back and compare it")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")
    parser.add_argument(
        "--source-option", action="append", type=storage_option, metavar="KEY=VALUE",
        help="--storage-option for SRC, if DST needs others",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(options: argparse.Namespace) -> int:
    import zvcore

    return mirrored(options, zvcore.copy, overwrite=options.overwrite)


def mirrored(options: argparse.Namespace, function: Any, **asked: Any) -> int:
    from zvcore.commands.terminal import asking, print_json, put, reading, say
    from zvcore.wording import human_size

    source = {} if options.source_option is None else {"source_options": dict(options.source_option)}
    with reading(options.src), asking():
        report = function(
            options.src, options.dst, verify=options.verify, dry_run=options.dry_run, threads=options.threads,
            progress=not options.quiet, **source, **asked,
        )  # fmt: skip
    if options.json:
        print_json(report.to_json())
        return 0 if report.ok else 1
    for problem in report.problems:
        put(problem)
    counts = report.counts
    done = [f"{counts.get(f'objects {what}', 0)} {what}" for what in ("copied", "the same", "removed")]
    size = human_size(counts.get("bytes copied", 0))
    say(options, f"{'would be: ' if options.dry_run else ''}{', '.join(done)}; {size}")
    return 0 if report.ok else 1
