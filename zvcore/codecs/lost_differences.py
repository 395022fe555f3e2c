"""Differences of floats that do not give back what they were made of, which numcodecs stores in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["FLOATING", "refuse_lost_differences"]

# Behind a NaN or an infinity all sums are NaN, and behind a difference that is too large infinite.
FLOATING = "fc"


def refuse_lost_differences(codec: Any, values: Any, stored: Any) -> None:
    """UnsupportedError where a value is finite, infinite or no number, and comes back as something else.

    That sums round is the nature of differences of floats, and is not looked at.
    """
    before = np.ascontiguousarray(values).reshape(-1).view(codec.dtype)
    with np.errstate(all="ignore"):
        after = np.asarray(codec.decode(stored)).reshape(-1).view(codec.dtype)
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


def _parts(values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    return [values.real, values.imag] if values.dtype.kind == "c" else [values]
