"""What runs in a process of its own: units of work, as they are asked for on stdin, until that ends."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import IO

__all__ = ["main", "pack_message", "read_message"]

# In front of each message: how many bytes it has.
_SIZE = struct.Struct("<Q")


def pack_message(data: bytes) -> bytes:
    """Something pickled, as it is sent."""
    return _SIZE.pack(len(data)) + data


def read_message(file: IO[bytes]) -> Any:
    """The next thing that was sent; EOFError where nothing more comes."""
    head = file.read(_SIZE.size)
    size = _SIZE.unpack(head)[0] if len(head) == _SIZE.size else 0
    data = file.read(size)
    if not size or len(data) < size:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """Do what the first message says, unit by unit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What libraries print belongs to no answer.
    os.dup2(2, 1)
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, asked), daemon=True).start()
    work = asked.get()
    while True:
        unit, threads = asked.get()
        try:
            answer = pickle.dumps((work.run(unit, threads), None))
        except Exception as error:
            answer = pickle.dumps((None, _sendable(error)))
        answers.write(pack_message(answer))
        answers.flush()


def _listen(requests: IO[bytes], asked: queue.SimpleQueue[Any]) -> None:
    """Pass on what is asked. When nobody asks any more, nobody wants what is under way: it is given up."""
    try:
        while True:
            asked.put(read_message(requests))
    finally:
        os._exit(1)


def _sendable(error: Exception) -> Exception:
    """An error that survives the way, or one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
