"""Repairing Zarr v3 data: what cannot be proved good is left out. Nothing is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.care.refusals import refusal
from zvcore.care.rewriting import Patient
from zvcore.care.together import look_together
from zvcore.care.walking import below, objects
from zvcore.engine import Buffers
from zvcore.errors import ConflictError, OutOfMemoryError, ZvcoreError
from zvcore.report import Problem, Report, What
from zvcore.zarr3.inspection import walk
from zvcore.zarr3.pieces import pieces_of
from zvcore.zarr3.shard_check import ShardExamination, examine_shard
from zvcore.zarr3.shard_format import ShardAssembler
from zvcore.zarr3.shard_writer import ShardWriter
from zvcore.zarr3.sharding import ShardLayout
from zvcore.zarr3.verification import Checker, check_documents, grid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from zvcore.stores import Store
    from zvcore.stores.editing import Edit
    from zvcore.zarr3.array import Zarr3Array

__all__ = ["compact", "repair", "write_shard"]

_PIECE_BYTES = 8 << 20


def repair(
    store: Store, out: Store | None = None, *, only: Sequence[str] | None = None, threads: int | None = None
) -> Report:
    """Remove chunks that cannot be decoded, and rewrite shards with the chunks that can.

    What is left out reads as the fill value afterwards. With `out`, that is done in a copy of everything; without it,
    the damaged objects are kept beside the new ones with `.bak` behind their names. Documents are never changed. The
    report's problems are everything that was found, its losses what is gone.
    """
    report = Report()
    patient = Patient.of(store, out, report)
    report.tell(*check_documents(patient.store).problems)
    for path, array, meant in _arrays(patient.store, only):
        part = Report()
        try:
            _repair_array(array, part, meant, patient.within(array.layout.store), threads)
        except PermissionError as error:
            # A folder that may not be looked into: other arrays can be repaired all the same.
            part.tell(Problem.of(refusal(error, array.layout.store.root)))
        report.extend(part, path)
    return report


def _arrays(
    store: Store, only: Sequence[str] | None, report: Report | None = None
) -> Iterator[tuple[str, Zarr3Array, Sequence[str] | None]]:
    """(path, array, which of its objects were asked for) for each array of which any were.

    The report is told of documents that the system does not give out; those that are wrong are passed over.
    """
    for path, array in walk(store, report):
        meant = below(only, path)
        if meant is None or meant:
            yield path, array, meant


def _repair_array(
    array: Zarr3Array, report: Report, only: Sequence[str] | None, patient: Patient, threads: int | None
) -> None:
    grid = grid_of(array.layout)
    for piece, stored in pieces_of(array.layout, objects(patient.store, grid, report, only)):
        with piece.reporting(report) as part:
            _repair_objects(Checker(piece.layout, part, threads=threads), stored, patient)


def _repair_objects(checker: Checker, stored: Iterable[tuple[str, tuple[int, ...]]], patient: Patient) -> None:
    def repaired(entry: tuple[str, tuple[int, ...]]) -> Report:
        alone = checker.alone()
        _repair_object(alone, *entry, patient)
        return alone.report

    for part in look_together(patient.store, stored, repaired, checker.object_nbytes()):
        checker.report.extend(part)


def _repair_object(checker: Checker, key: str, position: tuple[int, ...], patient: Patient) -> None:
    """Of this object alone the checker's report tells."""
    report, layout = checker.report, checker.layout
    if not isinstance(layout, ShardLayout):
        checker.chunks([(key, position)])
        if any(problem.damage for problem in report.problems):
            _drop(patient, key, position, report, "the chunk", What.DATA)
        else:
            report.count("chunks kept")
        return
    try:
        # In a copy, the lock is never contended.
        with patient.store.edit(key) as edit:
            if layout.simple:
                _repair_shard(checker, layout, edit, position, patient)
            else:
                checker.shard(key, position)
                _repair_nested(checker, layout, edit, position, report.problems, patient)
    except PermissionError as error:
        report.tell(Problem.of(refusal(error, patient.store.root), key, position))


def _drop(patient: Patient, key: str, position: Any, report: Report, what: str, kind: What = What.INDEX) -> None:
    size = patient.store.size(key)
    kept = patient.drop(key)
    report.lose(
        key, f"{what} is left out and reads as the fill value{kept}", chunk=position, offset=0, length=size, kind=kind
    )
    report.count("objects dropped")


