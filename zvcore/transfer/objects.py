"""Chunks that are objects of their own, on their way into the store."""

from __future__ import annotations

from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from zvcore.errors import ConflictError
from zvcore.stores.again import give_way
from zvcore.transfer.batches import ATTEMPTS, BATCH_BYTES, BATCH_CHUNKS, BATCH_LOCKS, windows

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from zvcore.engine.buffers import Buffers
    from zvcore.layout import Layout
    from zvcore.transfer.assignment import Assignment
    from zvcore.transfer.batches import Steps

__all__ = ["put_objects", "write_objects"]

_NO_STAMPS: Mapping[str, Hashable] = MappingProxyType({})


def write_objects(assignment: Assignment, steps: Steps) -> None:
    """Covered chunks are written without looking; for the others the object is locked."""
    layout, positions = assignment.layout, assignment.positions
    store = layout.store
    native = store.local_root is not None and layout.value_codec is None
    size = BATCH_CHUNKS if native else max(1, min(BATCH_CHUNKS, BATCH_BYTES // max(1, layout.chunk_nbytes)))
    whole = np.flatnonzero(assignment.covered)
    for window in windows(len(whole), size):
        rows = whole[window]
        encoded = assignment.encode(rows, steps.of(len(rows)), to_files=native)
        if not native:
            put_objects(layout, list(layout.keys(positions[rows])), encoded)
    partial = np.flatnonzero(~assignment.covered)
    for window in windows(len(partial), min(size, BATCH_LOCKS)):
        rows = partial[window]
        keys = list(layout.keys(positions[rows]))
        tell = steps.of(len(rows))
        if store.can_lock:
            with ExitStack() as stack:
                for key in sorted(keys):
                    stack.enter_context(store.lock(key))
                encoded = assignment.encode(rows, tell, to_files=native)
                if not native:
                    put_objects(layout, keys, encoded)
        else:
            store.each(lambda work: _change_unlocked(assignment, *work), list(zip(rows.tolist(), keys, strict=True)))


def put_objects(layout: Layout, keys: list[str], encoded: Buffers, stamps: Mapping[str, Hashable] = _NO_STAMPS) -> None:
    """Store chunks as objects; those that have a stamp, only if they are still the ones that it was taken of."""

    def put(i: int) -> None:
        key, data = keys[i], encoded[i]
        if key in stamps:
            if data is not None:
                layout.store.put_if_unchanged(key, data, stamps[key])
        elif data is None:
            layout.store.delete(key)
        else:
            layout.store.put(key, data)

    layout.store.each(put, range(len(keys)))


def _change_unlocked(assignment: Assignment, row: int, key: str) -> None:
    """Change one chunk in a store without locks: begin anew whenever somebody else was quicker."""
    layout = assignment.layout
    for attempt in range(ATTEMPTS):
        stamp = layout.store.stamp(key)
        # Nothing can be removed under a condition, so a chunk that becomes empty is stored if it was there before.
        keep = layout.store_empty or stamp is not None
        data = assignment.encode(np.array([row]), threads=1, store_empty=keep)[0]
        try:
            if data is not None:
                layout.store.put_if_unchanged(key, data, stamp)
        except ConflictError:
            give_way(attempt)
            continue
        return
    raise ConflictError("other writers keep changing this object", key=key)
