"""Objects of any size from one place to another, and copies kept beside them, whatever the stores are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import ConflictError, InvalidKeyError, NotFoundError, StoreError
from zvcore.stores.file_copies import next_data, same_part
from zvcore.stores.files import stamp_size
from zvcore.stores.others import unreadable_objects
from zvcore.stores.overlap import are_same, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer

    from zvcore.stores.base import Refused, Store
    from zvcore.stores.files import OpenFile
    from zvcore.stores.writing import ObjectWriter

__all__ = ["Sparsely", "back_up", "copied_as_file", "copy_all", "copy_object", "have_same_bytes", "is_backup"]

_BLOCK = 8 << 20
# What one call to the system copies: signals are seen between two of them.
_AT_ONCE = 64 << 20
_BACKUP = ".bak"
# What is looked for as a hole: file systems have them in pieces that divide this.
_PIECE = 1 << 16
_ZEROS = b"\0" * _PIECE


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
    file, blocks = _opened_file(source, key), _blocks(source, key)
    # Before anything is made there.
    begun = next(blocks) if file is None else None
    with target.writer(to) as writer:
        if file is not None and writer.copies_files:
            return copied_as_file(file, key, writer)
        sparsely = Sparsely(writer)
        at, block = begun or next(blocks)
        while block:
            sparsely.write_at(at, block)
            at, block = next(blocks)
        sparsely.end_at(at)
    return at


def _opened_file(source: Store, key: str) -> OpenFile | None:
    try:
        return source.opened_file(key)
    except StoreError:
        raise
    except OSError as error:
        raise _UnreadError(error) from error


def copied_as_file(file: OpenFile, key: str, writer: ObjectWriter) -> int:
    """Have the system copy a file to what is written, which is one, too; holes stay holes. How many bytes it has."""
    stamp = file.stamp()
    size, at, end = stamp_size(stamp), 0, 0
    while at < size:
        begin, at = next_data(file, at, size)
        for place in range(begin, at, _AT_ONCE):
            wanted = min(_AT_ONCE, at - place)
            if writer.copy_from(file, place, wanted) != wanted:
                raise ConflictError("it was cut while it was being copied", key=key)
            end = place + wanted
    if end < size:
        writer.write_at(size - 1, b"\0")
    if file.stamp() != stamp:
        raise ConflictError("it changed while it was being copied", key=key)
    return size


def have_same_bytes(source: Store, key: str, target: Store, to: str) -> bool:
    """Whether two objects have the same bytes; not if there is only one of them."""
    one, other = source.opened_file(key), target.opened_file(to)
    if one is not None and other is not None:
        size = one.size()
        pieces = ((at, min(_AT_ONCE, size - at)) for at in range(0, size, _AT_ONCE))
        return size == other.size() and all(same_part(one, other, at, length) for at, length in pieces)
    size = source.size(key) or 0
    for at in range(0, max(size, 1), _BLOCK):
        here, there = source.get(key, at, _BLOCK), target.get(to, at, _BLOCK)
        # Views are compared item by item, which takes twenty times as long.
        if here is None or there is None or bytes(here) != bytes(there):
            return False
    return True


class Sparsely:
    """Writes a new object piece by piece. Where that is a file, what is nothing but zeros becomes a hole in it."""

    def __init__(self, writer: ObjectWriter) -> None:
        self._writer = writer
        self._holes = writer.copies_files
        self._end = 0

    def write_at(self, at: int, block: Buffer) -> None:
        if not self._holes:
            self._writer.write_at(at, block)
            return
        view = memoryview(block).cast("B")
        begin = 0
        for place in range(0, len(view), _PIECE):
            piece = view[place : place + _PIECE]
            if piece.tobytes() == _ZEROS[: len(piece)]:
                self._write(at + begin, view[begin:place])
                begin = place + len(piece)
        self._write(at + begin, view[begin:])

    def _write(self, at: int, data: memoryview) -> None:
        if len(data):
            self._writer.write_at(at, data)
            self._end = at + len(data)

    def end_at(self, size: int) -> None:
        """The object is that long, also where it ends with a hole."""
        if self._holes and self._end < size:
            self._writer.write_at(size - 1, b"\0")


def _blocks(source: Store, key: str) -> Iterator[tuple[int, bytes | memoryview]]:
    """The pieces of an object and where they lie; an empty one where it ends."""
    at = 0
    try:
        stamp = source.stamp(key)
        if stamp is None:
            raise NotFoundError("no such object", key=key)
        while True:
            block = source.get(key, at, _BLOCK, stamp=stamp) or b""
            yield at, block
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


def _passing_over(folder: str, error: OSError | InvalidKeyError) -> None:
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
