"""Memory for what is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zvcore.casting import in_native_order
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
        return np.empty(shape, dtype, order)
    try:
        return _lined(shape, dtype, nbytes, order)
    except MemoryError:
        # What waits for results of other sizes may be what is missing.
        large.forget()
        medium.forget()
        return _lined(shape, dtype, nbytes, order)


def target(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The memory of what a caller gives to be read into: of that shape and type, and writable.

    A TypeError for what is no memory, of which numpy makes a new array that the caller would never see: lists, and
    arrays that lie in files.
    """
    found = out if isinstance(out, np.ndarray) else _memory(out)
    if found.shape != shape:
        raise ValueError(f"out has shape {found.shape}, the region {shape}")
    if dtype not in (found.dtype, in_native_order(found.dtype)):
        raise ValueError(f"out has dtype {found.dtype}, the array {dtype}")
    if not found.flags.writeable:
        raise ValueError("out is read-only")
    if _overlaps(found):
        raise ValueError(f"items of out lie upon each other: of strides {found.strides} only the last ones would stay")
    return np.asarray(found)


def _overlaps(values: npt.NDArray[Any]) -> bool:
    """Whether items of an array share memory. So all are taken for whose axes do not lie whole between the steps of
    longer ones: no slice or transposition of an array is like that.
    """
    if not values.size:
        return False
    end = values.itemsize
    for step, count in sorted((abs(step), n) for step, n in zip(values.strides, values.shape, strict=True) if n > 1):
        if step < end:
            return True
        end += step * (count - 1)
    return False


def _memory(out: Any) -> npt.NDArray[Any]:
    kind = f"{type(out).__module__}.{type(out).__qualname__}".removeprefix("builtins.")
    refusal = f"out is an array in memory or a buffer, and not a {kind}"
    try:
        found, again = np.asarray(out, copy=False), np.asarray(out, copy=False)
    except ValueError as error:
        raise TypeError(refusal) from error
    # Some libraries copy even where they are told not to.
    if found.nbytes and not np.may_share_memory(found, again):
        raise TypeError(refusal)
    return found


def _lined(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int, order: Literal["C", "F"]) -> npt.NDArray[Any]:
    if nbytes <= MOST:
        memory = MediumMemory(nbytes) if nbytes < LEAST else LargeMemory(nbytes)
        return np.ndarray(shape, dtype, memory, order=order)
    lines = np.empty(nbytes + _LINE, np.uint8)
    return np.ndarray(shape, dtype, lines, -lines.ctypes.data % _LINE, order=order)
