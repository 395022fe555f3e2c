"""Writing TIFF by tifffile: planes of y and x, in tiles where they are large, with coarser levels and OME's words."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.file import library
from zvcore.errors import UnsupportedError
from zvcore.images.slabs import SLAB, slabs
from zvcore.report import Report
from zvcore.tiff.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zvcore.images.whole import WholeImage

__all__ = ["COMPRESSIONS", "image_lost", "write_tiff"]

COMPRESSIONS = (None, "zlib", "zstd", "lzma", "lzw")
_TILE = 256
# Files that may become larger than this need offsets of 64 bits.
_CLASSIC = (1 << 32) - (1 << 25)
# What axes are called where they are those that TIFF and OME have letters for.
_LETTERS = {"t": "T", "time": "T", "c": "C", "channel": "C", "channels": "C", "z": "Z", "y": "Y", "x": "X"}
_OTHER = "?"
# What XML has no way to say, and what it reads as a space.
_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_SPACES = re.compile("[\\t\\n\\r]")
# How OME spells units of length; others make a description that its readers refuse.
_LENGTHS = {
    "um": "µm", "µm": "µm", "μm": "µm", "angstrom": "Å", "inch": "in",
    **{unit: unit for unit in ("km", "m", "dm", "cm", "mm", "nm", "pm", "fm", "am")},
}  # fmt: skip
_TIMES = {"second": "s", "s": "s", "millisecond": "ms", "ms": "ms", "minute": "min", "hour": "h"}
# What OME's description of an image has a name for.
_OME_TYPES = (
    "uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "float64", "complex64", "complex128", "bool",
)  # fmt: skip


def write_tiff(file: Any, image: WholeImage, *, compression: str | None = None) -> Report:
    """Write an image as pages of y and x, and in their SubIFDs the coarser levels that have as many pages."""
    if compression not in COMPRESSIONS:
        known = ", ".join(map(str, COMPRESSIONS))
        raise ValueError(f"compression of a TIFF is one of {known}, not {compression!r}")
    tifffile = library("tifffile", "tiff", "TIFF")
    report = Report()
    axes, lengths, dtype, letters, said, coarser = _shown(image, report)
    # Levels all have tiles, or none.
    tile = (_TILE, _TILE) if min(lengths[-2:]) > _TILE or coarser else None
    total = (math.prod(lengths) + sum(level.size for level in coarser)) * dtype.itemsize
    common = {"dtype": dtype, "tile": tile, "photometric": "minisblack", "compression": compression}
    # A file without a name gets one, which tifffile asks for.
    named = tifffile.FileHandle(file, name="image.tif")
    with tifffile.TiffWriter(named, bigtiff=total > _CLASSIC, ome=said is not None) as writer:
        values = _Values(image.array, image.region, axes, lengths, image.threads, image.watch)
        writer.write(
            values.tiles() if tile else values.pages(), shape=tuple(lengths), subifds=len(coarser),
            metadata=_metadata(letters, said or {}, lengths), **common,
        )  # fmt: skip
        for level in coarser:
            region = [part if isinstance(part, int) else slice(None) for part in image.region]
            shape = [level.shape[axis] for axis in axes]
            values = _Values(level, region, axes, shape, image.threads, image.watch)
            writer.write(values.tiles(), shape=tuple(shape), subfiletype=1, metadata=None, **common)
    return report


def image_lost(image: WholeImage) -> Report:
    """What of an image a TIFF has no place for."""
    report = Report()
    _shown(image, report)
    return report


def _shown(
    image: WholeImage, report: Report
) -> tuple[list[int], list[int], np.dtype[Any], str | None, dict[str, Any] | None, list[Any]]:
    """(axes, lengths, type of values, letters of the axes, what OME's words say, coarser levels that go along).

    OME's are None where it has none for such an image. What has no place in the file is told.
    """
    axes = _axes_shown(image)
    lengths = [image.length(axis) for axis in axes]
    dtype = image.array.dtype.newbyteorder("<")
    if dtype.kind not in "buifc":
        raise UnsupportedError("a TIFF does not hold such values", found=str(dtype))
    if 0 in lengths:
        raise UnsupportedError("a TIFF holds no image without pixels", found=f"lengths {tuple(lengths)}")
    letters, said = _described(image, axes)
    ome = letters is not None and image.array.dtype.name in _OME_TYPES
    coarser = _coarser(image, axes, report) if ome else []
    if not ome and len(image.levels) > 1:
        report.lose("", f"{len(image.levels) - 1} coarser levels: OME has no words for such axes or values")
    for what in _unsaid(image, axes, said if ome else {}):
        report.lose("", f"{what} has no place in a TIFF")
    return axes, lengths, dtype, letters, said if ome else None, coarser


def _metadata(letters: str | None, said: dict[str, Any], lengths: Sequence[int]) -> dict[str, Any] | None:
    """What tifffile describes the image by. Without letters that is its shape, where pages in a row do not show it."""
    if letters is not None:
        return {"axes": letters, **said}
    return {} if len(lengths) > 3 else None


def _coarser(image: WholeImage, axes: Sequence[int], report: Report) -> list[Any]:
    """The levels that have as many pages as the finest."""
    found = []
    for number, level in enumerate(image.levels[1:], 1):
        outside = [level.shape[axis] == image.array.shape[axis] for axis in axes[:-2]]
        if level.ndim == image.array.ndim and level.dtype == image.array.dtype and all(outside):
            found.append(level)
        else:
            report.lose("", f"level {number}: a TIFF has levels of as many planes as the finest")
    return found


def _axes_shown(image: WholeImage) -> list[int]:
    """The axes that are ranges, from the slowest on, so that the last two are y and x."""
    kept, letters = list(image.order), _letters(image)
    for letter in "YX":
        # Colours may be the fastest axis.
        named = [axis for axis in kept if letters[axis] == letter]
        kept = [axis for axis in kept if axis not in named[:1]] + named[:1]
    if len(kept) < 2:
        raise UnsupportedError("a TIFF has two axes at least", found=f"{len(kept)} axes in the region")
    return kept


def _described(image: WholeImage, axes: Sequence[int]) -> tuple[str | None, dict[str, Any]]:
    """(the axes as letters, sizes of voxels and names as OME has them); no letters where axes have other names."""
    letters = _letters(image)
    names = [letters[axis] for axis in axes]
    if len(set(names)) != len(names) or not set(names) <= set("TCZYX") or names[-2:] != ["Y", "X"]:
        return None, {}
    said: dict[str, Any] = {} if image.name is None else {"Name": _plain(image.name)}
    for name, axis in zip(names, axes, strict=True):
        size, unit = image.sizes[axis]
        # OME takes sizes without a unit for micrometers.
        if name in "XYZ" and size is not None and unit in _LENGTHS:
            said[f"PhysicalSize{name}"] = float(size)
            said[f"PhysicalSize{name}Unit"] = _LENGTHS[unit]
        if name == "T" and size is not None and unit in _TIMES:
            said.update(TimeIncrement=float(size), TimeIncrementUnit=_TIMES[unit])
        if name == "C" and any(image.channels) and image.length(axis) == len(image.channels):
            said["Channel"] = {"Name": [_plain(name) for name in image.channels]}
    return "".join(names), said


def _plain(text: str) -> str:
    """A text as XML can hold it, and reads it: JSON may have halves of characters, and such as are no text."""
    return _SPACES.sub(" ", _NO_XML.sub("?", text))


def _letters(image: WholeImage) -> list[str]:
    return [_LETTERS.get(name.lower(), _OTHER) for name in image.names]


def _unsaid(image: WholeImage, axes: Sequence[int], said: dict[str, Any]) -> Iterator[str]:
    """What is known of an image that the file does not say, in words."""
    letters = _letters(image)
    for axis in axes:
        size, unit = image.sizes[axis]
        name, letter = image.names[axis], letters[axis]
        if letter == _OTHER:
            yield f"the name {name!r} of an axis"
        if size is None:
            continue
        if letter != "C" and ("TimeIncrement" if letter == "T" else f"PhysicalSize{letter}") not in said:
            yield f"the size {size:g} {unit or ''}".rstrip() + f" of the voxels along the axis {name!r}"
        if image.offsets[axis]:
            yield f"the place {image.offsets[axis]:g} of the first voxel along the axis {name!r}"
    if image.name is not None and said.get("Name") != image.name:
        yield f"the name {image.name!r} of the image"
    channels = said.get("Channel", {}).get("Name", [])
    if any(image.channels) and channels != image.channels:
        yield "the names of channels"
    # Attributes that came from the words of a TIFF are said by those again.
    again = Words(said.get("Name"), channels=channels).attrs
    for name, value in image.attrs.items():
        if name not in again or again[name] != value:
            yield f"the attribute {name!r}"


class _Values:
    """What is written, page after page, read in parts that fit into memory."""

    def __init__(
        self,
        array: Any,
        region: list[Any],
        axes: Sequence[int],
        lengths: Sequence[int],
        threads: int | None,
        watch: Callable[[int], Any],
    ) -> None:
        self._array = array
        self._region = region
        self._axes = axes
        self._lengths = lengths
        self._threads = threads
        self._watch = watch

    def _read(self, region: Sequence[Any]) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = self._array.read(tuple(region), threads=self._threads)
        self._watch(values.size)
        return values

    def pages(self) -> Iterator[npt.NDArray[Any]]:
        *outer, _ = [range(n) for n in self._lengths[:-2]] or [range(1)]
        for place in itertools.product(*outer):
            for stack in self._stacks(place):
                yield from stack

    def tiles(self) -> Iterator[npt.NDArray[Any]]:
        if self._page_bytes > 8 * SLAB:
            yield from self._tiles_of_bands()
            return
        for page in self.pages():
            yield from _cut(page)

    @property
    def _page_bytes(self) -> int:
        return math.prod(self._lengths[-2:]) * int(self._array.dtype.itemsize)

    def _stacks(self, place: tuple[int, ...]) -> Iterator[npt.NDArray[Any]]:
        """Pages one after the other, at one place along the axes outside."""
        region = self._at(place)
        if len(self._lengths) == 2:
            yield self._turned(self._read(region), self._axes)[None]
            return
        for values in slabs(self._array, tuple(region), self._threads, self._axes[len(place)], self._watch):
            yield self._turned(values, self._axes[len(place) :])

    def _tiles_of_bands(self) -> Iterator[npt.NDArray[Any]]:
        """Tiles of pages that are too large to be read at once."""
        for place in itertools.product(*[range(n) for n in self._lengths[:-2]]):
            region = self._at(place)
            down = self._axes[-2]
            span = range(self._array.shape[down])[region[down]]
            for first in range(0, len(span), _TILE):
                rows = span[first : first + _TILE]
                stop = rows.stop if rows.step > 0 or rows.stop >= 0 else None
                region[down] = slice(rows.start, stop, rows.step)
                yield from _cut(self._turned(self._read(region), self._axes[-2:]))

    def _at(self, place: Sequence[int]) -> list[Any]:
        region = list(self._region)
        for axis, part in enumerate(region):
            if isinstance(part, slice) and axis not in self._axes:
                region[axis] = range(self._array.shape[axis])[part][0]
        for axis, i in zip(self._axes, place, strict=False):
            region[axis] = range(self._array.shape[axis])[region[axis]][i]
        return region

    def _turned(self, values: npt.NDArray[Any], axes: Sequence[int]) -> npt.NDArray[Any]:
        """Values with their axes in this order, from the array's own."""
        little: np.dtype[Any] = values.dtype.newbyteorder("<")
        return np.ascontiguousarray(values.transpose(_ranks(axes)).astype(little, copy=False))


def _ranks(axes: Sequence[int]) -> list[int]:
    """For each of these axes, which it is of them in ascending order."""
    ascending = sorted(axes)
    return [ascending.index(axis) for axis in axes]


def _cut(page: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    for y in range(0, page.shape[0], _TILE):
        for x in range(0, page.shape[1], _TILE):
            yield np.ascontiguousarray(page[y : y + _TILE, x : x + _TILE])
