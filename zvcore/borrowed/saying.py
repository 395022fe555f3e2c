"""What is said of an array besides its values, on its way into a new one: names of axes, sizes and places of voxels,
attributes. What has no place there is told.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.errors import LostMetadataWarning
from zvcore.format import get_format
from zvcore.images.axes import long_unit, unit_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.array import Array
    from zvcore.format import Format
    from zvcore.images import Axes, Axis

__all__ = ["Saying"]

# Sizes and places are written with nine digits behind the point.
_ROUNDED = 1e-6


class Saying:
    """What an array says of itself to a format that will hold its values.

    options, attrs  of the format's `create`: those that were given stay
    lost            what has no place there, in words
    """

    def __init__(
        self, data: Array, format: Format, options: Mapping[str, Any], attrs: Mapping[str, Any] | None
    ) -> None:
        source, self._format = get_format(data.format), format
        exchange = format.exchange()
        image = source.read_image(data)
        self.axes: Axes = _named(source.places(data)[0], options.get("dimension_names"))
        taken, self.lost = frozenset[str](), []
        if image is not None:
            taken = image.levels[0].taken
            self.lost += [f"{what} is not known" for what in image.levels[0].untold]
            self.lost += [f"{word} of the image has no place in an array" for word in image.words]
        own = {name: one for name, one in source.exchange().user_attributes(data.attrs).items() if name not in taken}
        kept, lost = exchange.kept_attributes(own, foreign=source.name != format.name)
        given = dict(attrs or {})
        self.lost += [f"the attribute {name!r} {why}" for name, why in sorted(lost.items()) if name not in given]
        self.attrs = {**kept, **exchange.placing_attributes(self.axes), **given}
        self.options = {**exchange.placing_options(self.axes), **options}
        # What the caller says of places is meant to be another thing than what the source says.
        self._overruled = bool(options.keys() & exchange.placing_options(self.axes).keys()) or bool(
            given.keys() & exchange.placing_attributes(self.axes).keys()
        )

    def warn(self, made: Array, stacklevel: int = 3) -> None:
        """Warn of what is not said of the new array, naming it."""
        lost = [*self.lost]
        if not self._overruled:
            here = self._format.read_axes(made)
            for axis, found in zip(self.axes, here, strict=False):
                lost += _differences(axis, found)
        if lost:
            warnings.warn(f"{made.store.root}: not carried: {'; '.join(lost)}", LostMetadataWarning, stacklevel)


def _named(axes: Axes, names: Any) -> Axes:
    """Axes with other names, where as many are given."""
    if not isinstance(names, list | tuple) or len(names) != len(axes):
        return axes
    return tuple(replace(axis, name=name) for axis, name in zip(axes, names, strict=True))


def _differences(axis: Axis, found: Axis) -> Iterator[str]:
    called = repr(axis.name) if axis.name else "without a name"
    if axis.name is not None and found.name != axis.name:
        yield f"the axis {called} is called {found.name!r}" if found.name else f"the name of the axis {called}"
    unit, here = long_unit(axis.unit), long_unit(found.unit)
    ratio = 1.0
    if unit is not None and unit != here:
        known = unit_ratio(unit, here)
        if known is None:
            yield f"the unit {axis.unit!r} of the axis {called}"
        else:
            ratio = float(known)
    for what, given, said in (
        ("size", axis.scale, 1.0 if found.scale is None else found.scale),
        ("place", axis.offset or None, found.offset),
    ):
        if given is not None and abs(given * ratio - said) > _ROUNDED * max(1.0, abs(given * ratio)):
            yield f"the {what} {given:g} of the voxels along the axis {called}"
