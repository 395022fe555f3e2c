"""`zvcore bench`: how fast a dataset can be read, beside whatever else is installed that reads it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        parents=[common],
        help="measure how fast a dataset can be read",
        description="Read a dataset as a whole (or as much of it as --memory allows), single chunks of it, and boxes "
        "across chunks: with zvcore and with tensorstore and zarr-python where they are installed, taking turns. "
        "Nothing is written. Exit status 1: it is, or lies in, the destination of an unfinished conversion.",
    )
    parser.add_argument("path", help="a folder or URL: an array, a volume, or a Zarr Vectors store")
    parser.add_argument("--seconds", type=duration, default=10.0, help="about how long to measure (default: 10)")
    parser.add_argument(
        "--memory", type=mebibytes, default=256, metavar="MIB", help="most to read at once (default: 256)"
    )
    parser.add_argument("--alone", action="store_true", help="zvcore only")
    parser.add_argument("--cold", action="store_true", help="ask the system to forget the files before each read")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def duration(text: str) -> float:
    """The argument of `--seconds`."""
    import argparse
    import math

    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"a number of seconds, not {text!r}")
    return seconds


def mebibytes(text: str) -> int:
    """The argument of `--memory`."""
    import argparse

    # As many as there are bytes that can be addressed.
    size = int(text) if text.isascii() and text.isdigit() and len(text) < 14 else 0
    if not size:
        raise argparse.ArgumentTypeError(f"a number of MiB, not {text!r}")
    return size


def run(options: argparse.Namespace) -> int:
    from zvcore.commands import UsageError, measuring
    from zvcore.commands.terminal import print_json, put, reading, tell_unfinished
    from zvcore.engine import default_thread_count
    from zvcore.opening import open_silently, store_at
    from zvcore.versions import text_table

    with reading(options.path):
        opened = open_silently(store_at(options.path))
        unfinished = tell_unfinished(options.path)
    if opened.kind == "vectors":
        results = list(measuring.measure_vectors(opened.level(0), options.seconds))
    else:
        if opened.kind == "image":
            opened = next(iter(opened.children().values()))
        if opened.kind != "array":
            members = ", ".join(itertools.islice(opened.children(), 8))
            raise UsageError(f"{options.path} is a group; say which array: {members}")
        if 0 in opened.shape:
            raise UsageError(f"{options.path} has no values that could be read")
        counts = [options.threads] if options.threads else sorted({1, default_thread_count()})
        results = list(
            measuring.measure_array(
                opened, options.path, options.seconds, options.memory << 20, counts, not options.alone, options.cold
            )
        )
    if options.json:
        print_json([result.to_json() for result in results])
        return int(unfinished)
    ours = {(r.task, r.threads): r.best for r in results if r.who == "zvcore"}
    rows = [("what", "threads", "who", "best", "median", "MB/s", "of zvcore's time")]
    for r in results:
        ratio = r.best / ours[r.task, r.threads]
        note = "" if r.who == "zvcore" else f"{ratio:.2f}{' (limit)' if r.limit else ''}"
        speed = f"{r.size / r.best / 1e6:.0f}"
        rows.append((r.task, str(r.threads or ""), r.who, milliseconds(r.best), milliseconds(r.median), speed, note))
    put(*text_table(rows))
    return int(unfinished)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
