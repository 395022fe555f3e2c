"""How large pixels are, in the words of TIFF itself: how many of them go into an inch or a centimeter."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

__all__ = ["INCH", "Resolution", "ratios", "resolution_of"]

# In millimeters.
INCH = 25.4
_TAGS = {"X": 282, "Y": 283}
_UNIT, _INCHES, _NO_UNIT = 296, 2, 1
# By the values of the tag of the unit, the last two of which are not in the standard: how large one is, and in what.
_UNITS = {_INCHES: (INCH, "millimeter"), 3: (1.0, "centimeter"), 4: (1.0, "millimeter"), 5: (1.0, "micrometer")}
# What programs write that know of no size: so many dots to an inch, which ImageJ takes for nothing, too.
_OF_SCREENS = 72.0


@dataclass
class Resolution:
    """Sizes by the letters of axes, with their units; and what cannot be a size, in words."""

    sizes: dict[str, tuple[float, str]] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)


def ratios(page: Any) -> dict[str, tuple[float, float]]:
    """(pixels, units into which they go) by the letters of axes, as far as a page has both."""
    found = {}
    for letter, code in _TAGS.items():
        tag = page.tags.get(code)
        value = None if tag is None else tag.value
        if isinstance(value, tuple) and len(value) == 2 and all(0 < n < math.inf for n in value):
            found[letter] = value
    return found


def resolution_of(page: Any) -> Resolution:
    """What a page says."""
    dots = {letter: pixels / units for letter, (pixels, units) in ratios(page).items()}
    if set(dots) != set(_TAGS):
        return Resolution()
    tag = page.tags.get(_UNIT)
    unit = _INCHES if tag is None else tag.value
    if unit == _INCHES and set(dots.values()) == {_OF_SCREENS}:
        return Resolution()
    if unit in _UNITS:
        size, name = _UNITS[unit]
        return Resolution({letter: (size / number, name) for letter, number in dots.items()})
    if unit == _NO_UNIT and set(dots.values()) == {1.0}:
        return Resolution()
    return Resolution(untold=[f"a resolution of {dots['X']:g} x {dots['Y']:g} (x, y) without a unit"])
