"""Forks while other threads read, write and open: each child must do the same at once, whatever was being done.

    python -m tests.faults.forks --forks 50000 [--patience 120]

A child that does not end is a stall: where it stands, in Python and (with gdb) in C, is printed, and the rest is tried.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import zvcore

SIDE = 16
SHAPE = (SIDE,) * 3
ARRAYS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3", "chunks": (8, 8, 8), "codec": "gzip"},
    "shards": {"format": "zarr3", "chunks": (8, 8, 8), "shards": (8, 16, 16), "codec": "zstd"},
    "n5": {"format": "n5", "chunks": (8, 8, 8), "codec": "lz4"},
    "volume": {"format": "precomputed", "chunks": (8, 8, 8)},
    "volume in shards": {"format": "precomputed", "chunks": (8, 8, 8), "shards": (16, 16, 16)},
}
# Half of each array is only read and has its first coordinate as value, the other half is written.
READ, WRITTEN = slice(0, SIDE // 2), slice(SIDE // 2, SIDE)


def expected(rows: slice) -> Any:
    return np.broadcast_to(
        np.arange(SIDE, dtype="u2")[rows].reshape(-1, *[1] * (len(SHAPE) - 1)), (SIDE // 2, *SHAPE[1:])
    )


def make(folder: Path) -> dict[str, Any]:
    found = {}
    for name, options in ARRAYS.items():
        found[name] = zvcore.create(folder / name, shape=SHAPE, dtype="u2", **options)
        found[name][READ] = expected(READ).reshape(found[name][READ].shape)
    return found


def use(arrays: dict[str, Any], folder: Path, number: int, *, write: bool) -> None:
    """What parents and children do: with arrays that are open, and with one that is opened for it."""
    name = [*arrays][number % len(arrays)]
    for array in (arrays[name], zvcore.open(folder / name, "r+")):
        array = array if hasattr(array, "shape") else array[0]
        assert np.array_equal(np.asarray(array[READ]).reshape(SIDE // 2, *SHAPE[1:]), expected(READ)), name
        if write:
            array[SIDE // 2 + number % (SIDE // 2), 3:12] = number % 60000


def describe(child: int) -> None:
    """Say where a child stands."""
    os.kill(child, signal.SIGUSR1)
    time.sleep(2)
    if shutil.which("gdb"):
        command = ["gdb", "-batch", "-p", str(child), "-ex", "thread apply all bt"]
        print(subprocess.run(command, capture_output=True, text=True, check=False).stdout[-8000:], flush=True)


def run(forks: int, *, threads: int = 3, at_once: int = 16, patience: float = 120.0, tell: int = 0) -> int:
    """How many of the children stalled, of which so many live at once. A child that fails is an error."""
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    stalled = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arrays = make(folder)
        ended = threading.Event()
        failures: list[BaseException] = []

        def keep_using(start: int) -> None:
            number = start
            try:
                while not ended.is_set():
                    use(arrays, folder, number, write=number % 2 == 0)
                    number += threads
            except BaseException as error:
                failures.append(error)

        users = [threading.Thread(target=keep_using, args=(i,)) for i in range(threads)]
        for user in users:
            user.start()
        children: deque[int] = deque()
        try:
            for number in range(forks):
                if len(children) == at_once:
                    stalled += not ends(children.popleft(), patience)
                children.append(forked(lambda number=number: use(arrays, folder, number, write=number % 3 == 0)))
                if failures:
                    raise failures[0]
                if tell and (number + 1) % tell == 0:
                    print(f"{number + 1} forks, {stalled} stalled", flush=True)
        finally:
            # Those that are left still use the folder.
            while children:
                stalled += not ends(children.popleft(), patience)
            ended.set()
            for user in users:
                user.join()
    return stalled


def fork(work: Any, patience: float) -> bool:
    """Whether a child that does this ends in time."""
    return ends(forked(work), patience)


def forked(work: Any) -> int:
    """A child that does this and exits: its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            faulthandler.dump_traceback()
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return child


def ends(child: int, patience: float) -> bool:
    """Whether a child ends in time; one that does not is described, and ended. One that fails is an error."""
    descriptor = os.pidfd_open(child)
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        in_time = bool(waiting.poll(patience * 1000))
        if not in_time:
            describe(child)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    finally:
        os.close(descriptor)
    if in_time and status != 0:
        raise AssertionError(f"a child ended with status {status}")
    return in_time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--forks", type=int, default=50_000)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that a child may take")
    options = parser.parse_args()
    stalled = run(options.forks, patience=options.patience, tell=500)
    print(f"{options.forks} forks, {stalled} stalled")
    return 1 if stalled else 0


if __name__ == "__main__":
    sys.exit(main())
