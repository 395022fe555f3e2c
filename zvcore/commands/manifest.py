"""`zvcore manifest PATH`: a checksum of every object, kept with the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "manifest",
        parents=[common],
        help="write a checksum of every object, which verify checks later",
        description="Write .zvcore-manifest.jsonl at PATH: the size and the SHA-256 of every object that lies there. "
        "`zvcore verify` finds it, here and in every copy, and tells what is gone, changed or extra.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.commands.terminal import print_json, reading, say
    from zvcore.wording import human_size

    with reading(options.path):
        objects, size = zvcore.make_manifest(options.path, threads=options.threads, progress=not options.quiet)
    if options.json:
        print_json({"path": options.path, "objects": objects, "bytes": size})
    else:
        say(options, f"{options.path}: {objects} objects, {human_size(size)}")
    return 0
