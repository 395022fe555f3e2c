"""xz streams, by liblzma if it was there at build time, else by the standard library."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError, UnsupportedError

try:
    from zvcore_plugins import _xz
except ImportError:
    _xz = None  # type: ignore[assignment]

__all__ = ["Xz"]

# The working memory that a stream may ask for. The largest preset's streams ask for 65 MiB.
MEMORY_LIMIT = 256 << 20
# liblzma's numbers, for what its format documents name by them.
EXTREME = 1 << 31
FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW = 1, 2, 3
CRC64 = 4


class Xz(Codec):
    """The .xz container with LZMA2 and a CRC-64.

    One stream is written; several that follow each other, with or without padding, are read as one. In Zarr it goes by
    numcodecs' name for it, `numcodecs.lzma`, which zarr-python knows. What that codec, or zarr 2's `lzma` in N5, can
    have besides is `Lzma`'s.
    """

    name = "xz"
    encoding_only = ("preset", "extreme")
    spellings = {"zarr3": "numcodecs.lzma"}
    also_read = {"n5": {"lzma": {}}, "zarr3": {"xz": {}}}

    preset: int = param(6, low=0, high=9)
    extreme: bool = param(False, sparse=("n5", "zarr3"), doc="much more time for a little less space")

    def __zv_codec__(self) -> Any:
        return _xz and _xz.codec_table(self.preset, self.extreme, MEMORY_LIMIT)

    def _encode(self, data: memoryview) -> bytes:
        preset = self.preset | (EXTREME if self.extreme else 0)
        return bytes(_standard().compress(data, check=CRC64, preset=preset))

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        return _decompress(data, max_size, {"format": FORMAT_XZ, "memlimit": MEMORY_LIMIT})

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        if obj["name"] == "numcodecs.lzma":
            members = obj["configuration"]
            preset = members.pop("preset") | (EXTREME if members.pop("extreme", False) else 0)
            obj["configuration"] = {"format": FORMAT_XZ, "check": -1, "preset": preset, "filters": None, **members}
        return obj

    @classmethod
    def from_zarr3(cls, obj: Mapping[str, Any] | str) -> Codec:  # type: ignore[override]  # or Lzma
        if isinstance(obj, Mapping) and obj.get("name") == "numcodecs.lzma":
            members = obj.get("configuration", {})
            if not isinstance(members, Mapping) or not _plain(members):
                return Lzma.from_zarr3(obj)
            members = {key: value for key, value in members.items() if key not in ("format", "check", "filters")}
            preset = members.pop("preset", None)
            preset = 6 if preset is None else preset
            obj = {**obj, "configuration": {"preset": preset & ~EXTREME, "extreme": bool(preset & EXTREME), **members}}
        return super().from_zarr3(obj)

    @classmethod
    def from_n5(cls, obj: Mapping[str, Any]) -> Codec:  # type: ignore[override]  # or Lzma
        if isinstance(obj, Mapping) and obj.get("type") == "lzma":
            return Lzma.from_n5(obj)
        return super().from_n5(obj)


def _plain(members: Mapping[str, Any]) -> bool:
    """Whether numcodecs' members say what `Xz` writes."""
    preset = members.get("preset")
    return (
        members.get("format", 1) == FORMAT_XZ
        and members.get("check", -1) in (-1, CRC64)
        and members.get("filters") is None
        and (preset is None or (type(preset) is int and preset & ~EXTREME in range(10)))
    )


class Lzma(Codec):
    """numcodecs' codec of that name with all it can have, as zarr 2 wrote it into N5 too; by the standard library."""

    name = "lzma"
    spellings = {"zarr3": "numcodecs.lzma"}

    format: int = param(FORMAT_XZ, choices=(FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW))
    check: int = param(-1, low=-1, high=15)
    preset: int | None = param(None, type=int)
    filters: list[dict[str, int]] | None = param(None, type=list)

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        # Filters are lists of dictionaries, which cannot be hashed.
        return (type(self), json.dumps([self.config(), self._kept], sort_keys=True, default=repr))

    def _encode(self, data: memoryview) -> bytes:
        lzma = _standard()
        options = {"format": self.format, "check": self.check, "preset": self.preset, "filters": self.filters}
        try:
            return bytes(lzma.compress(data, **options))
        except (lzma.LZMAError, TypeError, ValueError) as error:
            raise UnsupportedError(f"liblzma refuses the parameters: {error}") from error

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        if self.format != FORMAT_RAW:
            return _decompress(data, max_size, {"format": self.format, "memlimit": MEMORY_LIMIT})
        for one in self.filters or ():
            size = one.get("dict_size", 0) if isinstance(one, dict) else 0
            if not isinstance(size, int) or size > MEMORY_LIMIT:
                raise UnsupportedError(
                    "the filters want too much memory", expected=f"at most {MEMORY_LIMIT}", found=size
                )
        return _decompress(data, max_size, {"format": self.format, "filters": self.filters})


def _decompress(data: memoryview, max_size: int, options: dict[str, Any]) -> bytes:
    lzma = _standard()
    parts: list[bytes] = []
    size = 0
    rest: memoryview | bytes = data
    while size <= max_size and (rest or not parts):
        if parts and options["format"] != FORMAT_XZ:
            raise CorruptDataError(f"{len(rest)} bytes after the end of the stream")
        try:
            stream = lzma.LZMADecompressor(**options)
            # One byte more than allowed tells a stream that is too long.
            part = stream.decompress(rest, max_size - size + 1)
        except (lzma.LZMAError, TypeError, ValueError) as error:
            kind = UnsupportedError if "emory" in str(error) or "nsupported" in str(error) else CorruptDataError
            raise kind(f"not a valid stream: {error}") from error
        parts.append(part)
        size += len(part)
        if size <= max_size and not stream.eof:
            raise CorruptDataError("the stream ends early")
        rest = stream.unused_data
        if parts and options["format"] == FORMAT_XZ:
            # Padding: zeros by the four.
            stripped = bytes(rest).lstrip(b"\0")
            if (len(rest) - len(stripped)) % 4:
                raise CorruptDataError("the padding behind the stream is not a multiple of four bytes")
            rest = stripped
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _standard() -> Any:
    """Python's own module, which some Pythons were built without: the native part must not need it."""
    try:
        return importlib.import_module("lzma")
    except ImportError as error:
        raise UnsupportedError("neither zvcore nor this Python was built with liblzma", codec="xz") from error
