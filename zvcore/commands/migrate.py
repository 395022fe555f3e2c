"""`zvcore migrate PATH --in-place`: documents of another format for the chunks that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands import FormatNames

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "migrate",
        parents=[common],
        help="add documents of a newer format beside the old ones",
        description="Add the documents of another format beside those that are there, so that its readers find the "
        "same chunks. Chunks are neither read nor written; what cannot be read where it lies is named, and nothing is "
        "written then. Changes of one set of documents afterwards are not seen in the other.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    parser.add_argument(
        "--format", metavar="F", choices=FormatNames("arrays"),
        help="%(choices)s (default: the newest version of what is there)",
    )  # fmt: skip
    parser.add_argument("--in-place", action="store_true", required=True, help="write beside what is there")
    parser.add_argument("--undo", action="store_true", help="remove the documents again that this has added")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands.terminal import print_json, put, reading
    from zvcore.errors import without_credentials

    with reading(options.path):
        report = zvcore.migrate(options.path, format=options.format, undo=options.undo)
    if options.json:
        print_json(report.to_json())
        return 0 if report.ok else 1
    for one in (*report.problems, *report.losses):
        put(one)
    if not options.quiet:
        what = "removed" if options.undo else "added"
        put(f"{without_credentials(options.path)}: {report.counts.get(f'documents {what}', 0)} documents {what}")
    return 0 if report.ok else 1
