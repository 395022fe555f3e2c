"""What a level stores per chunk: cells of bytes on its chunk grid, in each of the layouts that stores have had.

Coordinates of chunks are absolute and may be negative; the grid's origin is what the array's attributes say.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.cached import cached_property
from zvcore.documents import parse_any
from zvcore.engine import ABSENT
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.kernels import vlen
from zvcore.zarr3.listing import sorted_numbers, stored_chunks
from zvcore.zarr3.metadata import DOCUMENT
from zvcore.zvf.nodes import Column, Node, join, read_node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.stores import Store

__all__ = ["CellGrid", "Cells", "GridCells", "SubArrayCells", "coords_key", "open_cells", "parse_key"]

Ints = npt.NDArray[np.int64]

# The arrays of so many chunks are asked for together.
_AT_ONCE = 128

_KEY = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.-?(0|[1-9][0-9]{0,17}))*")


def coords_key(coords: Iterable[int]) -> str:
    return ".".join(map(str, coords))


def parse_key(key: Any) -> tuple[int, ...] | None:
    """Chunk coordinates from their dotted form; None if `key` is not of that form."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        return None
    return tuple(map(int, key.split(".")))


@dataclass
class Cells:
    """The payloads of some cells, in the order asked for: cell i is `data[starts[i] : starts[i] + lengths[i]]`.

    absent  cells that are not stored; one that is stored and empty has length 0 too
    """

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: Ints
    absent: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> memoryview:
        start = int(self.starts[index])
        return self.data.data[start : start + int(self.lengths[index])]

    def spread(self, rows: Ints, count: int) -> Cells:
        """These cells as the rows `rows` of so many; the others are absent."""
        starts, lengths, absent = np.zeros(count, np.int64), np.zeros(count, np.int64), np.ones(count, bool)
        starts[rows], lengths[rows], absent[rows] = self.starts, self.lengths, self.absent
        return Cells(self.data, starts, lengths, absent)


class CellGrid(ABC):
    """One per-chunk array of a level."""

    node: Node

    @property
    def store(self) -> Store:
        return self.node.store

    @property
    def path(self) -> str:
        return self.node.path

    @property
    def attrs(self) -> dict[str, Any]:
        return self.node.attrs

    @property
    @abstractmethod
    def ndim(self) -> int: ...

    @abstractmethod
    def read(self, coords: Ints, threads: int | None = None) -> Cells:
        """The cells of these chunks, int64[n, ndim]. Chunks outside the grid are absent."""

    @abstractmethod
    def stored(self) -> Ints:
        """The chunks that have a cell, int64[n, ndim] in numeric order, as the store itself shows them."""

    def listed(self) -> Ints | None:
        """The chunks that the array's presence list names, in numeric order; None if it has no such list."""
        return None

    def read_one(self, coords: tuple[int, ...]) -> memoryview | None:
        if len(coords) != self.ndim:
            raise ValueError(f"a chunk of {self.path} has {self.ndim} coordinates, not {coords}")
        cells = self.read(np.array([coords], np.int64).reshape(1, self.ndim))
        return None if cells.absent[0] else cells[0]


class GridCells(CellGrid):
    """Since 0.9: one array of byte strings whose shape is the grid, flat or in shards."""

    node: Column

    def __init__(self, node: Column) -> None:
        if not node.is_rows:
            raise UnsupportedError(
                f"an array of {node.document.get('data_type')!r}, where byte strings are expected", key=node.key
            )
        if prod(node.chunk) != 1:
            raise UnsupportedError(f"chunks of {node.chunk} cells; only one cell per chunk is known", key=node.key)
        self.node = node

    @property
    def ndim(self) -> int:
        return self.node.ndim

    @cached_property
    def origin(self) -> Ints:
        given = self.attrs.get("chunk_grid_origin")
        if not given:
            return np.zeros(self.ndim, np.int64)
        numbers = isinstance(given, list) and all(isinstance(value, int) and abs(value) < 2**62 for value in given)
        if not numbers or len(given) != self.ndim:
            raise MetadataError("chunk_grid_origin is not one number per axis", key=self.node.key, found=str(given))
        return np.array(given, np.int64)

    def read(self, coords: Ints, threads: int | None = None) -> Cells:
        positions = coords - self.origin
        # Coordinates come from stored bytes: a difference may have wrapped, but then it is outside all the same.
        inside = ((coords >= self.origin) & (positions >= 0) & (positions < np.array(self.node.shape, np.int64))).all(1)
        chosen = positions if inside.all() else positions[inside]
        buffers = transfer.read_decoded(self.node.layout, chosen, threads)
        pool, begins = buffers.joined()
        sizes, absent = np.diff(begins), buffers.sizes == ABSENT
        del buffers  # there are as many bytes in the pool
        starts, lengths, faulty = vlen.split_single_rows(pool.data, begins[:-1], sizes)
        hollow = (sizes == 0) & ~absent
        if faulty < 0 and hollow.any():
            faulty = int(np.argmax(hollow))
        if faulty >= 0:
            raise self._cell_error(pool[begins[faulty] : begins[faulty + 1]], chosen[faulty])
        cells = Cells(pool, starts, lengths, absent)
        return cells if inside.all() else cells.spread(np.flatnonzero(inside), len(coords))

    def _cell_error(self, data: npt.NDArray[np.uint8], position: Ints) -> ZvcoreError:
        try:
            rows = len(vlen.split_rows(data.data)[0])
            error: ZvcoreError = CorruptDataError("a cell that is not one byte string", expected="1 row", found=rows)
        except ZvcoreError as found:
            error = found
        return error.located(key=self.path, chunk=tuple((position + self.origin).tolist()))

    def stored(self) -> Ints:
        return stored_chunks(self.node.layout) + self.origin

    def listed(self) -> Ints | None:
        names = self.attrs.get("nonempty_chunks")
        if not isinstance(names, list):
            return None
        coords = sorted_numbers(names, ".", self.ndim) if all(isinstance(name, str) for name in names) else None
        if coords is None or len(coords) != len(names):
            raise MetadataError("nonempty_chunks holds something that is no chunk", key=self.node.key)
        if len(coords) > 1:
            coords = coords[np.append(True, (coords[1:] != coords[:-1]).any(1))]
        return coords


