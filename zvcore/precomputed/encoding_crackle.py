"""Labels as crackle packs them: the encoding `crackle`."""

from __future__ import annotations

import struct
from typing import Any

import crackle

from zvcore.precomputed.guarded_encoding import GuardedChunk, GuardedLabels

__all__ = ["Crackle", "CrackleChunk"]


class CrackleChunk(GuardedChunk):
    name = "crackle"
    # The mark, a version, flags of which two say how wide labels are, three sizes.
    header = struct.Struct("<4sBHIII")

    def facts(self, members: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        mark, _, flags, *sizes = members
        return (b"crkl", self._type.itemsize, *self.shape[:3]), (mark, 1 << (flags & 3), *sizes)

    def _encode(self, data: memoryview) -> bytes:
        return bytes(crackle.compress(self._voxels(data)[..., 0], parallel=1))


class Crackle(GuardedLabels):
    name = "crackle"
    chunk = CrackleChunk
