"""The numbers of a file of lines: a part of them in memory, which moves along with whoever reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.file import StoredFile
from zvcore.kernels.ranges import gather_ranges

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.stores import Store

__all__ = ["Window"]

# How much is in memory at a time, unless one line is longer: about what a processor keeps near itself.
_BYTES = 4 << 20


class Window:
    """Numbers of one type from some byte of a file on, in this machine's byte order.

    numbers  those that are there, and not passed by yet; they are overwritten when more are read
    size     how many bytes the file has
    """

    def __init__(self, store: Store, begin: int, dtype: np.dtype[Any]) -> None:
        self._file = StoredFile(store, str(store.file))
        self._file.seek(begin)
        self.size = self._file.size
        self._swapped = not dtype.isnative
        self._each = dtype.itemsize
        self._room = np.empty(0, dtype.newbyteorder("="))
        self._first = self._last = 0

    @property
    def numbers(self) -> npt.NDArray[Any]:
        return self._room[self._first : self._last]

    @property
    def offset(self) -> int:
        """The byte of the file at which the numbers begin."""
        return self._file.tell() - (self._last - self._first) * self._each

    def pass_by(self, count: int) -> None:
        self._first += count

    def read_on(self, least: int = 0) -> bool:
        """Read more numbers behind those that are there, until there are `least` at any rate; whether any came.

        Room is made for what the file has, whatever is asked for.
        """
        here = self._last - self._first
        coming = (self.size - self._file.tell()) // self._each
        if coming <= 0:
            return False
        # Twice as much as before where that was not enough, so that nobody looks at a long line again and again.
        wanted = min(max(_BYTES // self._each, 2 * here, least), here + coming)
        old = self.numbers
        if wanted > len(self._room):
            self._room = np.empty(wanted, self._room.dtype)
        self._room[:here] = old
        self._first, self._last = 0, wanted
        new = self._room[here:wanted]
        left = memoryview(new).cast("B")
        while left:
            left = left[self._file.readinto(left) :]
        if self._swapped:
            new.byteswap(inplace=True)
        return True

    def gathered(self, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """A copy of these ranges of numbers, one behind the other."""
        places, sizes = ((one * self._each).astype(np.uint64) for one in (starts, counts))
        return gather_ranges(self.numbers.view(np.uint8), places, sizes).view(self._room.dtype)
