"""The hot loops: arrays in, arrays out, no I/O, no format."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# This one needs no numpy; the others are imported on first use, so that a look at the processor imports none.
from zvcore.kernels.crc32c import crc32c

if TYPE_CHECKING:
    from zvcore.kernels.delta import decode_minishard_index, encode_minishard_index
    from zvcore.kernels.hashing import murmurhash3_x86_128
    from zvcore.kernels.morton import compressed_morton, compressed_morton_inverse, compressed_morton_valid

_ORIGINS = {
    "compressed_morton": "morton",
    "compressed_morton_inverse": "morton",
    "compressed_morton_valid": "morton",
    "decode_minishard_index": "delta",
    "encode_minishard_index": "delta",
    "murmurhash3_x86_128": "hashing",
}

__all__ = [
    "compressed_morton",
    "compressed_morton_inverse",
    "compressed_morton_valid",
    "crc32c",
    "decode_minishard_index",
    "encode_minishard_index",
    "murmurhash3_x86_128",
]


def __getattr__(name: str) -> Any:
    origin = _ORIGINS.get(name)
    if origin is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"zvcore.kernels.{origin}"), name)
    globals()[name] = value
    return value
