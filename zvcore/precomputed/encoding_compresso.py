"""Labels as compresso packs them, slice by slice: the encoding `compresso`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import compresso

from zvcore.precomputed.encodings import ChunkEncoding, wrong_data
from zvcore.precomputed.guarded import GuardedChunk, another_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["Compresso", "CompressoChunk"]

# The mark, a version, the bytes of a label, three sizes.
_HEADER = struct.Struct("<4sBBHHH")


class CompressoChunk(GuardedChunk):
    name = "compresso"

    def check_header(self, data: memoryview) -> None:
        if len(data) < _HEADER.size:
            raise another_chunk(f"at least {_HEADER.size} bytes", len(data))
        mark, _, width, *sizes = _HEADER.unpack_from(data)
        expected, found = (b"cpso", self._type.itemsize, *self.shape[:3]), (mark, width, *sizes)
        if found != expected:
            raise another_chunk(expected, found)

    def _encode(self, data: memoryview) -> bytes:
        return bytes(compresso.compress(self._voxels(data)[..., 0]))


class Compresso(ChunkEncoding):
    name = "compresso"

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if dtype.kind != "u":
            raise wrong_data(self.name, "data type", "uint8 to uint64", dtype)
        if channels != 1:
            raise wrong_data(self.name, "number of channels", 1, channels)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        if max(shape) > 65535:
            raise wrong_data(self.name, "shape of a chunk", "at most 65535 along each axis", shape)
        return (CompressoChunk(shape=shape, dtype=dtype.name),)
