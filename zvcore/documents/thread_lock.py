"""A lock among the threads of a process that lives in an object which is pickled, copied and forked."""

from __future__ import annotations

import os
import threading

__all__ = ["ThreadLock"]

# How often this process's line of ancestors has forked since it started: what one process made is not another's.
_generation = 0


class ThreadLock:
    """Lets one thread after the other in: `with lock.held():`. One that is in may come in again.

    In the child of a fork nobody holds it, whoever did in the parent: the threads that would let it go are not there.
    """

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}

    def held(self) -> threading.RLock:
        return self._locks.get(_generation) or self._locks.setdefault(_generation, threading.RLock())

    def __reduce__(self) -> tuple[type[ThreadLock], tuple[()]]:
        return ThreadLock, ()


def _after_fork() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_after_fork)
