"""CRC-32C after the data: no compression, but proof that the bytes are as written (Zarr v3's `crc32c`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zvcore.codecs import Codec
from zvcore_plugins import _crc32c

__all__ = ["Crc32c"]


class Crc32c(Codec):
    """Four more bytes, little-endian; reading checks them."""

    name = "crc32c"
    is_checksum = True
    spellings = {"n5": None, "neuroglancer": None}

    def __zv_codec__(self) -> Any:
        return _crc32c.codec_table()

    @classmethod
    def from_zarr2(cls, obj: Any) -> Codec:
        if isinstance(obj, Mapping) and obj.get("location", "end") != "end":
            from zvcore.codecs.numcodecs import PREFIX, adapter

            return adapter(PREFIX + cls.name).from_zarr2(obj)
        return super().from_zarr2(obj)

    def encoded_size(self, size: int) -> int | None:
        return size + 4
