"""A sharded store as a mapping from ids to values."""

from __future__ import annotations

import itertools
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from zvcore.codecs import CodecChain
from zvcore.engine import Buffers, fetch
from zvcore.engine.steady import steadily
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, ReadOnlyError, ZvcoreError
from zvcore.layout import ABSENT, Sources
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.ids import Ids, as_id, as_ids, is_id
from zvcore.precomputed.shard_reader import ShardFile, ShardReader
from zvcore.precomputed.shard_update import update_shards
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.stores import Store, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from typing_extensions import Buffer

    from zvcore.precomputed.shard_writer import Item

__all__ = ["ShardedStore", "ValueColumns", "as_spec"]

U64 = npt.NDArray[np.uint64]
T = TypeVar("T")

# What iterating over items holds of their stored bytes.
_BATCH_BYTES = 8 << 20
# What is read at once of what lies before values.
_BEFORE_BYTES = 64 << 20


def as_spec(spec: ShardingSpec | Mapping[str, Any] | str) -> ShardingSpec:
    """A specification from what users write for one: itself, its JSON object, or the JSON text."""
    return spec if isinstance(spec, ShardingSpec) else ShardingSpec.from_json(spec)


class ValueColumns(NamedTuple):
    """Many values: the i-th is `data[offsets[i]:offsets[i + 1]]`, and `found[i]` says whether it is there."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    found: npt.NDArray[np.bool_]


class Before(NamedTuple):
    """A part of the `total` bytes before a value that belong to it: `size` of them from `start`."""

    total: int
    start: int
    size: int


class ShardedStore(Mapping[int, bytes]):
    """The values of a sharded store by their ids, 0 to 2**64 - 1.

        kv = ShardedStore("skeletons/", spec)
        kv[720575940621039145]
        kv.get_many(ids)                     # batched: far faster than one by one

    With mode "r+" `update` and `delete` change it; each shard that they touch is rewritten once, atomically and
    under a lock. Values come out decoded; `read_encoded` gives them as stored.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Store,
        spec: ShardingSpec | Mapping[str, Any] | str,
        mode: str = "r",
        *,
        threads: int | None = None,
    ) -> None:
        if mode not in ("r", "r+"):
            raise ValueError(f'mode is "r" or "r+", not {mode!r}; write_sharded makes new stores')
        self.spec = as_spec(spec)
        self.store = open_store(path, mode)
        self.mode = mode
        self.threads = threads
        self._reader = ShardReader(self.store, self.spec)
        codecs = self._reader.data_chain.codecs
        self._codec = codecs[0] if codecs else None

    def __repr__(self) -> str:
        return f"<ShardedStore {self.store.root} ({1 << self.spec.shard_bits} shards, mode {self.mode!r})>"

    # One value

    def __getitem__(self, key: SupportsIndex) -> bytes:
        value = self.get(key)
        if value is None:
            raise NotFoundError(f"there is no value of id {as_id(key)}", key=self.store.root)
        return value

    @overload
    def get(self, key: SupportsIndex) -> bytes | None: ...
    @overload
    def get(self, key: SupportsIndex, default: bytes | T) -> bytes | T: ...
    def get(self, key: SupportsIndex, default: Any = None) -> Any:
        wanted = as_id(key)
        found = self._known(wanted) or steadily(lambda: self._stored(wanted), self.store.root)
        if found is None:
            return default
        file, offset, data = found
        if self._codec is None:
            return bytes(data)
        try:
            return bytes(self._codec.decode(data))
        except ZvcoreError as error:
            raise error.located(key=file.data_key, chunk=wanted, offset=offset, length=len(data))

    def _known(self, wanted: int) -> tuple[ShardFile, int, bytes | memoryview] | None:
        """The stored value if its place is known and the file is still the same; None says nothing."""
        found = self._reader.find_known(wanted)
        if found is None:
            return None
        file, offset, size = found
        try:
            data = self.store.get(file.data_key, offset, size, stamp=file.stamp)
        except ConflictError:
            return None
        return None if data is None or len(data) != size else (file, offset, data)

    def _stored(self, wanted: int) -> tuple[ShardFile, int, bytes | memoryview] | None:
        found = self._reader.find_once(wanted)
        if found is None:
            return None
        file, offset, size = found
        data = self.store.get(file.data_key, offset, size, stamp=file.stamp)
        if data is None:
            raise ConflictError("the object was removed while it was being read", key=file.data_key)
        if len(data) != size:
            raise CorruptDataError(
                "the value is cut off", key=file.data_key, chunk=wanted, offset=offset, expected=f"{size} bytes",
                found=len(data),
            )  # fmt: skip
        return file, offset, data

    def __contains__(self, key: object) -> bool:
        return is_id(key) and self._reader.find(as_id(key)) is not None

    def locate(self, key: SupportsIndex) -> tuple[str, int, int]:
        """(file, offset, size): where the stored value of an id lies. NotFoundError if there is none."""
        wanted = as_id(key)
        found = self._reader.find(wanted)
        if found is None:
            raise NotFoundError(f"there is no value of id {wanted}", key=self.store.root)
        file, offset, size = found
        return file.data_key, offset, size

    def read_encoded(self, key: SupportsIndex) -> bytes | None:
        """A value as it is stored; None if there is none."""
        wanted = as_id(key)
        found = self._known(wanted) or steadily(lambda: self._stored(wanted), self.store.root)
        return None if found is None else bytes(found[2])

    def read_before(self, key: SupportsIndex, n: int, start: int = 0, size: int | None = None) -> bytes:
        """The `n` bytes before the stored value of an id, which no index mentions: fragments before a mesh manifest.

        With `start` and `size`, only that part of them is read.
        """
        if n < 0 or start < 0 or start > n or (size is not None and not 0 <= size <= n - start):
            raise ValueError(f"there is no part of {size} bytes at {start} in {n} bytes")
        wanted = as_id(key)
        part = Before(n, start, n - start if size is None else size)

        def read() -> bytes:
            found = self._reader.find_once(wanted)
            if found is None:
                raise NotFoundError(f"there is no value of id {wanted}", key=self.store.root)
            file, offset, _ = found
            data = self.store.get(file.data_key, _before(file, wanted, offset, part), part.size, stamp=file.stamp)
            if data is None or len(data) != part.size:
                raise ConflictError("the object changed while it was being read", key=file.data_key)
            return bytes(data)

        return steadily(read, self.store.root)

    # Many values

    def get_many(self, ids: Ids) -> dict[int, bytes]:
        """The values of these ids; those that are missing are left out.

        One pass reads shard indices, one minishard indices, one values, each with as few requests as possible.
        """
        wanted = as_ids(ids)
        return self.fetch(wanted).mapping(wanted)

    def get_columns(self, ids: Ids, out: Buffer | None = None) -> ValueColumns:
        """The values of these ids one after the other in one block of memory, without a Python object for each.

        With `out`, anything writable with room for all of them, they are put at its beginning.
        """
        values = self.fetch(as_ids(ids))
        data, offsets = values.joined(out)
        return ValueColumns(data, offsets, values.sizes != ABSENT)

    def with_before(
        self, ids: Ids, part: Callable[[int, bytes], Before], make: Callable[[int, bytes], T]
    ) -> dict[int, T]:
        """What `make(id, data)` makes of a part of what lies before each of these values, which `part(id, value)` says;
        missing ones are left out. A value and its part are of one version of their shard, and many are read at once.
        """
        wanted = np.unique(as_ids(ids))

        def read() -> dict[int, T]:
            sources = self._reader.locate(wanted)
            values = self._fetched(wanted, sources, self._reader.data_chain).mapping(wanted)
            parts = {id: part(id, value) for id, value in values.items()}
            made = {id: make(id, b"") for id, one in parts.items() if not one.size}
            some = np.array([id for id, one in parts.items() if one.size], np.uint64)
            before = _PartsBefore(sources, np.searchsorted(wanted, some), some, parts)
            for piece in itertools.starmap(slice, pieces_of(before.sizes, _BEFORE_BYTES)):
                found = self._fetched(some[piece], before.sources(piece), CodecChain(()))
                made.update((id, make(id, data)) for id, data in found.mapping(some[piece]).items())
            return made

        return steadily(read, self.store.root)

    def fetch(self, wanted: U64, *, encoded: bool = False) -> Buffers:
        """The values of these ids, in their order, without a Python object for each; absent for those that are not
        there.
        """

        def read() -> Buffers:
            sources = self._reader.locate(wanted)
            return self._fetched(wanted, sources, CodecChain(()) if encoded else self._reader.data_chain)

        return steadily(read, self.store.root)

    def _fetched(self, wanted: U64, sources: Sources, chain: CodecChain) -> Buffers:
        try:
            return fetch(self.store, sources, chain, count=len(wanted), threads=self.threads)
        except ZvcoreError as error:
            raise self._named(error, wanted, sources)

    def _named(self, error: ZvcoreError, wanted: U64, sources: Any) -> ZvcoreError:
        """The error with the id of the value that it is about, which the engine does not know."""
        if error.offset is not None and error.key is not None:
            rows = np.flatnonzero((sources.offset == np.uint64(error.offset)) & (sources.length != ABSENT))
            for row in rows.tolist():
                if sources.keys[int(sources.key[row])] == error.key:
                    error.chunk = int(wanted[row])
                    return error
        return error

    # All of them

    def ids(self) -> U64:
        """All ids, in ascending order. Reads every index and no value."""
        ids = np.concatenate([np.empty(0, np.uint64), *self._reader.each_shards_ids(self.threads)])
        ids.sort()
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            raise CorruptDataError("an id is there more than once", key=self.store.root, chunk=int(ids[twice[0]]))
        return ids

    def shard_ids(self, shard: int) -> U64:
        """The ids of one shard, minishard by minishard."""

        def read() -> U64:
            file = self._reader.file(shard)
            return np.empty(0, np.uint64) if file is None else self._reader.ids(file, self.threads)

        return steadily(read, self.store.root)

    def first_ids(self, count: int) -> U64:
        """Some ids, those of the first shard that has any."""
        for shard in self._reader.shards():
            ids = self.shard_ids(shard)
            if len(ids):
                return ids[:count]
        return np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self.ids())

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids().tolist())

    def items(self) -> ItemsView[int, bytes]:
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        return _Values(self)

    def batches(self) -> Iterator[dict[int, bytes]]:
        """Everything in the order in which it is stored, a few megabytes at a time."""
        for ids in self.id_batches():
            yield self.get_many(ids)

    def id_batches(self) -> Iterator[U64]:
        """All ids in the order in which they are stored, so many at a time that their values fit into memory."""
        for shard in self._reader.shards():
            ids = self.shard_ids(shard)
            sizes = self._reader.locate(ids).length
            assert sizes is not None
            for first, last in pieces_of(np.where(sizes == ABSENT, 0, sizes), _BATCH_BYTES):
                yield ids[first:last]

    # Changes

    def update(
        self,
        values: Mapping[Any, Buffer] | Iterable[Item],
        *,
        unindexed: Mapping[Any, Buffer] | None = None,
        encoded: bool = False,
    ) -> None:
        """Add values or replace them. Each shard that is touched is rewritten once; its other values are copied.

        `unindexed` bytes are put before the value of their id; without any, those that were there stay. With `encoded`,
        values are stored as they are given.
        """
        self._refuse_if_read_only()
        update_shards(
            self._reader, values, unindexed=unindexed or {}, encoded=encoded, deleted=(), threads=self.threads
        )

    def delete(self, ids: Ids) -> None:
        """Take out values, with the unindexed bytes before them. Ids that are not there are passed over."""
        self._refuse_if_read_only()
        update_shards(self._reader, {}, unindexed={}, encoded=False, deleted=as_ids(ids).tolist(), threads=self.threads)

    def _refuse_if_read_only(self) -> None:
        if self.mode == "r":
            raise ReadOnlyError('opened with mode "r"; changes need "r+"', key=self.store.root)


