"""Tiles and strips of the pages of a TIFF: read from the store, decoded by tifffile."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.array import reopened_blocks
from zvcore.borrowed.file import reading
from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.exchange.virtual import Virtual
    from zvcore.stores.single_file import SingleFileStore

__all__ = ["Segments"]

# Of tifffile's own order: (separate sample, depth, length, width, contiguous sample).
_PLACES = {"Z": 1, "Y": 2, "X": 3}
_LARGEST = 1 << 31
# The compressions that hold JPEG streams, what such a stream ends with, and how much padding may follow.
_JPEG = {6, 7, 33007, 34892}
_END, _PADDING = b"\xff\xd9", 64


class Segments:
    """The blocks of one level: its last axes are those of a page, the others say which page."""

    parallel = True

    def __init__(self, level: Any, place: SingleFileStore) -> None:
        self.place = place
        self.shape = tuple(int(n) for n in level.shape)
        self.dtype: np.dtype[Any] = level.dtype.newbyteorder("=")
        page = self.keyframe = level.keyframe
        self.pages = list(level.pages)
        self.frame = tuple(int(n) for n in page.shape)
        self.outer = self.shape[: len(self.shape) - len(self.frame)]
        unlike = self.shape[len(self.outer) :] != self.frame or math.prod(self.outer) != len(self.pages)
        if unlike or level.transform is not None or any(one is None for one in self.pages):
            raise UnsupportedError("a series whose pages are not parts of its shape", key=place.root, found=self.shape)
        self._shaped = tuple(int(n) for n in page.shaped)
        self.axes = self._places(page)
        samples = self._shaped[4]
        if page.is_tiled:
            self.extents = (1, page.tiledepth, page.tilelength, page.tilewidth, samples)
        else:
            self.extents = (1, 1, min(page.rowsperstrip, self._shaped[2]), self._shaped[3], samples)
        nbytes = math.prod(self.extents) * self.dtype.itemsize
        if not 0 < nbytes <= _LARGEST:
            raise UnsupportedError(
                "tiles or strips of this size", key=place.root, expected=f"at most {_LARGEST} bytes", found=nbytes
            )
        self.grid = tuple(-(-n // extent) for n, extent in zip(self._shaped, self.extents, strict=True))
        self._decode = page.decode
        self._is_jpeg = int(page.compression) in _JPEG
        # Whether the values of a decoded tile lie as those of a chunk do.
        unnamed = [extent for at, extent in enumerate(self.extents) if at not in self.axes]
        self.in_order = self.axes == sorted(self.axes) and math.prod(unnamed) == 1
        self.tile = (*(1,) * len(self.outer), *(self.extents[axis] for axis in self.axes))

    def __reduce__(self) -> tuple[Any, ...]:
        return (reopened_blocks, ("tiff", self.place))

    def _places(self, page: Any) -> list[int]:
        """Which axis of tifffile's own order each axis of a page is."""
        sample = 0 if self._shaped[0] > 1 else 4
        found = [sample if letter == "S" else _PLACES.get(letter, -1) for letter in page.axes]
        if -1 in found or any(self._shaped[at] != n for at, n in zip(found, self.frame, strict=True)):
            raise UnsupportedError("pages with such axes", key=self.place.root, found=page.axes)
        return found

    def virtual(self) -> Virtual:
        from zvcore.tiff.chunks import virtual_of

        return virtual_of(self)

    def read(self, region: tuple[slice, ...]) -> npt.NDArray[Any]:
        outer, inner = region[: len(self.outer)], region[len(self.outer) :]
        values = np.zeros([one.stop - one.start for one in region], self.dtype)
        for place in itertools.product(*(range(one.start, one.stop) for one in outer)):
            number = int(np.ravel_multi_index(place, self.outer)) if place else 0
            here = tuple(i - one.start for i, one in zip(place, outer, strict=True))
            self._read_page(self.pages[number], inner, values[here])
        return values

    def _read_page(self, page: Any, region: Sequence[slice], target: npt.NDArray[Any]) -> None:
        """Read a part of one page. What has no bytes stays 0."""
        box = [(0, n) for n in self._shaped]
        for axis, one in zip(self.axes, region, strict=True):
            box[axis] = (one.start, one.stop)
        # The same memory with tifffile's axes.
        order = np.argsort(self.axes)
        view = target.transpose(order).reshape([stop - start for start, stop in box])
        if not np.shares_memory(view, target):
            raise AssertionError("axes of length 1 are views")
        wanted = list(self._numbers(box))
        for number, data in zip(wanted, self._stored(page, wanted), strict=True):
            if data is not None:
                try:
                    self._put(data, number, box, view, page.jpegtables)
                except ZvcoreError as error:
                    raise error.located(offset=int(page.dataoffsets[number])) from error

    def _numbers(self, box: Sequence[tuple[int, int]]) -> Iterator[int]:
        """The segments that a box reaches into."""
        ranges = [
            range(start // extent, -(-stop // extent)) for (start, stop), extent in zip(box, self.extents, strict=True)
        ]
        for place in itertools.product(*ranges):
            yield int(np.ravel_multi_index(place, self.grid))

    def _stored(self, page: Any, wanted: Sequence[int]) -> list[memoryview | None]:
        """The bytes of segments; None for those that are not stored."""
        offsets, counts = page.dataoffsets, page.databytecounts
        if wanted and max(wanted) >= min(len(offsets), len(counts)):
            raise CorruptDataError(
                "a page has fewer tiles or strips than its shape needs", key=self.place.root,
                expected=math.prod(self.grid), found=min(len(offsets), len(counts)),
            )  # fmt: skip
        there = [number for number in wanted if offsets[number] and counts[number]]
        parts = self.place.get_ranges(self.place.file, [(int(offsets[n]), int(counts[n])) for n in there])
        if parts is None:
            raise NotFoundError("the file is gone", key=self.place.root)
        found: dict[int, memoryview] = dict(zip(there, parts, strict=True))
        return [found.get(number) for number in wanted]

    def _put(
        self, data: memoryview, number: int, box: Sequence[tuple[int, int]], view: npt.NDArray[Any], tables: Any
    ) -> None:
        # libjpeg fills what is missing with grey.
        if self._is_jpeg and _END not in bytes(data[-_PADDING:]):
            raise CorruptDataError("a JPEG stream is cut off", key=self.place.root, expected="FFD9 at its end")
        with reading(self.place.root, "TIFF"):
            decoded, at, _ = self._decode(bytes(data), number, **({"jpegtables": tables} if tables else {}))
        if decoded is None:
            return
        source, target = [], []
        extents = (1, *decoded.shape)
        for (start, stop), first, extent in zip(box, at, extents, strict=True):
            low, high = max(start, first), min(stop, first + extent)
            if low >= high:
                return
            source.append(slice(low - first, high - first))
            target.append(slice(low - start, high - start))
        view[tuple(target)] = decoded[None][tuple(source)]
