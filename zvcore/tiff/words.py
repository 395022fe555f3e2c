"""What a TIFF says of its images besides their values: in OME's XML, or in the words of ImageJ."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zvcore.documents.xml import local_name, parse_xml
from zvcore.errors import ZvcoreError
from zvcore.images import Axis
from zvcore.tiff.resolution import INCH, ratios, resolution_of
from zvcore.tiff.untold import untold_in_imagej, untold_in_ome, untold_in_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.images import Axes

__all__ = ["Words", "words_of"]

_TYPES = {"x": "space", "y": "space", "z": "space", "t": "time", "c": "channel"}
_UNITS = {"micron": "micrometer", "\\u00B5m": "micrometer", "um": "micrometer", "µm": "micrometer", "μm": "micrometer",
          "Å": "angstrom", "in": "inch", "pixel": None, "": None}  # fmt: skip


@dataclass
class Words:
    """What is said of one series: sizes by the letters of axes, with their units; names of channels.

    description  what the image is described by, in words of nobody's format
    untold       what is not understood
    """

    name: str | None = None
    description: str | None = None
    untold: list[str] = field(default_factory=list)
    sizes: dict[str, tuple[float, str | None]] = field(default_factory=dict)
    channels: list[str | None] = field(default_factory=list)

    @property
    def attrs(self) -> dict[str, Any]:
        found: dict[str, Any] = {} if self.name is None else {"name": self.name}
        if any(self.channels):
            found["channel_names"] = self.channels
        if self.description is not None:
            found["description"] = self.description
        return found

    @property
    def describe_an_image(self) -> bool:
        """Whether they say more than an array's shape does."""
        return bool(self.sizes) or any(self.channels)

    @property
    def ome(self) -> dict[str, Any]:
        """The channels in the words of OME-Zarr."""
        if not any(self.channels):
            return {}
        return {"omero": {"channels": [{"label": name or "", "color": "FFFFFF"} for name in self.channels]}}

    def axes(self, level: Any, finest: Any) -> Axes:
        """The axes of a level; `finest`: the level that the sizes are those of."""
        names = ["c" if letter == "S" and "C" not in level.axes else letter.lower() for letter in level.axes]
        axes = []
        for name, letter, here, there in zip(names, level.axes, level.shape, finest.shape, strict=True):
            size, unit = self.sizes.get(letter, (None, None))
            factor = max(1, round(there / here)) if letter in "XYZ" else 1
            known = name if name in _TYPES else None
            if size is None:
                axes.append(
                    Axis(known, None, float(factor) if factor > 1 else None, (factor - 1) / 2, _TYPES.get(name))
                )
            else:
                axes.append(Axis(known, unit, size * factor, (factor - 1) / 2 * size, _TYPES.get(name)))
        return tuple(axes)


def words_of(file: Any, series: Sequence[Any]) -> list[Words]:
    """Of each series; of what cannot be understood, that it is not."""
    words = _understood(file, len(series))
    for one, of in zip(series, words, strict=True):
        of.untold += untold_in_tags(one.keyframe)
        _take_resolution(of, one.keyframe)
        text = one.keyframe.description
        if text and not (file.is_ome or file.is_imagej or _is_shape(text)):
            of.description = text
    return words


def _take_resolution(words: Words, page: Any) -> None:
    """What the tags of a page say of sizes, where nothing else says it."""
    if words.sizes.keys() & {"X", "Y"}:
        return
    found = resolution_of(page)
    words.sizes.update(found.sizes)
    words.untold += found.untold


def _understood(file: Any, count: int) -> list[Words]:
    text = file.ome_metadata if file.is_ome else None
    if text is not None:
        found = _of_ome(text)
        return found if len(found) == count else [Words(untold=["what OME says"]) for _ in range(count)]
    if file.is_imagej:
        return [_of_imagej(file) for _ in range(count)]
    return [Words() for _ in range(count)]


def _is_shape(text: str) -> bool:
    """Whether it is what tifffile notes there of the shape of values."""
    return (text.startswith("{") and '"shape":' in text) or text.startswith("shape=(")


def _of_ome(text: str) -> list[Words]:
    try:
        root = parse_xml(text, "the description of the first image")
    except ZvcoreError:
        return []
    found = []
    for image in root.iter():
        if local_name(image) != "Image":
            continue
        words = Words(image.get("Name"))
        for pixels in [one for one in image if local_name(one) == "Pixels"][:1]:
            _take_pixels(words, pixels)
        found.append(words)
    for words in found[:1]:
        words.untold += untold_in_ome(root)
    return found


def _take_pixels(words: Words, pixels: Any) -> None:
    """The sizes of voxels, the time between images, and the names of channels."""
    for letter in "XYZ":
        size = _number(pixels.get(f"PhysicalSize{letter}"))
        if size is not None:
            words.sizes[letter] = size, _unit(pixels.get(f"PhysicalSize{letter}Unit", "µm"))
    step = _number(pixels.get("TimeIncrement"))
    if step is not None:
        words.sizes["T"] = step, {"s": "second", "ms": "millisecond"}.get(pixels.get("TimeIncrementUnit", "s"))
    words.channels = [one.get("Name") for one in pixels if local_name(one) == "Channel"]


def _of_imagej(file: Any) -> Words:
    told = file.imagej_metadata or {}
    unit = _unit(str(told.get("unit", "")))
    words = Words()
    if unit is not None:
        for letter, (pixels, units) in ratios(file.pages[0]).items():
            words.sizes[letter] = _in_units(units / pixels, unit)
    spacing = _number(told.get("spacing"))
    if spacing is not None and unit is not None:
        words.sizes["Z"] = _in_units(spacing, unit)
    elif spacing is not None and spacing != 1:
        words.untold.append(f"the spacing {spacing:g} of ImageJ without a unit")
    step = _number(told.get("finterval"))
    if step is not None:
        words.sizes["T"] = step, "second"
    words.untold += untold_in_imagej(told)
    return words


def _in_units(size: float, unit: str) -> tuple[float, str]:
    return (size * INCH, "millimeter") if unit == "inch" else (size, unit)


def _number(given: Any) -> float | None:
    try:
        number = float(given)
    except (TypeError, ValueError):
        return None
    return number if 0 < number < math.inf else None


def _unit(text: str) -> str | None:
    return _UNITS.get(text, text)
