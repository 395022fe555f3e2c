"""The codecs where zvcore was built without their C libraries: through the standard library or one package each.

Each module has `encode(codec, data)` and `decode(codec, data, max_size)`. Nothing else imports them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from zvcore.errors import CorruptDataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["damaged", "decode_streams", "need", "too_long"]


def need(module: str, library: str) -> Any:
    """A module that does the work of this C library."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        # Some Pythons were built without a module of the standard library.
        advice = "and so was this Python" if package in sys.stdlib_module_names else f"install {package}"
        raise UnsupportedError(f"zvcore was built without {library}: {advice}, or build with {library}-dev") from error


def too_long(max_size: int, found: int | None = None) -> CorruptDataError:
    return CorruptDataError("more data than expected", expected=f"at most {max_size}", found=found)


def damaged(error: Exception) -> CorruptDataError:
    """What a library says of data that it cannot decode."""
    checksum = "checksum mismatch: " if "check" in str(error).lower() else ""
    return CorruptDataError(f"{checksum}not a valid stream, or a damaged one: {error}")


def decode_streams(
    begin: Callable[[], Any],
    data: memoryview,
    max_size: int,
    faults: tuple[type[Exception], ...],
    explain: Callable[[Exception], Exception] = damaged,
    following: Callable[[Any], Any] = lambda rest: rest,
) -> bytes:
    """The contents of streams that follow each other, but not much more than `max_size` bytes.

    begin      makes a decompressor like those of the standard library
    faults     the exceptions that it raises, which `explain` turns into an error of zvcore
    following  where in the bytes after a stream the next one begins
    """
    parts: list[bytes] = []
    size = 0
    rest: Any = data
    while size <= max_size and (rest or not parts):
        try:
            stream = begin()
            # One byte more than allowed reveals a stream that is too long; zlib takes 0 for "no limit".
            part = stream.decompress(rest, max_size - size + 1)
        except faults as error:
            raise explain(error) from error
        parts.append(part)
        size += len(part)
        if size <= max_size:
            if not stream.eof:
                raise CorruptDataError("the stream ends early")
            rest = following(stream.unused_data or b"")
    return parts[0] if len(parts) == 1 else b"".join(parts)
