"""The data of all benchmarks: made from a seed, and as hard to compress as real data.

em           uint8   electron microscopy: grey texture, dark membranes, grainy noise
labels32     uint32  a dense segmentation: cells of some thousand voxels, numbered one after the other
labels64     uint64  the same with the 60-bit ids of a proofreading system, and zeros along the membranes
microscopy   uint16  light-sheet fluorescence: a camera's offset and noise, a haze, bright blobs with shot noise

Arrays are (z, y, x) in C order, read-only, and equal for equal (kind, shape, seed) with one version of numpy. With
zlib at level 6 they shrink to about 88 %, 3 %, 2 % and 53 %.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["CHUNK", "KINDS", "volume"]

KINDS = ("em", "labels32", "labels64", "microscopy")
CHUNK = (64, 64, 64)
# A cell of the segmentation is about this large, in voxels along each axis.
CELL = 20


@lru_cache(maxsize=16)
def volume(kind: str, shape: tuple[int, int, int] = CHUNK, seed: int = 0) -> npt.NDArray[Any]:
    """An array of one of `KINDS`."""
    rng = np.random.default_rng([seed, KINDS.index(kind), *shape])
    values: npt.NDArray[Any]
    if kind == "em":
        values = electron_microscopy(shape, rng)
    elif kind == "microscopy":
        values = light_sheet(shape, rng)
    else:
        values = segmentation(shape, rng, kind)
    values.setflags(write=False)
    return values


def smooth_noise(shape: tuple[int, int, int], scale: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Normal noise blurred by a Gaussian of this many voxels, with mean 0 and deviation 1."""
    spectrum = np.fft.rfftn(rng.standard_normal(shape, np.float32))
    frequencies = [np.fft.fftfreq(n) for n in shape[:2]] + [np.fft.rfftfreq(shape[2])]
    for axis, frequency in enumerate(frequencies):
        gain = np.exp(-2 * (np.pi * scale * frequency) ** 2)
        spectrum *= gain.reshape([-1 if i == axis else 1 for i in range(3)])
    field = np.fft.irfftn(spectrum, shape, axes=(0, 1, 2))
    return ((field - field.mean()) / (field.std() or 1)).astype(np.float32)


def nearest_cells(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """(cell of each voxel, distance to the wall to the next): Voronoi cells of the points of a jittered grid."""
    counts = [n // CELL + 3 for n in shape]
    corners = np.stack([*np.indices(counts)], -1)
    points = rng.random((*counts, 3), np.float32) + corners.astype(np.float32) - 1
    numbers = np.arange(np.prod(counts), dtype=np.int32).reshape(counts)
    cell = np.empty(shape, np.int32)
    wall = np.empty(shape, np.float32)
    warp = [smooth_noise(shape, 6, rng) * np.float32(0.12) for _ in range(3)]
    for z in range(shape[0]):
        place = [(i / CELL).astype(np.float32) for i in np.meshgrid([z], *map(np.arange, shape[1:]), indexing="ij")]
        at = [(place[axis][0] + warp[axis][z]).astype(np.float32) for axis in range(3)]
        box = [np.clip(np.floor(at[axis]).astype(np.int32) + 1, 1, counts[axis] - 2) for axis in range(3)]
        first = np.full(shape[1:], np.inf, np.float32)
        second = first.copy()
        for step in np.ndindex(3, 3, 3):
            there = tuple(box[axis] + step[axis] - 1 for axis in range(3))
            point = points[there]
            far = sum((point[..., axis] - at[axis]) ** 2 for axis in range(3))
            nearer = far < first
            second = np.where(nearer, first, np.minimum(second, far))
            cell[z][nearer] = numbers[there][nearer]
            first = np.where(nearer, far, first)
        wall[z] = (np.sqrt(second) - np.sqrt(first)) * CELL / 2
    return cell, wall


def segmentation(shape: tuple[int, int, int], rng: np.random.Generator, kind: str) -> npt.NDArray[Any]:
    cell, wall = nearest_cells(shape, rng)
    if kind == "labels32":
        return np.unique(cell, return_inverse=True)[1].reshape(shape).astype(np.uint32) + np.uint32(1)
    ids = rng.integers(2**56, 2**60, int(cell.max()) + 1, np.uint64)
    return np.where(wall < 0.7, np.uint64(0), ids[cell])


def electron_microscopy(shape: tuple[int, int, int], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    _, wall = nearest_cells(shape, rng)
    grey = 150 + 12 * smooth_noise(shape, 8, rng) + 9 * smooth_noise(shape, 2, rng)
    grey -= 75 * np.exp(-((wall / 1.6) ** 2))
    grey += 9 * smooth_noise(shape, 0.6, rng)
    values: npt.NDArray[np.uint8] = np.clip(grey, 0, 255).astype(np.uint8)
    return values


def light_sheet(shape: tuple[int, int, int], rng: np.random.Generator) -> npt.NDArray[np.uint16]:
    haze = 40 * np.maximum(0, smooth_noise(shape, 12, rng) + 0.5)
    blobs = 900 * np.maximum(0, smooth_noise(shape, 4, rng) - 1.6)
    light = rng.poisson(haze + blobs)
    # A scientific camera: 100 counts of offset, 1.6 counts of read noise, about two counts an electron.
    counts = 100 + light / 0.46 + rng.normal(0, 1.6, shape)
    values: npt.NDArray[np.uint16] = np.clip(counts, 0, 65535).astype(np.uint16)
    return values
