"""Voxels as they are: x fastest, channels slowest, little-endian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.precomputed.encodings import ChunkEncoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["Raw"]


class Raw(ChunkEncoding):
    name = "raw"

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        return ()
