"""Vertices on their way into chunks: cut into fragments, sorted by chunk, and kept aside until a chunk is complete."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.zvf.reading import unique_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Batch", "Fragments", "Spool", "chunk_coords", "cut_lines", "cut_points", "expanded"]

Ints = npt.NDArray[np.int64]

# Chunk coordinates beyond this come from positions that are no places, or from a chunk shape that is far too small.
_LARGEST_COORDINATE = 2.0**52


def chunk_coords(positions: npt.NDArray[Any], shape: Sequence[float]) -> Ints:
    """The chunk of each position."""
    coords = np.floor(positions / np.array(shape, np.float64))
    if coords.size and not (np.abs(coords) < _LARGEST_COORDINATE).all():
        raise ValueError("positions must be finite and not astronomically far from 0 in units of chunk_shape")
    return coords.astype(np.int64)


def expanded(starts: Ints, counts: Ints) -> Ints:
    """start, start + 1, ... of each (start, count), one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    result: Ints = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return result


@dataclass
class Batch:
    """Rows sorted by chunk, and within it by fragment.

    chunks    int64[c, d]; rows and fragments of chunk i are bounds[i]:bounds[i + 1] of the two bounds
    counts    rows of each fragment
    keys      the owner, or the bin, of each fragment
    columns   {name: values of all rows}; the positions under ""
    """

    chunks: Ints
    row_bounds: Ints
    fragment_bounds: Ints
    counts: Ints
    keys: Ints
    columns: dict[str, npt.NDArray[Any]]

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self.columns.values()) + self.counts.nbytes + self.keys.nbytes


@dataclass
class Fragments:
    """The fragments of a batch in the order of their owners.

    chunk  which of the batch's chunks
    rank   which of the batch's fragments in that chunk
    first  where its rows begin among the batch's rows in that chunk
    count  how many rows
    owner  whose it is
    """

    chunk: Ints
    rank: Ints
    first: Ints
    count: Ints
    owner: Ints


def _batch(
    coords: Ints, starts: Ints, counts: Ints, owner: Ints, rows: Ints | None, columns: dict[str, npt.NDArray[Any]]
) -> tuple[Batch, Fragments]:
    """From fragments that are runs of (permuted) rows, in the order in which each chunk is to have them."""
    chunks, which = unique_cells(coords)
    order = np.argsort(which, kind="stable")
    per_chunk = np.bincount(which, minlength=len(chunks)).astype(np.int64)
    fragment_bounds = np.concatenate([[0], np.cumsum(per_chunk)]).astype(np.int64)
    sorted_counts = counts[order]
    ends = np.cumsum(sorted_counts)
    row_bounds = np.concatenate([[0], ends])[fragment_bounds].astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(fragment_bounds[:-1], per_chunk)
    first = np.empty(len(order), np.int64)
    first[order] = ends - sorted_counts - np.repeat(row_bounds[:-1], per_chunk)
    at = expanded(starts[order], sorted_counts)
    if rows is not None:
        at = rows[at]
    taken = {name: values[at] for name, values in columns.items()}
    batch = Batch(chunks, row_bounds, fragment_bounds, sorted_counts, owner[order], taken)
    return batch, Fragments(which, rank, first, counts, owner)


def cut_lines(columns: dict[str, npt.NDArray[Any]], offsets: Ints, shape: Sequence[float]) -> tuple[Batch, Fragments]:
    """Lines cut wherever they go from one chunk into another."""
    positions = columns[""]
    coords = chunk_coords(positions, shape)
    begins = np.zeros(len(positions) + 1, bool)
    begins[offsets] = True
    begins[-1] = False
    if len(positions) > 1:
        begins[1:-1] |= (coords[1:] != coords[:-1]).any(1)
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, len(positions)))
    owner = np.searchsorted(offsets, starts, side="right") - 1
    return _batch(coords[starts], starts, counts, owner, None, columns)


def cut_points(
    columns: dict[str, npt.NDArray[Any]], shape: Sequence[float], bin_shape: Sequence[float], per_chunk: Sequence[int],
    ids: Ints | None,
) -> tuple[Batch, Fragments]:  # fmt: skip
    """Points of one chunk and object together, or, without objects, of one bin."""
    positions = columns[""]
    if ids is not None:
        coords = chunk_coords(positions, shape)
        key = ids
    else:
        bins = chunk_coords(positions, bin_shape)
        per = np.array(per_chunk, np.int64)
        coords = np.floor_divide(bins, per)
        key = np.zeros(len(bins), np.int64)
        for axis, count in enumerate(per_chunk):
            key = key * count + (bins[:, axis] - coords[:, axis] * per[axis])
    chunks, which = unique_cells(coords)
    rows = np.lexsort((key, which)).astype(np.int64)
    sorted_which, sorted_key = which[rows], key[rows]
    begins = np.ones(len(rows), bool)
    if len(rows):
        begins[1:] = (sorted_which[1:] != sorted_which[:-1]) | (sorted_key[1:] != sorted_key[:-1])
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, len(rows)))
    return _batch(chunks[sorted_which[starts]], starts, counts, sorted_key[starts], rows, columns)


class Spool:
    """Batches until all are there, in memory up to `limit` bytes and beyond that in a file without a name."""

    def __init__(self, limit: int = 256 << 20) -> None:
        self._limit = limit
        self._held = 0
        self._batches: list[Batch] = []
        self._where: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._file: Any = None

    def add(self, batch: Batch) -> None:
        number = len(self._batches)
        for i, chunk in enumerate(map(tuple, batch.chunks.tolist())):
            self._where.setdefault(chunk, []).append((number, i))
        self._held += batch.nbytes
        self._batches.append(batch)
        if self._held > self._limit:
            for kept in self._batches:
                kept.columns = {name: self.put_aside(values) for name, values in kept.columns.items()}
                kept.counts = self.put_aside(kept.counts)
                kept.keys = self.put_aside(kept.keys)
            self._held = 0

    def put_aside(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same values, in the file."""
        if isinstance(values, np.memmap) or not values.size:
            return values
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="zvcore-")  # noqa: SIM115
        self._file.seek(0, 2)
        at = self._file.tell()
        np.ascontiguousarray(values).tofile(self._file)
        self._file.flush()
        return np.memmap(self._file, values.dtype, "r", at, values.shape)

    def close(self) -> None:
        self._batches.clear()
        if self._file is not None:
            self._file.close()

    @property
    def chunks(self) -> Ints:
        return np.array(list(self._where), np.int64).reshape(len(self._where), -1)

    def rows(self, chunk: tuple[int, ...], name: str) -> list[npt.NDArray[Any]]:
        """What the batches have for a column of one chunk, in their order."""
        return [
            self._batches[b].columns[name][self._batches[b].row_bounds[i] : self._batches[b].row_bounds[i + 1]]
            for b, i in self._where.get(chunk, ())
        ]

    def fragments(self, chunk: tuple[int, ...]) -> tuple[Ints, Ints]:
        """(rows, owner or bin) of each fragment of one chunk."""
        parts = [
            (batch.counts[mine], batch.keys[mine])
            for batch, i in ((self._batches[b], i) for b, i in self._where.get(chunk, ()))
            for mine in (slice(int(batch.fragment_bounds[i]), int(batch.fragment_bounds[i + 1])),)
        ]
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
