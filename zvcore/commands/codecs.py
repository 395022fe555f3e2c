"""`zvcore codecs`: which codecs are installed, and what runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "codecs",
        parents=[common],
        help="list the codecs that are installed",
        description="List the codecs that are installed and what runs them. Exit status 1 if one is broken.",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    from zvcore import versions
    from zvcore.commands.terminal import print_json, put

    rows = versions.codec_table()
    if options.json:
        print_json(rows)
    else:
        put(*versions.codec_lines(rows))
    return 1 if any(row["error"] for row in rows) else 0
