"""How large the stored chunks of an array are, and a plot of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zvcore.engine import ABSENT
from zvcore.pictures.drawing import Drawing
from zvcore.wording import human_size

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array

__all__ = ["ChunkSizes", "chunk_sizes", "plot_sizes"]

_BATCH = 1 << 14
_BARS = 40
_BAR = (66, 113, 174)
_LINE = (150, 150, 150)


@dataclass(frozen=True)
class ChunkSizes:
    """What `chunk_sizes` found.

    stored   bytes of each stored chunk that was looked at
    decoded  bytes that each of them holds inside the array
    looked   how many chunks were looked at, of
    chunks   so many in the array's grid
    """

    stored: npt.NDArray[np.uint64]
    decoded: npt.NDArray[np.uint64]
    looked: int
    chunks: int

    @property
    def ratios(self) -> npt.NDArray[np.float64]:
        """How many times smaller each chunk is as it is stored."""
        return self.decoded / np.maximum(self.stored, 1).astype(np.float64)


def chunk_sizes(array: Array, most: int = 200_000) -> ChunkSizes:
    """The sizes of stored chunks; of arrays with more chunks than `most`, of a selection that is spread evenly."""
    grid = array.grid
    chunks = math.prod(grid)
    step = max(1, -(-chunks // most))
    if step > 1:
        # Not in step with the grid's rows.
        step |= 1
    stored, decoded = [], []
    looked = 0
    for start in range(0, chunks, step * _BATCH):
        numbers = range(start, min(chunks, start + step * _BATCH), step)
        positions = _places(numbers, grid)
        looked += len(numbers)
        lengths, shown = array.sizes_of(positions)
        present = lengths != np.uint64(ABSENT)
        stored.append(lengths[present])
        decoded.append(shown[present])
    return ChunkSizes(np.concatenate(stored), np.concatenate(decoded), looked, chunks)


def _places(numbers: range, grid: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Where these chunks of a grid are, in C order. There may be more than a number of 64 bits counts."""
    rest = np.array(numbers, object if math.prod(grid) > 1 << 62 else np.int64)
    positions = np.zeros((len(numbers), len(grid)), np.int64)
    for axis in reversed(range(len(grid))):
        positions[:, axis] = rest % grid[axis]
        rest = rest // grid[axis]
    return positions


def plot_sizes(sizes: ChunkSizes, title: str = "") -> Drawing:
    """Two panels: how many chunks have which size, and which ratio."""
    sheet = Drawing(880, 380)
    part = "" if sizes.looked == sizes.chunks else f" (of {sizes.looked:,} looked at)"
    sheet.words(20, 14, title[:100])
    if not len(sizes.stored):
        sheet.words(20, 40, f"none of {sizes.chunks:,} chunks is stored{part}")
        return sheet
    total, plain = int(sizes.stored.sum()), int(sizes.decoded.sum())
    sheet.words(
        20, 34,
        f"{len(sizes.stored):,} of {sizes.chunks:,} chunks stored{part}: {human_size(total)}, "
        f"{human_size(plain)} decoded, ratio {plain / max(total, 1):.2f}",
    )  # fmt: skip
    _panel(sheet, 60, sizes.stored.astype(np.float64), "stored size of a chunk", human_size)
    _panel(sheet, 500, sizes.ratios, "ratio of a chunk", lambda value: f"{value:.3g}")
    return sheet


def _panel(sheet: Drawing, left: int, values: npt.NDArray[np.float64], title: str, show: object) -> None:
    top, width, height = 90, 350, 220
    assert callable(show)
    low, high = float(values.min()), float(values.max())
    if high <= low:
        low, high = low * 0.5, high * 1.5 + 1e-9
    # Sizes that differ much are easier to see by their logarithms.
    far = low > 0 and high / low > 30
    edges = np.geomspace(low, high, _BARS + 1) if far else np.linspace(low, high, _BARS + 1)
    counts, _ = np.histogram(values, edges)
    most = max(int(counts.max()), 1)
    for place, count in enumerate(counts):
        tall = height * int(count) / most
        if count:
            sheet.box(left + place * width / _BARS, top + height - max(tall, 1), width / _BARS - 1, max(tall, 1), _BAR)
    sheet.box(left, top + height, width, 1, _LINE)
    sheet.box(left - 1, top, 1, height, _LINE)
    sheet.words(left - 6, top - 5, f"{most:,}", "end")
    sheet.words(left - 6, top + height - 5, "0", "end")
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        value = low * (high / low) ** share if far else low + (high - low) * share
        sheet.words(left + width * share, top + height + 8, show(value), anchor)
    median = float(np.median(values))
    sheet.words(left + width / 2, top - 25, f"{title}, median {show(median)}", "middle")
    sheet.words(left + width / 2, top + height + 28, "(logarithmic)" if far else "", "middle")
