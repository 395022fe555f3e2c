"""Threads of our own for work that would block an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MOST", "in_a_thread"]

T = TypeVar("T")

# However many calls wait, no more threads than these: each call has the engine's threads and connections besides.
MOST = 64

_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()


def _workers() -> ThreadPoolExecutor:
    """Not asyncio's own threads: work that these calls wait for may itself run in those."""
    global _pool
    with _making:
        if _pool is None:
            _pool = ThreadPoolExecutor(MOST, thread_name_prefix="zvcore-waiting")
        return _pool


def _forget_workers() -> None:
    global _pool, _making
    _pool = None
    _making = threading.Lock()


os.register_at_fork(after_in_child=_forget_workers)


async def in_a_thread(work: Callable[..., T], *arguments: object) -> T:
    """What `work(*arguments)` returns or raises, without blocking the running event loop."""
    run = partial(contextvars.copy_context().run, work, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_workers(), run)
