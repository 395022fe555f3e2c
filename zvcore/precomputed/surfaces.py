"""Surfaces: triangles in space, as they are read from meshes and as meshes are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["Surface", "as_surface", "joined", "merged", "surface_of", "transformed"]


@dataclass
class Surface:
    """Triangles: `vertices` are float32[n, 3] in nanometers, `faces` uint32[m, 3], the corners of each triangle."""

    vertices: npt.NDArray[np.float32]
    faces: npt.NDArray[np.uint32]

    @property
    def lods(self) -> int:
        """How many levels of detail there are."""
        return 1


def as_surface(vertices: Any, faces: Any) -> Surface:
    """What a caller gave as a surface, checked: finite vertices, and faces whose corners are there."""
    points, corners = np.asarray(vertices), np.asarray(faces)
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "fiu":
        raise ValueError(f"vertices are numbers of the shape [n, 3], not {points.dtype} of {points.shape}")
    if corners.size == 0:
        corners = np.zeros((0, 3), np.uint32)
    if corners.ndim != 2 or corners.shape[1] != 3 or corners.dtype.kind not in "iu":
        raise ValueError(f"faces are integers of the shape [m, 3], not {corners.dtype} of {corners.shape}")
    if corners.size and not (int(corners.min()) >= 0 and int(corners.max()) < len(points)):
        raise ValueError(f"faces have corners {corners.min()} to {corners.max()}; there are {len(points)} vertices")
    with np.errstate(over="ignore"):
        points = points.astype(np.float32)
    if not np.isfinite(points).all():
        raise ValueError("a vertex is not finite as float32")
    return Surface(points, corners.astype(np.uint32))


def surface_of(given: Any) -> Surface:
    """What a caller gave as a mesh: vertices and faces, or something that has both."""
    if hasattr(given, "vertices") and hasattr(given, "faces"):
        return as_surface(given.vertices, given.faces)
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return as_surface(*given)
    raise TypeError(f"a mesh is vertices and faces, or something that has both, not {type(given).__name__}")


def joined(pieces: Sequence[Surface]) -> Surface:
    """All pieces as one surface; equal vertices stay apart."""
    if len(pieces) == 1:
        return pieces[0]
    starts = np.cumsum([0, *(len(piece.vertices) for piece in pieces)])
    faces = [piece.faces + np.uint32(start) for piece, start in zip(pieces, starts, strict=False)]
    return Surface(
        np.concatenate([np.zeros((0, 3), np.float32), *(piece.vertices for piece in pieces)]),
        np.concatenate([np.zeros((0, 3), np.uint32), *faces]),
    )


def merged(
    surface: Surface, places: npt.NDArray[Any] | None = None, rows: npt.NDArray[np.intp] | None = None
) -> Surface:
    """The same with vertices at equal `places` (by default, equal vertices) made one, in the order of their first.

    With `rows`, only these vertices can be equal to others, and `places` are theirs alone.
    """
    count = len(surface.vertices)
    chosen = np.arange(count) if rows is None else rows
    columns = surface.vertices if places is None else places
    if len(chosen) < 2:
        return surface
    order = np.lexsort(columns.T)
    sorted_ = columns[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (sorted_[1:] != sorted_[:-1]).any(1)
    if first.all():
        return surface
    # lexsort is stable, so the first of equals has the lowest number.
    target = np.arange(count)
    target[chosen[order]] = chosen[order[np.flatnonzero(first)]][np.cumsum(first) - 1]
    kept = target == np.arange(count)
    number = np.cumsum(kept) - 1
    return Surface(surface.vertices[kept], number[target].astype(np.uint32)[surface.faces])


def transformed(vertices: npt.NDArray[Any], transform: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Vertices in nanometers: three rows of four, applied in float64."""
    if np.array_equal(transform, np.eye(3, 4)):
        return vertices.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return (vertices.astype(np.float64) @ transform[:, :3].T + transform[:, 3]).astype(np.float32)
