"""Writing anew what is sound of damaged data. Nothing is guessed: what is not proved good is left out and reported."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.engine import index_cache
from zvcore.errors import MetadataError
from zvcore.precomputed.entries import Entries
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.info import read_info
from zvcore.precomputed.layouts import UnshardedLayout
from zvcore.precomputed.shard_builder import ShardBuilder
from zvcore.precomputed.shard_check import Examination, Judge, examine
from zvcore.precomputed.shard_reader import ShardReader
from zvcore.precomputed.shard_update import gaps_between
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.verification import examinations, judges, verify_chunk_files
from zvcore.report import Problem, Report
from zvcore.stores import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["repair"]

_BLOCK = 8 << 20
_PIECE_BYTES = 8 << 20
_BACKUP = ".bak"


@dataclass(frozen=True)
class _Value:
    """A sound value: where it and the unmentioned bytes before it lie."""

    hash: int
    id: int
    key: str
    stamp: Any
    start: int
    before: int
    size: int


def repair(
    path: str | os.PathLike[str] | Store,
    out: str | os.PathLike[str] | Store | None = None,
    *,
    spec: ShardingSpec | Mapping[str, Any] | str | None = None,
    threads: int | None = None,
) -> Report:
    """Rewrite shards with what is sound of them, and take out chunk files that cannot be decoded.

    With `out`, a sound copy of everything is made there and nothing is changed here. Without, the damaged files are
    kept beside the new ones under their names with `.bak`. Values that stand where no reader finds them are moved to
    where they belong, unless there is one already. The report names every problem that was found; `counts` says how
    many values were kept, moved and dropped.
    """
    store = open_store(path, "r" if out is not None else "r+")
    target = store if out is None else open_store(out, "w")
    if target is not store and target.root == store.root:
        raise ValueError("a copy cannot be made where the original is; leave out= away to repair in place")
    report = Report()
    done: set[str] = set()
    if spec is not None:
        reader = ShardReader(store, as_spec(spec))
        _repair_shards(target, reader, Judge(reader, threads), report, done, threads)
    else:
        try:
            info = read_info(store)
        except MetadataError as error:
            report.problems.append(Problem.of(error))
            return report
        for judge in judges(store, info, threads, report):
            if isinstance(judge, Judge):
                _repair_shards(target, judge.reader, judge, report, done, threads)
            elif isinstance(judge, UnshardedLayout):
                _repair_chunk_files(target, judge, report, done, threads)
            else:
                raise MetadataError("skeletons and meshes in files of their own have no shards to repair")
    if target is not store:
        for key in store.list():
            if key not in done:
                _copy(store, key, target, key)
    return report


def _repair_shards(
    target: Store, reader: ShardReader, judge: Judge, report: Report, done: set[str], threads: int | None
) -> None:
    damaged: dict[int, Examination] = {}
    strays: dict[int, list[_Value]] = {}
    for found in examinations(reader, judge):
        report.extend(found.report)
        if found.report.ok:
            continue
        damaged[found.shard] = found
        values = _values(reader, found)
        rows = np.flatnonzero(found.sound & found.astray)
        owners, _ = reader.spec.locate(found.ids[rows])
        for row, owner in zip(rows.tolist(), owners.tolist(), strict=True):
            strays.setdefault(owner, []).append(values[row])
    # A shard that strays come home to may be sound itself, or have no file yet.
    for shard in strays:
        if shard not in damaged:
            damaged[shard] = examine(reader, shard, judge, fast=True)
    if target is reader.store:
        for found in damaged.values():
            for name in _names(reader, found):
                if target.exists(name):
                    _copy(target, name, target, f"{name}{_BACKUP}")
    for shard in sorted(damaged):
        found = damaged[shard]
        values = _values(reader, found)
        rows = np.flatnonzero(found.sound & ~found.astray)
        kept = {values[row].id: values[row] for row in rows.tolist()}
        moved = 0
        for value in strays.get(shard, []):
            # Two strays of one id contradict each other, unless a proper value settles it.
            if value.id not in kept and sum(other.id == value.id for other in strays[shard]) == 1:
                kept[value.id] = value
                moved += 1
        report.count("values kept", len(kept) - moved)
        report.count("values moved", moved)
        report.count("values dropped", int((~found.sound).sum()))
        report.count("files rewritten")
        _write(target, reader, found, sorted(kept.values(), key=lambda value: (value.hash, value.id)), done, threads)


def _names(reader: ShardReader, found: Examination) -> list[str]:
    """The objects of a shard: one, or the two of the legacy pair."""
    if found.file is None:
        return [reader.key(found.shard)]
    return [*dict.fromkeys([found.file.key, found.file.data_key])]


def _values(reader: ShardReader, found: Examination) -> dict[int, _Value]:
    """All sound values of a file by their row."""
    if found.file is None or not len(found.ids):
        return {}
    file = found.file
    inside = np.flatnonzero(found.inside)
    index = np.array(found.indices, np.uint64).reshape(-1, 2)
    # What is dropped is no unmentioned byte before what follows.
    before, _ = gaps_between(found.starts[inside], found.sizes[inside], index, file.base, file.limit)
    gaps = np.zeros(len(found.ids), np.uint64)
    gaps[inside] = before
    hashes = reader.spec.hashes(found.ids)
    return {
        row: _Value(
            int(hashes[row]), int(found.ids[row]), file.data_key, file.stamp, int(found.starts[row]), int(gaps[row]),
            int(found.sizes[row]),
        )
        for row in np.flatnonzero(found.sound).tolist()
    }  # fmt: skip


def _write(
    target: Store, reader: ShardReader, found: Examination, values: list[_Value], done: set[str], threads: int | None
) -> None:
    store, key = reader.store, reader.key(found.shard)
    old = _names(reader, found)
    done.update([*old, key])
    in_place = target is store
    with target.lock(key) if target.can_lock else nullcontext():
        if values:
            with (
                target.writer(key) as writer,
                ShardBuilder(writer, reader.spec, reader.index_chain, threads) as builder,
            ):
                spans = np.array([value.before + value.size for value in values], np.uint64)
                for first, last in pieces_of(spans, _PIECE_BYTES):
                    builder.add(_entries(store, values[first:last], in_place))
                builder.finish()
        if in_place:
            for name in old:
                if name != key or not values:
                    store.delete(name)
                index_cache().invalidate(store, name)
    index_cache().invalidate(target, key)


def _entries(store: Store, values: list[_Value], from_backups: bool) -> Entries:
    """Values with the bytes that belong to them. In place, the files themselves may be the new ones by now."""
    parts: dict[int, memoryview] = {}
    for key in dict.fromkeys(value.key for value in values):
        rows = [row for row, value in enumerate(values) if value.key == key]
        ranges = [(values[row].start - values[row].before, values[row].before + values[row].size) for row in rows]
        if from_backups:
            data = store.get_ranges(f"{key}{_BACKUP}", ranges)
        else:
            data = store.get_ranges(key, ranges, stamp=values[rows[0]].stamp)
        assert data is not None
        parts.update(zip(rows, data, strict=True))
    hashes, ids, before, sizes = (
        np.array([getattr(value, name) for value in values], np.uint64) for name in ("hash", "id", "before", "size")
    )
    return Entries(
        hashes, ids, before, sizes, np.frombuffer(b"".join(parts[row] for row in range(len(values))), np.uint8)
    )


def _repair_chunk_files(
    target: Store, layout: UnshardedLayout, report: Report, done: set[str], threads: int | None
) -> None:
    own = Report()
    verify_chunk_files(layout, own, fast=False, threads=threads)
    report.extend(own)
    for problem in own.problems:
        if not problem.fatal:
            continue
        done.add(problem.where)
        report.count("files dropped")
        if target is layout.store:
            _copy(target, problem.where, target, f"{problem.where}{_BACKUP}")
            target.delete(problem.where)


def _copy(source: Store, key: str, target: Store, to: str) -> None:
    """Copy an object of any size."""
    stamp = source.stamp(key)
    at = 0
    with target.writer(to) as writer:
        while block := source.get(key, at, _BLOCK, stamp=stamp):
            writer.write_at(at, block)
            at += len(block)
