"""What the system says of files: whether something is there, where it really is, and which one failed.

`os.path.exists` and its kind say no as well where nobody could tell.
"""

from __future__ import annotations

import errno
import os

from zvcore.stores import files

__all__ = ["is_there", "mode_of", "name_file", "real_path", "surely_nothing_above"]

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def mode_of(path: str | bytes | os.PathLike[str]) -> int | None:
    """Of what kind that is to which a path leads (`st_mode`); None: nothing is there. A question without answer, as of
    a disk that fails or a folder that may not be looked into, is an error.
    """
    return _asked(path, True)


def is_there(path: str | bytes | os.PathLike[str]) -> bool:
    """Whether something has this name, be it a link that leads nowhere. A question without answer is an error."""
    return _asked(path, False) is not None


def real_path(path: str) -> str:
    """`os.path.realpath`, for a folder that is there by a few calls instead of several for each folder above it."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            found = os.readlink(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    except (AttributeError, OSError, ValueError):
        return os.path.realpath(path)
    # What is out of sight, or has gone meanwhile, is told with other words.
    return found if found.startswith("/") and not found.endswith(" (deleted)") else os.path.realpath(path)


def surely_nothing_above(path: str, name: str) -> bool:
    """Whether no folder above an absolute path has an object of this name, but perhaps the root: in one call. Where
    the system gives no answer, that is not sure.
    """
    return files.nothing_above(os.fsencode(path), os.fsencode(name))


def name_file(error: BaseException, path: str | bytes) -> None:
    """Let an error of the system say which file failed, if it does not: calls on open files know no name."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = os.fsdecode(path)


def _asked(path: str | bytes | os.PathLike[str], through_links: bool) -> int | None:
    try:
        return os.stat(path, follow_symlinks=through_links).st_mode
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
    except ValueError:
        pass  # no name: it has a NUL
    return None
