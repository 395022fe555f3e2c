"""Single files and folders of this machine that are no objects of a store, such as pictures and tables: each comes to
its name when it is complete.
"""

from __future__ import annotations

import os
import shutil
import stat
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from zvcore.stores.durability import chosen_durability
from zvcore.stores.folders import sync
from zvcore.stores.presence import mode_of, name_file
from zvcore.system.walking import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["complete_file", "complete_folder", "drop_from_cache", "lacking"]

# What a name in a folder may take.
_LONGEST_NAME = 255


@contextmanager
def complete_file(path: str | os.PathLike[str], fsync: bool | None = None) -> Iterator[str]:
    """A name to write a file under, which then takes the place of what is at `path`; after an error, nothing does.

    A pipe or a device is written to as it is. `fsync`: the file, and its place in its folder, are on the disk
    afterwards; None: if the environment asks for that.
    """
    text = os.fsdecode(path)
    mode = mode_of(text)
    if mode is not None and not stat.S_ISREG(mode):
        yield text
        return
    if os.path.islink(text):
        text = os.path.realpath(text)  # a link stays one
    partial = _partial(text)
    try:
        yield partial
        durable = _asked(fsync)
        if durable:
            sync(partial)
        os.replace(partial, text)
        if durable:
            sync(_above(text))
    except OSError as error:
        name_file(error, text)  # a write or a sync says none; what is read names itself
        raise
    finally:
        if os.path.lexists(partial):
            os.remove(partial)


@contextmanager
def complete_folder(path: str | os.PathLike[str], fsync: bool | None = None) -> Iterator[str]:
    """The same for a folder, where there is nothing yet; it is made, and so are those above it."""
    text = os.fsdecode(path)
    made = lacking(_above(text))
    partial = _partial(text)
    try:
        os.makedirs(partial)
        yield partial
        durable = _asked(fsync)
        if durable:
            for folder, _, names in walk(partial, _raised):
                for name in names:
                    sync(os.path.join(folder, name))
                sync(os.fsencode(folder))
        os.rename(partial, text)
        if durable:
            sync(_above(text))
            for new in made:
                sync(_above(new))
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def drop_from_cache(path: str) -> None:
    """Ask the system to forget what it has read of the files below a folder, where it can be asked."""
    if not hasattr(os, "posix_fadvise"):
        return
    for folder, _, names in walk(path):
        for name in names:
            with suppress(OSError):
                # A named pipe among them must not block.
                descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
                try:
                    os.fsync(descriptor)
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)


def _raised(error: OSError) -> None:
    raise error


def _partial(path: str) -> str:
    """The name beside a path under which it comes to be; of a long name the beginning, and what tells it apart."""
    folder, name = os.path.split(path)
    ending = f".{os.getpid()}.partial"
    if len(os.fsencode(name + ending)) > _LONGEST_NAME:
        ending = f".{zlib.crc32(os.fsencode(name)):08x}{ending}"
        while len(os.fsencode(name + ending)) > _LONGEST_NAME:
            name = name[:-1]
    return os.path.join(folder, name + ending)


def _asked(fsync: bool | None) -> bool:
    return chosen_durability(None, fsync) == "fsync"


def lacking(folder: bytes) -> list[bytes]:
    """Which there are not, of this folder and those above it; from the innermost on."""
    found = []
    while not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _above(path: str | bytes) -> bytes:
    return os.path.dirname(os.path.abspath(os.fsencode(path)))
