"""The values of one index of annotations: many at once, by ids of annotations or segments, or by cells."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from zvcore import kernels
from zvcore.codecs import CodecChain
from zvcore.engine import Buffers, Keys, fetch
from zvcore.engine.sources import ABSENT, Sources
from zvcore.errors import CorruptDataError, NotFoundError, ZvcoreError
from zvcore.precomputed.content_encoding import Unpacking
from zvcore.precomputed.shard_reader import chain_for
from zvcore.precomputed.sharded_store import ShardedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zvcore.precomputed.annotation_info import Index
    from zvcore.stores import Store

__all__ = ["Fetched", "IndexValues", "Read", "cell_of_name", "readable"]

T = TypeVar("T")

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
# Bytes, where each value begins, and which rows of the keys they are of.
Fetched = tuple[npt.NDArray[np.uint8], I64, npt.NDArray[np.intp]]

_GZIP = ".gz"
_NUMBER = re.compile("0|[1-9][0-9]{0,19}")
# How many files, and how many values of shards, are read at once when everything is.
_BATCH_FILES = 1 << 12
_BATCH_VALUES = 1 << 16
# How many of them are decoded at once, of which each may be a list.
_DECODED_FILES, _DECODED_VALUES = 64, 4096


def cell_of_name(stem: str, count: int) -> tuple[int, ...] | None:
    """The numbers that the name of a file consists of: so many, and each as it is written; None for other names."""
    numbers = stem.split("_")
    if len(numbers) != count or not all(_NUMBER.fullmatch(number) for number in numbers):
        return None
    found = tuple(map(int, numbers))
    return found if all(number < 2**64 for number in found) else None


@dataclass
class Read(Generic[T]):
    """Keys that were asked for, which of them have values, and what these are."""

    keys: npt.NDArray[Any]
    rows: npt.NDArray[np.intp]
    values: T


class IndexValues:
    """The values of an index. Keys are uint64[n], or of a level int64[n, rank], the numbers of cells."""

    def __init__(self, store: Store, index: Index, threads: int | None = None) -> None:
        self.index = index
        self.store = store.child(index.folder)
        self.threads = threads
        self.shards = None if index.sharding is None else ShardedStore(self.store, index.sharding, threads=threads)

    def fetch(self, keys: npt.NDArray[Any]) -> Fetched:
        """(bytes, where each value begins, rows of `keys` that they are of). What is not stored is left out."""
        try:
            found = self._files(keys) if self.shards is None else self.shards.fetch(self.numbers(keys))
        except ZvcoreError as error:
            raise self._located(error)
        data, starts = found.joined()
        rows = np.flatnonzero(found.sizes != ABSENT)
        return data, np.append(starts[:-1][rows], starts[-1]), rows

    def place(self, key: Any) -> dict[str, Any]:
        """Where a value is stored, for errors."""
        chunk = int(key) if key.ndim == 0 else f"cell {'_'.join(map(str, key.tolist()))}"
        if self.shards is None:
            name = self.name(key)
            found = next((one for one in (name, f"{name}{_GZIP}") if self.store.exists(one)), name)
            return {"key": f"{self.index.folder}/{found}", "chunk": chunk, "offset": 0}
        try:
            name, offset, size = self.shards.locate(int(self.numbers(key[None])[0]))
        except NotFoundError:
            return {"key": self.index.folder, "chunk": chunk}
        return {"key": f"{self.index.folder}/{name}", "chunk": chunk, "offset": offset, "length": size}

    def name(self, key: Any) -> str:
        return str(int(key)) if key.ndim == 0 else "_".join(map(str, key.tolist()))

    def keys(self) -> npt.NDArray[Any]:
        """All keys, in ascending order."""
        if self.shards is None:
            return self._keys_of(self.store.list_dir()[1])
        try:
            return self.keys_of(self.shards.ids())
        except ZvcoreError as error:
            raise self._located(error)

    def batches(self) -> Iterator[npt.NDArray[Any]]:
        """All keys, so many at a time that their values fit into a few megabytes."""
        if self.shards is None:
            names = self.store.list()
            while some := list(itertools.islice(names, _BATCH_FILES)):
                # Of a file that is there compressed and plain, readers take the plain one.
                yield self._keys_of(
                    name for name in some
                    if not (name.endswith(_GZIP) and self.store.exists(name.removesuffix(_GZIP)))
                )  # fmt: skip
            return
        try:
            for ids in self.shards.id_batches():
                # Short values take far more memory as columns than they do as they are stored.
                for first in range(0, len(ids), _BATCH_VALUES):
                    yield self.keys_of(ids[first : first + _BATCH_VALUES])
        except ZvcoreError as error:
            raise self._located(error)

    def all_of_them(
        self, parse: Callable[[npt.NDArray[np.uint8], I64], T], *, damaged: bool = True
    ) -> Iterator[Read[T]]:
        """All values, some at a time. With `damaged`, those that cannot be read are left out, else they are errors."""
        step = _DECODED_FILES if self.shards is None else _DECODED_VALUES
        for batch in self.batches():
            for first in range(0, len(batch), step):
                keys = batch[first : first + step]
                if damaged:
                    yield from readable(self, keys, parse)
                else:
                    data, starts, rows = self.fetch(keys)
                    yield Read(keys, rows, parse(data, starts))

    # --- in shards

    def numbers(self, keys: npt.NDArray[Any]) -> U64:
        """A number for each key: the id of its value in shards."""
        grid = self.index.grid
        return keys if grid is None else kernels.compressed_morton(keys, grid)

    def keys_of(self, numbers: U64) -> npt.NDArray[Any]:
        """The keys that have these numbers; those of no cell are left out."""
        grid = self.index.grid
        if grid is None:
            return numbers
        inside = kernels.compressed_morton_valid(numbers, grid)
        return kernels.compressed_morton_inverse(numbers[inside], grid)

    # --- in files

    def _keys_of(self, names: Iterable[str]) -> npt.NDArray[Any]:
        grid = self.index.grid
        count = 1 if grid is None else len(grid)
        found = {cell_of_name(name.removesuffix(_GZIP), count) for name in names} - {None}
        if grid is None:
            return np.array(sorted(one[0] for one in found if one is not None), np.uint64)
        inside = [one for one in found if one is not None and all(i < n for i, n in zip(one, grid, strict=True))]
        return np.array(sorted(inside), np.int64).reshape(-1, count)

    def _files(self, keys: npt.NDArray[Any]) -> Buffers:
        names = [self.name(key) for key in keys]
        found = self._read(names, "raw")
        if not self.store.of_files:
            return found
        missing = np.flatnonzero(found.sizes == ABSENT)
        if not len(missing):
            return found
        packed = self._read([f"{names[row]}{_GZIP}" for row in missing.tolist()], "gzip")
        places = np.arange(len(names))
        places[missing] = len(names) + np.arange(len(missing))
        return Buffers.chain([found, packed]).select(places)

    def _read(self, names: list[str], encoding: str) -> Buffers:
        if not names:
            return Buffers(0)
        sources = Sources(Keys.of(names))
        chain = chain_for(encoding, self.store.root) if self.store.of_files else CodecChain((Unpacking(),))
        return fetch(self.store, sources, chain, threads=self.threads)

    def _located(self, error: ZvcoreError) -> ZvcoreError:
        """The error, with its place as seen from where the document is."""
        if error.key is not None and error.key != self.store.root and isinstance(error, CorruptDataError):
            error.key = f"{self.index.folder}/{error.key}"
        return error


def readable(
    values: IndexValues, keys: npt.NDArray[Any], parse: Callable[[npt.NDArray[np.uint8], I64], T]
) -> Iterator[Read[T]]:
    """The values of keys, but for those that cannot be read: these are found by halves."""
    try:
        data, starts, rows = values.fetch(keys)
        found = parse(data, starts)
    except CorruptDataError:
        middle = len(keys) // 2
        for half in (keys[:middle], keys[middle:]) if middle else ():
            yield from readable(values, half, parse)
        return
    yield Read(keys, rows, found)
