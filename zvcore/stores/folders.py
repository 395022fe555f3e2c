"""Folders of the system: brought to the disk, put out of sight, removed with all that is in them."""

from __future__ import annotations

import errno
import os
import secrets

from zvcore.stores import files

__all__ = ["put_aside", "remove_tree", "sync"]


def sync(path: str | bytes) -> None:
    """Have a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_aside(folder: bytes) -> bytes:
    """A folder under a name that nobody looks at, where it may go piece by piece."""
    name = os.path.join(os.path.dirname(folder), f".{secrets.token_hex(8)}.zvtmp".encode())
    try:
        os.rename(folder, name)
    except FileNotFoundError:
        raise
    except OSError:
        # What something is mounted on cannot be renamed.
        return folder
    return name


def remove_tree(folder: bytes) -> int:
    """Remove a folder with all that is in it, following no links: how many objects went."""
    removed = 0
    pending = [folder]
    emptied = []
    while pending:
        current = pending.pop()
        try:
            entries = os.scandir(current)
        except (FileNotFoundError, NotADirectoryError):
            continue
        emptied.append(current)
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                    continue
                try:
                    os.unlink(entry.path)
                except FileNotFoundError:
                    continue
                removed += files.is_key_name(entry.name)
    for current in reversed(emptied):
        try:
            os.rmdir(current)
        except FileNotFoundError:
            pass
        except OSError as error:
            # Anything that others have put there since then stays.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    return removed
