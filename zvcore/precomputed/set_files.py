"""The files of a set of objects, written and removed several at once where that means to wait for a network."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from zvcore.stores.request_threads import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from zvcore.stores import Store

__all__ = ["Files", "delete_files", "delete_objects", "holds_file", "put_objects", "replace_objects"]

# The files of one object, (name, content) each, in the order in which they are written: what names others comes last.
Files: TypeAlias = Sequence[tuple[str, Any]]

# What CloudVolume puts behind the names of files that it compresses.
_PACKED = ".gz"
# What may be under way at once, but for one object that is larger.
_BYTES = 64 << 20


def put_objects(
    store: Store, objects: Iterable[Files], names: set[str] | None = None, begin: Callable[[], None] | None = None
) -> None:
    """Write the files of objects, each of which has as many as the others.

    names  are added to before files of these names are written
    begin  is called before anything is written, and may be called again
    """
    for batch in _batches(store, objects):
        for files in zip(*batch, strict=True):
            if begin is not None:
                begin()
            if names is not None:
                names.update(name for name, _ in files)
            store.each(partial(_put, store), files)


def replace_objects(store: Store, objects: Iterable[Files], together: bool) -> None:
    """Write the files of objects, each by itself, which may be there already: of several writers, one after the other.

    together  the files mean something only together: the last, by which the object is found, is never found beside
              others than its own, whoever dies or reads in between
    """
    for batch in _batches(store, objects):
        store.each(partial(_replace, store, together), batch)


def delete_objects(store: Store, objects: Iterable[Sequence[str]]) -> None:
    """Remove the files of objects, of each by their names, of which the last is the one by which it is found."""
    every = [*objects]
    if store.can_lock:
        store.each(partial(_delete_object, store), every)
        return
    # Nothing is found any more before what it speaks of goes.
    delete_files(store, (names[-1] for names in every))
    delete_files(store, (name for names in every for name in names[:-1]))


def _held(store: Store, name: str) -> AbstractContextManager[None]:
    """Object stores have no locks: there, whoever comes last is found, in parts."""
    return store.lock(name) if store.can_lock else nullcontext()


def _replace(store: Store, together: bool, files: Files) -> None:
    found_by = files[-1][0]
    with _held(store, found_by):
        if together:
            delete_files(store, [found_by])
        for file in files:
            _put(store, file)


def _delete_object(store: Store, names: Sequence[str]) -> None:
    with _held(store, names[-1]):
        for name in reversed(names):
            delete_files(store, [name])


def delete_files(store: Store, names: Iterable[str]) -> None:
    """Remove files, by whichever name they are found; there need not be any."""
    both = [*names]
    if store.of_files:
        both += [f"{name}{_PACKED}" for name in both]
    store.delete_all(both)


def holds_file(store: Store, name: str) -> bool:
    """Whether there is such a file, by whichever name."""
    return store.exists(name) or (store.of_files and store.exists(f"{name}{_PACKED}"))


def _put(store: Store, file: tuple[str, Any]) -> None:
    name, data = file
    store.put(name, data)
    if store.of_files:
        # Readers that look for it would prefer it to the new one.
        store.delete(f"{name}{_PACKED}")


def _batches(store: Store, objects: Iterable[Files]) -> Iterator[list[Files]]:
    most = LIMIT if store.parts_ahead() else 1
    batch: dict[str, Files] = {}
    nbytes = 0
    for files in objects:
        name, _ = files[0]
        if name in batch:
            # Of two of one name, the later one stays.
            yield [*batch.values()]
            batch, nbytes = {}, 0
        batch[name] = files
        nbytes += sum(len(data) for _, data in files)
        if len(batch) >= most or nbytes >= _BYTES:
            yield [*batch.values()]
            batch, nbytes = {}, 0
    if batch:
        yield [*batch.values()]
