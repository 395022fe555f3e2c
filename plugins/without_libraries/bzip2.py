"""bzip2 streams through the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore_plugins.without_libraries import decode_streams, need

if TYPE_CHECKING:
    from zvcore_plugins.bzip2 import Bzip2


def encode(codec: Bzip2, data: memoryview) -> bytes:
    return bytes(need("bz2", "libbz2").compress(data, codec.block_size))


def decode(codec: Bzip2, data: memoryview, max_size: int) -> bytes:
    return decode_streams(need("bz2", "libbz2").BZ2Decompressor, data, max_size, (OSError,))
