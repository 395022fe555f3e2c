"""Values that numcodecs' filters would store as others in silence, because the type in which they store does not hold
them: 300 as `uint8` is 44, NaN as an integer any number.

What rounds is the nature of these filters, and not looked at.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnfitValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from zvcore.codecs.base import Codec

__all__ = ["CASTING", "check_of_values"]

# The filters that may store items as another type.
CASTING = frozenset(("astype", "fixedscaleoffset", "quantize"))

_NUMBERS = "biufc"


def _types(config: Mapping[str, Any]) -> tuple[np.dtype[Any], np.dtype[Any]] | None:
    """The types of items and of what is stored of them, of a filter (as numcodecs configures it) that casts."""
    casts = config["id"] == "astype"
    items = np.dtype(config["decode_dtype" if casts else "dtype"])
    stored = np.dtype(config["encode_dtype"] if casts else config.get("astype") or items)
    return (items, stored) if items.kind in _NUMBERS and stored.kind in _NUMBERS else None


def _refuses_some(config: Mapping[str, Any]) -> bool:
    """Whether `_refuse_unfit` has anything to look at."""
    found = _types(config)
    if found is None:
        return False
    items, stored = found
    # For numpy, integers of 64 bits are safe in floats of 64: they are rounded there.
    return config["id"] == "fixedscaleoffset" or not np.can_cast(items, stored)


def _refuse_unfit(config: Mapping[str, Any], values: npt.NDArray[Any]) -> None:
    """UnfitValueError where a filter stores one of these as something else. They are of the type that it takes."""
    found = _types(config)
    if found is None or not values.size or not _refuses_some(config):
        return
    items, stored = found
    with np.errstate(all="ignore"):
        made = _scaled(config, values.astype(items, copy=False))
        bad = _unfit(values, made, stored)
    if bad.any():
        at = tuple(int(number) for number in np.argwhere(bad)[0])
        told = "" if config["id"] != "fixedscaleoffset" else f", which is {made[at]} with scale and offset,"
        raise UnfitValueError(f"the value {values[at]}{told} does not fit into {stored}", codec=config["id"])


def _scaled(config: Mapping[str, Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What is made of values before they are cast."""
    if config["id"] != "fixedscaleoffset":
        return values
    made: npt.NDArray[Any] = np.around((values - config["offset"]) * config["scale"])
    return made


def _unfit(values: npt.NDArray[Any], made: npt.NDArray[Any], stored: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    if stored.kind == "b":
        return np.asarray((made != 0) & (made != 1))
    lost = np.zeros(made.shape, np.bool_)
    if made.dtype.kind == "c" and stored.kind != "c":
        lost, made = made.imag != 0, made.real
    if stored.kind in "iu":
        limits = np.iinfo(stored)
        if made.dtype.kind in "biu":
            return lost | _outside(made, int(limits.min), int(limits.max))
        # The largest of 64 bits is no float; the next power of two is one. NaN is on neither side.
        return lost | ~((made >= float(limits.min)) & (made < float(int(limits.max) + 1)))
    # Of what was infinite, nothing is lost.
    return lost | (np.isfinite(values) & ~np.isfinite(made.astype(stored)))


def _outside(made: npt.NDArray[Any], least: int, most: int) -> npt.NDArray[np.bool_]:
    """Comparisons of Python's numbers with numpy's are exact, within the limits of numpy's type."""
    if made.dtype.kind == "b":
        return np.zeros(made.shape, np.bool_)
    own = np.iinfo(made.dtype)
    outside: npt.NDArray[np.bool_] = (made < max(least, int(own.min))) | (made > min(most, int(own.max)))
    return outside


def check_of_values(codec: Codec, dtype: np.dtype[Any]) -> Callable[[npt.NDArray[Any]], None] | None:
    """What refuses items of this type that a filter would store as others; None: it holds them all."""
    config = codec.casting_config(dtype)
    if config is None or not _refuses_some(config):
        return None
    found = _types(config)
    # Items of another type are taken for those that the filter wants as they lie in memory.
    return partial(_refuse_unfit, config) if found and found[0].newbyteorder("=") == dtype else None
