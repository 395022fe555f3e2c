"""The `zvcore` command. Data goes to stdout, words to stderr.

Exit status: 0 all well, 1 something was found wrong or failed, 2 the command line was wrong, 3 nothing worse than what
zvcore does not support, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zvcore.commands import COMMANDS, DURABILITIES, EXPORTING, WRITING, Terminated, UsageError, ending_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["main", "make_parser"]


UNLESS_GIVEN: dict[str, Any] = {"threads": None, "quiet": False, "verbose": 0, "debug": False, "storage_option": None}
# What commands call the paths that they take.
PATHS = ("path", "paths", "src", "dst", "out", "volume")
# What may be left out, and may stand behind options.
MAY_COME_LAST = ("region", "dst")
# What errors advise to give a command that has no such option.
OF_OTHER_COMMANDS = {"format": "zvcore info --format"}
# And what is an option of a format, where there is `--set`.
OF_FORMATS = {"lossless": "--set lossless=true"}
AN_OPTION = re.compile("-(?![0-9])")
# The exit status of a process that SIGTERM ended.
TERMINATED = 143


class ShowVersions(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from zvcore.versions import show_versions

        show_versions()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """One that says where its help could not be written: Python's says nothing."""

    def print_help(self, file: Any = None) -> None:
        stream = sys.stdout if file is None else file
        if stream is not None:  # `>&-`
            stream.write(self.format_help())


def thread_count(text: str) -> int:
    """The argument of `--threads`."""
    count = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= count <= 4096:
        raise argparse.ArgumentTypeError(f"a number of threads, not {text!r}")
    return count


def storage_option(text: str) -> tuple[str, Any]:
    """The argument of `--storage-option`: true, false, whole numbers and objects as JSON has them; else text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"KEY=VALUE, not {text!r}")
    is_number = value.isascii() and value.isdigit() and (value == "0" or value[0] != "0")
    if value in ("true", "false") or is_number or value[:1] in ("{", "["):
        try:
            return name, json.loads(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{name} is no JSON: {error}") from error
    return name, value


def make_parser() -> argparse.ArgumentParser:
    # SUPPRESS: what stands before the command must not be reset by the command's own defaults.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("options of all commands")
    group.add_argument("--threads", type=thread_count, metavar="N", help="how many threads to use (default: all)")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress and no messages on stderr except errors")
    group.add_argument(
        "-v", "--verbose", action="count", help="say on stderr what is done (-vv: each document, each unit)"
    )
    group.add_argument(
        "--storage-option", action="append", type=storage_option, metavar="KEY=VALUE",
        help="for paths that are URLs, can be repeated: endpoint=http://minio.lab:9000, allow_http=true, profile=lab,"
        " skip_signature=true (docs/object-stores.md)",
    )  # fmt: skip
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = Parser(prog="zvcore", description="Chunked and sharded array stores.", parents=[common])
    parser.add_argument("--version", action=ShowVersions, nargs=0, help="versions of zvcore and everything it uses")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"zvcore.commands.{name}")
        one = module.add_parser(commands, common)
        one.set_defaults(run=module.run, parser=one)
        if name in WRITING:
            one.add_argument(
                "--durability",
                choices=DURABILITIES,
                help="what a power cut leaves: see docs/guarantees.md (default: late; also: ZVCORE_DURABILITY)",
            )
            one.add_argument(
                "--fsync", action="store_true",
                help="--durability fsync: every write is on the disk, file and folders, before the next is begun (also:"
                " ZVCORE_FSYNC=1)",
            )  # fmt: skip
        elif name in EXPORTING:
            one.add_argument(
                "--fsync", action="store_true",
                help="the file, and its place in its folder, are on the disk when the command ends (also:"
                " ZVCORE_FSYNC=1)",
            )  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser()
    options = argparse.Namespace(**UNLESS_GIVEN, parser=parser)
    try:
        understand(parser, arguments, options)
        with ending_in_order(), warning(), telling(options.verbose):
            with durable(durability_asked(options)), opening_with(options):
                status: int = options.run(options)
        flush_answer()
    except KeyboardInterrupt as error:
        tell_notes(error)
        return TERMINATED if isinstance(error, Terminated) else 130
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UsageError as error:
        if options.debug:
            raise
        tell_error(f"zvcore {options.command}: {in_options(str(error), options.parser)}")
        tell_notes(error)
        return 2
    except Exception as error:
        from zvcore.wording import kind_of

        if options.debug:
            raise
        if isinstance(error, OSError) and isinstance(error.filename, bytes):
            error.filename = os.fsdecode(error.filename)
        tell_error(f"zvcore: {kind_of(error)}: {in_options(str(error), options.parser)}")
        tell_notes(error)
        return 1
    return status


def understand(parser: argparse.ArgumentParser, arguments: Sequence[str] | None, options: argparse.Namespace) -> None:
    """Fill in what the command line says; `--help` and `--version` are answered here, and end the command."""
    try:
        _, rest = parser.parse_known_args(arguments, options)
    except SystemExit:
        flush_answer()
        raise
    place_rest(parser, options, rest)


def flush_answer() -> None:
    """Write what is left of the answer while somebody still looks after its failing: at its end Python would not."""
    from zvcore.commands.terminal import flush

    flush()


def in_options(text: str, parser: argparse.ArgumentParser) -> str:
    """What an error advises in Python's words, as `overwrite=True`, in those of the command: `--overwrite`."""
    # Of those that say yes or no, those that say yes.
    spelled = {
        action.dest: next((one for one in action.option_strings if one.startswith("--")), action.option_strings[0])
        for action in parser._actions
        if action.option_strings and action.const is not False
    }
    others = OF_OTHER_COMMANDS | (OF_FORMATS if "--set" in parser._option_string_actions else {})
    spelled = others | spelled

    def option(match: re.Match[str]) -> str:
        value = match["value"]
        return f"{spelled[match['name']]}{'' if value is None else f' {value}'}"

    names = "|".join(map(re.escape, spelled))
    return re.sub(rf"(?<![\w./-])(?P<name>{names})=(?:True(?![\w/-])|'(?P<value>[^']*)'|(?=[\s,;:)]|$))", option, text)


