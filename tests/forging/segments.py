"""Segmentations to make meshes and skeletons of, and what is asked of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

RESOLUTION = (4, 8, 40)
OFFSET = (100, 200, 300)


def ball(shape: tuple[int, ...], centre: tuple[float, ...], radius: float) -> np.ndarray:
    """Where the voxels of a ball are."""
    places = np.indices(shape)
    return sum((place - at) ** 2 for place, at in zip(places, centre, strict=True)) < radius**2


def balls(dtype: Any = "uint64") -> np.ndarray:
    """Three balls: around the place where boxes of (16, 15, 14) have corners, across a border, cut by the volume's."""
    shape = (40, 36, 32)
    labels = np.zeros(shape, dtype)
    labels[ball(shape, (16, 15, 14), 9.5)] = 7
    labels[ball(shape, (32, 27, 25), 6.0)] = np.iinfo(dtype).max
    labels[ball(shape, (0, 35, 31), 7.0)] = 3
    return labels


BOX = (16, 15, 14)


def volume(path: Path, labels: np.ndarray, **options: Any) -> Path:
    given = {"resolution": RESOLUTION, "voxel_offset": OFFSET, "chunks": (16, 16, 16), **options}
    array = zvcore.create(
        path, format="precomputed", shape=labels.shape, dtype=labels.dtype, type="segmentation", **given
    )
    array[..., 0] = labels
    return path


def edges_with_two_faces(faces: np.ndarray) -> bool:
    """Whether every edge has exactly two faces, which pass it in opposite directions."""
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).astype(np.int64)
    there, back = pairs[:, 0] << 32 | pairs[:, 1], pairs[:, 1] << 32 | pairs[:, 0]
    return len(faces) > 0 and len(np.unique(there)) == len(there) and np.array_equal(np.sort(there), np.sort(back))


def triangles(mesh: Any) -> np.ndarray:
    """The triangles of a mesh by their places, in an order that says nothing of how they were made."""
    corners = np.asarray(mesh.vertices)[np.asarray(mesh.faces).astype(np.int64)]
    first = np.array([min(range(3), key=lambda i: tuple(one[i])) for one in corners.tolist()])
    turned = corners[np.arange(len(corners))[:, None], (first[:, None] + np.arange(3)) % 3].reshape(-1, 9)
    return turned[np.lexsort(turned.T)]
