"""Makes up a piece of tissue: an image as an electron microscope gives it, the cells in it, and streamlines."""

from __future__ import annotations

import numpy as np

__all__ = ["streamlines", "tissue"]

_CELL = 28.0


def tissue(shape: tuple[int, int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(image uint8[z, y, x], labels uint64[z, y, x]): cells with membranes, mitochondria and the noise of a camera."""
    rng = np.random.default_rng(seed)
    half = (shape[0] // 2, shape[1] // 2, shape[2] // 2)
    nearest, gap = _cells(half, _CELL / 2, rng, warp=6.0)
    # Some ids of a connectome: far apart, and more than 32 bits.
    ids = rng.integers(1 << 40, 1 << 48, int(nearest.max()) + 1, dtype=np.uint64)
    labels = ids[nearest]
    labels[gap < 1.2] = 0
    inside = smooth_noise(half, 5, rng)
    tone = rng.normal(150, 14, len(ids)).astype(np.float32)
    picture = tone[nearest] + 10 * smooth_noise(half, 6, rng)
    picture -= 45 * (inside > 1.1)
    picture -= 95 * np.exp(-((gap / 1.3) ** 2))
    for axis in range(3):
        picture = _doubled(picture, axis)
        labels = labels.repeat(2, axis)
    picture += 9 * rng.standard_normal(picture.shape, np.float32)
    return picture.clip(0, 255).astype(np.uint8), labels


def _cells(shape: tuple[int, ...], side: float, rng: np.random.Generator, warp: float) -> tuple[np.ndarray, np.ndarray]:
    """(which of scattered seeds is nearest, how much farther the next one is) for each voxel, with crooked borders."""
    counts = [int(n // side) + 3 for n in shape]
    seeds = (np.indices(counts).reshape(3, -1).T - 1 + rng.uniform(0.1, 0.9, (int(np.prod(counts)), 3))) * side
    columns = [np.ascontiguousarray(seeds[:, axis], np.float32) for axis in range(3)]
    numbers = np.arange(len(seeds)).reshape(counts)
    bend = [warp * smooth_noise(shape, 12, rng) for _ in range(3)]
    nearest = np.zeros(shape, np.int32)
    gap = np.zeros(shape, np.float32)
    for z in range(shape[0]):
        # A plane at a time fits into the cache.
        places = [np.float32(z) + bend[0][z]]
        places.append(np.arange(shape[1], dtype=np.float32)[:, None] + bend[1][z])
        places.append(np.arange(shape[2], dtype=np.float32)[None, :] + bend[2][z])
        home = [
            np.clip((place // side).astype(np.int64) + 1, 1, count - 2)
            for place, count in zip(places, counts, strict=True)
        ]
        first = np.full(shape[1:], np.inf, np.float32)
        second = first.copy()
        for dz, dy, dx in np.ndindex(3, 3, 3):
            number = numbers[home[0] + dz - 1, home[1] + dy - 1, home[2] + dx - 1]
            away = sum((place - column[number]) ** 2 for column, place in zip(columns, places, strict=True))
            closer = away < first
            second = np.where(closer, first, np.minimum(second, away))
            nearest[z][closer] = number[closer]
            first = np.where(closer, away, first)
        gap[z] = np.sqrt(second) - np.sqrt(first)
    return nearest, gap


def smooth_noise(shape: tuple[int, ...], scale: float, rng: np.random.Generator) -> np.ndarray:
    """Values of about -2 to 2 that change slowly, over so many voxels."""
    values = rng.standard_normal([int(n // scale) + 2 for n in shape], np.float32)
    for axis, extent in enumerate(shape):
        place = np.arange(extent, dtype=np.float32) / np.float32(scale)
        low = place.astype(np.int64)
        part = (place - low).reshape([-1 if a == axis else 1 for a in range(3)])
        values = values.take(low, axis) * (1 - part) + values.take(low + 1, axis) * part
    return values


def _doubled(values: np.ndarray, axis: int) -> np.ndarray:
    """Twice as many along an axis, interpolated."""
    after = np.concatenate([values.take(range(1, values.shape[axis]), axis), values.take([-1], axis)], axis)
    both = np.stack([values, (values + after) / 2], axis + 1)
    return both.reshape([n * (2 if a == axis else 1) for a, n in enumerate(values.shape)])


def streamlines(shape: tuple[int, int, int], count: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(lines of float32[n, 3] in (x, y, z), a value for each vertex) that run through the volume side by side."""
    rng = np.random.default_rng(seed)
    extent = np.array(shape[::-1], np.float32)
    points = rng.uniform(0.02, 0.98, (count, 3)).astype(np.float32) * extent
    points[:, 0] = rng.uniform(0, 0.15, count) * extent[0]
    steps = rng.integers(120, 260, count)
    paths = [points]
    for _ in range(int(steps.max()) - 1):
        x, y, z = (paths[-1] / extent).T
        turn = np.stack([np.ones_like(x), 0.8 * np.sin(5 * x + 2 * z), 0.8 * np.cos(4 * x + 3 * y)], 1)
        turn += rng.normal(0, 0.15, turn.shape)
        paths.append((paths[-1] + 1.5 * turn / np.linalg.norm(turn, axis=1)[:, None]).astype(np.float32))
    whole = np.stack(paths, 1)
    lines = []
    values = []
    for number, length in enumerate(steps):
        line = whole[number, :length]
        outside = np.flatnonzero(((line < 0) | (line > extent)).any(1))
        line = line[: outside[0]] if len(outside) else line
        if len(line) > 1:
            lines.append(line)
            values.append((0.5 + 0.4 * np.sin(line[:, 0] / 30)).astype(np.float32))
    return lines, values
