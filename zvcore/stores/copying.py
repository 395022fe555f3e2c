"""Objects of any size from one place to another, and copies kept beside them, whatever the stores are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.errors import ConflictError, NotFoundError
from zvcore.stores.overlap import are_same, overlap

if TYPE_CHECKING:
    from zvcore.stores.base import Store

__all__ = ["back_up", "copy_all", "copy_object", "is_backup"]

_BLOCK = 8 << 20
_BACKUP = ".bak"


def copy_object(source: Store, key: str, target: Store, to: str) -> int:
    """Copy an object piece by piece; how many bytes it has."""
    stamp = source.stamp(key)
    if stamp is None:
        raise NotFoundError("no such object", key=key)
    at = 0
    with target.writer(to) as writer:
        while block := source.get(key, at, _BLOCK, stamp=stamp):
            writer.write_at(at, block)
            at += len(block)
    return at


def copy_all(source: Store, target: Store) -> int:
    """Copy everything into a store that has nothing yet; how many objects."""
    if are_same(source, target):
        raise ValueError("a copy cannot be made where the original is; leave out= away to repair in place")
    if overlap(source, target):
        raise ValueError(f"a copy needs a place of its own: one of {source.root} and {target.root} lies in the other")
    if next(target.list(), None) is not None:
        raise ConflictError("something is here already; a copy needs a place of its own", key=target.root)
    count = 0
    for key in source.list():
        copy_object(source, key, target, key)
        count += 1
    return count


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
