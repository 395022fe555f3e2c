"""Imports across a fork: a module that another thread was importing could never be imported in the child.

Python has a lock for each module that is being imported, and the child would wait for a thread that is gone. zvcore
imports much of itself on first use, so a fork waits until other threads have imported what they are importing.
"""

from __future__ import annotations

import _imp
import importlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["at_fork"]

# Seconds after which a fork happens anyway: an import may wait for something that the forking thread holds.
_PATIENCE = 30.0
_OURS = ("zvcore", "zvcore_plugins")

# What else is done before a fork, and after it in the parent and in the child: only once no import is under way, since
# imports may need the locks that are taken then.
_others: list[tuple[Callable[[], object], Callable[[], object], Callable[[], object]]] = []
# Python's own table, module -> weak reference to its lock, which lives while some thread is importing the module.
_module_locks: Mapping[str, Callable[[], Any]] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})


def at_fork(before: Callable[[], object], in_parent: Callable[[], object], in_child: Callable[[], object]) -> None:
    """`os.register_at_fork` for what must not wait for imports."""
    _others.append((before, in_parent, in_child))


def _others_import() -> bool:
    me = threading.get_ident()
    for name, known in [*_module_locks.items()]:
        lock = known()
        if lock is not None and lock.owner != me and name.partition(".")[0] in _OURS:
            return True
    return False


def _before_fork() -> None:
    deadline = time.monotonic() + _PATIENCE
    # Whichever thread holds it, no other import begins.
    _imp.acquire_lock()
    while _others_import() and time.monotonic() < deadline:
        _imp.release_lock()
        time.sleep(0.001)
        _imp.acquire_lock()
    for before, _, _ in _others:
        before()


def _after_in_parent() -> None:
    for _, in_parent, _ in _others:
        in_parent()
    _imp.release_lock()


def _after_in_child() -> None:
    for _, _, in_child in _others:
        in_child()
    _imp.release_lock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
