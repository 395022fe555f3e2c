"""Chunk ids as callers give them: any integers that fit into 64 bits, checked once and turned into one array."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from zvcore.precomputed._minishard import plain_ids

__all__ = ["MAX_ID", "Ids", "as_id", "as_ids", "is_id"]

Ids: TypeAlias = npt.NDArray[Any] | SupportsIndex | Iterable[SupportsIndex]

MAX_ID = 2**64 - 1


def as_id(value: SupportsIndex) -> int:
    """One id as an int. Anything but an integer is a TypeError, an integer that is not a uint64 a ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _no_id(value) from None
    if isinstance(value, bool):
        raise _no_id(value)
    if not 0 <= number <= MAX_ID:
        raise ValueError(f"id {number} is not between 0 and 2**64 - 1")
    return number


def is_id(value: object) -> TypeGuard[SupportsIndex]:
    """Whether this can be an id: all else is in no set."""
    return isinstance(value, SupportsIndex) and not isinstance(value, bool) and 0 <= value.__index__() <= MAX_ID


def _no_id(value: object) -> TypeError:
    return TypeError(f"an id is a whole number from 0 to 2**64 - 1, not {value!r}")


def as_ids(values: Ids) -> npt.NDArray[np.uint64]:
    """Ids as a contiguous uint64 array of one dimension; a single integer gives an array of one."""
    if isinstance(values, (list, tuple)) and (plain := plain_ids(values)) is not None:
        # To whom truth values are numbers, they are these two.
        if plain.size and int(plain.min()) <= 1 and any(isinstance(value, bool) for value in values):
            raise _no_id(next(value for value in values if isinstance(value, bool)))
        return plain
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise _no_id(values)
    array: npt.NDArray[Any]
    if isinstance(values, np.ndarray):
        array = values
    else:
        several = values if isinstance(values, Iterable) else [values]
        # By way of as_id: numpy would turn integers on both sides of 2**63 into floats.
        array = np.fromiter((as_id(value) for value in several), np.uint64)
    if array.ndim > 1:
        raise ValueError(f"ids have one dimension, not {array.ndim}")
    if array.dtype.kind == "i":
        if array.size and int(array.min()) < 0:
            raise ValueError(f"id {int(array.min())} is not between 0 and 2**64 - 1")
    elif array.dtype.kind != "u" and array.size:
        raise TypeError(f"ids are integers, not {array.dtype}")
    return np.ascontiguousarray(array, np.uint64).reshape(-1)
