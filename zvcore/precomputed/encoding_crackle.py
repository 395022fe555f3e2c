"""Labels as crackle packs them: the encoding `crackle`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import crackle

from zvcore.precomputed.encodings import ChunkEncoding, wrong_data
from zvcore.precomputed.guarded import GuardedChunk, another_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["Crackle", "CrackleChunk"]

# The mark, a version, flags of which two say how wide labels are, three sizes.
_HEADER = struct.Struct("<4sBHIII")


class CrackleChunk(GuardedChunk):
    name = "crackle"

    def check_header(self, data: memoryview) -> None:
        if len(data) < _HEADER.size:
            raise another_chunk(f"at least {_HEADER.size} bytes", len(data))
        mark, _, flags, *sizes = _HEADER.unpack_from(data)
        expected, found = (b"crkl", self._type.itemsize, *self.shape[:3]), (mark, 1 << (flags & 3), *sizes)
        if found != expected:
            raise another_chunk(expected, found)

    def _encode(self, data: memoryview) -> bytes:
        return bytes(crackle.compress(self._voxels(data)[..., 0], parallel=1))


class Crackle(ChunkEncoding):
    name = "crackle"

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        # Floats would be encoded as if they were integers, and come back wrong.
        if dtype.kind != "u":
            raise wrong_data(self.name, "data type", "uint8 to uint64", dtype)
        if channels != 1:
            raise wrong_data(self.name, "number of channels", 1, channels)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        return (CrackleChunk(shape=shape, dtype=dtype.name),)
