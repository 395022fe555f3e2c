"""Values as another dtype of numpy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["as_dtype", "in_native_order"]


def as_dtype(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A copy as `values.astype(dtype)` makes it, in the byte order of `dtype` in any case.

    Of times without a unit, numpy's `astype` leaves the bytes as they are, and no new array has but the native order.
    """
    if dtype.kind not in "mM" or values.dtype.kind != dtype.kind:
        return values.astype(dtype)
    native = np.empty(values.shape, in_native_order(dtype))
    native[...] = values
    return native if dtype.isnative else native.byteswap().view(dtype)


def in_native_order(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same items in the byte order of this machine. Texts of any length have none, and numpy fails if asked."""
    return dtype if dtype.kind == "T" else dtype.newbyteorder("=")