def place_rest(parser: argparse.ArgumentParser, options: argparse.Namespace, rest: list[str]) -> None:
    """Give a region or destination that stands behind options its place: argparse fills it with nothing before."""
    for name in MAY_COME_LAST:
        # A region may begin with a number below zero.
        if rest and getattr(options, name, "") is None and not AN_OPTION.match(rest[0]):
            setattr(options, name, rest.pop(0))
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")


def durability_asked(options: argparse.Namespace) -> str | None:
    """What `--durability` and `--fsync` say; None: nothing."""
    asked: str | None = getattr(options, "durability", None)
    if not getattr(options, "fsync", False):
        return asked
    if asked not in (None, "fsync"):
        raise UsageError(f"--fsync and --durability {asked} contradict each other")
    return "fsync"


@contextmanager
def durable(asked: str | None) -> Iterator[None]:
    """Within this, stores in folders write in the way that is asked for, those of other processes too."""
    wanted = {} if asked is None else {"ZVCORE_DURABILITY": asked, "ZVCORE_FSYNC": "0"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def opening_with(options: argparse.Namespace) -> Iterator[None]:
    """Within this, URLs are opened with what `--storage-option` says."""
    if not options.storage_option:
        yield
        return
    from zvcore.stores.opening import takes_options, usual_options

    given = [getattr(options, name, None) for name in PATHS]
    paths = [path for one in given if one is not None for path in (one if isinstance(one, list) else [one])]
    if not any(map(takes_options, paths)):
        raise UsageError("--storage-option is for paths that are URLs; none of these is")
    with usual_options(dict(options.storage_option)):
        yield


@contextmanager
def telling(verbose: int) -> Iterator[None]:
    """Within this, what zvcore logs goes to stderr: what it does, and if asked twice, each step."""
    if not verbose:
        yield
        return
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(relativeCreated)6d ms %(name)s: %(message)s"))
    handler.addFilter(make_printable)
    logger = logging.getLogger("zvcore")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def make_printable(record: Any) -> bool:
    """What is logged has names of others in it, too."""
    from zvcore.errors import without_credentials
    from zvcore.wording import printable

    record.msg, record.args = printable(without_credentials(record.getMessage())), None
    return True


@contextmanager
def warning() -> Iterator[None]:
    """Within this, warnings are words of the command as its errors are."""
    import warnings

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        tell_error(f"zvcore: {category.__name__}: {message}")

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def tell_notes(error: BaseException) -> None:
    """What is to be said besides the error."""
    for note in getattr(error, "__notes__", ()):
        tell_error(f"zvcore: {note}")


def tell_error(text: str) -> None:
    """An error, whose further lines are seen to belong to it: its words may be from others' files."""
    from zvcore.commands.terminal import put

    first, *others = text.split("\n")
    put(first, *(f"  {line}" for line in others), words=True)
