"""Single values that a caller gives, such as fill values: whether they stay what they are as an item of a data type."""

from __future__ import annotations

from typing import Any

import numpy as np

from zvcore.codecs.small_numbers import kind_of

__all__ = ["stays_itself"]


def stays_itself(given: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a value is the same as an item of a dtype, but for the rounding of floats. numpy makes 44 of 300 in some
    types and of 1.7 a 1, takes every text but the empty one for true, and cuts texts off.

    What numpy itself refuses is left to it.
    """
    if dtype.names is not None:
        own = getattr(getattr(given, "dtype", None), "names", None)
        if own is None and isinstance(given, str | bytes | np.void):
            return False  # numpy reads numbers in raw bytes, as if they were a text
        one_by_one = [given if own is None else given[name] for name in own or dtype.names]
        fields = given if isinstance(given, tuple) else one_by_one
        return all(stays_itself(field, dtype[name]) for field, name in zip(fields, dtype.names, strict=False))
    kind = kind_of(dtype)
    if kind in "USV":
        return _fills_its_place(given, dtype)
    if kind == "O":
        return not isinstance(given, int | float) or (type(given) is int and given == 0)
    if kind == "T":
        return not isinstance(given, bytes) and bool(given is None or given == given)
    if kind == "b":
        return not isinstance(given, str | bytes) and bool(given == 0 or given == 1)
    if isinstance(given, str | bytes):
        return True  # numpy reads it
    with np.errstate(all="ignore"):
        item = np.asarray(given, dtype)
    if item.ndim:
        return True
    if kind in "mM":
        return not isinstance(given, np.datetime64 | np.timedelta64) or bool(item == given or np.isnat(given))
    if kind in "iu":
        return bool(item == given)
    return bool(np.isfinite(item)) or not np.isfinite(np.asarray(given, np.complex128))


def _fills_its_place(given: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a text is not cut off; raw bytes are as many as those of an item."""
    if dtype.kind == "V":
        size = given.itemsize if isinstance(given, np.void) else len(given) if isinstance(given, bytes) else None
        return size in (None, dtype.itemsize)
    room = dtype.itemsize // (4 if dtype.kind == "U" else 1)
    if isinstance(given, str):
        return len(given.rstrip("\0")) <= room
    return not isinstance(given, bytes) or len(given.rstrip(b"\0")) <= room
