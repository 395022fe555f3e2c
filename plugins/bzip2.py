"""bzip2 streams, by libbz2 if it was there at build time, else by the standard library."""

from __future__ import annotations

import importlib
from typing import Any

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError, UnsupportedError

try:
    from zvcore_plugins import _bzip2
except ImportError:
    _bzip2 = None  # type: ignore[assignment]

__all__ = ["Bzip2"]


class Bzip2(Codec):
    """One stream is written; several that follow each other are read as one. Anything else behind them is an error."""

    name = "bzip2"
    encoding_only = ("block_size",)
    # zarr-python knows it by numcodecs' name, and nobody by another.
    spellings = {"zarr3": "numcodecs.bz2"}
    also_read = {"zarr3": {"bzip2": {}}}

    block_size: int = param(9, low=1, high=9, n5="blockSize", zarr3="level", doc="in units of 100 kB")

    def __zv_codec__(self) -> Any:
        return _bzip2 and _bzip2.codec_table(self.block_size)

    def _encode(self, data: memoryview) -> bytes:
        return bytes(_standard().compress(data, self.block_size))

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        rest: memoryview | bytes = data
        while size <= max_size and (rest or not parts):
            stream = _standard().BZ2Decompressor()
            try:
                # One byte more than allowed tells a stream that is too long.
                part = stream.decompress(rest, max_size - size + 1)
            except OSError as error:
                raise CorruptDataError(f"not a bzip2 stream, or a damaged one: {error}") from error
            parts.append(part)
            size += len(part)
            if size <= max_size and not stream.eof:
                raise CorruptDataError("the stream ends early")
            rest = stream.unused_data
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _standard() -> Any:
    """Python's own module, which some Pythons were built without: the native part must not need it."""
    try:
        return importlib.import_module("bz2")
    except ImportError as error:
        raise UnsupportedError("neither zvcore nor this Python was built with libbz2", codec="bzip2") from error
