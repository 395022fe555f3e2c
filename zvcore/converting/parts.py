"""Boxes of values, cut into parts that fit into memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from zvcore.boxes import Box

__all__ = ["PART_BYTES", "nbytes_of", "parts_of"]

# How many bytes of values are decoded at once: few enough that their memory is used again and again.
PART_BYTES = 16 << 20


def nbytes_of(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


def parts_of(box: Box, grain: Sequence[int], itemsize: int, limit: int, order: str) -> list[Box]:
    """A box cut into parts of at most `limit` bytes at multiples of `grain`, the slowest axes first."""
    size = math.prod(stop - first for first, stop in box) * itemsize
    if size <= limit:
        return [box]
    axes = range(len(box)) if order == "C" else reversed(range(len(box)))
    for axis in axes:
        first, stop = box[axis]
        steps = -(-stop // grain[axis]) - first // grain[axis]
        if steps < 2:
            continue
        middle = (first // grain[axis] + steps // 2) * grain[axis]
        halves = [(*box[:axis], half, *box[axis + 1 :]) for half in ((first, middle), (middle, stop))]
        return [part for half in halves for part in parts_of(half, grain, itemsize, limit, order)]
    return [box]
