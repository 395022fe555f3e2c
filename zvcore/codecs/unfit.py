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
    rounded = items.kind in "iu" and items.itemsize == 8 and stored.kind in "fc"
    return config["id"] == "fixedscaleoffset" or rounded or not np.can_cast(items, stored)


def _refuse_unfit(config: Mapping[str, Any], values: npt.NDArray[Any]) -> None:
    """UnfitValueError where a filter stores one of these as something else. They are of the type that it takes."""
    found = _types(config)
    if found is None or not values.size or not _refuses_some(config):
        return
    items, stored = found
    with np.errstate(all="ignore"):
        made = _scaled(config, values.astype(items, copy=False))
        bad = _unfit(values, made, stored)
        if config["id"] == "fixedscaleoffset" and items.kind in "iu" and not bad.any():
            _refuse_wrapped(config, values, made.astype(stored))
    if bad.any():
        at = tuple(int(number) for number in np.argwhere(bad)[0])
        told = "" if config["id"] != "fixedscaleoffset" else f", which is {made[at]} with scale and offset,"
        raise UnfitValueError(f"the value {values[at]}{told} does not fit into {stored}", codec=config["id"])


def _scaled(config: Mapping[str, Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What is made of values before they are cast."""
    if config["id"] != "fixedscaleoffset":
        return values
    try:
        made: npt.NDArray[Any] = np.around((values - config["offset"]) * config["scale"])
    except OverflowError as error:
        told = f"scale and offset are no numbers of {values.dtype}, with which values are computed"
        found = f"scale {config['scale']}, offset {config['offset']}"
        raise UnfitValueError(told, codec=config["id"], found=found) from error
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
    if values.dtype.kind in "iu":
        # The largest integers are rounded to what is no longer one of them, and comes back as another.
        lost |= made.astype(stored).real >= float(int(np.iinfo(values.dtype).max) + 1)
    # Of what was infinite, nothing is lost.
    return lost | (np.isfinite(values) & ~np.isfinite(made.astype(stored)))


def _refuse_wrapped(config: Mapping[str, Any], values: npt.NDArray[Any], stored: npt.NDArray[Any]) -> None:
    """Refuse integers that do not come back: numpy computes within their type, and begins anew at its end."""
    back = (stored / config["scale"] + config["offset"]).astype(values.dtype)
    exact = values.astype("f8")
    # What is rounded, once scaled and once as it comes back, and what floats are off by.
    near = np.abs(back.astype("f8") - exact) <= 0.5 / abs(config["scale"]) + 1 + 1e-9 * np.abs(exact)
    if not near.all():
        at = tuple(int(number) for number in np.argwhere(~near)[0])
        told = f"the value {values[at]} of {values.dtype}, with scale and offset, would come back as {back[at]}"
        raise UnfitValueError(told, codec=config["id"])


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