def _before(file: ShardFile, id: int, offset: int, part: Before) -> int:
    """Where a part begins of what lies before the value at `offset`."""
    if part.total > offset - file.base:
        raise CorruptDataError(
            f"there are no {part.total} bytes before the value", key=file.data_key, chunk=id, offset=offset,
            expected=f"at most {offset - file.base}",
        )  # fmt: skip
    return offset - part.total + part.start


class _PartsBefore:
    """Where parts lie of what is before values: those of `ids`, of which `rows` of the sources tell."""

    def __init__(self, values: Sources, rows: npt.NDArray[np.intp], ids: U64, parts: Mapping[int, Before]) -> None:
        assert values.key is not None and values.offset is not None and values.found is not None
        self._values = values
        self._which = values.key[rows]
        wanted = [parts[id] for id in ids.tolist()]
        places = zip(self._which.tolist(), ids.tolist(), values.offset[rows].tolist(), wanted, strict=True)
        begins = [_before(values.found[file], id, offset, part) for file, id, offset, part in places]
        self._offsets = np.array(begins, np.uint64)
        self.sizes = np.array([part.size for part in wanted], np.uint64)

    def sources(self, rows: slice) -> Sources:
        return Sources(
            self._values.keys, self._which[rows], self._offsets[rows], self.sizes[rows], stamps=self._values.stamps
        )


class _Items(ItemsView[int, bytes]):
    _mapping: ShardedStore

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for batch in self._mapping.batches():
            yield from batch.items()


class _Values(ValuesView[bytes]):
    _mapping: ShardedStore

    def __iter__(self) -> Iterator[bytes]:
        for batch in self._mapping.batches():
            yield from batch.values()
