"""Sorting more encoded values than memory holds: sorted runs on disk, merged piece by piece."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.kernels.ranges import gather_ranges
from zvcore.precomputed.entries import U64, Entries, join, stored_order
from zvcore.stores.writing import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["ExternalSort", "nameless_file", "pieces_of", "read_all"]

# What a merge reads of the columns of all runs together, and of their bytes, at a time.
COLUMN_ROWS = 1 << 17
PIECE_BYTES = 8 << 20
_COLUMN_NAMES = ("hashes", "ids", "before", "sizes")
_COLUMNS = len(_COLUMN_NAMES)
_NO_DATA = np.empty(0, np.uint8)


class ExternalSort:
    """Takes entries in any order and gives them back in the order of shards, minishards and ids.

    Up to `memory` bytes are kept; when more come, what is there is sorted and appended to one temporary file in
    `folder`, which has no name and goes with this object. Use it as a context manager.
    """

    def __init__(self, memory: int, folder: str | None = None) -> None:
        self.memory = memory
        self.folder = folder
        self._pending: list[Entries] = []
        self._pending_bytes = 0
        self._runs: list[_Run] = []
        self._fd = -1
        self._end = 0

    def __enter__(self) -> ExternalSort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pending = []
        self._runs = []
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def add(self, entries: Entries) -> None:
        if not len(entries):
            return
        self._pending.append(entries)
        self._pending_bytes += entries.nbytes
        if self._pending_bytes > self.memory:
            self._spill()

    def merged(self) -> Iterator[Entries]:
        """All entries in order, in pieces of a few megabytes (or of one entry, if that is larger)."""
        if not self._runs:
            everything = join(self._pending)
            self._pending = []
            yield everything.sorted()
            return
        if self._pending:
            self._spill()
        yield from _merge(self._runs)

    def _spill(self) -> None:
        # Column by column, so that hardly anything is in memory twice.
        data = np.concatenate([one.data for one in self._pending])
        for one in self._pending:
            one.data = _NO_DATA
        columns = [np.concatenate([getattr(one, name) for one in self._pending]) for name in _COLUMN_NAMES]
        self._pending = []
        self._pending_bytes = 0
        if self._fd < 0:
            self._fd = nameless_file(self.folder)
        hashes, ids, before, sizes = columns
        order = stored_order(hashes, ids)
        spans = before + sizes
        starts = np.cumsum(spans, dtype=np.uint64) - spans
        table = np.empty((len(order), _COLUMNS), np.uint64)
        for number in range(_COLUMNS):
            table[:, number] = columns[number][order]
        del columns, hashes, ids, before, sizes
        at = self._end
        at += write_all(self._fd, at, table.reshape(-1).view(np.uint8))
        self._runs.append(_Run(self._fd, self._end, len(table), at))
        del table
        # The bytes in their new order, a few megabytes at a time.
        for first, last in pieces_of(spans[order], PIECE_BYTES):
            rows = order[first:last]
            at += write_all(self._fd, at, gather_ranges(data, starts[rows], spans[rows]))
        self._end = at


class _Run:
    """A sorted run in the file, and how far the merge has come in it."""

    def __init__(self, fd: int, columns_at: int, count: int, data_at: int) -> None:
        self.fd = fd
        self.columns_at = columns_at
        self.count = count
        self.data_at = data_at
        self.loaded = 0
        self.window = np.empty((0, _COLUMNS), np.uint64)

    @property
    def exhausted(self) -> bool:
        """Whether all rows are in the window."""
        return self.loaded == self.count

    def load(self, rows: int) -> None:
        """Have at least `rows` rows in the window, if there are that many left."""
        missing = min(rows - len(self.window), self.count - self.loaded)
        if missing <= 0:
            return
        raw = read_all(self.fd, self.columns_at + 8 * _COLUMNS * self.loaded, 8 * _COLUMNS * missing)
        self.window = np.concatenate([self.window, raw.view(np.uint64).reshape(-1, _COLUMNS)])
        self.loaded += missing

    def rows_up_to(self, last_hash: np.uint64, last_id: np.uint64) -> int:
        """How many rows of the window do not come after (last_hash, last_id)."""
        hashes = self.window[:, 0]
        first = int(np.searchsorted(hashes, last_hash, "left"))
        end = int(np.searchsorted(hashes, last_hash, "right"))
        return first + int(np.searchsorted(self.window[first:end, 1], last_id, "right"))

    def take(self, rows: int) -> npt.NDArray[np.uint64]:
        taken, self.window = self.window[:rows], self.window[rows:]
        return taken

    def read(self, size: int) -> npt.NDArray[np.uint8]:
        """The next `size` bytes of values."""
        data = read_all(self.fd, self.data_at, size)
        self.data_at += size
        return data


def _merge(runs: list[_Run]) -> Iterator[Entries]:
    rows = max(16, COLUMN_ROWS // len(runs))
    while True:
        for run in runs:
            run.load(rows)
        runs = [run for run in runs if len(run.window)]
        if not runs:
            return
        # Everything up to the least of the last rows in sight is complete: what was not read yet comes after it.
        ends = [(run.window[-1, 0], run.window[-1, 1]) for run in runs if not run.exhausted]
        if ends:
            last = min(ends)
            counts = [run.rows_up_to(*last) for run in runs]
        else:
            counts = [len(run.window) for run in runs]
        yield from _merge_rows(runs, counts)


def _merge_rows(runs: list[_Run], counts: list[int]) -> Iterator[Entries]:
    """The next counts[i] rows of each run in order, in pieces whose bytes fit into memory."""
    table = np.concatenate([run.take(count) for run, count in zip(runs, counts, strict=True)])
    source = np.repeat(np.arange(len(runs)), counts)
    order = stored_order(table[:, 0], table[:, 1])
    table, source = table[order], source[order]
    spans = table[:, 2] + table[:, 3]
    for first, last in pieces_of(spans, PIECE_BYTES):
        span, origin = spans[first:last], source[first:last]
        # Within a run the rows of a piece lie one after the other, since both are in order.
        totals = np.zeros(len(runs), np.uint64)
        np.add.at(totals, origin, span)
        data = np.concatenate([runs[i].read(int(totals[i])) for i in np.flatnonzero(totals)] or [np.empty(0, np.uint8)])
        by_run = np.argsort(origin, kind="stable")
        starts = np.empty(last - first, np.uint64)
        starts[by_run] = np.cumsum(span[by_run], dtype=np.uint64) - span[by_run]
        piece = np.ascontiguousarray(table[first:last].T)
        yield Entries(piece[0], piece[1], piece[2], piece[3], gather_ranges(data, starts, span))


def pieces_of(spans: U64, limit: int) -> Iterator[tuple[int, int]]:
    """Cut rows into (first, last) pieces of at most `limit` bytes, or of one row."""
    if len(spans) == 1:
        yield 0, 1  # the usual case where a single value is read
        return
    ends = np.cumsum(spans, dtype=np.uint64)
    first = 0
    while first < len(spans):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, np.uint64(done + limit), "right")))
        yield first, last
        first = last


def nameless_file(folder: str | None) -> int:
    fd, path = tempfile.mkstemp(prefix=".zvcore-sort-", dir=folder)
    try:
        os.unlink(path)
    except OSError:
        os.close(fd)
        raise
    return fd


def read_all(fd: int, at: int, size: int) -> npt.NDArray[np.uint8]:
    out = np.empty(size, np.uint8)
    view = out.data
    done = 0
    while done < size:
        got = os.preadv(fd, [view[done : done + (1 << 28)]], at + done)
        if not got:
            raise OSError(f"the temporary file ends at byte {at + done}, {size - done} bytes too early")
        done += got
    return out
