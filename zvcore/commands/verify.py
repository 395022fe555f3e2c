"""`zvcore verify PATH`: is the data what it should be?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands import NOT_SUPPORTED, FormatNames, UsageError
from zvcore.commands.cat import count
from zvcore.commands.convert import part

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        parents=[common],
        help="find every problem of stored data",
        description="Check all of an array, group, volume, Zarr Vectors store, one shard or chunk file, or each "
        "dataset in a folder of several, and report every problem with its file, chunk and byte range. Exit status 0: "
        "sound, 1: damaged, or the destination of an unfinished conversion, 2: wrong usage, 3: nothing worse than data "
        "that zvcore cannot read.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a path or URL")
    parser.add_argument("--fast", action="store_true", help="check structure and checksums, decode nothing")
    parser.add_argument("--format", metavar="F", choices=FormatNames(), help="%(choices)s (default: detected)")
    parser.add_argument("--dask", metavar="ADDRESS", help="check on the workers of a dask.distributed scheduler")
    parser.add_argument("--part", type=part, metavar="K/N", help="look only at the K-th of N parts of the objects")
    parser.add_argument(
        "--limit", type=count, default=1000, metavar="N",
        help="how many problems are told, the others are counted; so many of each kind are kept in memory (default: "
        "%(default)s; 0: all of them)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


# The exit status of each status, those that outweigh others first.
STATUSES = {"damaged": 1, "unfinished": 1, "unsupported": NOT_SUPPORTED, "sound": 0}


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands.terminal import print_json, reading
    from zvcore.distributed import cluster
    from zvcore.errors import ZvcoreError

    found = set()
    answers = []
    failed: list[Exception] = []
    with cluster(options.dask) as client:
        for path in options.paths:
            try:
                with reading(path):
                    report = zvcore.verify(
                        path,
                        options.fast,
                        options.threads,
                        client,
                        format=options.format,
                        progress=not options.quiet,
                        part=options.part,
                        max_problems=options.limit or None,
                    )
            except (UsageError, ZvcoreError, OSError) as error:
                # What is said of the others is worth no less.
                failed.append(error)
                answers.append({"path": path, "error": str(error)})
                continue
            found.add(report.status)
            if options.json:
                answers.append({"path": path, **report.to_json(options.limit or None)})
            else:
                print_report(options, path, report)
    if options.json:
        print_json(answers[0] if len(answers) == 1 else answers)
    raise_first(failed)
    return next(number for status, number in STATUSES.items() if status in found)


def raise_first(failed: Sequence[Exception]) -> None:
    """Raise the first of these errors, if there are any, with the others as its notes."""
    for error in failed[1:]:
        failed[0].add_note(str(error))
    if failed:
        raise failed[0]


def print_report(options: argparse.Namespace, path: str, report: Any) -> None:
    """Problems are the data; that there are none is reported too, unless `--quiet`."""
    from zvcore.commands.cli import in_options
    from zvcore.commands.terminal import put
    from zvcore.errors import without_credentials

    first = report.first(options.limit or None)
    for problem in first:
        if problem.fatal or not options.quiet:
            put(f"{'' if problem.fatal else 'odd: '}{in_options(str(problem), options.parser)}")
    if beyond := report.beyond(len(first)):
        put(f"{beyond} (--limit 0 tells each)")
    wrong, odd = report.wrong, report.odd
    counts = ", ".join(f"{number} {what}" for what, number in report.counts.items() if number)
    if not options.quiet:
        for name, said in report.datasets.items():
            put(f"{name}: {said}")
        verdict = report.verdict if report.ok else f"{report.verdict}: {wrong} problem{'s' * (wrong != 1)}"
        also = f", {odd} {'oddity' if odd == 1 else 'oddities'}" if odd else ""
        put(f"{without_credentials(path)}: {verdict}{also} ({counts or 'nothing looked at'})")
