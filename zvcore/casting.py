"""Values as another dtype of numpy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnfitValueError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["as_dtype", "as_values", "in_native_order", "in_words", "is_held_by", "refuse_missing"]


def as_dtype(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A copy as `values.astype(dtype)` makes it, in the byte order of `dtype` in any case.

    Of times without a unit, numpy's `astype` leaves the bytes as they are, and no new array has but the native order.
    """
    if dtype.kind not in "mM" or values.dtype.kind != dtype.kind:
        return values.astype(dtype)
    native = np.empty(values.shape, in_native_order(dtype))
    native[...] = values
    return native if dtype.isnative else native.byteswap().view(dtype)


def as_values(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """`value` with numpy's casting and broadcasting, without a copy where none is needed."""
    refuse_missing(value, dtype)
    if not isinstance(value, np.ndarray):
        # Of a single value, numpy's assignment refuses what its casts of arrays would cut.
        if hasattr(value, "__array__") and not (isinstance(value, np.generic) and dtype.kind in "iu"):
            value = np.asarray(value)
        elif dtype.names is not None:
            value = np.asarray(value, dtype)  # a tuple is one record, and no row of items
        else:
            # Numpy's own assignment checks that Python numbers fit the dtype.
            given = np.empty(np.shape(value) if not dtype.hasobject else np.asarray(value, object).shape, dtype)
            given[...] = value
            value = given
    if value.dtype != dtype or not value.dtype.isnative:
        value = as_dtype(value, dtype)
    while value.ndim > len(shape) and value.shape[0] == 1:
        # Not `value[0]`, which of a single item is no array, and of texts one of a shorter type.
        value = value.reshape(value.shape[1:])
    if value.shape == shape and type(value) is np.ndarray:
        return value
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ValueError(f"could not broadcast values of shape {value.shape} into a region of shape {shape}") from None


def in_native_order(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same items in the byte order of this machine. Texts of any length have none, and numpy fails if asked."""
    return dtype if dtype.kind == "T" else dtype.newbyteorder("=")


def in_words(values: Any) -> Any:
    """What can be shown of times: numpy has neither text nor anything of Python's for those without a unit but NaT,
    which are shown as the numbers that they are. All else is left as it is.
    """
    dtype = getattr(values, "dtype", None)
    if dtype is None or dtype.kind != "M" or np.datetime_data(dtype)[0] != "generic" or np.isnat(values).all():
        return values
    return values.astype(dtype.newbyteorder("="), copy=False).view(np.int64)


def refuse_missing(values: Any, dtype: np.dtype[Any] | None = None) -> None:
    """Refuse arrays of which some items are missing: masked ones, of which what lies under the mask is no value, and
    None and NaN among texts, of which numpy makes the words "None" and "nan".

    dtype  what they are to become; their own unless it is given
    """
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmask(values)
        if (mask if mask.dtype.names is None else np.ma.flatten_mask(mask)).any():
            raise UnfitValueError("some values are masked, and would not be told from others: fill them in (.filled)")
    given = getattr(values, "dtype", None)
    wanted = given if dtype is None else dtype
    texts = getattr(wanted, "kind", "O") in "UST" and not isinstance(values, str | bytes)
    if texts and (getattr(given, "kind", "O") == "O" or hasattr(given, "na_object")):
        _refuse_none(np.asarray(values, object))


def _refuse_none(texts: npt.NDArray[Any]) -> None:
    if any(map(_is_missing, texts.ravel().tolist())):
        raise UnfitValueError("some texts are missing (None or NaN), and would become words: fill them in")


def _is_missing(item: Any) -> bool:
    try:
        return item is None or bool(item != item)
    except TypeError:  # pandas does not say whether what it has for missing values equals itself
        return True
    except ValueError:  # what is an array is no text, and not missing
        return False


def is_held_by(dtype: np.dtype[Any], values: npt.NDArray[Any]) -> bool:
    """Whether these numbers all stay what they are as `dtype`, which is one of numbers, too."""
    # For numpy, integers of 64 bits are safe in floats of 64, which they are not.
    if not values.size or (values.dtype.kind in (dtype.kind, "b") and np.can_cast(values.dtype, dtype)):
        return True
    if dtype.kind == "b":
        return bool(np.isin(values, (0, 1)).all())
    if dtype.kind == "f" and values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bool(np.array_equal(values.astype(dtype), values, equal_nan=True))
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.floor(values)).all()):
        return False
    low, high = int(values.min()), int(values.max())
    if dtype.kind == "f":
        # Larger integers have gaps between them.
        most = 1 << (np.finfo(dtype).nmant + 1)
        return -most <= low and high <= most
    limits = np.iinfo(dtype)
    return limits.min <= low and high <= limits.max
