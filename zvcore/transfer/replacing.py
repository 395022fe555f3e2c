"""New values on their way into objects of which something may stay as it is."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import numpy as np

from zvcore.engine.steady import CHANGED
from zvcore.placement import UNKNOWN, Group
from zvcore.stores.again import again, changed
from zvcore.transfer.batches import BATCH_BYTES, BATCH_OBJECTS, PACK_BYTES
from zvcore.transfer.packing import Packing, abandoning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.engine.sources import Sources
    from zvcore.stores.editing import Edit
    from zvcore.transfer.assignment import Assignment, Old
    from zvcore.transfer.batches import Rows, Steps

    Edits = dict[str, Edit]
    Complete = Callable[[list[Group], Edits], None]

__all__ = ["replace", "replace_groups"]


def replace(assignment: Assignment, rows: Rows, steps: Steps) -> None:
    """Put the chunks in `rows` into their objects: as many objects at a time as keep the threads busy."""
    if not len(rows):
        return
    layout = assignment.layout
    limit = BATCH_BYTES if layout.store.local_root is None else PACK_BYTES
    window: list[Group] = []
    held = 0
    for group in layout.placement.groups(assignment.positions[rows]):
        window.append(Group(group.key, rows[group.rows]))
        held += len(group.rows) * layout.chunk_nbytes
        if held >= limit or len(window) >= BATCH_OBJECTS:
            _replace_window(assignment, window, steps)
            window, held = [], 0
    if window:
        _replace_window(assignment, window, steps)


def _replace_window(assignment: Assignment, window: list[Group], steps: Steps) -> None:
    """Replace these objects at once, or in parts if the process may not have as many open files."""
    before, written = steps.before, steps.written.copy()
    try:
        replace_groups(assignment, window, steps)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE) or len(window) == 1:
            raise
        steps.before, steps.written = before, written
        middle = len(window) // 2
        _replace_window(assignment, window[:middle], steps)
        _replace_window(assignment, window[middle:], steps)


def replace_groups(assignment: Assignment, groups: list[Group], steps: Steps, complete: Complete | None = None) -> None:
    """Put new values into some objects at once; those that another process changes meanwhile are started over.

    `complete` may first fill in what the values lack of the chunks.
    """
    left = groups
    after = steps.before + _count(groups)
    # Without what an attempt has stored that is done again: it counts once.
    written = steps.written.copy()
    for attempt in again(left[0].key, on=CHANGED):
        steps.before, steps.written = after - _count(left), written.copy()
        with attempt, assignment.layout.store.edit_all([group.key for group in left]) as edits:
            for group in left:
                group.found = UNKNOWN
            if complete is not None:
                complete(left, edits)
            with abandoning():
                left = _pack(assignment, left, steps)
            written = steps.written.copy()
            failed: list[Group] = []
            old = _read_old(assignment, left, edits)
            for batch, keep in _batches(assignment, left, edits):
                failed += _replace_batch(assignment, batch, edits, steps, keep, old)
            left, written = failed, steps.written.copy()
            if left:
                raise changed(left[0].key, "")


def _count(groups: list[Group]) -> int:
    return sum(len(group.rows) for group in groups)


def _pack(assignment: Assignment, groups: list[Group], steps: Steps) -> list[Group]:
    """Write those objects that are replaced as a whole while their chunks are encoded; the others are left."""
    packing = Packing.of(assignment.layout, assignment.positions, groups)
    if packing is None:
        return groups
    packer = packing.packer(np.arange(len(packing.rows)))
    work = steps.of(len(packing.rows))
    assignment.encode(packing.rows, work, sink=packer)
    packing.finish(packer, packer.sizes, work)
    steps.written.add(packer.sizes)
    packed = {*packing.keys}
    return [group for group in groups if group.key not in packed]


def _read_old(assignment: Assignment, groups: list[Group], edits: Edits) -> Old:
    """What is stored of chunks to which something is added, where the store has no locks: by reading it is known from
    what version it is, and that is the one that may be replaced.
    """
    if not assignment.layout.placement.alone:
        return {}
    keys = [group.key for group in groups if not edits[group.key].locked and not assignment.covered[group.rows[0]]]
    found = assignment.layout.store.snapshots(keys)
    return {key: edits[key].given(one) for key, one in zip(keys, found, strict=True)}


def _batches(assignment: Assignment, groups: list[Group], edits: Edits) -> Iterator[tuple[list[Group], bool]]:
    """(groups with together no more chunks than are held in memory, but at least one group; whether chunks without
    values must be stored all the same).
    """
    layout = assignment.layout
    free: list[Group] = groups
    if layout.placement.alone:
        # Nothing can be removed under a condition, so a chunk that becomes empty is stored if it was there before.
        free = [group for group in groups if edits[group.key].can_delete]
    bound = [] if free is groups else [group for group in groups if not edits[group.key].can_delete]
    most = max(1, BATCH_BYTES // max(1, layout.chunk_nbytes))
    for some, keep in ((free, layout.store_empty), (bound, True)):
        batch: list[Group] = []
        count = 0
        for group in some:
            if batch and count + len(group.rows) > most:
                yield batch, keep
                batch, count = [], 0
            batch.append(group)
            count += len(group.rows)
        if batch:
            yield batch, keep


def _replace_batch(
    assignment: Assignment, batch: list[Group], edits: Edits, steps: Steps, store_empty: bool, old: Old
) -> list[Group]:
    """The groups that another writer changed first."""
    layout, positions = assignment.layout, assignment.positions
    native = assignment.to_files and layout.placement.alone

    def located(sources: Sources) -> None:
        _note_found(assignment, batch, edits, sources)

    rows = np.concatenate([group.rows for group in batch])
    work = steps.of(len(rows))
    files = assignment.files(rows) if native else None
    try:
        encoded = assignment.encode(rows, work, sink=files, store_empty=store_empty, located=located, old=old)
    except CHANGED:
        failed = batch
    else:
        if native:
            steps.written.known = False
            return []
        done = layout.placement.replace_all(edits, batch, positions, encoded, assignment.work.threads)
        failed = [group for group, stored in zip(batch, done, strict=True) if not stored]
        steps.written.add(encoded.sizes[np.repeat(done, [len(group.rows) for group in batch])])
    return failed


def _note_found(assignment: Assignment, batch: list[Group], edits: Edits, sources: Sources) -> None:
    """Keep what was found of the objects that old values come from: they must not change until they are replaced."""
    if sources.stamps is None:
        return
    keys = list(sources.keys)
    stamps = dict(zip(keys, sources.stamps, strict=True))
    found = {} if sources.found is None else dict(zip(keys, sources.found, strict=True))
    for group in batch:
        group.found = found.get(group.key, UNKNOWN)
        if not assignment.covered[group.rows].all():
            edits[group.key].made_from(stamps.get(group.key))
    assignment.layout.placement.foresee(edits, batch, assignment.positions)
