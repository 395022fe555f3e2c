"""Replacing an object so that no writer's change is lost: under its lock where the store has locks, else under the
condition that it is still the version that was read.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from zvcore.stores.again import changed
from zvcore.stores.indexes import index_cache
from zvcore.stores.puts_together import Put, whole
from zvcore.stores.writing import ANYTHING, Anything, as_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from typing_extensions import Buffer

    from zvcore.stores.base import Snapshot, Stamp, Store
    from zvcore.stores.puts_together import Kept, PutsTogether
    from zvcore.stores.writing import ObjectWriter

__all__ = ["Edit", "EditAll", "lock_all"]


class Edit:
    """A context manager: an object that may be replaced within it.

    What is put takes the place of the version that was read through the edit or named by `made_from`, else
    `ConflictError`; where nothing was read, of whatever is there. Under a lock nothing changes in between, unless by
    those who take no locks.

    key       of the object
    locked    whether the lock of the object is held
    together  what takes the data that is put; None: it is stored at once
    then      is told the stamp of what was stored, where that is known, when nobody changes the object any more
    """

    __slots__ = ("_lock", "_replaces", "_store", "key", "locked", "then", "together")

    def __init__(self, store: Store, key: str, held: bool = False) -> None:
        """`held`: somebody else takes and gives up the lock."""
        store._refuse_if_read_only(key)
        self._store = store
        self._lock = store.lock(key) if store.can_lock and not held else None
        self._replaces: Stamp | Anything | None = ANYTHING
        self.key = key
        self.locked = store.can_lock
        self.together: PutsTogether | None = None
        self.then: Callable[[Stamp], None] | None = None

    def __enter__(self) -> Self:
        if self._lock is not None:
            self._lock.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.forget()
        if self._lock is not None:
            _give_up(self._lock, kind, error, trace)

    def forget(self) -> None:
        """Keep nothing in memory of the object: it may have changed without another stamp."""
        together = self.together
        if together is not None:
            together.give_up()
        index_cache().invalidate(self._store, self.key)
        if self.then is not None and together is not None and self.key in together.stamps:
            self.then(together.stamps[self.key])

    def get(self) -> bytes | memoryview | None:
        """The object as it is now; None if there is none."""
        if self.locked:
            return self._store.get(self.key)
        return self.given(self._store.snapshot(self.key))

    def given(self, found: Snapshot | None) -> bytes | memoryview | None:
        """`get`, of what was read already, None: that there was no object."""
        self.made_from(None if found is None else found.stamp)
        return None if found is None else found.data

    def look(self) -> Stamp | None:
        """The stamp of the object as it is now, without reading it; None if there is none."""
        stamp = self._store.stamp(self.key)
        self.made_from(stamp)
        return stamp

    def made_from(self, stamp: Stamp | None) -> None:
        """Say that what will be put comes from the version with this stamp, None: that there was no object."""
        if self.locked:
            return
        if not isinstance(self._replaces, Anything) and self._replaces != stamp:
            raise changed(self.key, stamp or "")
        self._replaces = stamp

    @property
    def condition(self) -> Stamp | Anything | None:
        """What must be there to be replaced, as `Store.put_each` takes it."""
        return ANYTHING if self.locked else self._replaces

    def put(self, data: Buffer | Sequence[Buffer]) -> None:
        condition = self.condition
        if isinstance(condition, Anything):
            self._store.put(self.key, data)
        else:
            self._store.put_if_unchanged(self.key, data, condition)

    def put_data(self, data: Buffer | Sequence[Buffer]) -> None:
        """`put` of chunks or a shard, as the store has it."""
        self.put_parts(as_parts(data), None)

    def put_parts(self, parts: Sequence[Buffer | Kept], stamp: Stamp | None) -> None:
        """`put_data` of parts, of which some stay as they are in the version with this stamp."""
        condition = self.condition
        if self.together is not None:
            self.together.add(Put(self.key, parts, condition, stamp))
            return
        data = whole(self._store, self.key, parts, stamp)
        if isinstance(condition, Anything):
            self._store.put_data(self.key, data)
        else:
            self._store.put_if_unchanged(self.key, data, condition)

    def writer(self) -> ObjectWriter:
        """`put` piece by piece."""
        return self._store.writer(self.key, self.condition)

    @property
    def can_delete(self) -> bool:
        """Whether the object may be removed: no store can do that under a condition. Without a lock, what was read is
        replaced by something empty instead.
        """
        return self.locked or self._replaces is None or isinstance(self._replaces, Anything)

    def delete(self) -> None:
        """Remove the object, if there is one."""
        if not self.can_delete:
            raise ValueError(f"{self.key}: an object that was read can only be removed under its lock")
        if self.locked or self._replaces is not None:
            self._store.delete(self.key)


class EditAll:
    """A context manager: several objects at once, by their keys."""

    __slots__ = ("_edits", "_lock")

    def __init__(self, store: Store, keys: Iterable[str]) -> None:
        # Always in the same order, so that no two writers wait for each other's locks.
        ordered = sorted(keys)
        self._edits = {key: Edit(store, key, held=True) for key in ordered}
        self._lock = store.lock_all(ordered) if store.can_lock else None

    def __enter__(self) -> dict[str, Edit]:
        if self._lock is not None:
            self._lock.__enter__()
        return self._edits

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for edit in self._edits.values():
                edit.forget()
        finally:
            if self._lock is not None:
                _give_up(self._lock, kind, error, trace)


def _give_up(
    lock: AbstractContextManager[None],
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Leave a lock. An interrupt may come where that begins, before anything is given up; to leave it twice is nothing
    new to it.
    """
    try:
        lock.__exit__(kind, error, trace)
    except BaseException:
        lock.__exit__(kind, error, trace)
        raise


@contextmanager
def lock_all(store: Store, keys: Sequence[str]) -> Iterator[None]:
    """The locks of several objects, one after the other."""
    with ExitStack() as stack:
        for key in keys:
            stack.enter_context(store.lock(key))
        yield
