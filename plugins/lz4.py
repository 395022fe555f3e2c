"""lz4 in its four framings, by liblz4 and libxxhash if they were there at build time, else by Python packages."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError, UnsupportedError

try:
    from zvcore_plugins import _lz4
except ImportError:
    _lz4 = None  # type: ignore[assignment]

__all__ = ["Lz4"]

STREAM, FRAME, SIZED, BLOCK = "lz4block", "frame", "size_prefixed", "block"


class Lz4(Codec):
    """One kind of compressed block in one of four framings, which cannot read each other's data:

        lz4block       lz4-java's stream of blocks of `block_size` bytes with checksums: what Java's N5 writes and reads
        frame          the LZ4 frame format, with a checksum if `checksum`; rust-n5 writes N5 in it
        size_prefixed  the size as uint32, then one block: numcodecs' lz4, which is how zarr-python knows it
        block          one block and nothing else; z5 writes N5 so. The size of what it holds has to be known

    `acceleration` trades size for speed (1 is the smallest and slowest; less means 1); a `level` of 1 to 12 takes the
    high compression encoder instead. With `sniff`, which N5's metadata implies, decoding recognises the framing.

    In N5 the framing shows in the members: Java's and rust-n5's `blockSize`, zarr 2's `id` and `acceleration`, or a
    `blockSize` below Java's least, which is z5's and means a level. A member `framing` settles it where they do not. In
    Zarr, `numcodecs.lz4` is the size-prefixed one, and so is an `lz4` that does not say.
    """

    name = "lz4"
    encoding_only = ("acceleration", "level", "sniff")
    also_read = {"zarr3": {"numcodecs.lz4": {"framing": SIZED}}}

    framing: str = param(STREAM, choices=(STREAM, FRAME, SIZED, BLOCK))
    block_size: int = param(65536, low=64, high=33554432, n5="blockSize")
    acceleration: int = param(1, low=-(2**31), high=2**31 - 1, sparse=("n5",))
    level: int = param(0, low=0, high=12, sparse=("n5", "zarr3"))
    checksum: bool = param(True, sparse=("n5", "zarr3"))
    sniff: bool = param(False, zarr3=None)

    def reads_as(self, data: memoryview, size: int) -> bool:
        return self.sniff or self.framing != STREAM or bytes(data[:8]) == b"LZ4Block"

    def __zv_codec__(self) -> Any:
        return _lz4 and _lz4.codec_table(
            self.framing, self.sniff, self.block_size, self.acceleration, self.level, self.checksum
        )

    # -- formats -------------------------------------------------------------------------------------------------------

    def to_n5(self) -> dict[str, Any]:
        obj = super().to_n5()
        del obj["sniff"], obj["framing"]
        if self.framing == SIZED:
            del obj["blockSize"]
            obj = {**obj, "id": "lz4", "acceleration": self.acceleration}
        elif self.framing == BLOCK:
            kept = self._kept.get("n5", (None, {}, {}))[1]
            obj["blockSize"] = kept.get("blockSize", 6)
        if _framing_in_n5(obj) != self.framing:
            obj["framing"] = self.framing
        return obj

    @classmethod
    def from_n5(cls, obj: Mapping[str, Any]) -> Lz4:
        if not isinstance(obj, Mapping):
            return super().from_n5(obj)
        members = {"framing": _framing_in_n5(obj), "sniff": True, **obj}
        level = members.pop("blockSize") if members["framing"] == BLOCK and "blockSize" in members else None
        codec = super().from_n5(members)
        if level is not None:
            name, kept, beside = codec._kept.get("n5", (cls.name, {}, {}))
            codec._kept["n5"] = (name, {**kept, "blockSize": level}, beside)
        return codec

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        members = obj["configuration"]
        if self.framing != STREAM:
            del members["block_size"]
        if self.framing == SIZED and self.level == 0:
            obj["name"] = "numcodecs.lz4"
            del members["framing"]
        return obj

    @classmethod
    def from_zarr3(cls, obj: Mapping[str, Any] | str) -> Lz4:
        if isinstance(obj, str):
            obj = {"name": obj}
        if isinstance(obj, Mapping) and isinstance(members := obj.get("configuration", {}), Mapping):
            obj = {**obj, "configuration": {"framing": SIZED, **members}}
        return super().from_zarr3(obj)

    # -- without the native part ---------------------------------------------------------------------------------------

    def _encode(self, data: memoryview) -> bytes:
        if self.framing == FRAME:
            frame = _package("lz4.frame")
            level = self.level or (1 - self.acceleration if self.acceleration > 1 else 0)
            return bytes(frame.compress(data, compression_level=level, content_checksum=self.checksum))
        if self.framing == STREAM:
            return self._encode_stream(data)
        block = self._compress(data)
        return len(data).to_bytes(4, "little") + block if self.framing == SIZED else block

    def _encode_stream(self, data: memoryview) -> bytes:
        size_class = max(0, (self.block_size - 1).bit_length() - 10)
        parts = []
        for start in range(0, len(data), self.block_size):
            raw = data[start : start + self.block_size]
            block: bytes | memoryview = self._compress(raw)
            method = LZ4 if len(block) < len(raw) else RAW
            if method == RAW:
                block = raw
            numbers = (len(block), len(raw), _checksum(raw))
            parts += [MAGIC, bytes([method | size_class]), *(number.to_bytes(4, "little") for number in numbers), block]
        return b"".join([*parts, MAGIC, bytes([RAW | size_class]), bytes(12)])

    def _compress(self, data: memoryview) -> bytes:
        if self.level:
            block = _package("lz4.block")
            return bytes(block.compress(data, mode="high_compression", compression=self.level, store_size=False))
        library = _package("numcodecs.lz4", "lz4.block")
        if library.__name__ == "numcodecs.lz4":
            return bytes(library.compress(data, self.acceleration))[4:]
        return bytes(library.compress(data, mode="fast", acceleration=max(1, self.acceleration), store_size=False))

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        framing = self._recognised(data) if self.sniff else self.framing
        if framing == STREAM:
            return _decode_stream(data, max_size)
        if framing == FRAME:
            return _decode_frames(data, max_size)
        if framing == BLOCK:
            size = _block_size(data)
            if size is None:
                raise CorruptDataError("damaged lz4 block")
            return _decompress(data, size, max_size)
        if len(data) < 5:
            raise CorruptDataError("too short for a size and a block")
        return _decompress(data[4:], int.from_bytes(data[:4], "little"), max_size)

    def _recognised(self, data: memoryview) -> str:
        # What is too short for a magic counts by what there is of it.
        if data and MAGIC.startswith(bytes(data[:8])):
            return STREAM
        if data and FRAME_MAGIC.startswith(bytes(data[:4])):
            return FRAME
        if len(data) >= 5 and _block_size(data[4:]) == int.from_bytes(data[:4], "little"):
            return SIZED
        return BLOCK if _block_size(data) is not None else self.framing


def _framing_in_n5(obj: Mapping[str, Any]) -> str:
    """Whose members these are."""
    if obj.get("id") == "lz4" or "acceleration" in obj:
        return SIZED
    size = obj.get("blockSize")
    return BLOCK if isinstance(size, int | float) and 0 <= size < 64 else STREAM


MAGIC = b"LZ4Block"
FRAME_MAGIC = b"\x04\x22\x4d\x18"
HEADER = 21
RAW, LZ4 = 0x10, 0x20
# No sequence of bytes in a block stands for more than 255 bytes per byte.
RATIO = 255


def _package(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    needed = " or ".join(name.partition(".")[0] for name in names)
    raise UnsupportedError(
        f"zvcore was built without liblz4 or libxxhash; install {needed}, or build with liblz4-dev and libxxhash-dev",
        codec="lz4",
    )


def _checksum(data: Any) -> int:
    return int(_package("xxhash").xxh32_intdigest(data, 0x9747B28C)) & 0x0FFFFFFF


def _decompress(block: memoryview, size: int, max_size: int) -> bytes:
    """A block of known size."""
    if size > max_size:
        raise CorruptDataError("more data than expected", expected=f"at most {max_size}", found=size)
    if size > len(block) * RATIO or _block_size(block) != size:
        raise CorruptDataError("damaged lz4 block: it does not have the declared size")
    if size == 0:
        return b""
    library = _package("lz4.block", "numcodecs.lz4")
    if library.__name__ == "lz4.block":
        return bytes(library.decompress(block, uncompressed_size=size))
    return bytes(library.decompress(size.to_bytes(4, "little") + bytes(block)))


def _block_size(block: memoryview) -> int | None:
    """The size that a block stands for, from its lengths alone; None if it is no block."""
    data = bytes(block)
    at = size = 0
    try:
        while at < len(data):
            token = data[at]
            length, at = _length(data, at + 1, token >> 4)
            at += length
            size += length
            if at >= len(data):
                return size if at == len(data) else None
            offset = data[at] | data[at + 1] << 8
            length, at = _length(data, at + 2, token & 15)
            if offset == 0 or offset > size:
                return None
            size += length + 4
    except IndexError:
        pass
    return None


def _length(data: bytes, at: int, start: int) -> tuple[int, int]:
    """(a length that goes on from `at` if its four bits were all set, the position behind it)"""
    if start == 15:
        byte = 255
        while byte == 255:
            byte = data[at]
            start += byte
            at += 1
    return start, at


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
        if method not in (RAW, LZ4):
            raise wrong("unknown method")
        if (
            length > 1 << (10 + (header[8] & 15))
            or (length == 0) != (packed == 0)
            or (method == RAW and length != packed)
        ):
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
            raise CorruptDataError("more data than expected", expected=f"at most {max_size}")
        part = block if method == RAW else _decompress(block, length, length)
        if _checksum(part) != checksum:
            raise wrong("checksum mismatch")
        parts.append(part)
        at += packed
        size += length


def _decode_frames(data: memoryview, max_size: int) -> bytes:
    frame = _package("lz4.frame")
    parts: list[bytes] = []
    size = 0
    rest: memoryview | bytes = data
    while size <= max_size and (rest or not parts):
        stream = frame.LZ4FrameDecompressor()
        try:
            # One byte more than allowed tells a frame that is too long.
            part = stream.decompress(rest, max_size - size + 1)
        except RuntimeError as error:
            checksum = "checksum mismatch: " if "hecksum" in str(error) else ""
            raise CorruptDataError(f"{checksum}{error}") from error
        parts.append(part)
        size += len(part)
        if size <= max_size and not stream.eof:
            raise CorruptDataError("the frame ends early")
        rest = stream.unused_data or b""
    return b"".join(parts)
