"""The commands of `zvcore`, one module each.

A command's module offers `add_parser(commands, common)`, which makes the command's parser and returns it, and
`run(options)`, which returns the exit status. All of these modules are imported at every start, so they import what
they work with inside `run`, and nothing but the standard library's light modules at their top.

`options` always has `threads` (None: as many as there are processors), `quiet`, `verbose` and `debug`. What
`--storage-option` says need not be passed on: it holds for every URL that a command opens.
Data goes to stdout (`print_json` and the like of `zvcore.commands.terminal`), words go to stderr (`say`).
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# In the order in which `zvcore --help` lists them. Another command is another file here, and its name in this line.
COMMANDS = (
    "info",
    "ls",
    "tree",
    "cat",
    "get",
    "cp",
    "sync",
    "convert",
    "downsample",
    "mesh",
    "skeletonize",
    "migrate",
    "verify",
    "manifest",
    "refs",
    "repair",
    "compact",
    "preview",
    "serve",
    "bench",
    "codecs",
    "completion",
)
# Those that change stores.
WRITING = ("cp", "sync", "convert", "downsample", "mesh", "skeletonize", "migrate", "manifest", "repair", "compact")
# Those that write files beside stores.
EXPORTING = ("get", "refs", "preview")
# As `zvcore.stores.durability` names them, which takes numpy to import.
DURABILITIES = ("none", "late", "rename", "fsync")


class FormatNames:
    """The choices of `--format`, looked up when they are needed: finding out what is installed takes time.

    of   "arrays": only formats in which arrays can be made; "conversions": what a conversion can make: arrays,
         annotations and points, tables
    """

    def __init__(self, of: str = "") -> None:
        self._of = of

    def __iter__(self) -> Iterator[str]:
        from zvcore.format import formats

        found = formats().items()
        if self._of == "arrays":
            return iter([name for name, one in found if one.makes_arrays])
        if self._of != "conversions":
            return iter([name for name, one in found if one.at_paths])
        from zvcore.converting import TABLES
        from zvcore.converting.naming import WAYS

        return iter([*(name for name, one in found if any(getattr(one, way) for way in WAYS)), *TABLES])


# The exit status where nothing is wrong but that something is in a way that zvcore does not support.
NOT_SUPPORTED = 3


class UsageError(Exception):
    """What the command line asks for makes no sense: exit status 2."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM, as batch systems do."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within this, SIGTERM ends the work as Ctrl-C does: what is done is noted, and how to resume it is told."""

    def end(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Around what may fail without harm: Ctrl-C is not lost where it fails by that, under another name. A native module
    that is just being loaded makes an ImportError of it, and some libraries go on.
    """
    before = signal.getsignal(signal.SIGINT)
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        if callable(before):
            before(number, frame)

    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # somebody else hears of it, or nobody is to
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