def _repair_shard(checker: Checker, layout: ShardLayout, edit: Edit, shard: tuple[int, ...], patient: Patient) -> None:
    report, key = checker.report, edit.key
    sound = checker.shard(key, shard)
    found = examine_shard(layout, key, shard)
    if found is None or not any(problem.damage for problem in report.problems):
        report.count("chunks kept", 0 if sound is None else len(sound))
        return
    if sound is None or not found.readable:
        _drop(patient, key, shard, report, "the shard, whose index says nothing that can be trusted,")
        return
    if len(sound) != len(found.slots):
        raise ConflictError("the shard was changed while it was being repaired", key=key)
    if checker.fixed and checker.proof is None:
        # Nothing shows which of two chunks that share bytes is right.
        sound = sound & ~found.tangled
    for row in np.flatnonzero(~sound).tolist():
        report.lose(
            key, "the chunk is left out and reads as the fill value", chunk=tuple(found.positions[row].tolist()),
            offset=int(found.offsets[row]), length=int(found.lengths[row]),
        )  # fmt: skip
    for problem in found.report.problems:
        if problem.damage and problem.kind is What.INDEX_ENTRY:
            report.lose(key, "the chunk's entry is left out, it reads as the fill value", chunk=problem.chunk)
    patient.back_up(key)
    write_shard(layout, edit, found, sound)
    report.count("chunks kept", int(sound.sum()))
    report.count("chunks dropped", int((~sound).sum()))
    report.count("shards rewritten")


def write_shard(layout: ShardLayout, edit: Edit, found: ShardExamination, keep: npt.NDArray[np.bool_]) -> None:
    """Rewrite a shard with some of its chunks, as they are stored, in their present order."""
    store, key, form = layout.store, edit.key, layout.levels[0].form
    edit.made_from(found.stamp)
    rows = np.flatnonzero(keep)
    rows = rows[np.lexsort((rows, found.offsets[rows]))]
    if not len(rows) and edit.can_delete:
        edit.delete()
        return
    assembler = ShardAssembler(form)
    with edit.writer() as writer:
        first = 0
        while first < len(rows):
            last, taken = first, 0
            while last < len(rows) and (last == first or taken + int(found.lengths[rows[last]]) <= _PIECE_BYTES):
                taken += int(found.lengths[rows[last]])
                last += 1
            part = rows[first:last]
            ranges = list(zip(found.offsets[part].tolist(), found.lengths[part].tolist(), strict=True))
            pieces = store.get_ranges(key, ranges, stamp=found.stamp)
            if pieces is None:
                raise ConflictError("the shard went away while it was rewritten", key=key)
            at = assembler.add(found.slots[part], found.lengths[part])
            for piece in pieces:
                writer.write_at(at, piece)
                at += len(piece)
            first = last
        assembler.finish_in(writer)


def _repair_nested(
    checker: Checker,
    layout: ShardLayout,
    edit: Edit,
    shard: tuple[int, ...],
    problems: list[Problem],
    patient: Patient,
) -> None:
    """Shards within shards: single chunks are taken out where all indexes can be read."""
    fatal = [problem for problem in problems if problem.damage]
    if not fatal:
        checker.report.count("shards kept")
        return
    report, key = checker.report, edit.key
    per_shard = layout.per_shard
    places = [problem.chunk for problem in fatal if isinstance(problem.chunk, tuple)]
    positions = np.array(places, np.int64).reshape(len(places), len(shard))
    inside = len(positions) == len(fatal) and bool((positions // per_shard == np.array(shard)).all())
    readable = inside
    if inside:
        try:
            layout.locate_whole(positions)
        except (ConflictError, OutOfMemoryError):
            raise  # no fault of the shard
        except ZvcoreError:
            readable = False
    if not readable:
        _drop(patient, key, shard, report, "the shard, of which an index cannot be read,")
        return
    patient.back_up(key)
    ShardWriter(layout, key).update(edit, positions, Buffers(len(positions)))
    for problem in fatal:
        report.lose(key, "the chunk is left out and reads as the fill value", chunk=problem.chunk)
    report.count("chunks dropped", len(fatal))
    report.count("shards rewritten")


def compact(store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
    """Rewrite shards that hold dead bytes. Damaged shards are left alone, and reported."""
    report = Report()
    for path, array, meant in _arrays(store, only, report):
        part = Report()
        if array.shards is not None:
            _ = array.layout.chains  # a codec that is not installed is an error before anything is changed
            stored = objects(array.store, grid_of(array.layout), part, meant)
            for piece, some in pieces_of(array.layout, stored):
                with piece.reporting(part) as told:
                    _compact_shards(piece.layout, some, told)
        report.extend(part, path)
    return report


def _compact_shards(layout: Any, stored: Iterable[tuple[str, tuple[int, ...]]], report: Report) -> None:
    def compacted(entry: tuple[str, tuple[int, ...]]) -> Report:
        part = report.part()
        try:
            _compact_shard(layout, *entry, part)
        except PermissionError as error:
            # The others can be made smaller all the same.
            part.tell(Problem.of(refusal(error, layout.store.root), *entry))
        return part

    if isinstance(layout, ShardLayout) and layout.simple:
        for part in look_together(layout.store, stored, compacted, _PIECE_BYTES):
            report.extend(part)


def _compact_shard(layout: ShardLayout, key: str, shard: tuple[int, ...], report: Report) -> None:
    store = layout.store
    report.count("shards")
    with store.edit(key) as edit:
        found = examine_shard(layout, key, shard)
        if found is None:
            return
        report.extend(found.report)
        if not found.report.ok or not found.dead:
            return
        before = found.size
        write_shard(layout, edit, found, np.ones(len(found.slots), np.bool_))
        report.count("shards rewritten")
        report.count("bytes saved", before - (store.size(key) or 0))
