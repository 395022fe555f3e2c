"""Decoders that may end their process run in another one: damaged chunks of compresso, crackle and fpzip do that. So do
encoders that keep Python's lock, as those of compresso and fpzip do: there threads would work one after the other.

Each thread that has a chunk has a helper, which stays for the next chunk; one that dies was given damaged data, and the
next chunk gets another.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.precomputed.decoding_helper import ANSWER, DONE, MISSING, REQUEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["decode_guarded", "encode_guarded"]

_SCRIPT = Path(__file__).with_name("decoding_helper.py")
# Seconds that a chunk may take: some, and one for so many of its bytes.
_PATIENCE = 60.0
_SLOWEST = 1_000_000
# So much of a chunk goes over before the other side has to be awake: what Linux lets every user ask for.
_PIPE_BYTES = 1 << 20


def _widen(pipe: IO[bytes] | None) -> None:
    """Have more room in a pipe. Whoever may not have that goes with less."""
    try:
        import fcntl

        if pipe is not None:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        pass


class _HelperDied(Exception):
    """The helper ended, or was ended because it took too long."""


class _Helper:
    """A process that decodes or encodes one chunk after the other."""

    def __init__(self) -> None:
        if not sys.executable:
            raise UnsupportedError("this encoding needs a helper process, and there is no Python to start")
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-I", os.fspath(_SCRIPT), json.dumps(sys.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        )  # fmt: skip
        for file in (self.process.stdin, self.process.stdout):
            _widen(file)

    def ask(self, head: dict[str, Any], data: Any, patience: float) -> tuple[int, bytes]:
        """(status, answer) for a request."""
        assert self.process.stdin is not None
        words = json.dumps(head).encode()
        until = time.monotonic() + patience
        try:
            for piece in (REQUEST.pack(len(words), len(data)), words, data):
                self._write(piece)
            status, size = ANSWER.unpack(self._read(ANSWER.size, until))
            return status, self._read(size, until)
        except OSError:
            raise _HelperDied("it ended") from None

    def _write(self, data: Any) -> None:
        assert self.process.stdin is not None
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self.process.stdin.fileno(), view) :]

    def _read(self, size: int, until: float) -> bytes:
        assert self.process.stdout is not None
        file = self.process.stdout.fileno()
        found = bytearray()
        poll = select.poll()
        poll.register(file, select.POLLIN)
        while len(found) < size:
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise _HelperDied("it took too long")
            data = os.read(file, min(size - len(found), 1 << 20))
            if not data:
                raise _HelperDied("it ended")
            found += data
        return bytes(found)

    def close(self) -> None:
        """End the process, if it is ours: after a fork it is the parent's."""
        for file in (self.process.stdin, self.process.stdout):
            if file is not None:
                file.close()
        if self.owner == os.getpid():
            self.process.kill()
            self.process.wait()
        else:
            # Not ours to wait for.
            self.process.returncode = 0


class _Helpers:
    """The helpers that wait for a chunk: as many as threads have had chunks at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Helper] = []
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self.close()

    def ask(self, head: dict[str, Any], data: Any, patience: float) -> tuple[int, bytes]:
        with self._lock:
            helper = self._idle.pop() if self._idle else None
        # One that waited may have been ended by somebody, which says nothing of the chunk.
        if helper is not None and helper.process.poll() is not None:
            helper.close()
            helper = None
        helper = helper or _Helper()
        try:
            answer = helper.ask(head, data, patience)
        except BaseException:
            helper.close()
            raise
        with self._lock:
            self._idle.append(helper)
        return answer

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for helper in idle:
            helper.close()


_helpers = _Helpers()


def decode_guarded(decoder: str, data: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> bytes:
    """The raw bytes of a chunk, decoded in a helper; CorruptDataError also where it ends the helper."""
    head = {"decoder": decoder, "shape": list(shape), "dtype": dtype.newbyteorder("=").str}
    try:
        status, answer = _helpers.ask(head, data, _patience(data, shape, dtype))
    except _HelperDied as error:
        raise CorruptDataError(
            f"the decoder of {decoder} did not survive the chunk: {error}", length=len(data)
        ) from None
    if status == DONE:
        return answer
    text = _told(decoder, status, answer)
    raise CorruptDataError(f"the decoder of {decoder} refuses the chunk: {text}", length=len(data))


def encode_guarded(encoder: str, values: npt.NDArray[Any], parameters: Mapping[str, Any]) -> bytes:
    """The encoded form of a chunk in Fortran order, made in a helper, so that threads need not take turns."""
    head = {"encoder": encoder, "shape": values.shape, "dtype": values.dtype.str, "parameters": dict(parameters)}
    data = memoryview(values.reshape(-1, order="F")).cast("B")
    try:
        status, answer = _helpers.ask(head, data, _patience(data, values.shape, values.dtype))
    except _HelperDied as error:
        raise UnsupportedError(f"the encoder of {encoder} did not survive the values: {error}") from None
    if status == DONE:
        return answer
    text = _told(encoder, status, answer)
    raise ValueError(f"the encoder of {encoder} refuses the values: {text}")


def _patience(data: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> float:
    return _PATIENCE + (dtype.itemsize * math.prod(shape) + len(data)) / _SLOWEST


def _told(library: str, status: int, answer: bytes) -> str:
    """What a helper says that has no result."""
    text = answer.decode("utf-8", "replace")
    if status == MISSING:
        raise UnsupportedError(f"the library of {library} is missing: {text}")
    return text
