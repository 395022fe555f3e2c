"""Finding values: which file, which bytes. Shard indices and minishard indices are read once and kept in the cache."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.codecs import Codec, CodecChain
from zvcore.engine import Keys
from zvcore.engine.steady import steadily
from zvcore.errors import ConflictError, CorruptDataError, ZvcoreError
from zvcore.layout import ABSENT, Sources
from zvcore.precomputed._minishard import Minishard, find_many, place
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.minishards import (
    ENTRY,
    LISTED_BYTES,
    each_table,
    listed_at_once,
    most_entries,
    stored_minishards,
)
from zvcore.stores import Snapshot
from zvcore.stores.indexes import Indexes, index_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Stamp, Store

__all__ = ["ShardFile", "ShardReader", "chain_for"]

U64 = npt.NDArray[np.uint64]

# A shard index up to this size is read as a whole, a larger one entry by entry.
WHOLE_INDEX_BYTES = 64 << 10
# Whose ids are listed together.
_SHARDS_AT_ONCE = 64
_KNOWN_FILES = 4096
# Of a shard that was put now, indices of so many bytes together are kept.
_NOTED_BYTES = 1 << 20


def chain_for(encoding: str, where: str) -> CodecChain:
    """The codec chain of a `data_encoding` or `minishard_index_encoding`; `where` is the document, for errors."""
    codec = codecs.from_neuroglancer(encoding, where)
    return CodecChain(()) if codec.name == "raw" else CodecChain((codec,))


class ShardFile:
    """One version of one shard file: its shard index, and the minishard indices read so far.

    key       the object that holds the shard index
    data_key  the object that holds everything else; the same one but for the legacy pair of `.index` and `.data`
    base      where offsets are counted from in the data object
    limit     how many bytes the data object has
    stamp     of the object `data_key`, so that values are read from the version whose index was read
    """

    def __init__(self, spec: ShardingSpec, key: str, data_key: str, base: int, limit: int, stamp: Stamp | None) -> None:
        self.spec = spec
        self.key = key
        self.data_key = data_key
        self.base = base
        self.limit = limit
        self.stamp = stamp
        self.index: U64 | None = None
        self.tables: dict[int, Minishard | None] = {}
        self.nbytes = 0
        # Of the indices that have been read.
        self.entries = 0
        self.lock = threading.Lock()

    def check(self, number: int, start: int, end: int) -> tuple[int, int] | None:
        """The range of a minishard's index in the data object; None if it has none."""
        if start == end:
            return None
        if start > end or end > self.limit - self.base:
            raise CorruptDataError(
                f"the shard index gives minishard {number} a range that the file does not have",
                key=self.key,
                offset=16 * number,
                length=16,
                expected=f"an ascending range up to {max(0, self.limit - self.base)}",
                found=f"{start}..{end}",
            )
        return self.base + start, end - start

    def minishard(self, number: int, raw: Buffer) -> Minishard:
        """A minishard's decoded index."""
        try:
            return Minishard(raw, self.base, self.limit)
        except ZvcoreError as error:
            raise error.located(key=self.data_key, chunk=f"minishard {number}")


