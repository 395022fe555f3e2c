"""Fragment indices: how the rows of one chunk are divided into fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError
from zvcore.kernels import fragments as kernel
from zvcore.kernels.fragment_lookup import Pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FragmentIndex", "decode_fragments", "encode_fragments"]

Ints = npt.NDArray[np.int64]


def encode_fragments(fragments: Sequence[Any], force_explicit: bool = False) -> bytes:
    """A fragment index from one entry per fragment.

    An entry is a (start, count) tuple or a sequence of row numbers; a sequence that counts up by one becomes a range
    unless `force_explicit`.
    """
    first: list[int] = []
    count: list[int] = []
    listed = np.zeros(len(fragments), np.uint8)
    lists: list[Ints] = []
    taken = 0
    for index, fragment in enumerate(fragments):
        if isinstance(fragment, tuple):
            if len(fragment) != 2:
                raise ValueError(f"Fragment tuple must have shape (start, count), got {fragment!r}")
            first.append(int(fragment[0]))
            count.append(int(fragment[1]))
            continue
        array = np.asarray(fragment)
        if array.ndim != 1:
            raise ValueError(f"Fragment array must be 1-D, got shape {array.shape}")
        rows = np.ascontiguousarray(array, np.int64)
        count.append(len(rows))
        if len(rows) and not force_explicit and rows[0] >= 0 and (np.diff(rows) == 1).all():
            first.append(int(rows[0]))
            continue
        first.append(taken)
        listed[index] = 1
        lists.append(rows)
        taken += len(rows)
    try:
        columns = np.array(first, np.int64), np.array(count, np.int64)
    except OverflowError:
        raise ValueError("fragments must fit signed 64-bit integers") from None
    if not lists:
        return kernel.encode_ranges(*columns)
    return kernel.encode_mixed(listed, *columns, np.concatenate(lists))


def decode_fragments(raw: Any, strict: bool = False) -> FragmentIndex:
    """The fragment index of one chunk, as views into `raw` where that cannot change under them.

    `strict` also refuses ranges with negative start or count or beyond 2**63, and negative rows.
    """
    data = raw if isinstance(raw, bytes) else bytes(memoryview(raw))
    index = FragmentIndex(data)
    if strict:
        index.check()
    return index


class FragmentIndex(Pieces):
    """The fragments of one chunk: runs of rows, or lists of rows that fragments may share."""

    def __init__(self, data: bytes) -> None:
        pieces, ranges = self.num_fragments, self.num_range_fragments
        if pieces:
            self._bitmap = np.frombuffer(data, np.uint8, (pieces + 7) // 8, 16)
            # The views are unaligned as often as not; numpy reads them all the same.
            self._table: Ints = np.frombuffer(data, "<i8", 2 * ranges, self.ranges_at).reshape(ranges, 2)
            self._offsets = np.frombuffer(data, "<u4", pieces - ranges + 1, self.offsets_at)
            self._rows: Ints = np.frombuffer(data, "<i8", self.listed, self.rows_at)
        else:
            self._bitmap = np.zeros(0, np.uint8)
            self._table = np.zeros((0, 2), np.int64)
            self._offsets = np.zeros(1, np.uint32)
            self._rows = np.zeros(0, np.int64)

    def columns(self) -> dict[str, Any]:
        """What the reference's own index object is made of."""
        return {
            "num_fragments": self.num_fragments,
            "_bitmap": self._bitmap,
            "_range_table": self._table,
            "_csr_offsets": self._offsets,
            "_csr_indices": self._rows,
        }

    def __repr__(self) -> str:
        return f"<FragmentIndex of {self.num_range_fragments} ranges and {self.num_explicit_fragments} lists>"

    @property
    def num_explicit_fragments(self) -> int:
        return self.num_fragments - self.num_range_fragments

    def ranges(self) -> Ints | None:
        """int64[fragments, 2] of (start, count) when every fragment is a range, else None."""
        return None if self.num_explicit_fragments else self._table

    @property
    def vertex_extent(self) -> int:
        """One more than the largest row that any fragment names."""
        extent = 0
        if len(self._table):
            if self._wide():
                extent = max(map(sum, self._table.tolist()))
            else:
                extent = int((self._table[:, 0] + self._table[:, 1]).max())
        if len(self._rows):
            extent = max(extent, int(self._rows.max()) + 1)
        return extent

    def tiles(self, rows: int) -> bool:
        """Whether the fragments, one after the other, are exactly rows 0 to `rows`."""
        if self.num_explicit_fragments or not self.num_fragments or self._wide():
            return False
        ends = self._table[:, 0] + self._table[:, 1]
        return bool(self._table[0, 0] == 0 and ends[-1] == rows and np.array_equal(ends[:-1], self._table[1:, 0]))

    def check(self, rows: int | None = None) -> None:
        """Raise if a fragment names a row that cannot exist, or that a chunk of `rows` rows does not have."""
        starts, counts = self._table[:, 0], self._table[:, 1]
        wrong = (starts < 0) | (counts < 0) | (starts > 2**63 - 1 - np.maximum(counts, 0))
        if wrong.any():
            start, count = self._table[np.argmax(wrong)].tolist()
            raise CorruptDataError(f"a fragment range of {count} rows from row {start}")
        if len(self._rows) and self._rows.min() < 0:
            raise CorruptDataError(f"a fragment lists row {self._rows.min()}")
        if rows is not None and self.vertex_extent > rows:
            raise CorruptDataError(f"fragments reach row {self.vertex_extent - 1} of a chunk with {rows} rows")

    def _wide(self) -> bool:
        """Whether start + count of a range may leave int64."""
        return bool(len(self._table)) and bool(np.abs(self._table).max() >= 2**62 or self._table.min() == -(2**63))
