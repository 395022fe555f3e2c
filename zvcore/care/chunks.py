"""Whether the chunks of an array can be decoded: all of them, in batches, or only what is known of their sizes."""

from __future__ import annotations

import itertools
import math
import operator
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.care.checking import WrongSizeError, first_bad
from zvcore.care.values import can_be_wrong, wrong_value
from zvcore.care.walking import objects
from zvcore.codecs import CodecChain
from zvcore.engine import Keys, fetch_sound
from zvcore.layout import Sources
from zvcore.report import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zvcore.care.walking import Grid
    from zvcore.engine import Buffers
    from zvcore.errors import ZvcoreError
    from zvcore.layout import Layout
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["ChunkChecker", "ObjectChecker"]

Ints = npt.NDArray[np.int64]

# How many objects are looked at together, and what they may take once they are decoded.
_OBJECTS = 1024
_BYTES = 64 << 20


class ObjectChecker(ABC):
    """Checks what the store has of one array.

    grid  which objects the array has
    """

    def __init__(self, store: Store, grid: Grid, report: Report) -> None:
        self.store = store
        self.grid = grid
        self.report = report

    def all(self, only: Sequence[str] | None = None) -> None:
        """Every object."""
        stored = 0
        entries = objects(self.store, self.grid, self.report, only)
        while batch := list(itertools.islice(entries, _OBJECTS)):
            stored += len(batch)
            self.objects(batch)
        self.report.count(f"{self.grid.word}s", stored)
        if only is None:
            self.report.count(f"{self.grid.word}s not stored", math.prod(self.grid.extents) - stored)

    @abstractmethod
    def objects(self, batch: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        """Look at some objects, and tell the watcher."""


class ChunkChecker(ObjectChecker):
    """Checks the chunks of one array, each of which is an object of its own.

    fast  whether chunks are not decoded: checksums behind everything are checked, and the sizes that are known
    """

    def __init__(
        self, layout: Layout, grid: Grid, report: Report, fast: bool = False, threads: int | None = None
    ) -> None:
        super().__init__(layout.store, grid, report)
        self.layout: Any = layout
        self.fast = fast
        self.threads = threads
        # A codec that is not installed is an error here, before any chunk is read.
        layout.prepared  # noqa: B018 - what is larger than can be is noticed here, too
        self.chain = layout.chains[0]
        plain = layout.value_codec is None
        self.nbytes = layout.chunk_nbytes if plain else None
        codecs = self.chain.codecs
        # What can be checked without decoding: an outermost checksum, or the size of uncompressed chunks.
        checked = list(itertools.takewhile(lambda codec: codec.is_checksum, reversed(codecs)))
        self.proof = CodecChain(checked[::-1]) if checked else None
        self.fixed = len(checked) == len(codecs)

    def objects(self, batch: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        self.chunks(batch)
        self.report.looked_at(len(batch))

    def chunks(self, batch: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        """Look at chunks that are objects."""
        positions = np.array([position for _, position in batch], np.int64).reshape(len(batch), -1)
        self.decode(Sources(keys=Keys.of([key for key, _ in batch])), positions, lambda row: batch[row][0])

    def decode(self, sources: Sources, positions: Ints, name: Callable[[int], str]) -> list[int]:
        """Decode chunks, in pieces that fit into memory, and report those that cannot be. Returns the broken rows."""
        count = len(positions)
        step = max(1, min(count, _BYTES // max(1, self.nbytes or 1 << 20)))
        if self.fast and self.proof is None:
            step = max(1, count)  # nothing is read

        def decode(first: int, last: int) -> list[tuple[int, ZvcoreError]]:
            found = self._fetched(_part(sources, range(first, last)), positions[first:last])
            return [(first + row, error) for row, error in found]

        bad: list[int] = []
        for first in range(0, count, step):
            for row, error in first_bad(decode, first, min(first + step, count)):
                if self._tell(error, sources, row, positions[row], name(row)).damage:
                    bad.append(row)
        return bad

    def _fetched(self, sources: Sources, positions: Ints) -> list[tuple[int, ZvcoreError]]:
        count = len(positions)
        if self.fast:
            if self.proof is not None:
                size = np.full(count, self.nbytes, np.uint64) if self.fixed and self.nbytes is not None else None
                return self._got(sources, self.proof, size, positions)
            return self._wrong_sizes(sources, count)
        expected = None if self.nbytes is None else np.full(count, self.nbytes, np.uint64)
        return self._got(sources, self.chain, expected, positions)

    def _got(
        self, sources: Sources, chain: CodecChain, expected: Any, positions: Ints
    ) -> list[tuple[int, ZvcoreError]]:
        values, bad = fetch_sound(
            self.store, sources, chain, count=len(positions), expected=expected, threads=self.threads
        )
        if self.fast:
            return bad
        if self.nbytes is None:
            for row, value in enumerate(values):
                if value is not None:
                    self.layout.decode_values(value, tuple(positions[row].tolist()))
        elif can_be_wrong(self.layout.form.dtype):
            bad = sorted([*bad, *self._wrong_values(values)], key=operator.itemgetter(0))
        return bad

    def _wrong_values(self, values: Buffers) -> Iterator[tuple[int, ZvcoreError]]:
        """Chunks with bytes that are no values of their type."""
        dtype = self.layout.form.dtype
        if self.layout.form.swapped:
            dtype = dtype.newbyteorder()
        for row, value in enumerate(values):
            error = None if value is None else wrong_value(np.frombuffer(value, dtype))
            if error is not None:
                yield row, error

    def _wrong_sizes(self, sources: Sources, count: int) -> list[tuple[int, ZvcoreError]]:
        """Chunks whose size is known before anything is decoded, and is another."""
        if len(self.chain.codecs) or self.nbytes is None:
            return []
        sizes: Sequence[int | None]
        if sources.blobs is not None:
            sizes = [None if blob is None else len(blob) for blob in sources.blobs]
        elif sources.length is not None:
            sizes = sources.length.tolist()
        else:
            sizes = self.store.sizes(sources.keys)
        return [
            (row, WrongSizeError("the chunk has the wrong size", expected=f"{self.nbytes} bytes", found=size))
            for row, size in enumerate(sizes)
            if size is not None and size != self.nbytes
        ]

    def _tell(self, error: ZvcoreError, sources: Sources, row: int, position: Ints, key: str) -> Problem:
        if sources.offset is not None and sources.length is not None:
            error.offset, error.length = int(sources.offset[row]), int(sources.length[row])
        elif sources.blobs is None:
            # Offsets in decoded bytes would mislead.
            error.offset, error.length = 0, self.store.size(key)
        else:
            error.offset = error.length = None
        error.key = key
        error.chunk = tuple(position.tolist())
        problem = Problem.of(error, key)
        self.report.tell(problem)
        return problem


def _part(sources: Sources, rows: range) -> Sources:
    """Some rows of sources."""
    if sources.blobs is not None:
        blobs = list(sources.blobs[rows.start : rows.stop])
        return Sources(keys=sources.keys, blobs=blobs)
    if sources.offset is None or sources.length is None or sources.key is None:
        return Sources(keys=Keys.of([sources.keys[row] for row in rows]))
    part = slice(rows.start, rows.stop)
    return Sources(sources.keys, sources.key[part], sources.offset[part], sources.length[part], stamps=sources.stamps)
