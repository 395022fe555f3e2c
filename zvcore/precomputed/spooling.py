"""Encoded values that wait in a file until it is known how many there are, and how large: what shards depend on."""

from __future__ import annotations

import errno
import struct
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zvcore.stores import LocalStore
from zvcore.stores.writing import name_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from typing import IO

    from zvcore.stores import Store

__all__ = ["scratch_file", "spool", "spooled", "taken_first"]

# What the system says where a file can grow no more, without its name.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def scratch_file(store: Store, scratch: str | os.PathLike[str] | None = None) -> Iterator[IO[bytes]]:
    """A file without a name, in this folder or on the disk of the store."""
    if scratch is None and isinstance(store, LocalStore):
        store.make_folder()
        scratch = store.root
    with tempfile.TemporaryFile(dir=scratch) as file:
        try:
            yield file
        except OSError as error:
            if error.filename is None and error.errno in _NO_ROOM:
                error.filename = name_of(file.fileno())
            raise


def spool(file: IO[bytes], values: Iterable[tuple[int, Sequence[bytes]]], parts: int) -> tuple[int, int]:
    """Put values of so many parts into a file, and tell how many there are and their bytes together."""
    record = struct.Struct(f"<{1 + parts}Q")
    count = size = 0
    for id, value in values:
        lengths = [len(part) for part in value]
        file.write(record.pack(id, *lengths))
        file.writelines(value)
        count += 1
        size += sum(lengths)
    return count, size


@contextmanager
def taken_first(
    store: Store, values: Iterable[tuple[int, Sequence[bytes]]], parts: int, *, wait: bool
) -> Iterator[Iterable[tuple[int, Sequence[bytes]]]]:
    """The same values, of which no two have the same id.

    wait  all of them are taken before the first is given: a source that fails costs nothing of what they are to replace
    """
    if not wait:
        yield _once(values)
        return
    with scratch_file(store) as file:
        spool(file, _once(values), parts)
        yield spooled(file, parts)


def _once(values: Iterable[tuple[int, Sequence[bytes]]]) -> Iterator[tuple[int, Sequence[bytes]]]:
    seen: set[int] = set()
    for id, value in values:
        if id in seen:
            raise ValueError(f"id {id} is given more than once")
        seen.add(id)
        yield id, value


def spooled(file: IO[bytes], parts: int) -> Iterator[tuple[int, list[bytes]]]:
    """The values that were put into a file."""
    record = struct.Struct(f"<{1 + parts}Q")
    file.seek(0)
    while head := file.read(record.size):
        id, *lengths = record.unpack(head)
        yield id, [file.read(length) for length in lengths]
