"""What runs in a helper process: decoders that may end the process they run in, when their data are damaged, and
encoders that let no other thread of their process work meanwhile.

It is started as a file, with the importing process's `sys.path` as its argument, and imports nothing of zvcore.
Requests come on stdin, answers go to stdout: see `guarded.py`, which is the other end.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

# A request: the lengths of its head (JSON) and of the data; an answer: a status and a length.
REQUEST = struct.Struct("<IQ")
ANSWER = struct.Struct("<BQ")
DONE, WRONG, MISSING = 0, 1, 2
# Besides what the values take so many times, they may have as much memory as this.
_ROOM = 1 << 30
_TIMES = 16


def _compresso(data: bytes) -> Any:
    import compresso

    return compresso.decompress(data)


def _crackle(data: bytes) -> Any:
    import crackle

    return crackle.decompress(data, parallel=1)


def _fpzip(data: bytes) -> Any:
    import fpzip

    return fpzip.decompress(data, order="F")


def _kempressed(data: bytes) -> Any:
    import numpy as np

    found = np.swapaxes(_fpzip(data), 2, 3)
    return (found - 2.0).astype(found.dtype)


def _zfpc(data: bytes) -> Any:
    import zfpc

    return zfpc.decompress(data)


_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "compresso": _compresso, "crackle": _crackle, "fpzip": _fpzip, "kempressed": _kempressed, "zfpc": _zfpc,
}  # fmt: skip


def _to_compresso(values: Any) -> bytes:
    import compresso

    return bytes(compresso.compress(values[..., 0]))


def _to_fpzip(values: Any, precision: int = 0) -> bytes:
    import fpzip

    return bytes(fpzip.compress(values, order="F", precision=precision))


def _to_kempressed(values: Any) -> bytes:
    import numpy as np

    # In two roundings, as others do it.
    return _to_fpzip(np.asfortranarray(2.0 + np.swapaxes(values, 2, 3)))


_ENCODERS: dict[str, Callable[..., bytes]] = {
    "compresso": _to_compresso, "fpzip": _to_fpzip, "kempressed": _to_kempressed,
}  # fmt: skip


def _answered(head: dict[str, Any], data: bytes) -> tuple[int, bytes]:
    import numpy as np

    shape, dtype = tuple(head["shape"]), np.dtype(head["dtype"])
    try:
        _limit_memory(_TIMES * dtype.itemsize * int(np.prod(shape)) + len(data))
        if "encoder" in head:
            values = np.frombuffer(data, dtype).reshape(shape, order="F")
            # A copy, as libraries take only what they could change.
            return DONE, _ENCODERS[head["encoder"]](values.copy("F"), **head["parameters"])
        found = np.asarray(_DECODERS[head["decoder"]](data))
        if found.dtype != dtype or found.size != int(np.prod(shape)):
            return WRONG, f"a chunk of {found.dtype} {found.shape} in place of {dtype} {shape}".encode()
        # Axes of length 1 may be missing at the end.
        return DONE, found.reshape(shape, order="F").tobytes("F")
    except ImportError as error:
        return MISSING, str(error).encode()
    except BaseException as error:
        return WRONG, f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")


def _limit_memory(more: int) -> None:
    """Let the process grow by no more than that; where the system knows no such limit there is none."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size + more + _ROOM, most))
    except (ImportError, OSError, ValueError):
        pass


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise SystemExit
    return data


def main() -> None:
    """Answer requests until stdin ends."""
    import signal

    # Threads of the engine block all signals, and a process inherits that from the thread that starts it.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass
    sys.path[:] = json.loads(sys.argv[1])
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    # Whatever a library prints belongs to no answer.
    sys.stdout = sys.stderr
    while True:
        head, size = REQUEST.unpack(_read(requests, REQUEST.size))
        status, data = _answered(json.loads(_read(requests, head)), _read(requests, size))
        answers.write(ANSWER.pack(status, len(data)))
        answers.write(data)
        answers.flush()


if __name__ == "__main__":
    main()
