"""Changing some values of shards: each shard is read, merged and rewritten, other values as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.codecs import CodecChain
from zvcore.engine.steady import CHANGED
from zvcore.errors import ConflictError, CorruptDataError
from zvcore.placement import UNKNOWN, Unknown
from zvcore.precomputed.entries import U64, Entries, join, nothing_before
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.ids import as_ids
from zvcore.precomputed.minishards import stored_minishards
from zvcore.precomputed.shard_builder import ShardBuilder, ends_of
from zvcore.precomputed.shard_writer import encoded_entries
from zvcore.stores.again import again
from zvcore.stores.indexes import index_cache
from zvcore.stores.puts_together import Kept, KeptOf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

    from zvcore.precomputed.shard_reader import ShardFile, ShardReader
    from zvcore.stores.editing import Edit

__all__ = [
    "Contents",
    "contents_of",
    "gaps_between",
    "kept_of",
    "replace_shard",
    "rewrite",
    "rewrite_shard",
    "update_shards",
]

_PIECE_BYTES = 8 << 20
# Larger shards are not put from memory.
_PUT_BYTES = 64 << 20
_NO_DATA = np.empty(0, np.uint8)


def update_shards(
    reader: ShardReader,
    values: Mapping[Any, Buffer] | Iterable[Any],
    *,
    unindexed: Mapping[Any, Buffer],
    encoded: bool,
    deleted: Sequence[int],
    threads: int | None,
) -> None:
    """Put these values into their shards and take others out."""
    spec = reader.spec
    chain = CodecChain(()) if encoded else reader.data_chain
    changes = join([*encoded_entries(values, spec, chain, unindexed, threads)]).sorted()
    if len(changes) > 1:
        twice = np.flatnonzero((changes.ids[1:] == changes.ids[:-1]) & (changes.hashes[1:] == changes.hashes[:-1]))
        if len(twice):
            raise ValueError(f"id {changes.ids[twice[0]]} is given more than once")
    # For which ids the bytes before the value are given; the others keep what they have.
    told = np.isin(changes.ids, as_ids(unindexed.keys())) if unindexed else changes.before > 0
    gone = as_ids(deleted)
    changed_shards, _ = spec.split(changes.hashes)
    gone_shards, _ = spec.locate(gone)
    order = np.argsort(gone_shards, kind="stable")
    gone, gone_shards = gone[order], gone_shards[order]
    shards = np.union1d(changed_shards, gone_shards)
    # Both are in the order of shards: where the rows of each lie is looked up for all at once.
    changed = [np.searchsorted(changed_shards, shards, side).tolist() for side in ("left", "right")]
    deleted_rows = [np.searchsorted(gone_shards, shards, side).tolist() for side in ("left", "right")]
    for shard, first, last, start, end in zip(shards.tolist(), *changed, *deleted_rows, strict=True):
        rewrite_shard(reader, shard, changes.slice(first, last), told[first:last], gone[start:end], threads=threads)


@dataclass
class Contents:
    """What a shard file holds: a row for each value, in order of minishard and id, and the bytes that belong to none.

    starts     where the value lies in the data object
    before     how many bytes directly before it no index mentions
    loose      (offset, size) of unmentioned bytes that no value follows
    """

    hashes: U64
    ids: U64
    starts: U64
    sizes: U64
    before: U64
    loose: list[tuple[int, int]]


def contents_of(reader: ShardReader, file: ShardFile, shard: int, threads: int | None = None) -> Contents:
    """Everything in a shard file, or CorruptDataError when it is not sound enough to be rewritten."""
    tables = [*reader.all_tables(file, threads)]
    empty = np.empty(0, np.uint64)
    for number, table in tables:
        bad = np.flatnonzero(table.bad_entries())
        if len(bad):
            raise CorruptDataError(
                "the value lies outside the file; a repair can drop it", key=file.data_key,
                chunk=int(table.ids[bad[0]]), expected=f"an end at or before byte {file.limit}",
            )  # fmt: skip
        if table.has_duplicates:
            raise CorruptDataError("an id is there more than once", key=file.data_key, chunk=f"minishard {number}")
    ids = np.concatenate([table.ids for _, table in tables]) if tables else empty
    numbers = np.repeat([number for number, _ in tables], [len(table) for _, table in tables]).astype(np.uint64)
    hashes = reader.spec.hashes(ids)
    own_shards, own_numbers = reader.spec.split(hashes)
    astray = np.flatnonzero((own_shards != np.uint64(shard)) | (own_numbers != numbers))
    if len(astray):
        raise CorruptDataError(
            "the id belongs to another minishard, where no reader finds it; a repair can move it", key=file.data_key,
            chunk=int(ids[astray[0]]),
        )  # fmt: skip
    starts = np.uint64(file.base) + (np.concatenate([table.starts for _, table in tables]) if tables else empty)
    sizes = np.concatenate([table.sizes for _, table in tables]) if tables else empty
    index = stored_minishards(reader, file)[1] + np.uint64(file.base)
    before, loose = gaps_between(starts, sizes, index, file.base, file.limit)
    order = np.lexsort((ids, hashes))
    return Contents(hashes[order], ids[order], starts[order], sizes[order], before[order], loose)


def gaps_between(starts: U64, sizes: U64, index: U64, base: int, limit: int) -> tuple[U64, list[tuple[int, int]]]:
    """How many unmentioned bytes precede each value, and the unmentioned ranges that precede none.

    Where values share a range, the first of them has the bytes before it.
    """
    begins = np.concatenate([starts, index[:, 0], [np.uint64(limit)]])
    ends = np.concatenate([starts + sizes, index[:, 1], [np.uint64(limit)]])
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order].astype(np.int64), ends[order].astype(np.int64)
    covered = np.maximum.accumulate(np.concatenate([[base], ends[:-1]]))
    gaps = np.maximum(begins - covered, 0)
    before = np.zeros(len(starts), np.uint64)
    is_value = order < len(starts)
    before[order[is_value]] = gaps[is_value].astype(np.uint64)
    rest = np.flatnonzero(~is_value & (gaps > 0))
    return before, [(int(covered[row]), int(gaps[row])) for row in rest]


def rewrite_shard(
    reader: ShardReader,
    shard: int,
    changes: Entries,
    told: npt.NDArray[np.bool_],
    gone: U64,
    threads: int | None = None,
) -> None:
    """Put `changes`, which are in order, into a shard and take the ids `gone` out of it.

    `told` says for which of the changes `before` holds; others keep the unmentioned bytes that precede the old value.
    """
    key = reader.key(shard)
    for attempt in again(key, on=CHANGED):
        with attempt, reader.store.edit(key) as edit:
            rewrite(reader, edit, shard, changes, told, gone, threads=threads)


def kept_of(reader: ShardReader, file: ShardFile, shard: int, hashes: U64, ids: U64) -> KeptOf:
    """What of a shard stays as it is when these values are put into it."""
    order = np.lexsort((ids, hashes))
    anything = np.ones(len(ids), np.uint64)
    changes = Entries(hashes[order], ids[order], nothing_before(len(ids)), anything, _NO_DATA)
    old = contents_of(reader, file, shard)
    plan = _Plan.merge(old, changes, np.zeros(len(ids), np.bool_), np.empty(0, np.uint64))
    return KeptOf(file.key, file.stamp, [*plan.kept(), *(Kept(*one) for one in old.loose)])


def rewrite(
    reader: ShardReader,
    edit: Edit,
    shard: int,
    changes: Entries,
    told: npt.NDArray[np.bool_],
    gone: U64,
    *,
    file: ShardFile | Unknown | None = UNKNOWN,
    threads: int | None = None,
) -> None:
    """`rewrite_shard` once, within an edit of the shard. `file` is what is known of it as it is."""
    key = edit.key
    if isinstance(file, Unknown):
        # What is put under a condition is known to come from the version that is there.
        file = reader.file(shard, fresh=edit.locked)
    legacy = file is not None and file.key != key
    edit.made_from(None if file is None or legacy else file.stamp)
    if file is None:
        old = Contents(*(np.empty(0, np.uint64),) * 5, [])
    else:
        old = contents_of(reader, file, shard, threads)
    plan = _Plan.merge(old, changes, told, gone)
    if not len(changes) and len(plan.ids) == len(old.ids):
        return
    if edit.together is not None and not legacy and plan.can_be_put_at_once(reader, edit):
        loose = [Kept(*one) for one in old.loose]
        loose_size = sum(one.size for one in loose)
        head, tail = ends_of(reader.spec, reader.index_chain, plan.written(), loose_size, threads)
        edit.put_parts([head, *plan.values(changes), *loose, tail], None if file is None else file.stamp)
        size = len(head) + plan.nbytes + loose_size + len(tail)
        edit.then = partial(reader.note_written, shard, head, tail, size)
        return
    replace_shard(
        reader,
        edit,
        file,
        plan.entries(reader, file, changes),
        (_read(reader, file, [piece])[0] for piece in old.loose),
        empty=not len(plan.ids),
        threads=threads,
    )


def replace_shard(
    reader: ShardReader,
    edit: Edit,
    file: ShardFile | None,
    entries: Iterable[Entries],
    loose: Iterable[Buffer] = (),
    *,
    empty: bool = False,
    threads: int | None = None,
) -> None:
    """Put a shard of these entries, which are in order, in the place of a file, or of the legacy pair of files.

    `loose` are bytes that belong to no value. With `empty` there are no entries: the shard goes.
    """
    store = reader.store
    legacy = file is not None and file.key != edit.key
    # What cannot be removed under a condition becomes a shard without values.
    if not empty or not edit.can_delete:
        with edit.writer() as writer, ShardBuilder(writer, reader.spec, reader.index_chain, threads) as builder:
            for piece in entries:
                builder.add(piece)
            for data in loose:
                builder.add_loose(data)
            builder.finish()
    elif not legacy:
        edit.delete()
    if legacy and file is not None:
        for name in (file.key, file.data_key):
            store.delete(name)
            index_cache().invalidate(store, name)


@dataclass
class _Plan:
    """The new shard: a row per value, in order. `old` and `new` are rows of the old contents and the changes, or -1."""

    hashes: U64
    ids: U64
    before: U64
    sizes: U64
    old: npt.NDArray[np.int64]
    new: npt.NDArray[np.int64]
    # Where the bytes before the value and the value come from: an offset in the old object, or in the changes' data.
    before_is_old: npt.NDArray[np.bool_]
    before_at: U64
    value_at: U64

    @classmethod
    def merge(cls, old: Contents, changes: Entries, told: npt.NDArray[np.bool_], gone: U64) -> _Plan:
        spans = changes.spans
        data_at = np.cumsum(spans, dtype=np.uint64) - spans
        stays = ~np.isin(old.ids, gone)
        replaced = np.isin(old.ids, changes.ids)
        kept = np.flatnonzero(stays & ~replaced)
        # The old row of each change, -1 for new ids.
        by_id = np.argsort(old.ids, kind="stable")
        place = np.searchsorted(old.ids[by_id], changes.ids)
        place = np.minimum(place, max(0, len(by_id) - 1))
        old_row = np.full(len(changes), -1, np.int64)
        if len(by_id):
            candidate = by_id[place]
            known = (old.ids[candidate] == changes.ids) & stays[candidate]
            old_row[known] = candidate[known]
        inherits = ~told & (old_row >= 0)
        before = changes.before.copy()
        before[inherits] = old.before[old_row[inherits]]
        before_at = data_at.copy()
        before_at[inherits] = old.starts[old_row[inherits]] - old.before[old_row[inherits]]
        plan = cls(
            np.concatenate([old.hashes[kept], changes.hashes]),
            np.concatenate([old.ids[kept], changes.ids]),
            np.concatenate([old.before[kept], before]),
            np.concatenate([old.sizes[kept], changes.sizes]),
            np.concatenate([kept, np.full(len(changes), -1)]).astype(np.int64),
            np.concatenate([np.full(len(kept), -1), np.arange(len(changes))]).astype(np.int64),
            np.concatenate([np.ones(len(kept), np.bool_), inherits]),
            np.concatenate([old.starts[kept] - old.before[kept], before_at]),
            np.concatenate([old.starts[kept], data_at + changes.before]),
        )
        order = np.lexsort((plan.ids, plan.hashes))
        return cls(**{name: getattr(plan, name)[order] for name in cls.__dataclass_fields__})

    def can_be_put_at_once(self, reader: ShardReader, edit: Edit) -> bool:
        """Whether the shard is put as a whole, from memory: else piece by piece, or there is none to put."""
        return reader.spec.index_size + self.nbytes <= _PUT_BYTES and (len(self.ids) > 0 or not edit.can_delete)

    def written(self) -> Entries:
        """The new contents without their bytes."""
        return Entries(self.hashes, self.ids, self.before, self.sizes, _NO_DATA)

    def values(self, changes: Entries) -> list[Buffer | Kept]:
        """The bytes of the new contents, one after the other."""
        data = changes.data.data
        return [Kept(at, size) if is_old else data[at : at + size] for is_old, at, size in self._runs()]

    def _runs(self) -> Iterator[tuple[bool, int, int]]:
        """(whether they are of the old object or of the changes' data, where, how many) of bytes that lie together in
        both.
        """
        is_old = np.stack([self.before_is_old, self.old >= 0], 1).reshape(-1)
        begins = np.stack([self.before_at, self.value_at], 1).reshape(-1)
        sizes = np.stack([self.before, self.sizes], 1).reshape(-1)
        some = sizes > 0
        is_old, begins, sizes = is_old[some], begins[some], sizes[some]
        ends = begins + sizes
        first = np.ones(len(sizes), np.bool_)
        first[1:] = (is_old[1:] != is_old[:-1]) | (begins[1:] != ends[:-1])
        last = np.append(first[1:], np.ones(min(1, len(first)), np.bool_))
        return zip(is_old[first].tolist(), begins[first].tolist(), (ends[last] - begins[first]).tolist(), strict=True)

    def kept(self) -> list[Kept]:
        """What stays of the old object, as in `values`."""
        return [Kept(at, size) for is_old, at, size in self._runs() if is_old]

    @property
    def spans(self) -> U64:
        return self.before + self.sizes

    @property
    def nbytes(self) -> int:
        """How many bytes the values have, with those before them."""
        return int(self.spans.sum(dtype=np.uint64))

    def entries(self, reader: ShardReader, file: ShardFile | None, changes: Entries) -> Iterator[Entries]:
        """The new contents, a few megabytes at a time."""
        data = changes.data.data
        for first, last in pieces_of(self.spans, _PIECE_BYTES):
            wanted: list[tuple[int, int]] = []
            sources: list[memoryview | None] = []
            rows = slice(first, last)
            for is_old, before_at, before, value_is_old, value_at, size in zip(
                self.before_is_old[rows].tolist(), self.before_at[rows].tolist(), self.before[rows].tolist(),
                (self.old[rows] >= 0).tolist(), self.value_at[rows].tolist(), self.sizes[rows].tolist(), strict=True,
            ):  # fmt: skip
                if is_old and value_is_old:
                    # Both lie together.
                    wanted.append((before_at, before + size))
                    sources.append(None)
                    continue
                if before:
                    sources.append(None if is_old else data[before_at : before_at + before])
                    if is_old:
                        wanted.append((before_at, before))
                sources.append(data[value_at : value_at + size])
            fetched = iter(_read(reader, file, wanted))
            joined = b"".join([next(fetched) if source is None else source for source in sources])
            yield Entries(
                self.hashes[rows], self.ids[rows], self.before[rows], self.sizes[rows], np.frombuffer(joined, np.uint8)
            )


def _read(reader: ShardReader, file: ShardFile | None, ranges: list[tuple[int, int]]) -> list[memoryview]:
    """These ranges of the old object."""
    if not ranges:
        return []
    assert file is not None
    parts = reader.store.get_ranges(file.data_key, ranges, stamp=file.stamp)
    if parts is None:
        raise ConflictError("the object was removed while it was being read", key=file.data_key)
    return parts
