"""Zstandard frames, by libzstd if it was there at build time, else by the package zstandard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zvcore.codecs import Codec, param
from zvcore.codecs.rates import rate_at
from zvcore_plugins._library import LibraryCodec, native_part

_zstd = native_part("_zstd")

__all__ = ["Zstd"]

# Up to which level, and how many million bytes one thread encodes in a second: of noisy images of 16 bits, and from
# level 19 on of labels, which are slower then.
_RATES = ((4, 150), (9, 45), (12, 25), (15, 9), (18, 5), (22, 2.4))


class Zstd(LibraryCodec):
    """Writes one frame with its content size; reads frames with and without it, several of them, and skippable ones."""

    name = "zstd"
    encoding_only = ("level", "checksum")
    also_read = {"zarr3": {"numcodecs.zstd": {}}}

    level: int = param(3, low=-131072, high=22, doc="0 means the library's default, 3")
    # tensorstore refuses N5 data that has the member.
    checksum: bool = param(False, sparse=("n5", "zarr2"))

    @classmethod
    def from_zarr2(cls, obj: Any) -> Codec:
        return super().from_zarr2(_bounded(obj) if isinstance(obj, Mapping) else obj)

    @classmethod
    def from_zarr3(cls, obj: Any) -> Codec:
        if isinstance(obj, Mapping) and obj.get("name") == "numcodecs.zstd":
            members = obj.get("configuration")
            if isinstance(members, Mapping):
                obj = {**obj, "configuration": _bounded(members)}
        return super().from_zarr3(obj)

    def reads_as(self, data: memoryview, size: int) -> bool:
        """One frame to its end, by the headers of its blocks, which holds what it says, if it says."""
        return bool((_zstd or self._fallback()).is_one_frame(data, size))

    @property
    def encoding_rate(self) -> float | None:
        return rate_at(self.level, _RATES)

    def __zv_codec__(self) -> Any:
        return _zstd and _zstd.codec_table(self.level, self.checksum)


def _bounded(members: Mapping[str, Any]) -> Mapping[str, Any]:
    """numcodecs lets the library lower any level to its highest: there is data that says level 100."""
    level = members.get("level")
    return {**members, "level": 22} if isinstance(level, int) and level > 22 else members
