"""Rewriting shards: with their sound values only, or without dead bytes.

Nothing is guessed: what is not proved good is left out and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from zvcore.care.together import look_together
from zvcore.errors import ConflictError
from zvcore.precomputed.entries import Entries
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.shard_check import BATCH_BYTES, MOST_TOLD, Examination, dead_bytes, examine
from zvcore.precomputed.shard_update import gaps_between, replace_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from zvcore.care.rewriting import Patient
    from zvcore.precomputed.entries import U64
    from zvcore.precomputed.shard_check import Judge
    from zvcore.precomputed.shard_reader import ShardReader
    from zvcore.report import Report
    from zvcore.stores import Store
    from zvcore.stores.editing import Edit

__all__ = ["compact_shard", "examinations", "repair_shards"]

_PIECE_BYTES = 8 << 20

# Reads ranges (offset, size) of a shard as it was found.
Ranges = list[tuple[int, int]]


@dataclass
class _Values:
    """Values that are kept, a row for each: where they and the unmentioned bytes before them lie.

    owner  the shard in which they were found
    """

    hashes: U64
    ids: U64
    starts: U64
    before: U64
    sizes: U64
    owner: U64

    def rows(self, which: npt.NDArray[np.generic]) -> _Values:
        return _Values(**{name: column[which] for name, column in vars(self).items()})

    @classmethod
    def joined(cls, parts: Sequence[_Values]) -> _Values:
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])})


def examinations(
    reader: ShardReader, judge: Judge, fast: bool = False, shards: Sequence[int] | None = None
) -> Iterator[Examination]:
    """Each shard file in turn, or those that are named."""
    look = partial(examine, reader, judge=judge, fast=fast)
    yield from look_together(reader.store, reader.shards() if shards is None else shards, look, BATCH_BYTES)


def repair_shards(
    reader: ShardReader,
    judge: Judge,
    patient: Patient,
    original: Store,
    report: Report,
    shards: Sequence[int] | None,
) -> None:
    """Rewrite shards with what is sound of them. Values that no reader finds are moved to where they belong."""
    damaged: dict[int, Examination] = {}
    homes: list[U64] = []
    strays: list[_Values] = []
    for found in examinations(reader, judge, shards=shards):
        report.extend(found.report)
        report.looked_at()
        if not any(problem.damage for problem in found.report.problems):
            continue
        damaged[found.shard] = found
        lost = _values(reader, found, found.sound & found.astray)
        strays.append(lost)
        homes.append(reader.spec.locate(lost.ids)[0])
    if not damaged:
        return
    stray, home = _Values.joined(strays), np.concatenate(homes)
    # A shard that strays come home to may be sound itself, or have no file yet.
    for shard in np.unique(home).tolist():
        if shard not in damaged:
            damaged[shard] = examine(reader, shard, judge, fast=True)
    kept_as = {name: patient.back_up(name) for found in damaged.values() for name in _names(reader, found)}
    read = partial(_read_original, damaged, patient, original, kept_as)
    for shard in sorted(damaged):
        found = damaged[shard]
        own = _values(reader, found, found.sound & ~found.astray)
        moved = stray.rows(_welcome(stray.ids, own.ids, home == np.uint64(shard)))
        report.count("values kept", len(own.ids))
        report.count("values moved", len(moved.ids))
        report.count("values dropped", int((~found.sound).sum()))
        report.count("files rewritten")
        values = _Values.joined([own, moved])
        _tell_losses(reader, found, report, values.ids)
        with patient.store.edit(reader.key(shard)) as edit:
            _refuse_changed(reader, edit, found)
            _write(reader, edit, found, values, read, judge.threads)


def _welcome(ids: U64, own: U64, near: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which strays a shard takes in: none whose id it has itself, and none of two that have the same id."""
    found, counts = np.unique(ids[near], return_counts=True)
    return near & np.isin(ids, found[counts == 1]) & ~np.isin(ids, own)


def _names(reader: ShardReader, found: Examination) -> list[str]:
    """The objects of a shard that are there: one, or the two of the legacy pair."""
    if found.file is not None:
        return [*dict.fromkeys([found.file.key, found.file.data_key])]
    key = reader.key(found.shard)
    return [key] if reader.store.exists(key) else []


