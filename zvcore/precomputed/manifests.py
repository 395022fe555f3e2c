"""Manifests of multi-resolution meshes: how a segment's mesh is cut into an octree of fragments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.precomputed._manifest import split_manifest

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Level", "Manifest"]


@dataclass(slots=True)
class Level:
    """One level of detail.

    scale           how much coarser it is than the finest; 0: a level to pass over
    vertex_offset   float32[3], added to its vertices
    positions       uint32[n, 3], where in the grid each fragment lies, in Z order
    sizes           uint32[n], the bytes of each; 0: an empty fragment
    """

    scale: float
    vertex_offset: npt.NDArray[np.float32]
    positions: npt.NDArray[np.uint32]
    sizes: npt.NDArray[np.uint32]


@dataclass(slots=True)
class Manifest:
    """How a segment's mesh is cut: the shape of the finest cells, where their grid begins, the levels, finest first."""

    chunk_shape: npt.NDArray[np.float32]
    grid_origin: npt.NDArray[np.float32]
    levels: list[Level]

    @property
    def fragment_bytes(self) -> int:
        """The size of all fragments, which lie one after the other, finest level first."""
        return sum(int(level.sizes.sum(dtype=np.uint64)) for level in self.levels)

    def ranges(self, level: int) -> list[tuple[int, int]]:
        """(offset, size) of each fragment of a level, counted from the first fragment of the finest."""
        if not 0 <= level < len(self.levels):
            raise IndexError(f"there are {len(self.levels)} levels; {level} is none of them")
        start = sum(int(other.sizes.sum(dtype=np.uint64)) for other in self.levels[:level])
        ends = start + np.cumsum(self.levels[level].sizes, dtype=np.uint64)
        return [(int(end) - int(size), int(size)) for end, size in zip(ends, self.levels[level].sizes, strict=True)]

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Manifest:
        """Decode a stored manifest; CorruptDataError when it is none."""
        return cls(*split_manifest(data, Level))

    def to_bytes(self) -> bytes:
        """The stored form."""
        parts: list[bytes] = [
            _row(self.chunk_shape, "chunk_shape"),
            _row(self.grid_origin, "grid_origin"),
            np.array([len(self.levels)], "<u4").tobytes(),
            np.array([level.scale for level in self.levels], "<f4").tobytes(),
            b"".join(_row(level.vertex_offset, "vertex_offset") for level in self.levels),
            np.array([len(level.sizes) for level in self.levels], "<u4").tobytes(),
        ]
        for level in self.levels:
            positions, sizes = np.asarray(level.positions), np.asarray(level.sizes)
            if positions.shape != (len(sizes), 3) or sizes.ndim != 1:
                raise ValueError(
                    f"positions have the shape [n, 3] and sizes [n], not {positions.shape} and {sizes.shape}"
                )
            parts.append(np.ascontiguousarray(positions.T, "<u4").tobytes())
            parts.append(sizes.astype("<u4").tobytes())
        return b"".join(parts)


def _row(values: Any, name: str) -> bytes:
    row = np.asarray(values, "<f4")
    if row.shape != (3,):
        raise ValueError(f"{name} has 3 numbers, not the shape {row.shape}")
    return row.tobytes()
