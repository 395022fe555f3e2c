"""Manifests of multi-resolution meshes: how a segment's mesh is cut into an octree of fragments."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Level", "Manifest"]


@dataclass
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


@dataclass
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
        if len(data) < 28:
            raise CorruptDataError("the manifest is cut off", expected="at least 28 bytes", found=len(data))
        (count,) = struct.unpack_from("<I", data, 24)
        if len(data) < 28 + 20 * count:
            raise CorruptDataError(
                f"a manifest of {count} levels is cut off",
                expected=f"at least {28 + 20 * count} bytes",
                found=len(data),
            )
        scales = struct.unpack_from(f"<{count}f", data, 28)
        fragments = struct.unpack_from(f"<{count}I", data, 28 + 16 * count)
        size = 28 + 20 * count + 16 * sum(fragments)
        if len(data) != size:
            text = f"a manifest of {count} levels with {sum(fragments)} fragments has another size"
            raise CorruptDataError(text, expected=f"{size} bytes", found=len(data))
        # One copy, of which all arrays are parts.
        words = np.frombuffer(data, "<u4").astype(np.uint32)
        floats = words.view(np.float32)
        at = 7 + 5 * count
        levels = []
        for level, number in enumerate(fragments):
            first = 7 + count + 3 * level
            middle, end = at + 3 * number, at + 4 * number
            positions = words[at:middle].reshape(3, number).T
            levels.append(Level(scales[level], floats[first : first + 3], positions, words[middle:end]))
            at = end
        return cls(floats[:3], floats[3:6], levels)

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
