"""`zvcore sync SRC DST`: make one place the same as another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands.cp import add_places, mirrored

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "sync",
        parents=[common],
        help="copy what is new or changed from one place to another",
        description="Make DST the same as SRC: objects that are new or differ are copied as they are stored. "
        "Objects of the same size are compared: by MD5 where a store tells it, else byte by byte.",
    )
    add_places(parser)
    parser.add_argument("--delete", action="store_true", help="at the end, remove objects that are only at DST")
    parser.add_argument("--size-only", action="store_true", help="take objects of the same size for the same")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore

    return mirrored(options, zvcore.sync, delete=options.delete, size_only=options.size_only)
