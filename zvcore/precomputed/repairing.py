"""Writing anew what is sound of damaged data. Nothing is guessed: what is not proved good is left out and reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import ZvcoreError
from zvcore.precomputed.entries import Entries
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.layout import UnshardedLayout
from zvcore.precomputed.metadata import INFO, read_info
from zvcore.precomputed.shard_builder import ShardBuilder
from zvcore.precomputed.shard_check import Examination, Judge, dead_bytes, examine
from zvcore.precomputed.shard_reader import ShardReader
from zvcore.precomputed.shard_update import gaps_between
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.verification import (
    ChunkJudge,
    SkeletonJudge,
    examinations,
    folders_of,
    judges,
    shard_numbers,
    verify_chunk_files,
    verify_objects,
)
from zvcore.report import Problem, Report
from zvcore.stores import open_store
from zvcore.stores.copying import back_up, copy_object
from zvcore.stores.indexes import index_cache
from zvcore.stores.key_selection import within

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping, Sequence

    from zvcore.precomputed.meshes import Meshes
    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.precomputed.skeletons import Skeletons
    from zvcore.stores import Store

__all__ = ["compact", "repair"]

_PIECE_BYTES = 8 << 20


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
    only: Sequence[str] | None = None,
    threads: int | None = None,
) -> Report:
    """Rewrite shards with what is sound of them, and take out chunk files that cannot be decoded.

    With `out`, a sound copy of everything is made there and nothing is changed here. Without, the damaged files are
    kept beside the new ones under their names with `.bak`. Values that stand where no reader finds them are moved to
    where they belong, unless there is one already. The report names every problem that was found; `counts` says how
    many values were kept, moved and dropped. With `only`, in place, nothing but these objects (or what lies in these
    folders) is repaired.
    """
    store = open_store(path, "r" if out is not None else "r+")
    target = store if out is None else open_store(out, "w")
    if target is not store and target.root == store.root:
        raise ValueError("a copy cannot be made where the original is; leave out= away to repair in place")
    report = Report()
    done: set[str] = set()
    if spec is not None:
        reader = ShardReader(store, as_spec(spec))
        _repair_shards(target, reader, Judge(reader, threads), report, done, threads, only)
    else:
        try:
            info = read_info(store)
            found = [*judges(store, info, threads, report)]
        except ZvcoreError as error:
            report.problems.append(Problem.of(error, INFO))
            return report
        for judge in found:
            if isinstance(judge, Judge):
                _repair_shards(target, judge.reader, judge, report, done, threads, only)
            elif isinstance(judge, UnshardedLayout):
                _repair_chunk_files(target, judge, report, done, threads, only)
            elif only is None:
                _repair_objects(target, judge, report, done)
        for folder in folders_of(info, report):
            if store.exists(f"{folder}/{INFO}") and only is None:
                below = None if target is store else target.child(folder)
                report.extend(repair(store.child(folder), below, threads=threads), folder)
                done.update(f"{folder}/{key}" for key in store.child(folder).list())
    if target is not store:
        for key in store.list():
            if key not in done:
                copy_object(store, key, target, key)
    return report


def _repair_shards(
    target: Store,
    reader: ShardReader,
    judge: Judge,
    report: Report,
    done: set[str],
    threads: int | None,
    only: Sequence[str] | None,
) -> None:
    meant = None if only is None else within(only, reader.prefix.rstrip("/"))
    shards = None if meant is None or "" in meant else shard_numbers(reader, meant)
    damaged: dict[int, Examination] = {}
    strays: dict[int, list[_Value]] = {}
    for found in examinations(reader, judge, shards=shards):
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
    backups: dict[str, str] = {}
    if target is reader.store:
        for found in damaged.values():
            for name in _names(reader, found):
                if target.exists(name):
                    backups[name] = back_up(target, name)
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
        _tell_losses(reader, found, report, kept.keys())
        _write(
            target,
            reader,
            found,
            sorted(kept.values(), key=lambda value: (value.hash, value.id)),
            done,
            threads,
            backups,
        )


def _tell_losses(reader: ShardReader, found: Examination, report: Report, kept: Collection[int]) -> None:
    if found.file is None:
        report.lose(reader.key(found.shard), "all that the file holds: nothing tells where its values are")
        return
    key = found.file.data_key
    for row in np.flatnonzero(~found.sound).tolist():
        if int(found.ids[row]) not in kept:
            report.lose(
                key, "the value is left out", chunk=int(found.ids[row]), offset=int(found.starts[row]),
                length=int(found.sizes[row]),
            )  # fmt: skip
    for problem in found.report.problems:
        if problem.fatal and isinstance(problem.chunk, str):
            report.lose(key, "the values of a minishard whose index cannot be read", chunk=problem.chunk)


def _repair_objects(target: Store, objects: Skeletons | Meshes, report: Report, done: set[str]) -> None:
    """Skeletons and meshes in files of their own."""
    own = Report()
    verify_objects(objects, own)
    report.extend(own)
    for problem in own.problems:
        if not problem.fatal:
            continue
        for key in (problem.where, f"{problem.where}.index"):
            if objects.store.exists(key):
                done.add(key)
                report.count("files dropped")
                report.lose(key, "the object is left out", chunk=problem.chunk)
                if target is objects.store:
                    back_up(target, key)
                    target.delete(key)


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
    target: Store,
    reader: ShardReader,
    found: Examination,
    values: list[_Value],
    done: set[str],
    threads: int | None,
    backups: Mapping[str, str],
) -> None:
    store, key = reader.store, reader.key(found.shard)
    old = _names(reader, found)
    done.update([*old, key])
    in_place = target is store
    with target.edit(key) as edit:
        if values:
            with (
                edit.writer() as writer,
                ShardBuilder(writer, reader.spec, reader.index_chain, threads) as builder,
            ):
                spans = np.array([value.before + value.size for value in values], np.uint64)
                for first, last in pieces_of(spans, _PIECE_BYTES):
                    builder.add(_entries(store, values[first:last], backups))
                builder.finish()
        if in_place:
            for name in old:
                if name != key or not values:
                    store.delete(name)
                index_cache().invalidate(store, name)
    index_cache().invalidate(target, key)


def _entries(store: Store, values: list[_Value], backups: Mapping[str, str]) -> Entries:
    """Values with the bytes that belong to them. Of what has a backup, the file itself may be the new one by now."""
    parts: dict[int, memoryview] = {}
    for key in dict.fromkeys(value.key for value in values):
        rows = [row for row, value in enumerate(values) if value.key == key]
        ranges = [(values[row].start - values[row].before, values[row].before + values[row].size) for row in rows]
        if key in backups:
            data = store.get_ranges(backups[key], ranges)
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
    target: Store,
    layout: UnshardedLayout,
    report: Report,
    done: set[str],
    threads: int | None,
    only: Sequence[str] | None,
) -> None:
    own = Report()
    meant = None if only is None else within(only, layout.scale.folder)
    if meant is not None and not meant:
        return
    verify_chunk_files(layout, own, fast=False, threads=threads, only=meant)
    report.extend(own)
    for problem in own.problems:
        if not problem.fatal:
            continue
        done.add(problem.where)
        report.count("files dropped")
        report.lose(
            problem.where, "the file is left out, its voxels read as zeros", chunk=problem.chunk, offset=problem.offset,
            length=problem.length,
        )  # fmt: skip
        if target is layout.store:
            back_up(target, problem.where)
            target.delete(problem.where)


def compact(store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
    """Write shards of chunks and skeletons anew that hold bytes which belong to nothing.

    Damaged shards are left alone, and told. So are those of meshes: what their index does not mention is fragments.
    """
    report = Report()
    for judge in judges(store, read_info(store), threads, report):
        if not isinstance(judge, (ChunkJudge, SkeletonJudge)):
            continue
        reader = judge.reader
        for found in examinations(reader, judge, fast=True):
            if only is not None and not {reader.key(found.shard), reader.prefix.rstrip("/")} & {*only}:
                continue
            report.count("shards")
            report.problems.extend(found.report.problems)
            if found.report.ok and found.file is not None and found.file.key == found.file.data_key:
                _compact_shard(store, reader, found, threads, report)
    return report


def _compact_shard(store: Store, reader: ShardReader, found: Examination, threads: int | None, report: Report) -> None:
    if not dead_bytes(found) or found.file is None:
        return
    key, before = found.file.key, found.file.limit
    values = [replace(value, before=0) for value in _values(reader, found).values()]
    _write(store, reader, found, sorted(values, key=lambda value: (value.hash, value.id)), set(), threads, {})
    report.count("shards rewritten")
    report.count("bytes saved", before - (store.size(key) or 0))
