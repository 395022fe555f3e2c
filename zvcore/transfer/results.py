"""Memory for what is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zvcore.engine import large, medium
from zvcore.engine.large import LEAST, MOST, LargeMemory
from zvcore.engine.medium import LEAST_MEDIUM, MediumMemory

if TYPE_CHECKING:
    import numpy.typing as npt

_LINE = 64


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], order: Literal["C", "F"] = "C") -> npt.NDArray[Any]:
    """Like `np.empty`, but in memory that is used again, and of large results the first byte begins a line of the
    caches, so that rows of chunks are whole lines.

    Only then can they be written past the caches. numpy's own memory begins 16 bytes after such a line.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LEAST_MEDIUM or dtype.hasobject or dtype.kind == "T":
        return np.empty(shape, dtype, order=order)
    try:
        return _lined(shape, dtype, nbytes, order)
    except MemoryError:
        # What waits for results of other sizes may be what is missing.
        large.forget()
        medium.forget()
        return _lined(shape, dtype, nbytes, order)


def _lined(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int, order: Literal["C", "F"]) -> npt.NDArray[Any]:
    if nbytes <= MOST:
        memory = MediumMemory(nbytes) if nbytes < LEAST else LargeMemory(nbytes)
        return np.ndarray(shape, dtype, memory, order=order)
    lines = np.empty(nbytes + _LINE, np.uint8)
    return np.ndarray(shape, dtype, lines, -lines.ctypes.data % _LINE, order=order)
