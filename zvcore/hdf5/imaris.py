"""Files of Imaris as images: `DataSet/ResolutionLevel 0/TimePoint 0/Channel 0/Data`, with axes t, c, z, y, x."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.array import BorrowedArray, BorrowedGroup
from zvcore.borrowed.file import reading
from zvcore.borrowed.stacked import Members, stacked_layout
from zvcore.errors import CorruptDataError, NotFoundError
from zvcore.hdf5.links import inner
from zvcore.images import Axis, Image, Level
from zvcore.images.axes import long_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.array import Array
    from zvcore.images import Axes
    from zvcore.stores.single_file import SingleFileStore

__all__ = ["imaris_image"]

_FORMAT, _TITLE = "hdf5", "Imaris"
_SPATIAL = "ZYX"
_ABOUT = "DataSetInfo"
# What is understood of what the groups in it say; sizes of images stand with the data, too.
_UNDERSTOOD = {
    "Image": {"Name", "Unit", *"XYZ", *(f"Ext{which}{axis}" for which in ("Min", "Max") for axis in range(3))},
    "Channel": {"Name", "Color"},
}
# How many attributes of a group are named.
_NAMED = 8
# Beside the image: pictures and histograms are made of it, everything else is more than it.
_OF_THE_IMAGE = ("DataSet", _ABOUT, "Thumbnail")


def imaris_image(file: Any, place: SingleFileStore, open_at: Callable[[SingleFileStore], Any]) -> BorrowedGroup | None:
    """The image that a file of Imaris is; None for other files. `open_at` opens what lies at a path in it.

    Its groups and data sets have their names all the same: `x.ims:/DataSet/...`.
    """
    with reading(place.root, _TITLE):
        if inner(file, "DataSet/ResolutionLevel 0") is None or inner(file, _ABOUT) is None:
            return None
    return _Imaris(file, place, open_at).group()


class _Imaris:
    def __init__(self, file: Any, place: SingleFileStore, open_at: Callable[[SingleFileStore], Any]) -> None:
        self.file, self.place, self.open_at = file, place, open_at
        with reading(place.root, _TITLE):
            levels = _counted(inner(file, "DataSet"), "ResolutionLevel")
            first = inner(file, "DataSet/ResolutionLevel 0")
            self.times = _counted(first, "TimePoint")
            self.channels = _counted(inner(first, "TimePoint 0"), "Channel") if self.times else 0
            if not self.times or not self.channels:
                raise NotFoundError("there are no time points or no channels here", key=place.root)
            self.shapes = [self._shape(level) for level in range(levels)]
            self.sizes, self.origin, self.unit = self._placed()

    def _path(self, level: int, time: int, channel: int) -> str:
        return f"DataSet/ResolutionLevel {level}/TimePoint {time}/Channel {channel}"

    def _shape(self, level: int) -> tuple[int, ...]:
        """Data sets are larger than the image, so that they are whole chunks."""
        group = inner(self.file, self._path(level, 0, 0))
        data = None if group is None else inner(group, "Data")
        if data is None:
            raise NotFoundError("a level without its first channel", key=f"{self.place.root}:/{level}")
        stored = tuple(int(n) for n in data.shape)
        if len(stored) != 3:
            raise CorruptDataError("a channel is a volume", key=f"{self.place.root}:/{group.name}", found=stored)
        said = [_number(group.attrs.get(f"ImageSize{axis}")) for axis in _SPATIAL]
        return tuple(n if one is None or not 1 <= one <= n else int(one) for n, one in zip(stored, said, strict=True))

    def _placed(self) -> tuple[list[float | None], list[float], str | None]:
        """(sizes of voxels of the finest level, where it begins, unit)."""
        about = inner(self.file, f"{_ABOUT}/Image")
        attrs = {} if about is None else about.attrs
        sizes: list[float | None] = []
        origin = []
        for number, n in zip((2, 1, 0), self.shapes[0], strict=True):
            first, last = (_number(attrs.get(f"{which}{number}")) for which in ("ExtMin", "ExtMax"))
            known = first is not None and last is not None and last > first
            sizes.append((last - first) / n if known and first is not None and last is not None else None)
            origin.append(first if known and first is not None else 0.0)
        unit = _text(attrs.get("Unit")) or None
        return sizes, origin, long_unit(unit)

    def group(self) -> BorrowedGroup:
        members = {str(level): partial(self._level, level) for level in range(len(self.shapes))}
        with reading(self.place.root, _TITLE):
            untold = self._untold()
        return BorrowedGroup(_FORMAT, self.place, members, image=self._image, untold=untold)

    def _untold(self) -> list[str]:
        """What the file says besides the image, in words."""
        about = inner(self.file, _ABOUT)
        found = []
        for name in about if hasattr(about, "keys") else ():
            one = inner(about, name)
            understood = _UNDERSTOOD.get(re.sub(" [0-9]+$", "", name), set())
            said = sorted(str(each) for each in getattr(one, "attrs", ()) if each not in understood)
            if said:
                found.append(f"what {_ABOUT}/{name} says of {_listed(said)}")
        return found + [f"what lies in {name!r}" for name in self.file if name not in _OF_THE_IMAGE]

    def _axes(self, level: int) -> Axes:
        spatial = []
        for name, fine, coarse, size, first in zip(
            "zyx", self.shapes[0], self.shapes[level], self.sizes, self.origin, strict=True
        ):
            factor = max(1, round(fine / coarse))
            base = 1.0 if size is None else size
            known = None if size is None and factor == 1 else base * factor
            spatial.append(Axis(name, self.unit, known, first + (factor - 1) / 2 * base, "space"))
        return (Axis("t", type="time"), Axis("c", type="channel"), *spatial)

    def _level(self, level: int) -> BorrowedArray:
        members = Members((self.times, self.channels), partial(self._member, level))
        first = members[0]
        assert first is not None
        layout = stacked_layout(self.place.root, members, first, shape=self.shapes[level])
        whole = (1, 1, *getattr(first, "whole", first.chunks))
        return BorrowedArray(
            layout, format=_FORMAT, store=self.place.within(str(level)), axes=self._axes(level), whole=whole
        )

    def _member(self, level: int, number: int) -> Array:
        path = self._path(level, *divmod(number, self.channels))
        with reading(self.place.root, _TITLE):
            if inner(self.file, path) is None:
                # Nothing in these files says that something is left out.
                raise CorruptDataError("a channel of a time point is not in the file", key=f"{self.place.root}:/{path}")
        found: Array = self.open_at(self.place.within(f"{path}/Data"))
        return found

    def _image(self, node: BorrowedGroup) -> Image:
        levels = [Level(name, node[name], self._axes(int(name))) for name in node]
        with reading(self.place.root, _TITLE):
            channels = [self._channel(number) for number in range(self.channels)]
            about = inner(self.file, f"{_ABOUT}/Image")
            name = _text(about.attrs.get("Name")) if about is not None else ""
        words = {"omero": {"channels": channels}} if any(one["label"] for one in channels) else {}
        return Image("", levels, name=name or None, convention=_TITLE, words=words)

    def _channel(self, number: int) -> dict[str, Any]:
        about = inner(self.file, f"{_ABOUT}/Channel {number}")
        attrs: Any = {} if about is None else about.attrs
        found = [float(one) for one in re.findall(r"[0-9.]+", _text(attrs.get("Color"))) if _number(one) is not None]
        rgb = found if len(found) == 3 and all(0 <= one <= 1 for one in found) else [1.0, 1.0, 1.0]
        return {"label": _text(attrs.get("Name")), "color": "".join(f"{round(255 * one):02X}" for one in rgb)}


def _counted(group: Any, name: str) -> int:
    """How many members are called so, with the numbers from 0 on."""
    count = 0
    while inner(group, f"{name} {count}") is not None:
        count += 1
    return count


def _listed(names: list[str]) -> str:
    """Names in words, the first of them."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _text(value: Any) -> str:
    """Attributes of Imaris are arrays of single characters."""
    if isinstance(value, np.ndarray):
        value = b"".join(value.reshape(-1)[:4096].tolist()) if value.dtype.kind == "S" else ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.strip("\0 ") if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    try:
        number = float(_text(value) if not isinstance(value, int | float | np.number) else value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
