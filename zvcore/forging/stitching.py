"""Pieces of surfaces: where they end at the borders of their box, and how they are joined there.

Boxes share the layer of voxels at their border, so that surfaces of both sides end in it at the same places: halves of
voxels, which are whole numbers when counted so. By these they are recognized, whatever the box; elsewhere vertices are
where simplification has put them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.forging.spool import damaged
from zvcore.precomputed.surfaces import Surface, joined, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["SurfacePiece", "open_vertices", "stitched"]

_HEAD = struct.Struct("<III")


@dataclass
class SurfacePiece:
    """Triangles of one box.

    border  int32[b, 3]: the first b vertices, which neighbours may share, in halves of voxels from the box's first
    inner   float32[n, 3]: the other vertices, in nanometers from the centre of the box's first voxel
    faces   uint32[m, 3]
    """

    border: npt.NDArray[np.int32]
    inner: npt.NDArray[np.float32]
    faces: npt.NDArray[np.uint32]

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(len(self.border), len(self.inner), len(self.faces))
        return b"".join(
            [
                head,
                self.border.astype("<i4").tobytes(),
                self.inner.astype("<f4").tobytes(),
                self.faces.astype("<u4").tobytes(),
            ]
        )

    @classmethod
    def from_bytes(cls, data: Any) -> SurfacePiece:
        border, inner, faces = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, 0)
        at = _HEAD.size
        if len(data) != at + 12 * (border + inner + faces):
            raise damaged(data, at + 12 * (border + inner + faces))
        return cls(
            np.frombuffer(data, "<i4", 3 * border, at).reshape(-1, 3),
            np.frombuffer(data, "<f4", 3 * inner, at + 12 * border).reshape(-1, 3),
            np.frombuffer(data, "<u4", 3 * faces, at + 12 * (border + inner)).reshape(-1, 3),
        )


def open_vertices(faces: npt.NDArray[Any], count: int) -> npt.NDArray[np.intp]:
    """The vertices at which a surface ends: those of edges not passed as often in one direction as the other."""
    one = faces.astype(np.int64).reshape(-1)
    other = np.roll(faces, -1, 1).astype(np.int64).reshape(-1)
    key = np.minimum(one, other) * count + np.maximum(one, other)
    order = np.argsort(key)
    key, turn = key[order], np.where(one < other, 1, -1)[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    uneven = key[starts[np.add.reduceat(turn, starts) != 0]] if len(starts) else key[:0]
    return np.unique(np.concatenate([uneven // count, uneven % count]))


def stitched(
    pieces: Sequence[tuple[Sequence[int], SurfacePiece]], resolution: Sequence[float], corner: Sequence[float]
) -> Surface:
    """One surface of (first voxel of the box, piece), in nanometers."""
    size, begin = np.array(resolution), np.array(corner)
    surfaces, places, rows = [], [], []
    at = 0
    for first, piece in pieces:
        origin = np.array(first, np.int64)
        halves = 2 * origin + piece.border
        inner = piece.inner + (origin + 0.5) * size + begin
        border = (halves / 2 + 0.5) * size + begin
        surfaces.append(Surface(np.concatenate([border, inner]).astype(np.float32), piece.faces))
        places.append(halves)
        rows.append(np.arange(at, at + len(halves)))
        at += len(halves) + len(inner)
    return merged(joined(surfaces), np.concatenate(places), np.concatenate(rows))
