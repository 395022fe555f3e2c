"""Whether the blocks of a dataset can be decoded, and are what their headers and the dataset say."""

from __future__ import annotations

import itertools
import math
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zvcore.boxes import count_of
from zvcore.care.checking import WrongSizeError
from zvcore.care.refusals import refusal
from zvcore.care.walking import Grid, objects
from zvcore.engine import Keys, Sources, default_thread_count, fetch_sound
from zvcore.errors import CorruptDataError, NotFoundError, ZvcoreError
from zvcore.n5._framing import parse_header
from zvcore.n5.documents import ATTRIBUTES
from zvcore.report import Problem, What

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.n5.array import N5Array
    from zvcore.report import Report

__all__ = ["GUESTS", "LONGEST_HEADER", "Checker", "grid_of"]

LONGEST_HEADER = 4 + 4 * 32 + 4
# What else may lie in a folder of N5: Zarr's documents for the same blocks.
GUESTS = {ATTRIBUTES, "zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
# How many blocks are looked at together, and what they may take as they are stored, and decoded.
_BLOCKS = 1024
_BYTES = 64 << 20

Entry = tuple[str, tuple[int, ...]]


def grid_of(array: N5Array) -> Grid:
    """Which blocks the dataset has."""
    pattern = re.compile("/".join(["(0|[1-9][0-9]{0,18})"] * max(1, array.ndim)))
    ndim = array.ndim

    def position(key: str) -> tuple[int, ...] | None:
        match = pattern.fullmatch(key)
        if match is None:
            return None
        return tuple(map(int, match.groups())) if ndim else ()

    metadata = array.metadata
    return Grid(list(count_of(metadata.dimensions, metadata.block_size)), position, GUESTS, "block", "dataset")


class Framed(NamedTuple):
    """A block whose header is in order: what is behind it, and how many bytes that must decode to."""

    row: int
    odd: Problem | None
    payload: memoryview
    size: int


class Checker:
    """Checks the blocks of one dataset."""

    def __init__(self, array: N5Array, report: Report, fast: bool = False, threads: int | None = None) -> None:
        self.array = array
        self.store = array.layout.store
        self.report = report
        self.fast = fast
        self.threads = threads or default_thread_count()
        self.metadata = array.metadata
        self.ndim = array.ndim
        self.nbytes = math.prod(self.metadata.block_size) * self.metadata.dtype.itemsize
        self.grid = grid_of(array)
        # A codec that is not installed is an error here, before any block is read.
        self.chain = array.layout.chains[0]
        self.plain = not self.chain.codecs
        self.items = self.metadata.numeric and array.attrs.document.get("isLabelMultiset") is not True

    def all(self, only: Sequence[str] | None = None) -> None:
        """Check every block, on several threads; their number bounds the memory."""
        stored = 0
        entries = objects(self.store, self.grid, self.report, only)
        with ThreadPoolExecutor(self.threads) as pool:
            while batch := list(itertools.islice(entries, _BLOCKS)):
                stored += len(batch)
                for part in self._parts(batch):
                    found = self._together(part) if self.items and not self.fast else {}
                    found |= self._each(pool, part, [row for row in range(len(part)) if row not in found])
                    self.report.tell(*(one for _, one in sorted(found.items()) if one is not None))
                    self.report.looked_at(len(part))
        self.report.count("blocks", stored)
        if only is None:
            self.report.count("blocks not stored", math.prod(self.grid.extents) - stored)

    def _parts(self, batch: list[Entry]) -> Iterator[list[Entry]]:
        """The blocks that fit into memory together."""
        if self.fast or not self.items:
            yield batch
            return
        try:
            sizes = list(self.store.sizes(key for key, _ in batch))
        except ZvcoreError:
            # As where the blocks are fetched: each is to be asked for.
            yield from ([entry] for entry in batch)
            return
        part: list[Entry] = []
        weight = 0
        for entry, size in zip(batch, sizes, strict=True):
            one = max(size or 0, self.nbytes)
            if part and weight + one > _BYTES:
                yield part
                part, weight = [], 0
            part.append(entry)
            weight += one
        yield part

    def _each(self, pool: ThreadPoolExecutor, batch: Sequence[Entry], rows: Sequence[int]) -> dict[int, Problem | None]:
        """What is wrong with these blocks, each looked at on its own."""
        share = max(1, -(-len(rows) // self.threads))

        def look(rows: Sequence[int]) -> list[tuple[int, Problem | None]]:
            return [(row, self.block(*batch[row])) for row in rows]

        parts = [rows[first : first + share] for first in range(0, len(rows), share)]
        return dict(itertools.chain.from_iterable(pool.map(look, parts)))

    def _together(self, batch: Sequence[Entry]) -> dict[int, Problem | None]:
        """What is wrong with each of these blocks; without those that have to be looked at on their own."""
        keys = Keys.of([key for key, _ in batch])
        try:
            files, _ = fetch_sound(self.store, Sources(keys), count=len(batch), threads=self.threads)
        except (ZvcoreError, OSError):
            # The store does not answer for all of them: which these are is seen when each is asked for.
            return {}
        told: dict[int, Problem | None] = {}
        framed: list[Framed] = []
        for row, data in enumerate(iter(files)):
            if data is None:
                continue
            try:
                found = self._framed(row, data, *batch[row])
            except ZvcoreError as error:
                told[row] = self._problem(error, *batch[row])
                continue
            if found is not None and found.size:
                framed.append(found)
        if framed:
            sources = Sources(
                Keys.of([keys[one.row] for one in framed]), np.arange(len(framed), dtype=np.int32),
                blobs=[one.payload for one in framed],
            )  # fmt: skip
            sizes = np.array([one.size for one in framed], np.uint64)
            _, bad = fetch_sound(
                self.store, sources, self.chain, count=len(framed), expected=sizes, threads=self.threads
            )
            broken = {number for number, _ in bad}
            told |= {one.row: one.odd for number, one in enumerate(framed) if number not in broken}
        return told

    def block(self, key: str, position: tuple[int, ...]) -> Problem | None:
        """What is wrong with one block."""
        try:
            odd = self._header(key, position)
            if not self.fast:
                self.array.read_block(position)
        except (ZvcoreError, OSError) as error:
            return self._problem(refusal(error), key, position)
        return odd

    def _problem(self, error: ZvcoreError, key: str, position: tuple[int, ...]) -> Problem:
        error.key, error.chunk = key, position
        error.located(offset=0)
        return Problem.of(error.located(length=max(0, (self.store.size(key) or 0) - (error.offset or 0))))

    def _header(self, key: str, position: tuple[int, ...]) -> Problem | None:
        head = self.store.get(key, 0, LONGEST_HEADER)
        if head is None:
            raise NotFoundError("the block was removed meanwhile")
        mode, shape, _, at = parse_header(head, self.ndim)
        if mode != 0 or not self.items:
            return None
        return self._fits(key, position, shape, at, self.store.size(key) or 0)

    def _framed(self, row: int, data: memoryview, key: str, position: tuple[int, ...]) -> Framed | None:
        """A block of numbers that fill a box; None: it is another kind of block."""
        mode, shape, _, at = parse_header(data, self.ndim)
        if mode != 0:
            return None
        odd = self._fits(key, position, shape, at, len(data))
        return Framed(row, odd, data[at:], math.prod(shape) * self.metadata.dtype.itemsize)

    def _fits(
        self, key: str, position: tuple[int, ...], shape: tuple[int, ...], at: int, length: int
    ) -> Problem | None:
        """Whether a block of this shape, stored in so many bytes, can be in its place."""
        if any(n > size for n, size in zip(shape, self.metadata.block_size, strict=True)):
            raise CorruptDataError(
                "the header gives a block larger than any of the dataset", offset=4, length=at - 4,
                expected=f"at most {self.metadata.block_size}", found=shape,
            )  # fmt: skip
        size = math.prod(shape) * self.metadata.dtype.itemsize
        stored = length - at
        if self.plain and stored != size:
            raise WrongSizeError(
                "the block has the wrong size", offset=at, length=stored, expected=f"{size} bytes", found=stored
            )
        visible = self.array.layout.visible_shape(position)
        if any(n < least for n, least in zip(shape, visible, strict=True)):
            return Problem(
                key, "the block does not fill its place; the rest reads as zeros", position, 4, at - 4, fatal=False,
                expected=visible, found=shape, kind=What.SIZE,
            )  # fmt: skip
        return None
