"""An array from its first axis' beginning to its end, without decoding any chunk for each of its rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.array import Array

__all__ = ["slices_of"]

# How many bytes are read ahead of what is asked for.
_AT_ONCE = 64 << 20


def slices_of(array: Array) -> Iterator[Any]:
    """`array[0]`, `array[1]` and so on: as many together as lie in the same chunks, if memory allows it."""
    length = array.chunks[0]
    one = math.prod(array.shape[1:]) * array.dtype.itemsize
    step = length if one * length <= _AT_ONCE else 1
    count = len(array)
    for first in range(0, count, step):
        if step == 1:
            yield array[first]
        else:
            # What is kept of one slice must not keep the others.
            yield from (
                part.copy(order="K") if part.ndim else part[()] for part in _parted(array[first : first + step])
            )


def _parted(values: Any) -> Iterator[Any]:
    return (values[number, ...] for number in range(len(values)))
