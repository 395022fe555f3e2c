"""The layout of plain values that lie in a file one after the other: the engine reads them from there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.blocks import slabs
from zvcore.borrowed.reading import ReadLayout, axes_of, check_items
from zvcore.engine import Keys
from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.exchange.virtual import Piece, Virtual
from zvcore.layout import Sources
from zvcore.stores.single_file import SingleFileStore, another_by_now, facts_of
from zvcore.stores.zip_store import ZipStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.engine.selection import Selection
    from zvcore.stores import Store

__all__ = ["FlatLayout", "Values", "flat_virtual"]

# The largest part of a file that other readers see as a chunk.
_PART = 16 << 20
# Parts that are no larger, and lie in one piece, are read without the engine.
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Values:
    """Where values lie in a file.

    start  the first byte
    shape  and
    dtype  of the array, with the byte order that they have there
    order  of its axes: "C", the last is the fastest, or "F"
    """

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "C"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class FlatLayout(ReadLayout):
    """Chunks are parts of the file. `whole`: all values are one chunk, where a part costs as much as the whole."""

    def __init__(self, store: Store, key: str, values: Values, *, whole: bool = False) -> None:
        check_items(key, values.dtype)
        facts = facts_of(store, key)
        if facts is None:
            raise NotFoundError("there is no file here", key=f"{store.root}/{key}")
        size, self.stamp = facts
        if values.start < 0:
            raise CorruptDataError(
                "the values would begin before the file", key=key, expected="an offset from 0 on", found=values.start
            )
        if values.start > size or values.nbytes > size - values.start:
            raise CorruptDataError(
                "the file is too short for the values that it tells of", key=key, offset=values.start,
                expected=f"{values.nbytes} bytes", found=f"{max(0, size - values.start)} bytes",
            )  # fmt: skip
        # The engine reads files of a folder by itself.
        self.store = store.folder if isinstance(store, SingleFileStore) else store
        self.key = key
        self.values = values
        self.shape = values.shape
        axes = axes_of(len(self.shape), values.order)
        chunk = tuple(max(1, n) for n in self.shape) if whole else slabs(self.shape, values.dtype.itemsize, axes)
        self.take_form(chunk, values.dtype, values.order)
        self._strides = [0] * len(self.shape)
        step = values.dtype.itemsize
        for axis in reversed(axes):
            self._strides[axis] = step
            step *= max(1, self.shape[axis])

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.key

    def check_rest(self) -> None:
        # All of what is compressed has been unpacked, and its checksum seen.
        if isinstance(self.store, ZipStore) and not self.store.is_packed(self.key):
            self.store.check(self.key)

    def read_at_once(self, selection: Selection, out: npt.NDArray[Any]) -> bool:
        if self.store.local_root is None or out.nbytes > _AT_ONCE or self.form.swapped or self.value_codec is not None:
            return False
        turned = self.values.order == "F"
        start = None if selection.is_points or selection.has_lists else self._first_of(selection, turned)
        if start is None or not (out.flags.f_contiguous if turned else out.flags.c_contiguous):
            return False
        try:
            data = self.store.get(self.key, self.values.start + start, out.nbytes, stamp=self.stamp)
        except ZvcoreError:
            return False
        if data is None or len(data) != out.nbytes:
            return False
        out[...] = np.frombuffer(data, out.dtype).reshape(out.shape, order="F" if turned else "C")
        return True

    def _first_of(self, selection: Selection, turned: bool) -> int | None:
        """How far behind the first value those begin that are selected, where they lie one after the other; else None.

        So they do where all of each axis is selected but a part of one, and one item of each that is slower than that.
        """
        within, places = selection.share((0,) * len(self.shape), self.shape)
        start, in_part = 0, False
        axes = zip(within, places, self.shape, self._strides, strict=True)
        for part, place, extent, stride in reversed([*axes]) if not turned else axes:
            count = (part.stop - part.start) // part.step
            if (in_part and count != 1) or (count != 1 and (part.step != 1 or place.step == -1)):
                return None
            in_part = in_part or count != extent
            start += part.start * stride
        return start

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        if self.store.stamp(self.key) != self.stamp:
            raise another_by_now(self.key)
        return self._located(positions)

    def recall(self, positions: npt.NDArray[np.int64]) -> Sources | None:
        # Far away, a look would be a request of its own. Bytes of another version do not come.
        return self._located(positions) if self.store.remote else None

    def _located(self, positions: npt.NDArray[np.int64]) -> Sources:
        chunk = np.array(self.form.shape, np.int64)
        first = positions * chunk
        offset = self.values.start + (first * np.array(self._strides, np.int64)).sum(axis=1)
        shape = np.array(self.shape, np.int64)
        length = np.minimum(chunk, shape - first).prod(axis=1) * self.values.dtype.itemsize
        return Sources(
            keys=Keys.of([self.key]), key=np.zeros(len(positions), np.int32), offset=offset.astype(np.uint64),
            length=length.astype(np.uint64), stamps=[self.stamp],
        )  # fmt: skip


def _equal_part(whole: int, most: int) -> int:
    """A divisor of a length: at most `most`, if one is near it. A prime is not cut into single rows."""
    small = [n for n in range(1, math.isqrt(whole) + 1) if whole % n == 0]
    divisors = [*small, *(whole // n for n in small)]
    fitting = max(n for n in divisors if n <= most)
    return fitting if whole <= most or 16 * fitting >= most else min(n for n in divisors if n > most)


def flat_virtual(layout: FlatLayout, *, shows_turned: bool) -> Virtual:
    """Parts of equal size along the slowest axis, each in one piece."""
    values, rank = layout.values, len(layout.shape)
    if values.dtype.kind not in "biufcSmM":
        raise UnsupportedError("references cannot describe items of this type", key=layout.key, found=str(values.dtype))
    slowest = 0 if values.order == "C" else rank - 1
    chunk = [max(1, n) for n in layout.shape]
    if rank:
        row = math.prod(chunk) // chunk[slowest] * values.dtype.itemsize
        chunk[slowest] = _equal_part(chunk[slowest], max(1, _PART // row))
    step = math.prod(chunk) * values.dtype.itemsize

    def pieces() -> Iterator[Piece]:
        for number in range(layout.shape[slowest] // chunk[slowest] if rank else 1):
            place = tuple(number if axis == slowest else 0 for axis in range(rank))
            yield Piece(place, layout.key, values.start + number * step, step)

    turned = values.order == "F" and rank > 1
    axes = tuple(reversed(range(rank))) if turned and shows_turned else tuple(range(rank))
    order = "F" if turned and not shows_turned else "C"
    shape, chunks = (tuple(one[axis] for axis in axes) for one in (layout.shape, chunk))
    found = iter(()) if 0 in layout.shape else pieces()
    return Virtual(shape, chunks, values.dtype, layout.fill_value, found, order, axes)
