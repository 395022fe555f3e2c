"""gzip and zlib streams, by libdeflate if it was there at build time, else by the standard library."""

from __future__ import annotations

from typing import Any

from zvcore.codecs import param
from zvcore.codecs.rates import rate_at
from zvcore_plugins._library import LibraryCodec, native_part

_gzip = native_part("_gzip")

__all__ = ["Gzip"]

# Up to which level, and how many million bytes of images with some noise one thread encodes in a second. Labels are
# faster; of what is nothing but noise, up to level 7 several times as much.
_RATES = ((6, 75), (7, 45), (9, 15))


class Gzip(LibraryCodec):
    """DEFLATE in gzip members (RFC 1952) or, as N5's `useZlib` asks for, in a zlib stream (RFC 1950).

    Several gzip members one after the other are one stream, unless `single_member`, which Neuroglancer requires. With
    `sniff`, decoding takes either framing, whatever `use_zlib` says, as z5 does. Bytes after the end are an error.
    """

    name = "gzip"
    spellings = {"neuroglancer": "gzip"}
    also_read = {
        # Documents of numcodecs that give no level mean 1.
        "zarr2": {"gzip": {"level": 1}, "zlib": {"level": 1, "use_zlib": True}},
        "zarr3": {"numcodecs.gzip": {}, "numcodecs.zlib": {"use_zlib": True}},
    }

    level: int = param(6, low=-1, high=9, doc="-1 means 6")
    use_zlib: bool = param(False, n5="useZlib", zarr2=None, zarr3=None)
    single_member: bool = param(False, n5=None, zarr2=None, zarr3=None)
    sniff: bool = param(False, n5=None, zarr2=None, zarr3=None)

    encoding_only = ("level", "single_member")

    def reads_as(self, data: memoryview, size: int) -> bool:
        # A member ends with the size of its content. The last of several holds less; a cut stream ends with anything.
        said, most = int.from_bytes(data[-4:], "little"), 0xFFFFFFFF
        return self.use_zlib or said == size & most or (not self.single_member and said < size <= most)

    @property
    def effective_level(self) -> int:
        return 6 if self.level < 0 else self.level

    @property
    def encoding_rate(self) -> float | None:
        return rate_at(self.effective_level, _RATES)

    def __zv_codec__(self) -> Any:
        return _gzip and _gzip.codec_table(self.effective_level, self.use_zlib, self.single_member, self.sniff)

    def to_zarr2(self) -> dict[str, Any]:
        return {**super().to_zarr2(), "id": "zlib" if self.use_zlib else "gzip", "level": self.effective_level}

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        obj["configuration"]["level"] = self.effective_level  # Zarr has no -1
        if self.use_zlib:
            obj["name"] = "numcodecs.zlib"  # Zarr's gzip has no such member
        return obj

    @classmethod
    def from_neuroglancer(cls, obj: str) -> Gzip:
        return cls._read("neuroglancer", obj, {}).replace(single_member=True)
