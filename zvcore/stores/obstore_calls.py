"""What every call of obstore begins with, whatever it is asked for, and what its errors are to whoever called."""

from __future__ import annotations

import atexit
import json
import os
import re
import time

from obstore import exceptions

from zvcore.errors import AccessRefusedError, InvalidKeyError, StoreError, UnsupportedError
from zvcore.stores.clients import first_line

__all__ = ["HTTP_FAILURES", "awaiting", "begin", "failure", "threads_are_gone", "with_threads"]

HTTP_FAILURES = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)

# obstore's threads do not come along into a process that forks, and it would wait for them for ever.
_threads_began = False
_threads_left = False
# Threads of obstore still hold objects of Python a moment after what was awaited has come. If the interpreter ends just
# then, they abort the process: one in six that end right after an answer.
_awaited = False
_MOMENT = 0.02

# What obstore takes in no path, and says so with a plain ValueError.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def begin(path: str) -> None:
    """Before anything that obstore is asked of a path."""
    with_threads(path)
    if not path.isprintable() and _CONTROL.search(path):
        raise InvalidKeyError("in object stores and on web servers a key has no control characters", found=repr(path))


def with_threads(key: str) -> None:
    """Before anything for which obstore needs its threads."""
    global _threads_began
    if _threads_left:
        raise StoreError(
            "object stores were used before this process forked, and cannot be used for this in the child: start "
            'processes with "spawn" or "forkserver", or fork before the first use',
            key=key,
        )
    _threads_began = True


def threads_are_gone() -> bool:
    """Whether obstore's threads did not come along into this process, in which it answers nothing."""
    return _threads_left


def awaiting(key: str) -> None:
    """Before anything of obstore's that is awaited."""
    global _awaited
    with_threads(key)
    if not _awaited:
        _awaited = True
        atexit.register(time.sleep, _MOMENT)


def _after_fork() -> None:
    global _threads_left
    _threads_left = _threads_began


os.register_at_fork(after_in_child=_after_fork)


def failure(error: BaseException, path: str) -> Exception:
    """Our error for one of obstore's."""
    text = first_line(error)
    if isinstance(error, HTTP_FAILURES):
        return AccessRefusedError(f"access is refused: {text}", key=path)
    if isinstance(error, exceptions.NotSupportedError):
        return UnsupportedError(text, key=path)
    if "169.254.169.254" in text or "credential" in text.lower():
        hint = json.dumps({"skip_signature": True})
        text = f"no credentials were found: {text}. For public data say storage_options={hint}"
    return StoreError(text, key=path)
