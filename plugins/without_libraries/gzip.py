"""gzip and zlib streams through the standard library."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from zvcore.errors import CorruptDataError
from zvcore_plugins.without_libraries import decode_streams

if TYPE_CHECKING:
    from zvcore_plugins.gzip import Gzip

# zlib's numbers for the two framings.
GZIP, ZLIB = 31, 15


def encode(codec: Gzip, data: memoryview) -> bytes:
    stream = zlib.compressobj(codec.effective_level, zlib.DEFLATED, ZLIB if codec.use_zlib else GZIP)
    return stream.compress(data) + stream.flush()


def decode(codec: Gzip, data: memoryview, max_size: int) -> bytes:
    framing = ZLIB if codec.use_zlib else GZIP
    if codec.sniff:
        framing = GZIP if bytes(data[:2]) == b"\x1f\x8b" else ZLIB

    def next_member(rest: bytes) -> bytes:
        if rest and (framing == ZLIB or codec.single_member or rest[:2] != b"\x1f\x8b"):
            raise CorruptDataError(f"{len(rest)} bytes after the end of the stream")
        return rest

    return decode_streams(lambda: zlib.decompressobj(framing), data, max_size, (zlib.error,), following=next_member)
