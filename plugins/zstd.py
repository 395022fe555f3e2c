"""Zstandard frames, by libzstd if it was there at build time, else by Python's own module or numcodecs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Self

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError, UnsupportedError

try:
    from zvcore_plugins import _zstd
except ImportError:
    _zstd = None  # type: ignore[assignment]

__all__ = ["Zstd"]


class Zstd(Codec):
    """One frame with its content size; read are frames with and without it, several of them, and skippable ones."""

    name = "zstd"
    encoding_only = ("level", "checksum")
    also_read = {"zarr3": {"numcodecs.zstd": {}}}

    level: int = param(3, low=-131072, high=22, doc="0 means the library's default, 3")
    # tensorstore refuses N5 data that has the member.
    checksum: bool = param(False, sparse=("n5",))

    @classmethod
    def from_zarr3(cls, obj: Any) -> Self:
        # numcodecs lets the library bring any level down to its highest: there is data that says level 100.
        if isinstance(obj, Mapping) and obj.get("name") == "numcodecs.zstd":
            members = obj.get("configuration")
            level = members.get("level") if isinstance(members, Mapping) else None
            if isinstance(members, Mapping) and isinstance(level, int) and level > 22:
                obj = {**obj, "configuration": {**members, "level": 22}}
        return super().from_zarr3(obj)

    def __zv_codec__(self) -> Any:
        return _zstd and _zstd.codec_table(self.level, self.checksum)

    def _encode(self, data: memoryview) -> bytes:
        library = _library()
        if library.__name__ == "numcodecs.zstd":
            return bytes(library.compress(data, self.level, self.checksum))
        parameter = library.CompressionParameter
        options = {parameter.compression_level: self.level, parameter.checksum_flag: int(self.checksum)}
        stream = library.ZstdCompressor(options=options)
        return bytes(stream.compress(data, library.ZstdCompressor.FLUSH_FRAME))

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        parts: list[bytes] = []
        position = 0
        if not data:
            raise CorruptDataError("there is no frame")
        while position < len(data):
            room = max_size - sum(map(len, parts))
            size, content, most = _frame(data[position:])
            if content is not None and content > room:
                raise CorruptDataError("the stream holds more bytes than are allowed", expected=f"at most {max_size}")
            if content != 0:
                parts.append(_decompress(data[position : position + size], content, most, room))
            position += size
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _library() -> Any:
    for name in ("compression.zstd", "backports.zstd", "numcodecs.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise UnsupportedError("zvcore was built without libzstd: install numcodecs, or build it anew", codec="zstd")


def _frame(data: memoryview) -> tuple[int, int | None, int]:
    """(stored size, decoded size if declared, the most it can decode to) of the first frame, from its headers alone."""
    magic = int.from_bytes(data[:4], "little")
    if magic & 0xFFFFFFF0 == 0x184D2A50 and len(data) >= 8:
        size = 8 + int.from_bytes(data[4:8], "little")
        if size > len(data):
            raise CorruptDataError("a skippable frame is cut off", expected=size, found=len(data))
        return size, 0, 0
    if magic != 0xFD2FB528 or len(data) < 6:
        raise CorruptDataError("not a zstd frame")
    descriptor = data[4]
    single = descriptor >> 5 & 1
    position = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    content = int.from_bytes(data[position : position + width], "little") + (256 if width == 2 else 0)
    position += width
    most = 0
    last = False
    while not last:
        if position + 3 > len(data):
            raise CorruptDataError("the frame ends early")
        header = int.from_bytes(data[position : position + 3], "little")
        last = bool(header & 1)
        kind, size = header >> 1 & 3, header >> 3
        if kind == 3 or size > 1 << 17:
            raise CorruptDataError("a block has a wrong header")
        most += 1 << 17 if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
    position += 4 * (descriptor >> 2 & 1)
    if position > len(data):
        raise CorruptDataError("the frame ends early")
    return position, content if width else None, most


def _decompress(frame: memoryview, content: int | None, most: int, room: int) -> bytes:
    library = _library()
    if library.__name__ != "numcodecs.zstd":
        stream = library.ZstdDecompressor()
        return bytes(stream.decompress(frame, min(room, most) + 1))
    if content is None and most > max(room, _FREE):
        # numcodecs cannot be told where to stop.
        raise UnsupportedError("without libzstd, a frame of unknown size cannot be decoded safely", codec="zstd")
    return bytes(library.decompress(frame))


# What a frame that does not tell its size may at most decode to, to be tried through numcodecs.
_FREE = 64 << 20
