"""Values as another data type: what that cannot hold is an error, or becomes the nearest that it can."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.casting import in_native_order
from zvcore.codecs.small_numbers import FLOATS, INTEGERS, kind_of, limits_of, limits_of_floats, small_number
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from zvcore.boxes import Box

__all__ = ["cast", "casting", "check_cast", "item_type"]

# Between these kinds, items mean the same; all others have nothing in common but their bytes.
_NUMBERS = "biufc"
_TEXTS = "UT"
_ALIKE = "SMm"


def item_type(given: npt.DTypeLike) -> np.dtype[Any]:
    """The dtype that is asked for, which `zvcore.create` calls the same: numpy has not all of them by name."""
    if isinstance(given, str) and given in (*FLOATS, *INTEGERS):
        return small_number(given)
    if given is str or (isinstance(given, str) and given == "string"):
        return np.dtypes.StringDType()
    return np.dtype(given)


def check_cast(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse what no item of `source` would be as one of `target`, which is asked before anything is written."""
    if not _is_possible(source, target):
        raise UnsupportedError(f"values of {source} are not converted to {target}")


def _is_possible(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    if source == target:
        return True
    if source.names is not None or target.names is not None:
        return source.names == target.names and all(
            _is_possible(source[name], target[name]) for name in source.names or ()
        )
    if source.subdtype is not None or target.subdtype is not None:
        return source.shape == target.shape and _is_possible(source.base, target.base)
    own, wanted = kind_of(source), kind_of(target)
    return any(own in kinds and wanted in kinds for kinds in (_NUMBERS, _TEXTS)) or (own == wanted and own in _ALIKE)


def casting(source: np.dtype[Any], target: np.dtype[Any]) -> Callable[[Any, Box], Any]:
    """What makes items of `target` of those of `source` that lie in a box. Objects are left to who assigns them."""
    own = in_native_order(source)
    if own == target or own.hasobject or target.hasobject:
        return lambda values, _: values
    check_cast(own, target)
    return lambda values, box: cast(values.astype(own, copy=False), target, False, box)


def cast(values: npt.NDArray[Any], dtype: np.dtype[Any], clip: bool, box: Box = ()) -> npt.NDArray[Any]:
    """Values as another dtype that `check_cast` allows. They lie in `box`, by which errors say where.

    Fractions are rounded to the nearest whole number, halves to the even one; other numbers to the nearest float.
    Unless `clip`, what the dtype cannot hold raises OverflowError: numbers that are too large, NaN and what is not real
    for dtypes that have no such numbers, and texts that are too long.
    """
    if dtype.names is not None:
        return _records(values, dtype, clip, box)
    kind, wanted = kind_of(values.dtype), kind_of(dtype)
    if wanted in "UTS":
        return _texts(values, dtype, clip, box)
    if wanted in "mM":
        return _times(values, dtype, box)
    if wanted == "c":
        return _complex(values, dtype, clip, box)
    if kind == "c" and wanted in "iuf":
        values, kind = _real(values, dtype, clip, box), "f"
    if wanted == "f":
        return _floats(values, dtype, clip, box)
    if wanted not in "iu" or kind not in "iuf":
        return values.astype(dtype)
    return _integers(values, dtype, clip, box)


def _refuse(values: npt.NDArray[Any], bad: npt.NDArray[Any], dtype: np.dtype[Any], box: Box) -> NoReturn:
    where = tuple(int(n) for n in np.argwhere(bad)[0])
    place = tuple(n + first for n, (first, _) in zip(where, box, strict=False)) if box else where
    raise OverflowError(
        f"the value {values[where]} at {place} does not fit into {dtype}; ask for clipping to take the nearest"
    )


def _records(values: npt.NDArray[Any], dtype: np.dtype[Any], clip: bool, box: Box) -> npt.NDArray[Any]:
    answer = np.empty_like(values, dtype)
    for name in dtype.names or ():
        wanted = dtype[name]
        own = values[name]
        answer[name] = own if own.dtype == wanted.base else cast(own, wanted.base, clip, box)
    return answer


def _texts(values: npt.NDArray[Any], dtype: np.dtype[Any], clip: bool, box: Box) -> npt.NDArray[Any]:
    """Of texts that are too long, the nearest is their beginning."""
    answer = values.astype(dtype)
    longer = dtype.kind != "T" and (values.dtype.kind == "T" or values.dtype.itemsize > dtype.itemsize)
    if longer and not clip:
        bad = answer != values
        if bad.any():
            _refuse(values, bad, dtype, box)
    return answer


def _times(values: npt.NDArray[Any], dtype: np.dtype[Any], box: Box) -> npt.NDArray[Any]:
    with suppress(OverflowError):  # newer releases of numpy raise it, and do not say where
        answer = values.astype(dtype)
        finer = np.can_cast(values.dtype, dtype)
        if not finer or bool(((answer.astype(values.dtype) == values) | np.isnat(values)).all()):
            return answer
    part = ", ".join(f"{first}:{stop}" for first, stop in box)
    raise OverflowError(f"a time in the part [{part}] does not fit into {dtype}")


def _real(values: npt.NDArray[Any], dtype: np.dtype[Any], clip: bool, box: Box) -> npt.NDArray[Any]:
    """The nearest real numbers."""
    if not clip and (bad := values.imag != 0).any():
        _refuse(values, bad, dtype, box)
    return values.real


def _complex(values: npt.NDArray[Any], dtype: np.dtype[Any], clip: bool, box: Box) -> npt.NDArray[Any]:
    if np.can_cast(values.dtype, dtype):
        return values.astype(dtype)
    answer = np.empty_like(values, dtype)
    parts = answer.real.dtype
    answer.real = _floats(values.real if values.dtype.kind == "c" else values, parts, clip, box)
    answer.imag = _floats(values.imag, parts, clip, box) if values.dtype.kind == "c" else 0
    return answer


def _floats(values: npt.NDArray[Any], dtype: np.dtype[Any], clip: bool, box: Box) -> npt.NDArray[Any]:
    if values.dtype.isbuiltin == 2 and kind_of(values.dtype) in "iu":
        values = values.astype("i1" if kind_of(values.dtype) == "i" else "u1")
    with np.errstate(over="ignore", invalid="ignore"):
        answer = values.astype(dtype)
    if _holds_all(dtype, values.dtype):
        return answer
    bad = _lost(values, answer)
    if not bad.any():
        return answer
    if not clip:
        _refuse(values, bad, dtype, box)
    given = values[bad].astype(np.longdouble)
    nearest = np.clip(given, *limits_of_floats(dtype)).astype(np.float64)
    answer[bad] = np.where(np.isnan(given), 0, nearest).astype(dtype)
    return answer


def _holds_all(dtype: np.dtype[Any], source: np.dtype[Any]) -> bool:
    """Whether no value of `source` is too large for a dtype of floats."""
    if source.kind in "biu":
        return limits_of_floats(dtype)[1] >= 2.0**64 and limits_of_floats(dtype)[0] <= -(2.0**63)
    return dtype.isbuiltin != 2 and np.can_cast(source, dtype)


def _lost(values: npt.NDArray[Any], answer: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Which floats are not near what they were made of: no longer finite, or no longer not."""
    finite = np.isfinite(answer)
    if answer.dtype.isbuiltin != 2:
        return np.asarray(False) if finite.all() else np.isfinite(values) & ~finite
    lost: npt.NDArray[Any] = (np.isfinite(values) != finite) | (np.isnan(values) != np.isnan(answer))
    least, most = limits_of_floats(answer.dtype)
    if np.isfinite(np.asarray(np.inf).astype(answer.dtype)):
        # All that is too large becomes the largest: what is rounded to it lies within half a step.
        step = most - float(np.nextafter(answer.dtype.type(most), answer.dtype.type(0)))
        lost |= (values > most + step / 2) | (values < least - step / 2)
    return lost


def _integers(values: npt.NDArray[Any], dtype: np.dtype[Any], clip: bool, box: Box) -> npt.NDArray[Any]:
    kind = kind_of(values.dtype)
    least, most = limits_of(dtype)
    if kind in "iu":
        own_least, own_most = limits_of(values.dtype)
        if own_least >= least and own_most <= most:
            return values.astype(dtype)
        if values.dtype.isbuiltin == 2:
            values = values.astype("i1" if kind == "i" else "u1")
        # Comparisons of Python numbers with numpy's are exact.
        low, high = values < max(least, own_least), values > min(most, own_most)
        bad = np.asarray((low if own_least < least else np.False_) | (high if own_most > most else np.False_))
    else:
        values = np.asarray(np.rint(values.astype("f4") if values.dtype.isbuiltin == 2 else values))
        # The largest whole number of 64 bits is no float; the next power of two is one.
        low, high = values < float(least), values >= float(most + 1)
        bad = np.asarray(low | high | np.isnan(values))
    if not bad.any():
        return values.astype(dtype)
    if not clip:
        _refuse(values, bad, dtype, box)
    with np.errstate(invalid="ignore"):
        answer = values.astype(dtype)
    answer[low] = least
    answer[high] = most
    if kind == "f":
        answer[np.isnan(values)] = 0
    return answer
