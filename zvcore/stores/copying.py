"""Objects of any size from one place to another, and copies kept beside them, whatever the stores are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import ConflictError, NotFoundError, StoreError
from zvcore.stores.others import unreadable_objects
from zvcore.stores.overlap import are_same, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zvcore.stores.base import Refused, Store

__all__ = ["back_up", "copy_all", "copy_object", "is_backup"]

_BLOCK = 8 << 20
_BACKUP = ".bak"


class _UnreadError(Exception):
    """The system does not give an object out: not to be taken for a failure of what is written."""

    def __init__(self, why: OSError) -> None:
        super().__init__(str(why))
        self.why = why


def copy_object(source: Store, key: str, target: Store, to: str) -> int:
    """Copy an object piece by piece; how many bytes it has."""
    try:
        return _copied(source, key, target, to)
    except _UnreadError as error:
        raise error.why from None


def _copied(source: Store, key: str, target: Store, to: str) -> int:
    blocks = _blocks(source, key)
    # Before anything is made there.
    block = next(blocks, None)
    at = 0
    with target.writer(to) as writer:
        while block is not None:
            writer.write_at(at, block)
            at += len(block)
            block = next(blocks, None)
    return at


def _blocks(source: Store, key: str) -> Iterator[bytes | memoryview]:
    at = 0
    try:
        stamp = source.stamp(key)
        if stamp is None:
            raise NotFoundError("no such object", key=key)
        while block := source.get(key, at, _BLOCK, stamp=stamp):
            yield block
            at += len(block)
    except StoreError:
        raise  # the store itself is out of reach, and the other objects with it
    except OSError as error:
        raise _UnreadError(error) from error


def copy_all(source: Store, target: Store, refused: Refused, late: Callable[[str], Any]) -> int:
    """Copy everything that can be read into a store that has nothing yet; how many objects.

    `refused` is told of the others, and of folders that cannot be looked into: key, and why. `late` gives by what keys
    are sorted that come after the others, whose objects would have half of a copy taken for the whole; None for the
    others.
    """
    if are_same(source, target):
        raise ValueError("a copy cannot be made where the original is; leave out= away to repair in place")
    if overlap(source, target):
        raise ValueError(f"a copy needs a place of its own: one of {source.root} and {target.root} lies in the other")
    if next(target.list(), None) is not None:
        raise ConflictError("something is here already; a copy needs a place of its own", key=target.root)
    for error in unreadable_objects(source, refused=_passing_over):
        refused(str(error.key), error)
    count = 0
    for key in _in_order(source.list_readable(refused), late):
        try:
            _copied(source, key, target, key)
        except _UnreadError as error:
            refused(key, error.why)
        else:
            count += 1
    return count


def _in_order(keys: Iterable[str], late: Callable[[str], Any]) -> Iterator[str]:
    last = []
    for key in keys:
        if late(key) is None:
            yield key
        else:
            last.append(key)
    yield from sorted(last, key=late)


def _passing_over(folder: str, error: OSError) -> None:
    """Of a folder that cannot be looked into, the listing tells."""


def back_up(store: Store, key: str) -> str:
    """Keep a copy of an object beside it, under a name that nothing has yet: `key.bak`, `key.bak2`..."""
    name, number = f"{key}{_BACKUP}", 1
    while store.exists(name):
        number += 1
        name = f"{key}{_BACKUP}{number}"
    copy_object(store, key, store, name)
    return name


def is_backup(key: str) -> bool:
    """Whether `back_up` may have given this name."""
    _, found, number = key.rpartition("/")[2].rpartition(_BACKUP)
    return bool(found) and (not number or number.isdecimal())
