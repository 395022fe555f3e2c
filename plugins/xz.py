"""xz streams, by liblzma if it was there at build time, else by the standard library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zvcore.codecs import param
from zvcore_plugins._liblzma import CRC64, EXTREME, FORMAT_XZ, MEMORY_LIMIT
from zvcore_plugins._library import LibraryCodec, native_part

if TYPE_CHECKING:
    from zvcore.codecs import Codec

_xz = native_part("_xz")

__all__ = ["Xz"]


class Xz(LibraryCodec):
    """The .xz container with LZMA2 and a CRC-64.

    One stream is written; several that follow each other, with or without padding, are read as one. In Zarr it goes by
    numcodecs' name, `numcodecs.lzma`, which zarr-python knows. Other streams of that codec, or of zarr 2's `lzma` in
    N5, belong to `Lzma`.
    """

    name = "xz"
    encoding_only = ("preset", "extreme")
    spellings = {"zarr2": "lzma", "zarr3": "numcodecs.lzma"}
    also_read = {"n5": {"lzma": {}}, "zarr3": {"xz": {}}}

    preset: int = param(6, low=0, high=9)
    extreme: bool = param(False, sparse=("n5", "zarr2", "zarr3"), doc="much more time for a little less space")

    encoding_rate = 2e6

    def __zv_codec__(self) -> Any:
        return _xz and _xz.codec_table(self.preset, self.extreme, MEMORY_LIMIT)

    def to_zarr2(self) -> dict[str, Any]:
        members = super().to_zarr2()
        return {"id": members.pop("id"), **_as_numcodecs(members)}

    @classmethod
    def from_zarr2(cls, obj: Any) -> Codec:
        if not isinstance(obj, Mapping):
            return super().from_zarr2(obj)
        if not _plain(obj):
            return _lzma().from_zarr2(obj)
        return super().from_zarr2(_from_numcodecs(obj))

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        if obj["name"] == "numcodecs.lzma":
            obj["configuration"] = _as_numcodecs(obj["configuration"])
        return obj

    @classmethod
    def from_zarr3(cls, obj: Mapping[str, Any] | str) -> Codec:
        if isinstance(obj, Mapping) and obj.get("name") == "numcodecs.lzma":
            members = obj.get("configuration", {})
            if not isinstance(members, Mapping) or not _plain(members):
                return _lzma().from_zarr3(obj)
            obj = {**obj, "configuration": _from_numcodecs(members)}
        return super().from_zarr3(obj)

    @classmethod
    def from_n5(cls, obj: Mapping[str, Any]) -> Codec:
        if isinstance(obj, Mapping) and obj.get("type") == "lzma":
            return _lzma().from_n5(obj)
        return super().from_n5(obj)


def _lzma() -> type[Codec]:
    from zvcore_plugins.lzma import Lzma

    return Lzma


def _as_numcodecs(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members of numcodecs' `lzma` that say the same."""
    rest = {key: value for key, value in members.items() if key not in ("preset", "extreme")}
    preset = members["preset"] | (EXTREME if members.get("extreme", False) else 0)
    return {"format": FORMAT_XZ, "check": -1, "preset": preset, "filters": None, **rest}


def _from_numcodecs(members: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in members.items() if key not in ("format", "check", "filters", "preset")}
    preset = members.get("preset")
    preset = 6 if preset is None else preset
    return {"preset": preset & ~EXTREME, "extreme": bool(preset & EXTREME), **rest}


def _plain(members: Mapping[str, Any]) -> bool:
    """Whether numcodecs' members say what `Xz` writes."""
    preset = members.get("preset")
    return (
        members.get("format", 1) == FORMAT_XZ
        and members.get("check", -1) in (-1, CRC64)
        and members.get("filters") is None
        and (preset is None or (type(preset) is int and preset & ~EXTREME in range(10)))
    )
