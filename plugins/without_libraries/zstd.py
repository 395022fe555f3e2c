"""Zstandard frames through the package zstandard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import CorruptDataError
from zvcore_plugins.without_libraries import damaged, need, too_long

if TYPE_CHECKING:
    from zvcore_plugins.zstd import Zstd

# The package has no way to limit its output. No piece of this size decodes to more than 32 MiB.
PIECE = 1024


def encode(codec: Zstd, data: memoryview) -> bytes:
    library = need("zstandard", "libzstd")
    return bytes(library.ZstdCompressor(level=codec.level, write_checksum=codec.checksum).compress(data))


def decode(codec: Zstd, data: memoryview, max_size: int) -> bytes:
    library = need("zstandard", "libzstd")
    parts: list[bytes] = []
    rest: Any = data
    size = 0
    while rest or not parts:
        try:
            declared = library.frame_content_size(rest)
            if declared > max_size - size:
                raise too_long(max_size, size + declared)
            frame = library.ZstdDecompressor().decompressobj()
            begin = 0
            while begin < len(rest) and not frame.eof and size <= max_size:
                # A frame that says how much it holds is decoded at once.
                end = len(rest) if declared >= 0 else begin + PIECE
                parts.append(frame.decompress(rest[begin:end]))
                size += len(parts[-1])
                begin = end
        except library.ZstdError as error:
            raise damaged(error) from error
        if size > max_size:
            raise too_long(max_size)
        if not frame.eof:
            raise CorruptDataError("the frame ends early")
        rest = frame.unused_data + bytes(rest[begin:])
    return parts[0] if len(parts) == 1 else b"".join(parts)
