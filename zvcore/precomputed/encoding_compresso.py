"""Labels as compresso packs them, slice by slice: the encoding `compresso`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import compresso  # noqa: F401 - not here to be encoded with, but so that a missing library is told at once

from zvcore.precomputed.encodings import wrong_data
from zvcore.precomputed.guarded import encode_guarded
from zvcore.precomputed.guarded_encoding import GuardedChunk, GuardedLabels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["Compresso", "CompressoChunk"]


class CompressoChunk(GuardedChunk):
    name = "compresso"
    # The mark, a version, the bytes of a label, three sizes.
    header = struct.Struct("<4sBBHHH")

    def facts(self, members: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        mark, _, width, *sizes = members
        return (b"cpso", self._type.itemsize, *self.shape[:3]), (mark, width, *sizes)

    def _encode(self, data: memoryview) -> bytes:
        return encode_guarded(self.name, self._voxels(data), {})


class Compresso(GuardedLabels):
    name = "compresso"
    chunk = CompressoChunk

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        if max(shape) > 65535:
            raise wrong_data(self.name, "shape of a chunk", "at most 65535 along each axis", shape)
        return super().codecs(shape, dtype)
