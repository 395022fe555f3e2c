"""How values become colours: grey with the contrast stretched, and a colour of its own for each label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["contrast", "grey", "label_colours"]

# How many percent of the values are left out at each end.
_CUT = 0.5


def contrast(values: npt.NDArray[Any]) -> tuple[float, float]:
    """(black, white): the values below and above which few of these lie; those that are no numbers aside."""
    numbers = _real(values)
    if numbers.dtype.kind == "f":
        numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return 0.0, 1.0
    flat = numbers.reshape(-1)
    if flat.size > 1 << 20:
        flat = flat[:: flat.size >> 19]
    if flat.dtype.kind == "f":
        # Differences of float16 may be too large for float16.
        flat = flat.astype(np.float64)
    low, high = (float(value) for value in np.percentile(flat, (_CUT, 100 - _CUT)))
    if high <= low:
        # Few values differ from the rest: show those.
        low, high = float(flat.min()), float(flat.max())
    # All the same: grey. Of large numbers, a half is less than the next one is away.
    around = max(0.5, abs(low) * 1e-6)
    return (low, high) if high > low else (low - around, low + around)


def grey(values: npt.NDArray[Any], black: float, white: float) -> npt.NDArray[np.uint8]:
    """`black` to `white` as 0 to 255; NaN becomes black."""
    # Halved, since the distance of two numbers may be too large for a float.
    numbers = _real(values).astype(np.float64) / 2
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (numbers - black / 2) / (white / 2 - black / 2) * 255
    return np.nan_to_num(scaled, nan=0, posinf=255, neginf=0).clip(0, 255).round().astype(np.uint8)


def _real(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    return np.abs(values) if values.dtype.kind == "c" else values


def label_colours(labels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """uint8[..., 3]: black for 0, and for every other label a bright colour that depends on the label alone."""
    numbers = labels.astype(np.int64).view(np.uint64) if labels.dtype.kind in "ib" else labels.astype(np.uint64)
    mixed = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(0x7FB5D329728EA185)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x81DADEF4BC2DD44D)
    mixed ^= mixed >> np.uint64(33)
    colours = _palette()[(mixed & np.uint64(1023)).astype(np.intp)]
    colours[labels == 0] = 0
    return colours


def _palette() -> npt.NDArray[np.uint8]:
    """1024 colours: 256 hues, each light or dark, full or pale."""
    hue = np.repeat(np.arange(256) / 256 * 6, 4)
    saturation = np.tile([0.95, 0.95, 0.6, 0.6], 256)
    value = np.tile([1.0, 0.7], 512)
    channels = []
    for shift in (5, 3, 1):
        k = (shift + hue) % 6
        channels.append(value - value * saturation * np.clip(np.minimum(k, 4 - k), 0, 1))
    return (np.stack(channels, -1) * 255).round().astype(np.uint8)
