"""Old versions of files that `durability="late"` kept beside new ones, found later: after a kill, or after a power cut.

A version is put back if the file that took its place is there, with the time that it was given, but shorter than it
was: then the power failed before the new bytes were on the disk. All others are removed once what took their place is
there.
Nobody else's files are touched: what was written since then has another time. A file that has the time in its own name
is no old version, but a new one that has not been exchanged yet.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from zvcore.logs import Log
from zvcore.stores.file_writes import exchange

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CutShort", "Kept", "cut_short", "is_cut_short", "kept_version", "settle_kept", "settle_kept_of"]

_log = Log("stores")

# As `late_writes.pyx` makes them.
_NAME = re.compile(rb"\.(.+)~([0-9a-f]{1,16})~([0-9a-f]{1,16})\.zvtmp", re.DOTALL)
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW


# The versions of an object before that of a time: (its size, where the version is).
Versions = dict[int, tuple[int, bytes]]


class CutShort(NamedTuple):
    """Object `of` has `found` bytes instead of `size`."""

    of: bytes
    size: int
    found: int


class Kept(NamedTuple):
    """The version of object `of` that was there before one of this time (in nanoseconds) and size."""

    of: bytes
    modified: int
    size: int


def kept_version(name: bytes) -> Kept | None:
    """What the name of a file says, if it is that of an old version."""
    found = _NAME.fullmatch(name)
    return None if found is None else Kept(found[1], int(found[2], 16), int(found[3], 16))


def settle_kept(folder: bytes, names: Iterable[bytes]) -> list[bytes]:
    """Do away with the old versions among the files of a folder: the names of the objects that got theirs back."""
    found = _by_object(folder, names)
    return [name for name, kept in found.items() if _settle(os.path.join(folder, name), kept)]


def settle_kept_of(path: bytes) -> bool:
    """Do away with the old versions of one object: whether it got one back."""
    return bool(settle_kept(*_around(path)))


def cut_short(folder: bytes, names: Iterable[bytes]) -> list[CutShort]:
    """The objects of a folder that were cut short, and have a whole version to be put back. Nothing is changed."""
    found = []
    for name, kept in _by_object(folder, names).items():
        path = os.path.join(folder, name)
        there = _status(path)
        if there is not None and _last_whole(path, there, kept)[0] != path:
            found.append(CutShort(name, kept[there.st_mtime_ns][0], there.st_size))
    return found


def is_cut_short(path: bytes) -> bool:
    """Whether that is true of one object."""
    return bool(cut_short(*_around(path)))


def _around(path: bytes) -> tuple[bytes, list[bytes]]:
    """(the folder of an object, the names in it of what may be old versions of the object)."""
    folder, name = os.path.split(path)
    begin = b"." + name + b"~"
    try:
        return folder, [one for one in os.listdir(folder) if one.startswith(begin)]
    except (FileNotFoundError, NotADirectoryError):
        return folder, []


def _by_object(folder: bytes, names: Iterable[bytes]) -> dict[bytes, Versions]:
    by_object: dict[bytes, Versions] = {}
    for name in names:
        kept = kept_version(name)
        if kept is None:
            continue
        where = os.path.join(folder, name)
        found = _status(where)
        if found is not None and found.st_mtime_ns != kept.modified:
            by_object.setdefault(kept.of, {})[kept.modified] = (kept.size, where)
    return by_object


def _last_whole(path: bytes, there: os.stat_result | None, kept: Versions) -> tuple[bytes, os.stat_result | None]:
    """Where the last version of an object lies that is not cut short, and its state."""
    where, found = path, there
    # What took the place of a version may itself have been replaced before it was on the disk.
    for _ in kept:
        size, before = kept.get(found.st_mtime_ns, (0, b"")) if found is not None else (0, b"")
        if found is None or found.st_size >= size:
            break
        where, found = before, _status(before)
    return where, found


def _settle(path: bytes, kept: Versions) -> bool:
    versions = [where for _, where in kept.values()]
    there = _status(path)
    last_whole, found = _last_whole(path, there, kept)
    put_back = last_whole != path and found is not None and _take_place(last_whole, path, there)
    _sync(path)
    for where in versions:
        with suppress(FileNotFoundError):  # the writer's own thread was quicker
            os.unlink(where)
    return put_back


def _status(path: bytes) -> os.stat_result | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _take_place(whole: bytes, path: bytes, cut: os.stat_result | None) -> bool:
    """Exchange a file that was cut short with the version before it, unless somebody has replaced it just now."""
    if not exchange(whole, path):
        os.replace(whole, path)
        return True
    found = _status(whole)
    if found is None or cut is None or (found.st_ino, found.st_mtime_ns) != (cut.st_ino, cut.st_mtime_ns):
        exchange(whole, path)
        return False
    _log.info("%s was cut short by a power failure: the version before is back", os.fsdecode(path))
    return True


def _sync(path: bytes) -> None:
    try:
        descriptor = os.open(path, _READING)
    except OSError:  # gone, or a link: nothing that was cut short
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
