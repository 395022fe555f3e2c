"""Writing a sharded store from any number of values in any order, in bounded memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from zvcore.codecs import CodecChain
from zvcore.engine import encode_many
from zvcore.errors import ConflictError
from zvcore.precomputed.entries import Entries
from zvcore.precomputed.external_sort import ExternalSort
from zvcore.precomputed.ids import as_id, as_ids
from zvcore.precomputed.shard_builder import ShardBuilder
from zvcore.precomputed.shard_reader import ShardReader, group_starts
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.stores import LocalStore, Store, open_store
from zvcore.stores.indexes import index_cache
from zvcore.stores.sole import sole_writer
from zvcore.stores.writing import ANYTHING, Anything

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Item", "at_level", "encoded_entries", "write_into_shards", "write_set", "write_sharded", "write_shards"]

Item: TypeAlias = "tuple[SupportsIndex, Buffer] | tuple[SupportsIndex, Buffer, Buffer]"

# Values are taken and compressed in batches of so many bytes, each value counting for some overhead.
_BATCH_BYTES = 4 << 20
_VALUE_OVERHEAD = 120
_DEFAULT_MEMORY = 48 << 20


def write_sharded(
    path: str | os.PathLike[str] | Store,
    spec: ShardingSpec | Mapping[str, Any] | str,
    items: Mapping[Any, Buffer] | Iterable[Item],
    unindexed: Mapping[Any, Buffer] | None = None,
    progress: bool | Callable[[int], Any] = False,
    threads: int | None = None,
    overwrite: bool = False,
    *,
    encoded: bool = False,
    level: int | None = None,
    memory: int = _DEFAULT_MEMORY,
    scratch: str | os.PathLike[str] | None = None,
) -> int:
    """Write values by id into shards, and return how many there were.

    `items` is a mapping, or yields (id, value), or (id, value, bytes before it) in any order, as many as there are.
    What exceeds `memory` bytes is sorted through a temporary file in the folder `scratch` (by default the store itself,
    if it is a folder), which grows to the size of all stored values. The bytes written depend on the values alone.

    `unindexed` gives bytes to put before the value of an id, which no index mentions: mesh fragments before their
    manifest. With `encoded`, values are stored as they are given, compressed already; else `level` is that of their
    compression. Shards of the same specification that exist already are an error, or with `overwrite` removed in the
    end. `progress` is called with the number of values taken so far.
    """
    if not isinstance(spec, ShardingSpec):
        spec = ShardingSpec.from_json(spec)
    store = open_store(path, "w")
    report = progress if callable(progress) else _bar if progress else None
    data_chain = ShardReader(store, spec).data_chain
    chain = CodecChain(()) if encoded else data_chain if level is None else at_level(data_chain, level)
    with sole_writer(store):
        return write_set(
            store, spec, items, overwrite, unindexed=unindexed, report=report, threads=threads, chain=chain,
            memory=memory, scratch=scratch,
        )  # fmt: skip


def write_set(
    store: Store,
    spec: ShardingSpec,
    items: Mapping[Any, Buffer] | Iterable[Item],
    overwrite: bool,
    begin: Callable[[], None] = lambda: None,
    *,
    unindexed: Mapping[Any, Buffer] | None = None,
    report: Callable[[int], Any] | None = None,
    threads: int | None = None,
    chain: CodecChain | None = None,
    memory: int = _DEFAULT_MEMORY,
    scratch: str | os.PathLike[str] | None = None,
) -> int:
    """`write_sharded`, which calls `begin` before each shard that it writes, and before it removes any."""
    reader = ShardReader(store, spec)
    before = reader.shards()
    if before and not overwrite:
        raise ConflictError(
            f"there are {len(before)} shards already; overwrite=True replaces them", key=reader.key(before[0])
        )
    if scratch is None and isinstance(store, LocalStore):
        store.make_folder()
        scratch = store.root
    with ExternalSort(memory, None if scratch is None else os.fspath(scratch)) as sort:
        chain = reader.data_chain if chain is None else chain
        entries = encoded_entries(items, spec, chain, unindexed or {}, threads)
        count = _sorted(sort, entries, report)
        # Without locks, another may begin the same shards: then the first to end one has written it.
        alone = not before and not store.can_lock
        written = write_shards(store, reader, sort.merged(), threads, begin, None if alone else ANYTHING)
    begin()
    for shard in before:
        names = {spec.shard_name(shard).removesuffix("shard") + suffix for suffix in ("shard", "index", "data")}
        for name in sorted(names if shard not in written else names - {spec.shard_name(shard)}):
            store.delete(name)
            index_cache().invalidate(store, name)
    return count


def write_into_shards(store: Store, spec: ShardingSpec, items: Iterable[Item]) -> int:
    """Write the shards that these values belong to, which may be some of many; how many values there were.

    Shards of the same names are replaced. What exceeds the memory for it is sorted through a file, as in
    `write_sharded`.
    """
    reader = ShardReader(store, spec)
    with ExternalSort(_DEFAULT_MEMORY, store.root if isinstance(store, LocalStore) else None) as sort:
        count = _sorted(sort, encoded_entries(items, spec, reader.data_chain, {}, None))
        write_shards(store, reader, sort.merged(), None)
    return count


def _sorted(sort: ExternalSort, pieces: Iterable[Entries], report: Callable[[int], Any] | None = None) -> int:
    """Give entries to be sorted; how many there were."""
    count = 0
    for entries in pieces:
        sort.add(entries)
        count += len(entries)
        if report is not None:
            report(count)
    return count


def at_level(chain: CodecChain, level: int) -> CodecChain:
    """The same codecs, compressing more or less."""
    return CodecChain(type(codec).from_config({**codec.config(), "level": level}) for codec in chain.codecs)


def _bar(count: int) -> None:
    import sys

    print(f"\r{count} values", end="", file=sys.stderr, flush=True)


def encoded_entries(
    items: Mapping[Any, Buffer] | Iterable[Any],
    spec: ShardingSpec,
    chain: CodecChain,
    unindexed: Mapping[Any, Buffer],
    threads: int | None,
) -> Iterator[Entries]:
    """The items, compressed and placed, batch by batch."""
    if isinstance(items, Mapping):
        items = items.items()
    ids: list[SupportsIndex] = []
    values: list[Buffer] = []
    heads: list[Buffer | None] = []
    has_heads = bool(unindexed)
    left = dict(unindexed)
    room = _BATCH_BYTES
    for item in items:
        if len(item) == 2:
            key, value = item
            head = left.pop(key, None) if left else None
        else:
            key, value, head = cast("tuple[SupportsIndex, Buffer, Buffer]", item)
            has_heads = True
        ids.append(key)
        values.append(value)
        if has_heads:
            heads.extend([None] * (len(ids) - 1 - len(heads)))
            heads.append(head)
            if head is not None:
                room -= memoryview(head).nbytes
        room -= _VALUE_OVERHEAD + (len(value) if type(value) is bytes else memoryview(value).nbytes)
        if room < 0:
            yield _encode(ids, values, heads, spec, chain, threads)
            ids, values, heads = [], [], []
            room = _BATCH_BYTES
    if left:
        raise ValueError(f"unindexed bytes are given for id {as_id(next(iter(left)))}, but no value")
    if ids:
        yield _encode(ids, values, heads, spec, chain, threads)


def _encode(
    ids: list[SupportsIndex],
    values: list[Buffer],
    heads: list[Buffer | None],
    spec: ShardingSpec,
    chain: CodecChain,
    threads: int | None,
) -> Entries:
    numbers = as_ids(ids)
    none = np.zeros(len(ids), np.uint64)
    if len(chain):
        encoded = encode_many(values, chain, threads=threads)
        data, starts = encoded.joined()
        sizes = np.diff(starts).astype(np.uint64)
    else:
        sizes = np.fromiter((memoryview(value).nbytes for value in values), np.uint64, len(values))
        data = np.frombuffer(b"".join(values), np.uint8)
    if not any(head is not None for head in heads):
        return Entries(spec.hashes(numbers), numbers, none, sizes, data)
    heads.extend([None] * (len(ids) - len(heads)))
    before = np.fromiter((0 if head is None else memoryview(head).nbytes for head in heads), np.uint64, len(ids))
    ends = np.cumsum(sizes).tolist()
    parts: list[Buffer] = []
    start = 0
    for head, end in zip(heads, ends, strict=True):
        if head is not None:
            parts.append(head)
        parts.append(data[start:end].data)
        start = end
    return Entries(spec.hashes(numbers), numbers, before, sizes, np.frombuffer(b"".join(parts), np.uint8))


def write_shards(
    store: Store,
    reader: ShardReader,
    pieces: Iterator[Entries],
    threads: int | None,
    begin: Callable[[], None] = lambda: None,
    unchanged: Anything | None = ANYTHING,
) -> set[int]:
    """Write entries that come in order. Every shard is seen by readers when it is whole.

    unchanged  None: no shard may be there already
    """
    spec = reader.spec
    written: set[int] = set()
    last_id: int | None = None
    last_hash: int | None = None
    with ExitStack() as stack:
        current: int | None = None
        builder: ShardBuilder | None = None
        for entries in pieces:
            if not len(entries):
                continue
            _refuse_twice(entries, last_hash, last_id)
            last_hash, last_id = int(entries.hashes[-1]), int(entries.ids[-1])
            shards, _ = spec.split(entries.hashes)
            starts = group_starts(shards)
            bounds = [*starts.tolist(), len(entries)]
            for first, last in itertools.pairwise(bounds):
                shard = int(shards[first])
                if shard != current:
                    if builder is not None:
                        builder.finish()
                        stack.close()
                    begin()
                    key = reader.key(shard)
                    stack.callback(index_cache().invalidate, store, key)
                    writer = stack.enter_context(store.writer(key, unchanged))
                    builder = stack.enter_context(ShardBuilder(writer, spec, reader.index_chain, threads))
                    current = shard
                    written.add(shard)
                assert builder is not None
                builder.add(entries if (first, last) == (0, len(entries)) else entries.slice(first, last))
        if builder is not None:
            builder.finish()
    return written


def _refuse_twice(entries: Entries, last_hash: int | None, last_id: int | None) -> None:
    same = (entries.ids[1:] == entries.ids[:-1]) & (entries.hashes[1:] == entries.hashes[:-1])
    twice: npt.NDArray[np.intp] = np.flatnonzero(same)
    if len(twice):
        raise ValueError(f"id {entries.ids[twice[0]]} is given more than once")
    if last_id is not None and int(entries.ids[0]) == last_id and int(entries.hashes[0]) == last_hash:
        raise ValueError(f"id {last_id} is given more than once")