class SubArrayCells(CellGrid):
    """0.6 to 0.8: a group with one array of bytes per chunk, named by its coordinates, or packed into `__shard_*`."""

    def __init__(self, node: Node, ndim: int) -> None:
        self.node = node
        self._ndim = ndim

    @property
    def ndim(self) -> int:
        return self._ndim

    @cached_property
    def _packed(self) -> dict[tuple[int, ...], tuple[Column, int, int]]:
        """{chunk: (shard array, offset, length)}"""
        found = {}
        for name in self.store.list_dir(self.path)[0]:
            if not name.startswith("__shard_"):
                continue
            shard = read_node(self.store, join(self.path, name))
            if not isinstance(shard, Column):
                raise MetadataError("a shard without metadata", key=join(self.path, name))
            index = shard.attrs.get("shard_index")
            if isinstance(index, str):
                index = parse_any(index.encode("utf-8", "surrogatepass"), shard.key)
            if not isinstance(index, dict):
                raise MetadataError("a shard without an index", key=shard.key)
            for key, entry in index.items():
                coords = parse_key(key)
                if coords is None or not isinstance(entry, list) or len(entry) != 2:
                    raise MetadataError(f"an entry {key!r} of a shard's index is none", key=shard.key)
                offset, length = entry
                size = prod(shard.shape)
                numbers = all(isinstance(number, int) for number in entry)
                if not numbers or not 0 <= offset <= size or not 0 <= length <= size - offset:
                    raise CorruptDataError(
                        "an entry of the shard index leaves the shard", key=shard.key, chunk=coords,
                        expected=f"within {size} bytes", found=f"{length} bytes at {offset}",
                    )  # fmt: skip
                found[coords] = (shard, offset, length)
        return found

    def read(self, coords: Ints, threads: int | None = None) -> Cells:
        parts: list[npt.NDArray[np.uint8] | None] = []
        shards: dict[str, npt.NDArray[np.uint8]] = {}
        chunks = [*map(tuple, coords.tolist())]
        paths = {chunk: join(self.path, coords_key(chunk)) for chunk in chunks}
        alone = self._read_alone([path for chunk, path in paths.items() if chunk not in self._packed])
        for chunk in chunks:
            if chunk in self._packed:
                shard, offset, length = self._packed[chunk]
                if shard.path not in shards:
                    shards[shard.path] = shard.read_bytes()
                parts.append(shards[shard.path][offset : offset + length])
            else:
                parts.append(alone.get(paths[chunk]))
        lengths = np.array([0 if part is None else len(part) for part in parts], np.int64)
        data = np.concatenate([part for part in parts if part is not None] or [np.zeros(0, np.uint8)])
        return Cells(data, np.cumsum(lengths) - lengths, lengths, np.array([part is None for part in parts], bool))

    def _read_alone(self, paths: list[str]) -> dict[str, npt.NDArray[np.uint8]]:
        """The arrays of chunks by their paths, as far as they are there; far away, many are asked for at once."""
        found = {}
        for first in range(0, len(paths), _AT_ONCE):
            some = paths[first : first + _AT_ONCE]
            with self.store.looking_at([join(path, DOCUMENT) for path in some]):
                nodes = [node for node in (read_node(self.store, path) for path in some) if isinstance(node, Column)]
            for node, data in zip(nodes, self.store.each(Column.read_bytes, nodes), strict=True):
                found[node.path] = data
        return found

    def stored(self) -> Ints:
        names = [parse_key(name) for name in self.store.list_dir(self.path)[0]]
        found = {*self._packed, *(coords for coords in names if coords is not None and len(coords) == self.ndim)}
        return np.array(sorted(found), np.int64).reshape(-1, self.ndim)


def open_cells(store: Store, path: str, ndim: int) -> CellGrid:
    """The per-chunk array at a path, of either generation."""
    node = read_node(store, path)
    if node is None:
        raise NotFoundError("there is no such array", key=path)
    if not isinstance(node, Column):
        return SubArrayCells(node, ndim)
    if node.ndim != ndim:
        raise MetadataError("a grid of another rank than the level's", key=node.key, expected=ndim, found=node.ndim)
    return GridCells(node)
