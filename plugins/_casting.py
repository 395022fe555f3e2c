"""Numbers of one type as numbers of another, by the rules of Zarr's `cast_value`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zvcore.codecs.small_numbers import kind_of, limits_of
from zvcore.errors import UnfitValueError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = ["ROUNDING", "cast", "is_integer"]


def _nearest_away(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    whole: npt.NDArray[Any] = np.trunc(values)
    rounded: npt.NDArray[Any] = whole + np.copysign(np.abs(values - whole) >= 0.5, values)
    return rounded


ROUNDING: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "nearest-even": np.rint,
    "towards-zero": np.trunc,
    "towards-positive": np.ceil,
    "towards-negative": np.floor,
    "nearest-away": _nearest_away,
}


class _Float(NamedTuple):
    """bits: of the mantissa, with the hidden one; exponent: of the smallest normal number; least, most: finite."""

    bits: int
    exponent: int
    least: float
    most: float
    has_nan: bool
    has_infinity: bool


@cache
def _float(dtype: np.dtype[Any]) -> _Float:
    """Which numbers a type of floats has."""
    if dtype.isbuiltin == 2:
        import ml_dtypes

        finfo: Any = ml_dtypes.finfo
    else:
        finfo = np.finfo
    info = finfo(dtype)
    with np.errstate(all="ignore"):
        specials = np.array([np.nan, np.inf]).astype(dtype).astype("f8")
    least = 2.0**-127 if dtype.name == "float8_e8m0fnu" else float(info.min)
    return _Float(
        int(info.nmant) + 1, int(info.minexp), least, float(info.max), bool(np.isnan(specials[0])),
        bool(np.isinf(specials[1])),
    )  # fmt: skip


def is_integer(dtype: np.dtype[Any]) -> bool:
    return kind_of(dtype) in "iu"


def cast(values: npt.NDArray[Any], dtype: np.dtype[Any], rounding: str, out_of_range: str | None) -> npt.NDArray[Any]:
    """Each number as a number of `dtype`, by the rules; UnfitValueError where they give none."""
    if values.dtype == dtype:
        return values
    if is_integer(dtype):
        if is_integer(values.dtype):
            return _integers(_widened(values), dtype, out_of_range)
        return _integers_of_floats(values.astype("f8"), dtype, rounding, out_of_range)
    known = _float(dtype)
    if not is_integer(values.dtype):
        if _of_numpy(values.dtype, dtype) and (rounding == "nearest-even" or values.dtype.itemsize < dtype.itemsize):
            return _as_numpy_rounds(values, dtype, out_of_range)
        rounded = _on_grid(values.astype("f8"), known, ROUNDING[rounding])
    elif _converted_by_numpy(values.dtype, dtype, known, rounding):
        return values.astype(dtype)
    elif known.bits < 64 and values.itemsize == 8 and _large(values):
        rounded = _large_integers(values, min(known.bits, 53), ROUNDING[rounding])
        rounded = _on_grid(rounded, known, ROUNDING[rounding])
    else:
        rounded = _on_grid(_widened(values).astype("f8"), known, ROUNDING[rounding])
    return _floats(rounded, dtype, known, out_of_range)


def _as_numpy_rounds(values: npt.NDArray[Any], dtype: np.dtype[Any], out_of_range: str | None) -> npt.NDArray[Any]:
    """Floats as another of numpy's types of floats. It rounds to the nearest; what is too large becomes infinite."""
    with np.errstate(all="ignore"):
        made = values.astype(dtype)
    if out_of_range is None and values.dtype.itemsize > dtype.itemsize:
        beyond = np.isinf(made) & ~np.isinf(values)
        if beyond.any():
            raise _refused(values[beyond].flat[0], dtype, "does not fit into")
    return made


def _of_numpy(*dtypes: np.dtype[Any]) -> bool:
    """Whether these types are numpy's own, and not of `ml_dtypes`: what `isbuiltin` calls 0 may be a copy of one."""
    return all(dtype.isbuiltin != 2 for dtype in dtypes)


def _converted_by_numpy(source: np.dtype[Any], dtype: np.dtype[Any], known: _Float, rounding: str) -> bool:
    """Whether numpy converts integers to the right floats: exactly, or rounded by the processor as is asked for."""
    if not _of_numpy(source, dtype):
        return False
    return 8 * source.itemsize <= known.bits or (rounding == "nearest-even" and dtype.itemsize >= 4)


