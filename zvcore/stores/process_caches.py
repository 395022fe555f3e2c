"""What the caches of a process have in common: how much they hold, and that a forked child begins with nothing."""

from __future__ import annotations

import os
import threading
import weakref

from zvcore.stores.variables import variable

__all__ = ["ProcessCache", "bytes_from_environment", "making"]


def bytes_from_environment(name: str, default: int) -> int:
    """How many bytes a variable of the environment says, or the default where it says nothing."""
    text = variable(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} must be a number of bytes, not {text!r}")
    return int(text)


class ProcessCache:
    """A cache that is empty in the child of a fork: another thread may have been in the middle of a change to it."""

    def __init__(self) -> None:
        _all.add(self)

    def after_fork(self) -> None:
        """Begin with nothing, and with a lock that nobody holds."""
        raise NotImplementedError


_all: weakref.WeakSet[ProcessCache] = weakref.WeakSet()
# Held while the one cache of a kind that serves the whole process is made. Look it up here: a fork replaces it.
making = threading.Lock()


def _after_fork() -> None:
    global making
    making = threading.Lock()
    for cache in [*_all]:
        cache.after_fork()


os.register_at_fork(after_in_child=_after_fork)
