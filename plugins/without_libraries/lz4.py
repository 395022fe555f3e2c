"""lz4 in its four framings through the packages lz4 and xxhash."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from zvcore.errors import CorruptDataError
from zvcore_plugins.lz4 import BLOCK, FRAME, SIZED, STREAM
from zvcore_plugins.without_libraries import decode_streams, need, too_long

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore_plugins.lz4 import Lz4

MAGIC = b"LZ4Block"
FRAME_MAGIC = b"\x04\x22\x4d\x18"
# The length of a block's header in a stream.
HEADER = 21
RAW, PACKED = 0x10, 0x20
# No sequence of bytes in a block stands for more than 255 bytes per byte.
RATIO = 255


def encode(codec: Lz4, data: memoryview) -> bytes:
    if codec.framing == STREAM:
        return _encode_stream(codec, data)
    if codec.framing == FRAME:
        level = codec.level or (1 - codec.acceleration if codec.acceleration > 1 else 0)
        frame = need("lz4.frame", "liblz4")
        return bytes(frame.compress(data, compression_level=level, content_checksum=codec.checksum))
    block = _encode_block(codec, data)
    return len(data).to_bytes(4, "little") + block if codec.framing == SIZED else block


def decode(codec: Lz4, data: memoryview, max_size: int) -> bytes:
    framings = [codec.framing]
    if codec.sniff and data:
        # A payload shorter than a magic is compared with the beginning of it.
        if MAGIC.startswith(bytes(data[:8])):
            framings = [STREAM]
        elif FRAME_MAGIC.startswith(bytes(data[:4])):
            framings = [FRAME]
        else:
            # If it is neither, the error is about what it should be.
            framings = [SIZED, BLOCK, codec.framing]
    for framing in framings[:-1]:
        try:
            return DECODERS[framing](data, max_size)
        except CorruptDataError:
            continue
    return DECODERS[framings[-1]](data, max_size)


def _encode_block(codec: Lz4, data: memoryview) -> bytes:
    how: dict[str, Any] = {"mode": "fast", "acceleration": max(1, codec.acceleration)}
    if codec.level:
        how = {"mode": "high_compression", "compression": codec.level}
    return bytes(need("lz4.block", "liblz4").compress(data, store_size=False, **how))


def _decode_block(data: memoryview, size: int, declared: bool = False) -> bytes:
    """At most this many bytes; exactly as many as declared, if any were."""
    block = need("lz4.block", "liblz4")
    decoded: bytes | None = None
    with contextlib.suppress(block.LZ4BlockError, ValueError):
        decoded = bytes(block.decompress(data, uncompressed_size=min(size, len(data) * RATIO)))
    if decoded is None or (declared and len(decoded) != size):
        raise CorruptDataError(f"damaged lz4 block{', or not of the declared size' if declared else ''}")
    return decoded


def _decode_sized(data: memoryview, max_size: int) -> bytes:
    if len(data) < 5:
        raise CorruptDataError("too short for a size and a block")
    size = int.from_bytes(data[:4], "little")
    if size > max_size:
        raise too_long(max_size, size)
    return _decode_block(data[4:], size, declared=True)


def _decode_frames(data: memoryview, max_size: int) -> bytes:
    return decode_streams(need("lz4.frame", "liblz4").LZ4FrameDecompressor, data, max_size, (RuntimeError,))


def _checksum(data: Any) -> int:
    return int(need("xxhash", "libxxhash").xxh32_intdigest(data, 0x9747B28C)) & 0x0FFFFFFF


def _encode_stream(codec: Lz4, data: memoryview) -> bytes:
    size_class = max(0, (codec.block_size - 1).bit_length() - 10)
    parts: list[bytes | memoryview] = []
    for start in range(0, len(data), codec.block_size):
        raw = data[start : start + codec.block_size]
        block: bytes | memoryview = _encode_block(codec, raw)
        method = PACKED if len(block) < len(raw) else RAW
        if method == RAW:
            block = raw
        numbers = (len(block), len(raw), _checksum(raw))
        parts += [MAGIC, bytes([method | size_class]), *(number.to_bytes(4, "little") for number in numbers), block]
    return b"".join([*parts, MAGIC, bytes([RAW | size_class]), bytes(12)])


def _decode_stream(data: memoryview, max_size: int) -> bytes:
    parts: list[bytes | memoryview] = []
    at = size = 0
    while True:
        header = bytes(data[at : at + HEADER])

        def wrong(what: str, start: int = at) -> CorruptDataError:
            return CorruptDataError(f"LZ4Block stream: block at byte {start}: {what}")

        if len(header) < HEADER:
            raise wrong("the stream ends early, without its end mark")
        if not header.startswith(MAGIC):
            raise wrong("wrong magic")
        method = header[8] & 0xF0
        packed, length, checksum = (int.from_bytes(header[i : i + 4], "little") for i in (9, 13, 17))
        if method not in (RAW, PACKED):
            raise wrong("unknown method")
        longest = 1 << (10 + (header[8] & 15))
        if length > longest or (length == 0) != (packed == 0) or (method == RAW and length != packed):
            raise wrong("impossible lengths")
        if length == 0:
            if checksum:
                raise wrong("checksum mismatch: end mark with a checksum")
            return b"".join(parts)
        at += HEADER
        block = data[at : at + packed]
        if len(block) < packed:
            raise wrong("the stream ends early")
        if size + length > max_size:
            raise too_long(max_size)
        part = block if method == RAW else _decode_block(block, length, declared=True)
        if _checksum(part) != checksum:
            raise wrong("checksum mismatch")
        parts.append(part)
        at += packed
        size += length


DECODERS: dict[str, Callable[[memoryview, int], bytes]] = {
    STREAM: _decode_stream,
    FRAME: _decode_frames,
    SIZED: _decode_sized,
    BLOCK: _decode_block,
}
