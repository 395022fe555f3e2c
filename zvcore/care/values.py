"""Values that no program writes, by which damage shows where nothing else tells of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["can_be_wrong", "wrong_value"]


def can_be_wrong(dtype: np.dtype[Any]) -> bool:
    """Whether items of a type have bytes that are none of its values."""
    if dtype.subdtype is not None:
        return can_be_wrong(dtype.subdtype[0])
    if dtype.names is not None:
        return any(can_be_wrong(dtype[name]) for name in dtype.names)
    return dtype.kind in "bU" and dtype.itemsize > 0


def wrong_value(values: npt.NDArray[Any]) -> CorruptDataError | None:
    """What is wrong with the bytes of values: a truth that is neither 0 nor 1, or a text with what is no character.

    Whoever shows such texts gets an error of Python itself; such a truth is equal to neither of the two.
    """
    if values.dtype.names is not None:
        found = (wrong_value(values[name]) for name in values.dtype.names if can_be_wrong(values.dtype[name]))
        return next((one for one in found if one is not None), None)
    if values.dtype.kind == "b":
        numbers = np.ascontiguousarray(values).view("u1")
        if numbers.max(initial=0) > 1:
            return CorruptDataError("a boolean is neither true nor false", expected="0 or 1", found=int(numbers.max()))
    elif values.dtype.kind == "U":
        number = np.dtype("u4").newbyteorder(values.dtype.byteorder)
        numbers = np.ascontiguousarray(values).reshape(-1).view(number)
        if (largest := int(numbers.max(initial=0))) > sys.maxunicode:
            what = "texts hold a number that is no character"
            return CorruptDataError(what, expected=f"at most {sys.maxunicode:#x}", found=f"{largest:#x}")
    return None