def _values(reader: ShardReader, found: Examination, which: npt.NDArray[np.bool_]) -> _Values:
    """Some of the values of a file, with the bytes before them that belong to them."""
    rows = np.flatnonzero(which)
    gaps = np.zeros(len(found.ids), np.uint64)
    if found.file is not None and len(rows):
        inside = np.flatnonzero(found.inside)
        index = np.array(found.indices, np.uint64).reshape(-1, 2)
        # What is dropped is no unmentioned byte before what follows.
        file = found.file
        gaps[inside], _ = gaps_between(found.starts[inside], found.sizes[inside], index, file.base, file.limit)
    ids = found.ids[rows]
    owner = np.full(len(rows), found.shard, np.uint64)
    return _Values(reader.spec.hashes(ids), ids, found.starts[rows], gaps[rows], found.sizes[rows], owner)


def _tell_losses(reader: ShardReader, found: Examination, report: Report, kept: U64) -> None:
    if found.file is None:
        if found.report.problems:
            report.lose(reader.key(found.shard), "all that the file holds: nothing tells where its values are")
        return
    key = found.file.data_key
    lost = np.flatnonzero(~found.sound & ~np.isin(found.ids, kept))
    for row in lost[:MOST_TOLD].tolist():
        report.lose(
            key, "the value is left out", chunk=int(found.ids[row]), offset=int(found.starts[row]),
            length=int(found.sizes[row]),
        )  # fmt: skip
    if len(lost) > MOST_TOLD:
        report.lose(key, f"{len(lost) - MOST_TOLD} more values, which are not named")
    for number in found.unread:
        report.lose(key, "the values of a minishard whose index cannot be read", chunk=f"minishard {number}")


def _refuse_changed(reader: ShardReader, edit: Edit, found: Examination) -> None:
    """Raise ConflictError if another writer has replaced the shard since it was checked."""
    file = found.file
    stamp = edit.look()
    if file is not None and file.key == edit.key and stamp != file.stamp:
        raise ConflictError("the shard was changed while it was being repaired", key=edit.key)


def _read_original(
    damaged: dict[int, Examination], patient: Patient, original: Store, kept_as: dict[str, str], shard: int,
    ranges: Ranges,
) -> list[memoryview]:  # fmt: skip
    """Ranges of a shard as it was found. By now the file itself may be the new one."""
    file = damaged[shard].file
    assert file is not None
    if patient.keep:
        data = patient.store.get_ranges(kept_as[file.data_key], ranges)
    else:
        data = original.get_ranges(file.data_key, ranges)
    if data is None:
        raise ConflictError("the object was removed while it was being repaired", key=file.data_key)
    return list(data)


def _write(
    reader: ShardReader,
    edit: Edit,
    found: Examination,
    values: _Values,
    read: Callable[[int, Ranges], Sequence[memoryview]],
    threads: int | None,
) -> None:
    values = values.rows(np.lexsort((values.ids, values.hashes)))
    pieces = pieces_of(values.before + values.sizes, _PIECE_BYTES)
    entries = (_entries(values.rows(np.arange(first, last)), read) for first, last in pieces)
    replace_shard(reader, edit, found.file, entries, empty=not len(values.ids), threads=threads)


def _entries(values: _Values, read: Callable[[int, Ranges], Sequence[memoryview]]) -> Entries:
    """Values with the bytes that belong to them."""
    parts: dict[int, memoryview] = {}
    for owner in np.unique(values.owner).tolist():
        rows = np.flatnonzero(values.owner == owner)
        begins, spans = values.starts[rows] - values.before[rows], values.before[rows] + values.sizes[rows]
        data = read(owner, list(zip(begins.tolist(), spans.tolist(), strict=True)))
        parts.update(zip(rows.tolist(), data, strict=True))
    joined = np.frombuffer(b"".join(parts[row] for row in range(len(values.ids))), np.uint8)
    return Entries(values.hashes, values.ids, values.before, values.sizes, joined)


def compact_shard(reader: ShardReader, judge: Judge, shard: int, report: Report) -> None:
    """Rewrite a shard without its dead bytes. A damaged one is left alone, and reported."""
    store, key = reader.store, reader.key(shard)
    report.count("shards")
    with store.edit(key) as edit:
        found = examine(reader, shard, judge, fast=True)
        report.tell(*found.report.problems)
        file = found.file
        if file is None or not found.report.ok or file.key != file.data_key or not dead_bytes(found):
            return
        _refuse_changed(reader, edit, found)

        def read(_: int, ranges: Ranges) -> Sequence[memoryview]:
            data = store.get_ranges(key, ranges, stamp=file.stamp)
            if data is None:
                raise ConflictError("the shard went away while it was rewritten", key=key)
            return data

        values = _values(reader, found, found.sound)
        values.before = np.zeros_like(values.before)
        _write(reader, edit, found, values, read, judge.threads)
    report.count("shards rewritten")
    report.count("bytes saved", file.limit - (store.size(key) or 0))