def _widened(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers as a type of numpy's own."""
    return values.astype("i1" if kind_of(values.dtype) == "i" else "u1") if values.dtype.isbuiltin == 2 else values


def _refused(value: Any, dtype: np.dtype[Any], why: str) -> UnfitValueError:
    return UnfitValueError(f"the value {value} {why} {dtype}", codec="cast_value")


def _integers(values: npt.NDArray[Any], dtype: np.dtype[Any], out_of_range: str | None) -> npt.NDArray[Any]:
    least, most = limits_of(dtype)
    if values.size and (int(values.min()) < least or int(values.max()) > most):
        own = np.iinfo(values.dtype)
        low, high = max(least, int(own.min)), min(most, int(own.max))
        if out_of_range is None:
            bad = values[(values < low) | (values > high)].flat[0]
            raise _refused(bad, dtype, "does not fit into")
        values = np.clip(values, low, high) if out_of_range == "clamp" else _wrapped(values, least, most)
    return values.astype(dtype)


def _wrapped(values: npt.NDArray[Any], least: int, most: int) -> npt.NDArray[Any]:
    """Modulo the number of values that the type has; for types of whole bytes numpy does so itself."""
    if most - least >= 255:
        return values
    bits = np.array(most - least, values.dtype)
    wrapped = (values & bits).astype("i2")
    made: npt.NDArray[Any] = wrapped - np.where(wrapped > most, np.int16(most - least + 1), np.int16(0))
    return made


def _integers_of_floats(
    values: npt.NDArray[Any], dtype: np.dtype[Any], rounding: str, out_of_range: str | None
) -> npt.NDArray[Any]:
    finite = np.isfinite(values)
    if not finite.all():
        raise _refused(values[~finite].flat[0], dtype, "has no counterpart in")
    whole = ROUNDING[rounding](values)
    least, most = limits_of(dtype)
    # The largest integer of 64 bits is not a float; the next power of two is.
    low, high = whole < float(least), whole >= float(most + 1)
    bad = low | high
    if bad.any():
        if out_of_range is None:
            raise _refused(values[bad].flat[0], dtype, "does not fit into")
        if out_of_range == "wrap":
            size = np.fmod(np.abs(whole), 2.0**64).astype(np.uint64)
            return _integers(np.where(whole < 0, np.uint64(0) - size, size), dtype, "wrap")
    plain = np.dtype("u8" if least == 0 else "i8")
    made = np.where(bad, 0.0, whole).astype(plain)
    made[low], made[high] = least, most
    return made.astype(dtype)


def _large(values: npt.NDArray[Any]) -> bool:
    """Whether some of these integers are not exact as floats of 64 bits."""
    return bool(values.size) and (int(values.max()) > 2**53 or int(values.min()) < -(2**53))


def _large_integers(values: npt.NDArray[Any], bits: int, rounded: Callable[..., Any]) -> npt.NDArray[Any]:
    """Integers of 64 bits as floats of this many bits: the bits that are cut off decide as a fraction would."""
    negative = values < 0
    size = np.where(negative, np.uint64(0) - values.astype(np.uint64), values.astype(np.uint64))
    # As a float, 2**64 - 1 and its like are rounded up to one bit more than they have.
    length = np.minimum(np.frexp(size.astype("f8"))[1].astype(np.int64), 64)
    length -= (size >> np.maximum(length - 1, 0).astype(np.uint64)) == 0
    cut = np.maximum(length - bits, 0).astype(np.uint64)
    whole = size >> cut
    rest = size - (whole << cut)
    half = np.where(cut > 0, np.uint64(1) << (np.maximum(cut, 1) - np.uint64(1)).astype(np.uint64), np.uint64(1))
    # Nothing, less than a half, a half, more: a fraction of two bits, and whether the whole number is odd.
    fraction = np.where(rest == 0, 0.0, np.where(rest < half, 0.25, np.where(rest == half, 0.5, 0.75)))
    odd = (whole & np.uint64(1)).astype("f8")
    sign = np.where(negative, -1.0, 1.0)
    up = np.abs(rounded(sign * (odd + fraction))) - odd
    made: npt.NDArray[Any] = sign * np.ldexp((whole + up.astype(np.uint64)).astype("f8"), cut.astype(np.int32))
    return made


def _on_grid(values: npt.NDArray[Any], known: _Float, rounded: Callable[..., Any]) -> npt.NDArray[Any]:
    """These values rounded to numbers that the type would have if none was too large for it."""
    if known.bits >= 53:
        return values
    finite = np.isfinite(values)
    plain = values if finite.all() else np.where(finite, values, 0.0)
    _, exponent = np.frexp(plain)
    # frexp's mantissa is from a half to one: a normal number of this exponent has its last bit here.
    last = np.maximum(exponent.astype(np.int64) - known.bits, known.exponent - known.bits + 1).astype(np.int32)
    made = np.ldexp(rounded(np.ldexp(plain, -last)), last)
    return np.where(finite, made, values)


def _floats(
    values: npt.NDArray[Any], dtype: np.dtype[Any], known: _Float, out_of_range: str | None
) -> npt.NDArray[Any]:
    missing = np.zeros(values.shape, np.bool_)
    if not known.has_nan:
        missing |= np.isnan(values)
    infinite = np.isinf(values)
    if not known.has_infinity:
        missing |= infinite
    if missing.any():
        raise _refused(values[missing].flat[0], dtype, "has no counterpart in")
    low, high = (values < known.least) & ~infinite, (values > known.most) & ~infinite
    if low.any() or high.any():
        if out_of_range is None:
            raise _refused(values[low | high].flat[0], dtype, "does not fit into")
        values = values.copy()
        values[low] = -np.inf if known.has_infinity else known.least
        values[high] = np.inf if known.has_infinity else known.most
    with np.errstate(all="ignore"):
        return values.astype(dtype)