class ShardReader:
    """The shards of one store below `prefix` (a folder's key with its slash, or nothing)."""

    def __init__(self, store: Store, spec: ShardingSpec, prefix: str = "") -> None:
        self.store = store
        self.spec = spec
        self.prefix = prefix
        where = f"{store.root}/{prefix}".rstrip("/")
        self.index_chain = chain_for(spec.minishard_index_encoding, where)
        self.data_chain = chain_for(spec.data_encoding, where)
        self.index_codec: Codec | None = self.index_chain.codecs[0] if self.index_chain.codecs else None
        self._place = (spec.preshift_bits, spec.hash != "identity", spec.minishard_bits, spec.shard_bits)
        # Files that the index cache has kept, for `find_known`.
        self._known: dict[int, weakref.ref[ShardFile]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": {}}

    # Files

    def key(self, shard: int) -> str:
        return self.prefix + self.spec.shard_name(shard)

    def file(self, shard: int, fresh: bool = True) -> ShardFile | None:
        """What is known of a shard file as it is now; None if there is none.

        Without `fresh`, a remote file is not checked for this: a caller that reads its values finds out.
        """
        key = self.key(shard)
        span = self._index_span
        found = Indexes(self.store, span, self._open, self._part(key)).of(key, fresh)
        if found is None:
            # The obsolete form has the same two parts in two files.
            index_key = key.removesuffix("shard") + "index"
            return Indexes(self.store, span, self._open_pair, self._part(index_key)).of(index_key)
        known = self._known.get(shard)
        if known is None or known() is not found:
            if len(self._known) >= _KNOWN_FILES:
                self._known.clear()
            # The cache keeps nothing that may change without its stamp changing, and then this reference is soon empty.
            self._known[shard] = weakref.ref(found)
        return found

    def note_written(self, shard: int, head: bytes, tail: bytes, size: int, stamp: Stamp) -> None:
        """A shard was put now that begins and ends so: who reads or changes it next need not ask for its indices."""
        key = self.key(shard)
        span = self._index_span
        file, nbytes = self._open(key, Snapshot(head[: span[1]], size, stamp))
        if file.index is not None and len(tail) <= _NOTED_BYTES:
            tail_at = size - len(tail)
            numbers, ranges = self.ranges(file)
            for number, (at, length) in zip(numbers.tolist(), ranges.tolist(), strict=True):
                raw = tail[at - tail_at : at - tail_at + length]
                if self.index_codec is not None:
                    raw = self.index_codec.decode(raw, max_size=ENTRY * most_entries(file))
                table = file.tables[number] = file.minishard(number, raw)
                file.entries += len(table)
                nbytes += 64 + table.nbytes
        file.nbytes = nbytes
        Indexes(self.store, span, self._open, self._part(key)).note(key, stamp, file, nbytes)

    def _part(self, key: str) -> tuple[str, int, str]:
        """Under what a shard file is cached: others may see the same file by another key or another specification."""
        return key, self.spec.minishard_bits, self.spec.minishard_index_encoding

    @property
    def _index_span(self) -> tuple[int, int]:
        """What is read of a file first. Of a large index only a little: it shows whether the file has changed."""
        wanted = self.spec.index_size
        return 0, wanted if wanted <= WHOLE_INDEX_BYTES else 16

    def _open(self, key: str, found: Snapshot) -> tuple[ShardFile, int]:
        file = ShardFile(self.spec, key, key, self.spec.index_size, found.size, found.stamp)
        self._take_index(file, found)
        return file, file.nbytes

    def _open_pair(self, key: str, found: Snapshot) -> tuple[ShardFile, int]:
        data_key = key.removesuffix("index") + "data"
        data_stamp = self.store.stamp(data_key)
        limit = self.store.size(data_key)
        if data_stamp is None or limit is None:
            raise CorruptDataError("the index file exists, but not the data file that it refers to", key=data_key)
        file = ShardFile(self.spec, key, data_key, 0, limit, data_stamp)
        self._take_index(file, found)
        return file, file.nbytes

    def _take_index(self, file: ShardFile, found: Snapshot) -> None:
        wanted = self.spec.index_size
        if found.size < wanted:
            raise CorruptDataError(
                "the shard index is cut off", key=file.key, offset=0, expected=f"{wanted} bytes", found=found.size
            )
        if len(found.data) < self._index_span[1]:
            raise CorruptDataError("the shard index is cut off", key=file.key, offset=0, expected=f"{wanted} bytes")
        if len(found.data) == wanted:
            file.index = np.frombuffer(found.data, "<u8").astype(np.uint64).reshape(-1, 2)
            file.nbytes = file.index.nbytes

    # Minishards

    def tables(self, file: ShardFile, numbers: Sequence[int]) -> list[Minishard | None]:
        """The indices of these minishards, None for empty ones."""
        known = file.tables
        missing = [number for number in numbers if number not in known]
        if missing:
            self._load(file, missing)
        return [known[number] for number in numbers]

    def _load(self, file: ShardFile, numbers: list[int]) -> None:
        entries = self._entries(file, numbers)
        ranges = []
        wanted = []
        tables: dict[int, Minishard | None] = {}
        for number, (start, end) in zip(numbers, entries.tolist(), strict=True):
            found = file.check(number, start, end)
            if found is None:
                tables[number] = None
            else:
                wanted.append(number)
                ranges.append(found)
        taken = 64 * len(tables)
        if wanted:
            for number, table in each_table(self, file, wanted, np.array(ranges, np.uint64), known=file.entries):
                if isinstance(table, ZvcoreError):
                    raise table
                tables[number] = table
                taken += table.nbytes
        with file.lock:
            fresh = [table for number, table in tables.items() if table is not None and number not in file.tables]
            file.entries += sum(map(len, fresh))
            file.tables.update(tables)
            file.nbytes += taken
        index_cache().resize(self.store, file.key, file, file.nbytes, self._part(file.key))

    def _entries(self, file: ShardFile, numbers: list[int]) -> U64:
        """The entries of the shard index for these minishards."""
        if file.index is not None:
            return file.index[np.array(numbers, np.intp)]
        stamp = file.stamp if file.key == file.data_key else None
        raw = self.store.get_ranges(file.key, [(16 * number, 16) for number in numbers], stamp=stamp)
        if raw is None:
            raise ConflictError("the object was removed while it was being read", key=file.key)
        return np.frombuffer(b"".join(raw), "<u8").astype(np.uint64).reshape(-1, 2)

    # Ids

    def find(self, wanted: int) -> tuple[ShardFile, int, int] | None:
        """(file, offset, size) of one value; None if it is not there."""
        return steadily(lambda: self.find_once(wanted), self.store.root)

    def find_once(self, wanted: int) -> tuple[ShardFile, int, int] | None:
        shard, minishard = self.spec.place(wanted)
        file = self.file(shard)
        if file is None:
            return None
        table = self.tables(file, [minishard])[0]
        if table is None:
            return None
        try:
            place = table.find(wanted)
        except ZvcoreError as error:
            raise error.located(key=file.data_key)
        return None if place is None else (file, *place)

    def find_known(self, wanted: int) -> tuple[ShardFile, int, int] | None:
        """`find_once` without checking whether the file has changed, for callers that read the value with its stamp.

        None says only that this way does not lead to it.
        """
        shard, minishard = place(wanted, *self._place)
        known = self._known.get(shard)
        file = None if known is None else known()
        table = None if file is None else file.tables.get(minishard)
        found = None if table is None else table.find_quietly(wanted)
        return None if found is None or file is None else (file, *found)

    def locate(self, ids: U64) -> Sources:
        """Where the values of these ids are; a length of ABSENT for those that are not there."""
        return steadily(lambda: self._locate(ids), self.store.root)

    def _locate(self, ids: U64) -> Sources:
        order, starts, shards, minishards = self._grouped(ids)
        count = len(ids)
        ids = ids[order]
        # In the order of shards and minishards, and at the end in that of the ids.
        which, offsets, sizes = np.zeros(count, np.int32), np.zeros(count, np.uint64), np.full(count, ABSENT, np.uint64)
        names: list[str] = []
        files: list[ShardFile | None] = []
        wanted: list[_Wanted] = []
        for (first, last), file in zip(pairwise([*starts, count]), self._files(shards), strict=True):
            if file is None:
                continue
            place = slice(first, last)
            wanted.append(_Wanted(file, minishards[place], ids[place], offsets[place], sizes[place]))
            which[place] = len(names)
            names.append(file.data_key)
            files.append(file)
        self._find_all(wanted)
        if not names:
            # The engine wants a name for every row, also for those that are not there.
            names, files = [self.key(0)], [None]
        key, offset, length = np.empty_like(which), np.empty_like(offsets), np.empty_like(sizes)
        key[order], offset[order], length[order] = which, offsets, sizes
        stamps = [None if file is None else file.stamp for file in files]
        return Sources(Keys.of(names), key, offset, length, stamps=stamps, found=files)

    def _grouped(self, ids: U64) -> tuple[npt.NDArray[np.intp], list[int], list[int], U64]:
        """(order that puts ids of one minishard together, where each shard begins in it, its number, minishards)."""
        hashes = self.spec.hashes(ids)
        # Numbers of two bytes are sorted several times as fast.
        small = self.spec.minishard_bits + self.spec.shard_bits <= 16
        order = np.argsort(hashes.astype(np.uint16) if small else hashes, kind="stable")
        shards, minishards = self.spec.split(hashes[order])
        starts = group_starts(shards)
        return order, starts.tolist(), shards[starts].tolist(), minishards

    def _find_all(self, wanted: Sequence[_Wanted]) -> None:
        """Fill in where the values are. Minishards that are not known are read, those of several shards at once."""
        missing = [(one, numbers) for one in wanted if (numbers := one.find())]
        self.store.each(lambda both: self._find_with(*both), missing)

    def _find_with(self, wanted: _Wanted, numbers: list[int]) -> None:
        try:
            self._load(wanted.file, numbers)
        except ZvcoreError as error:
            raise error.located(key=wanted.file.data_key)
        wanted.find()

    def _files(self, numbers: list[int]) -> list[ShardFile | None]:
        return self.store.each(lambda number: self.file(number, fresh=False), numbers)

    # Listing

    def shards(self) -> list[int]:
        """The numbers of the shards that have a file, in order."""
        _, names = self.store.list_dir(self.prefix.rstrip("/"))
        found = set()
        for name in names:
            number = self.spec.shard_number(name)
            if number is not None and not name.endswith(".data"):
                found.add(number)
        return sorted(found)

    def ranges(self, file: ShardFile) -> tuple[npt.NDArray[np.int64], U64]:
        """(numbers, (offset, size) in the data object) of the minishards of a shard that are not empty."""
        numbers, entries = stored_minishards(self, file)
        start, end = entries[:, 0], entries[:, 1]
        wrong = np.flatnonzero((start > end) | (end > np.uint64(file.limit - file.base)))
        if len(wrong):
            file.check(int(numbers[wrong[0]]), *entries[wrong[0]].tolist())
        return numbers, np.stack([start + np.uint64(file.base), end - start], 1)

    def ids(self, file: ShardFile, threads: int | None = None) -> U64:
        """The ids of a shard, minishard by minishard."""
        return self._ids_within(file, self.ranges(file)[1], threads)

    def _ids_within(self, file: ShardFile, ranges: U64, threads: int | None) -> U64:
        """The ids of a shard whose minishards' indices lie at `ranges`."""
        if int(ranges[:, 1].sum()) <= LISTED_BYTES:
            listed = listed_at_once(self, [file], [ranges], threads)
            if listed is not None:
                return listed[0]
        # One by one, which says what is wrong and where.
        return np.concatenate([np.empty(0, np.uint64), *(table.ids for _, table in self.all_tables(file, threads))])

    def each_shards_ids(self, threads: int | None = None) -> Iterator[U64]:
        """The ids of each shard, minishard by minishard. The indices of many small shards are read at once."""
        shards = self.shards()
        at_once = max(1, min(_SHARDS_AT_ONCE, LISTED_BYTES // self.spec.index_size))
        for first in range(0, len(shards), at_once):
            some = shards[first : first + at_once]
            yield from steadily(partial(self._ids_of, some, threads), self.store.root)

    def _ids_of(self, shards: Sequence[int], threads: int | None) -> list[U64]:
        files = [file for file in self.store.each(self.file, shards) if file is not None]
        ranges = [self.ranges(file)[1] for file in files]
        found: list[U64] = []
        for first, last in pieces_of(np.array([own[:, 1].sum() for own in ranges], np.uint64), LISTED_BYTES):
            some, own = files[first:last], ranges[first:last]
            listed = listed_at_once(self, some, own, threads) if len(some) > 1 else None
            if listed is None:
                listed = [self._ids_within(file, at, threads) for file, at in zip(some, own, strict=True)]
            found += listed
        return found

    def all_tables(self, file: ShardFile, threads: int | None = None) -> Iterator[tuple[int, Minishard]]:
        """Every minishard of a shard that is not empty, in order. Not kept: listing pushes nothing out of the cache."""
        numbers, ranges = self.ranges(file)
        known = file.tables
        if all(number in known for number in numbers.tolist()):
            yield from ((number, there) for number in numbers.tolist() if (there := known[number]) is not None)
            return
        for number, table in each_table(self, file, numbers.tolist(), ranges, threads=threads):
            if isinstance(table, ZvcoreError):
                raise table
            yield number, table


class _Wanted(NamedTuple):
    """Ids of values of one shard, where those of one minishard stand together, and room for where they are."""

    file: ShardFile
    minishards: U64
    ids: U64
    offsets: U64
    sizes: U64

    def find(self) -> list[int]:
        """Fill in what is known. The minishards that are not."""
        try:
            return find_many(self.file.tables, self.minishards, self.ids, self.offsets, self.sizes)
        except ZvcoreError as error:
            raise error.located(key=self.file.data_key)


def group_starts(values: U64) -> npt.NDArray[np.intp]:
    """Where each run of equal values starts."""
    if not len(values):
        return np.empty(0, np.intp)
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
