"""gzip and zlib streams, by libdeflate if it was there at build time, else by the standard library."""

from __future__ import annotations

import zlib
from typing import Any

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError

try:
    from zvcore_plugins import _gzip
except ImportError:
    _gzip = None  # type: ignore[assignment]

__all__ = ["Gzip"]


class Gzip(Codec):
    """DEFLATE in gzip members (RFC 1952) or, as N5's `useZlib` asks for, in a zlib stream (RFC 1950).

    Several gzip members one after the other are one stream, unless `single_member`, which Neuroglancer demands. With
    `sniff`, decoding takes either framing, whatever `use_zlib` says; z5 reads so. Bytes after the end are an error.
    """

    name = "gzip"
    spellings = {"neuroglancer": "gzip"}
    also_read = {"zarr3": {"numcodecs.gzip": {}, "numcodecs.zlib": {"use_zlib": True}}}

    level: int = param(6, low=-1, high=9, doc="-1 means 6")
    use_zlib: bool = param(False, n5="useZlib", zarr3=None)
    single_member: bool = param(False, n5=None, zarr3=None)
    sniff: bool = param(False, n5=None, zarr3=None)

    encoding_only = ("level", "single_member")

    def reads_as(self, data: memoryview, size: int) -> bool:
        # A member ends with the size of what it holds: more than one would hold less each.
        return not self.single_member or int.from_bytes(data[-4:], "little") == size & 0xFFFFFFFF

    @property
    def _level(self) -> int:
        return 6 if self.level < 0 else self.level

    def __zv_codec__(self) -> Any:
        return _gzip and _gzip.codec_table(self._level, self.use_zlib, self.single_member, self.sniff)

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        obj["configuration"]["level"] = self._level  # Zarr has no -1
        if self.use_zlib:
            obj["name"] = "numcodecs.zlib"  # Zarr's gzip has no such member
        return obj

    @classmethod
    def from_neuroglancer(cls, obj: str) -> Gzip:
        return cls._read("neuroglancer", obj, {}).replace(single_member=True)

    def _encode(self, data: memoryview) -> bytes:
        stream = zlib.compressobj(self._level, zlib.DEFLATED, _ZLIB if self.use_zlib else _GZIP)
        return stream.compress(data) + stream.flush()

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        framing = _ZLIB if self.use_zlib else _GZIP
        if self.sniff:
            framing = _GZIP if bytes(data[:2]) == b"\x1f\x8b" else _ZLIB
        parts: list[bytes] = []
        size = 0
        rest: memoryview | bytes = data
        while not parts or rest:
            if parts and (framing == _ZLIB or self.single_member or rest[:2] != b"\x1f\x8b"):
                raise CorruptDataError(f"{len(rest)} bytes after the end of the stream")
            stream = zlib.decompressobj(framing)
            try:
                # One byte more than allowed tells a stream that is too long; zlib takes 0 for "no limit".
                part = stream.decompress(rest, max_size - size + 1)
                if len(part) <= max_size - size and not stream.eof:
                    raise CorruptDataError("the stream ends early")
            except zlib.error as error:
                checksum = "incorrect data check" in str(error)
                raise CorruptDataError(f"{'checksum mismatch: ' if checksum else ''}{error}") from error
            parts.append(part)
            size += len(part)
            if size > max_size:
                break
            rest = stream.unused_data
        return parts[0] if len(parts) == 1 else b"".join(parts)


_GZIP = 31
_ZLIB = 15
