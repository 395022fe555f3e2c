"""Differences that do not give back what they were made of, which numcodecs stores in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnfitValueError, UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["refuse_lost_differences"]

# Behind a NaN or an infinity all sums are NaN, and behind a difference that is too large infinite.
_FLOATING = "fc"
_WHOLE = "biu"


def refuse_lost_differences(codec: Any, values: Any, stored: Any) -> None:
    """UnsupportedError where a whole number comes back as another one, a float's difference does not fit into what is
    stored, or a value is finite, infinite or no number, and comes back as something else.

    That sums round is the nature of differences of floats, and is not looked at.
    """
    if codec.dtype.kind not in _FLOATING + _WHOLE:
        return
    from numcodecs.compat import ensure_ndarray

    # numcodecs goes through an array as it lies in memory.
    before = ensure_ndarray(values).view(codec.dtype).reshape(-1, order="A")
    with np.errstate(all="ignore"):
        after = np.asarray(codec.decode(stored)).reshape(-1).view(codec.dtype)
        if codec.dtype.kind in _WHOLE:
            _refuse_first(before != after, before, codec)
            return
        if codec.dtype.kind == "f" and codec.astype.kind in "iu":
            _refuse_first(_outside(before, np.iinfo(codec.astype)), before, codec)
        for given, found in zip(_parts(before), _parts(after), strict=True):
            infinite = np.isinf(given)
            sound = np.isfinite(given) == np.isfinite(found)
            sound &= np.isnan(given) == np.isnan(found)
            sound &= ~infinite | (given == found)
            if not sound.all():
                at = int(np.argmin(sound))
                raise UnsupportedError(
                    "behind a NaN, an infinity or too large a difference, differences give back other values",
                    expected=before[at], found=after[at],
                )  # fmt: skip


def _outside(items: npt.NDArray[Any], limits: np.iinfo[Any]) -> npt.NDArray[np.bool_]:
    """Of which items the difference from the one before, cut to a whole number, is none of these integers, or NaN."""
    differences = np.trunc(np.concatenate((items[:1], np.diff(items))))
    # The largest of 64 bits is no float; the next power of two is one.
    held: npt.NDArray[np.bool_] = (differences >= float(limits.min)) & (differences < float(int(limits.max) + 1))
    return ~held


def _refuse_first(bad: npt.NDArray[np.bool_], items: npt.NDArray[Any], codec: Any) -> None:
    if bad.any():
        found = items[int(np.argmax(bad))]
        raise UnfitValueError(f"the difference of {found} from the item before does not fit into {codec.astype}")


def _parts(values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    return [values.real, values.imag] if values.dtype.kind == "c" else [values]
