"""Work in other processes: zmesh and kimimaro hold Python's lock, so that threads would wait for each other."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.forging.helper import pack_message, read_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.converting.running import Work

__all__ = ["apart"]

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from zvcore.forging.helper import main; main()"


@contextmanager
def apart(work: Work) -> Iterator[Work]:
    """The same work, each unit of it in another process: as many of these as run at once.

    They end with the context, and when this process does, whatever the way.
    """
    if not sys.executable:
        raise UnsupportedError("this is done in processes of its own, and there is no Python to start")
    helpers = _Apart(work)
    try:
        yield helpers
    finally:
        helpers.close()


class _Apart:
    spread = False

    def __init__(self, work: Work) -> None:
        self._work = work
        self._packed = pack_message(pickle.dumps(work))
        self._lock = threading.Lock()
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._work)

    @property
    def unit_memory(self) -> int:
        return self._work.unit_memory

    def run(self, unit: int, threads: int | None) -> Any:
        helper, first = self._taken()
        try:
            found, error = self._asked(helper, first + pack_message(pickle.dumps((unit, threads))))
        except (OSError, EOFError):
            status = helper.wait()
            raise ZvcoreError(
                "the process that worked on it has ended, for want of memory perhaps", chunk=f"unit {unit}",
                expected="an answer", found=f"status {status}",
            ) from None  # fmt: skip
        with self._lock:
            self._idle.append(helper)
        if error is not None:
            raise error
        return found

    def _taken(self) -> tuple[subprocess.Popen[bytes], bytes]:
        """(a helper that has nothing to do, what it has to be told first)."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), b""
            if self._closed:
                raise ZvcoreError("the work was given up")
            helper = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._all.append(helper)
        return helper, self._packed

    def _asked(self, helper: subprocess.Popen[bytes], request: bytes) -> Any:
        assert helper.stdin is not None and helper.stdout is not None
        helper.stdin.write(request)
        helper.stdin.flush()
        return read_message(helper.stdout)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            everyone, self._all, self._idle = self._all, [], []
        for helper in everyone:
            helper.kill()
        for helper in everyone:
            helper.wait()
            for file in (helper.stdin, helper.stdout):
                if file is not None:
                    file.close()
