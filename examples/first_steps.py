"""First steps, as `make demo` runs them: every installed codec packs a piece of a brain-like volume and unpacks it.

Nothing is written to disk. The exit status is 1 if a single byte comes back wrong.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

import zvcore

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE = 96


def labels(side: int) -> np.ndarray:
    """A segmentation: each voxel belongs to the nearest of some cells, as uint64 ids like those of a connectome."""
    rng = np.random.default_rng(1)
    centres = rng.uniform(0, side, (60, 3))
    ids = rng.integers(1 << 40, 1 << 41, 60, dtype=np.uint64)
    axis = np.arange(side, dtype=np.float32)
    nearest = np.full((side, side, side), np.inf, np.float32)
    volume = np.zeros((side, side, side), np.uint64)
    for centre, cell in zip(centres, ids, strict=True):
        x, y, z = ((axis - c) ** 2 for c in centre)
        distance = x[:, None, None] + y[None, :, None] + z[None, None, :]
        closer = distance < nearest
        nearest[closer] = distance[closer]
        volume[closer] = cell
    return volume


def image(side: int) -> np.ndarray:
    """An electron micrograph: smooth structures and the noise of the camera, as uint8."""
    rng = np.random.default_rng(2)
    coarse = rng.normal(0, 1, (side // 8,) * 3)
    for axis in range(3):
        coarse = np.repeat(coarse, 8, axis=axis)
        coarse = sum(np.roll(coarse, shift, axis=axis) for shift in range(-4, 5)) / 9
    noisy = 128 + 90 * coarse / coarse.std() / 3 + rng.normal(0, 4, coarse.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def best_of(count: int, run: Callable[[], object]) -> tuple[object, float]:
    """The result and the shortest time."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return result, min(times)


def main() -> int:
    zvcore.show_versions()
    wrong = 0
    for title, volume in (("segmentation, uint64", labels(SIDE)), ("image, uint8", image(SIDE))):
        plain = volume.tobytes()
        checksum = zvcore.kernels.crc32c(plain)
        print(f"\n{title}: {SIDE} x {SIDE} x {SIDE} voxels, {len(plain) / 1e6:.1f} MB, crc32c {checksum:08x}")
        print(f"{'codec':8}{'stored':>12}{'ratio':>9}{'write MB/s':>12}{'read MB/s':>12}")
        for name, info in zvcore.codecs.available().items():
            if info.error:
                print(f"{name:8}cannot be used: {info.error}")
                wrong += 1
                continue
            codec = zvcore.codecs.get(name).for_dtype(volume.dtype)
            stored, encode_time = best_of(1, lambda codec=codec, plain=plain: codec.encode(plain))
            out = np.empty_like(volume)
            _, decode_time = best_of(3, lambda codec=codec, stored=stored, out=out: codec.decode(stored, out=out))
            good = np.array_equal(out, volume) and zvcore.kernels.crc32c(out) == checksum
            wrong += not good
            speeds = [len(plain) / 1e6 / seconds for seconds in (encode_time, decode_time)]
            row = f"{name:8}{len(stored):12,}{len(plain) / len(stored):9.1f}{speeds[0]:12.0f}{speeds[1]:12.0f}"
            print(row if good else f"{row}  WRONG")
    print("\nevery byte came back as it was" if not wrong else f"\n{wrong} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
