"""Chunk files that CloudVolume has compressed with brotli, by the package of that name."""

from __future__ import annotations

from typing import Any

from zvcore.codecs import Codec
from zvcore.errors import CodecNotFoundError, CorruptDataError

__all__ = ["Brotli"]

# What CloudVolume compresses with.
_QUALITY = 5


class Brotli(Codec):
    """One brotli stream."""

    name = "brotli"

    def _encode(self, data: memoryview) -> Any:
        return _library().compress(bytes(data), quality=_QUALITY)

    def _decode(self, data: memoryview, max_size: int) -> Any:
        brotli = _library()
        stream = brotli.Decompressor()
        parts = []
        size = 0
        given = bytes(data)
        try:
            while not stream.is_finished():
                part = stream.process(given, output_buffer_limit=max(1, max_size - size + 1))
                given = b""
                if not part and stream.can_accept_more_data():
                    raise CorruptDataError("the stream ends too early", codec=self.name)
                size += len(part)
                if size > max_size:
                    raise CorruptDataError("more than the chunk can hold", codec=self.name, expected=max_size)
                parts.append(part)
        except brotli.error as error:
            raise CorruptDataError(f"not a valid brotli stream: {error}", codec=self.name) from error
        return b"".join(parts)


def _library() -> Any:
    try:
        import brotli
    except ImportError as error:
        raise CodecNotFoundError("files that end with .br are read by brotli: pip install brotli") from error
    return brotli
