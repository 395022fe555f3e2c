"""TIFF files of regions, by tifffile: planes of y and x, in tiles where they are large, with the sizes of voxels."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from zvcore.commands.files import SLAB, slabs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from zvcore.commands.files import Watch

__all__ = ["write_tiff"]

_TILE = 256
# Files that may become larger than this need offsets of 64 bits.
_CLASSIC = (1 << 32) - (1 << 25)
# What OME's description of an image has a name for.
_OME_TYPES = (
    "uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "float64", "complex64", "complex128", "bool",
)  # fmt: skip


def write_tiff(file: Any, array: Any, region: list[Any], threads: int | None, watch: Watch) -> None:
    """Write a region as pages of y and x. `region` has an entry for each axis of the array."""
    tifffile = _tifffile()
    axes = _axes_shown(array, region)
    lengths = [len(range(array.shape[axis])[region[axis]]) for axis in axes]
    values = _Values(array, region, axes, lengths, threads, watch)
    dtype = array.dtype.newbyteorder("<")
    if dtype.kind not in "buifc":
        from zvcore.errors import UnsupportedError

        raise UnsupportedError("a TIFF does not hold such values", found=str(dtype))
    letters, sizes = _described(array, axes)
    ome = letters is not None and array.dtype.name in _OME_TYPES
    tile = (_TILE, _TILE) if min(lengths[-2:]) > _TILE else None
    with tifffile.TiffWriter(file, bigtiff=math.prod(lengths) * dtype.itemsize > _CLASSIC, ome=ome) as writer:
        writer.write(
            values.tiles() if tile else values.pages(), shape=tuple(lengths), dtype=dtype, tile=tile,
            photometric="minisblack", metadata={"axes": letters, **(sizes if ome else {})} if letters else None,
        )  # fmt: skip


def _tifffile() -> Any:
    try:
        import tifffile
    except ImportError as error:
        from zvcore.errors import UnsupportedError

        raise UnsupportedError(
            "TIFF files are written by tifffile, which is not here: pip install zvcore[tiff]"
        ) from error
    return tifffile


def _axes_shown(array: Any, region: Sequence[Any]) -> list[int]:
    """The axes that are ranges, from the slowest on, so that the last two are y and x."""
    from zvcore.errors import UnsupportedError
    from zvcore.format import get_format

    kept = [axis for axis, part in enumerate(region) if isinstance(part, slice)]
    if get_format(array.format).fastest_first(array):
        kept.reverse()
        # Volumes always have channels, which are left out where there is one.
        while len(kept) > 3 and len(range(array.shape[kept[0]])[region[kept[0]]]) == 1:
            kept.pop(0)
    names = _letters(array)
    for letter in "YX":
        # Colours may be the fastest axis.
        named = [axis for axis in kept if names[axis] == letter]
        kept = [axis for axis in kept if axis not in named[:1]] + named[:1]
    if len(kept) < 2:
        raise UnsupportedError("a TIFF has two axes at least", found=f"{len(kept)} axes in the region")
    return kept


def _described(array: Any, axes: Sequence[int]) -> tuple[str | None, dict[str, Any]]:
    """(the axes as letters, the sizes of voxels as OME has them); no letters where axes have other names."""
    letters = _letters(array)
    names = [letters[axis] for axis in axes]
    if len(set(names)) != len(names) or not set(names) <= set("TCZYX") or names[-2:] != ["Y", "X"]:
        return None, {}
    sizes: dict[str, Any] = {}
    for name, axis in zip(names, axes, strict=True):
        span = array.at.spans[axis]
        if name in "XYZ" and span.size is not None:
            sizes[f"PhysicalSize{name}"] = float(span.size)
            sizes[f"PhysicalSize{name}Unit"] = "µm" if span.unit == "um" else span.unit
    return "".join(names), sizes


def _letters(array: Any) -> list[str]:
    from zvcore.pictures.planes import axis_names

    return [name.upper()[:1] for name in axis_names(array)]


class _Values:
    """What is written, page after page, read in parts that fit into memory."""

    def __init__(
        self,
        array: Any,
        region: list[Any],
        axes: Sequence[int],
        lengths: Sequence[int],
        threads: int | None,
        watch: Watch,
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
        import numpy as np

        little: np.dtype[Any] = values.dtype.newbyteorder("<")
        return np.ascontiguousarray(values.transpose(_ranks(axes)).astype(little, copy=False))


def _ranks(axes: Sequence[int]) -> list[int]:
    """For each of these axes, which it is of them in ascending order."""
    ascending = sorted(axes)
    return [ascending.index(axis) for axis in axes]


def _cut(page: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    import numpy as np

    for y in range(0, page.shape[0], _TILE):
        for x in range(0, page.shape[1], _TILE):
            yield np.ascontiguousarray(page[y : y + _TILE, x : x + _TILE])
