"""`zvcore compact PATH`: rewrite shards without the bytes that belong to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "compact",
        parents=[common],
        help="remove dead bytes from shards",
        description="Rewrite shards without the bytes that belong to nothing, such as chunks that were replaced in "
        "place. Damaged shards are left alone. Exit status 1 if there were any, or it is, or holds, the destination of "
        "an unfinished conversion.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.care.several import SeveralDatasetsError
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import for_each, print_json, put, reading, tell_all_unfinished
    from zvcore.errors import without_credentials
    from zvcore.wording import human_size

    with reading(options.path):
        try:
            unfinished = tell_all_unfinished(options.path)
            report = zvcore.compact(options.path, threads=options.threads)
        except SeveralDatasetsError as error:
            raise UsageError(for_each(error, options.path, "compact")) from error
    status = int(unfinished or not report.ok)
    if options.json:
        print_json(report.to_json())
        return status
    for problem in report.problems:
        if problem.fatal:
            put(f"left alone: {problem}")
    done, saved = report.counts.get("shards rewritten", 0), report.counts.get("bytes saved", 0)
    if not options.quiet:
        shards = f"{done} of {report.counts.get('shards', 0)} shards rewritten, {human_size(saved)} saved"
        put(f"{without_credentials(options.path)}: {shards}")
    return status
