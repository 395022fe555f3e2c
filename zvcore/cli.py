"""The `zvcore` command. Data goes to stdout, words to stderr.

Exit status: 0 all well, 1 something was found wrong or failed, 2 the command line was wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


class ShowVersions(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from zvcore.versions import show_versions

        show_versions()
        parser.exit()


def run_codecs(options: argparse.Namespace) -> int:
    from zvcore import versions

    rows = versions.codec_table()
    if options.json:
        print_json(rows)
    else:
        print("\n".join(versions.codec_lines(rows)))
    return 1 if any(row["error"] for row in rows) else 0


def print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=2))


def make_parser() -> argparse.ArgumentParser:
    # SUPPRESS: what stands before the command must not be reset by the command's own defaults.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = argparse.ArgumentParser(prog="zvcore", description="Chunked and sharded array stores.", parents=[common])
    parser.add_argument("--version", action=ShowVersions, nargs=0, help="versions of everything that matters")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("codecs", parents=[common], help="list the codecs that are installed")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=run_codecs)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if getattr(options, "debug", False):
            raise
        print(f"zvcore: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return status
