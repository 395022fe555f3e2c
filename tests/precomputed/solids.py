"""Closed surfaces to make meshes of, and what is asked of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from zvcore.precomputed.surface_files import encode_surface
from zvcore.precomputed.surfaces import Surface


def sphere(rings: int, radius: float = 100.0, centre: Any = (500, 600, 700)) -> tuple[np.ndarray, np.ndarray]:
    """(vertices, faces) of a closed sphere whose faces look outwards."""
    around = 2 * rings
    polar, turn = np.meshgrid(np.pi * np.arange(1, rings) / rings, np.pi * np.arange(around) / rings, indexing="ij")
    ring = np.stack([np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar)], -1).reshape(-1, 3)
    vertices = np.concatenate([[[0, 0, 1]], ring, [[0, 0, -1]]]) * radius + centre
    at = 1 + np.arange((rings - 1) * around).reshape(rings - 1, around)
    beside = np.roll(at, -1, 1)
    top = np.stack([np.zeros(around, int), at[0], beside[0]], 1)
    bottom = np.stack([np.full(around, len(vertices) - 1), beside[-1], at[-1]], 1)
    one = np.stack([at[:-1], at[1:], beside[1:]], -1).reshape(-1, 3)
    other = np.stack([at[:-1], beside[1:], beside[:-1]], -1).reshape(-1, 3)
    return vertices.astype("f4"), np.concatenate([top, bottom, one, other]).astype("u4")


def closed(faces: np.ndarray) -> bool:
    """Whether each edge is passed as often in one direction as in the other."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).astype(np.int64)
    there, back = edges[:, 0] * 2**32 + edges[:, 1], edges[:, 1] * 2**32 + edges[:, 0]
    return len(faces) > 0 and np.array_equal(np.sort(there), np.sort(back))


def volume(vertices: np.ndarray, faces: np.ndarray) -> float:
    corners = (vertices.astype(float) - vertices.astype(float).mean(0))[faces]
    return float(np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6)


def area(corners: np.ndarray) -> float:
    wide = corners.astype(float)
    return float(np.linalg.norm(np.cross(wide[:, 1] - wide[:, 0], wide[:, 2] - wide[:, 0]), axis=1).sum() / 2)


def encoded(suffix: str) -> bytes:
    """A small sphere as a file."""
    return encode_surface(Surface(*sphere(3)), suffix)
