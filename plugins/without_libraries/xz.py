"""xz streams through the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore_plugins._liblzma import CRC64, EXTREME, FORMAT_XZ, MEMORY_LIMIT
from zvcore_plugins.lzma import decompress
from zvcore_plugins.without_libraries import need

if TYPE_CHECKING:
    from zvcore_plugins.xz import Xz


def encode(codec: Xz, data: memoryview) -> bytes:
    preset = codec.preset | (EXTREME if codec.extreme else 0)
    return bytes(need("lzma", "liblzma").compress(data, check=CRC64, preset=preset))


def decode(codec: Xz, data: memoryview, max_size: int) -> bytes:
    return decompress(data, max_size, {"format": FORMAT_XZ, "memlimit": MEMORY_LIMIT})
