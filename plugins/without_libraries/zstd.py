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


def is_one_frame(data: memoryview, size: int) -> bool:
    """Whether this is one frame to its end, by the headers of its blocks, and holds what it says, if it says."""
    head = bytes(data[:18])
    if len(head) < 9 or head[:4] != b"\x28\xb5\x2f\xfd":
        return False
    single = head[4] >> 5 & 1
    width = (single, 2, 4, 8)[head[4] >> 6]
    at = 6 - single + (0, 1, 2, 4)[head[4] & 3]
    if width and int.from_bytes(head[at : at + width], "little") + (256 if width == 2 else 0) != size:
        return False
    at += width
    last = False
    while not last and at + 3 <= len(data):
        block = int.from_bytes(data[at : at + 3], "little")
        last, repeated = bool(block & 1), block >> 1 & 3 == 1
        at += 3 + (1 if repeated else block >> 3)
    return last and at + (4 if head[4] & 4 else 0) == len(data)
