"""Threads that wait for answers from a network, so that many requests are under way at once.

The caller takes part in the work itself and never waits for a thread that has not begun, so work may be handed out
from within such work, and a pool that is busy elsewhere only makes it slower.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

__all__ = ["LIMIT", "Ahead", "on_their_way", "one_ahead", "side_by_side"]

T = TypeVar("T")
R = TypeVar("R")

# How many requests of one caller are under way at once, and how many threads there are for all callers.
LIMIT = 32
_THREADS = 64

_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()


def side_by_side(function: Callable[[T], R], items: Sequence[T], at_once: int = LIMIT) -> list[R]:
    """What `function` gives for each item, in their order; the first error ends it, once running calls have ended."""
    count = len(items)
    results: list[Any] = [None] * count
    helpers = min(at_once, count) - 1
    if helpers <= 0:
        return [function(item) for item in items]
    turns = itertools.count()
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            turn = next(turns)  # atomic
            if turn >= count:
                return
            try:
                results[turn] = function(items[turn])
            except BaseException as error:
                errors.append(error)

    futures = [_threads().submit(work) for _ in range(helpers)]
    work()
    for future in futures:
        if not future.cancel():
            future.result()
    if errors:
        raise errors[0]
    return results


class Ahead(Generic[R]):
    """What `function` gives, begun in another thread if there is one to spare."""

    def __init__(self, function: Callable[[], R]) -> None:
        self._function = function
        self._future = _threads().submit(function)

    def result(self) -> R:
        return self._function() if self._future.cancel() else self._future.result()

    def give_up(self) -> None:
        """The result is no longer wanted. Returns when nothing is under way."""
        if not self._future.cancel():
            self._future.exception()


def one_ahead(function: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """What `function` gives for each item, in their order: of the next one while the caller has that of one."""
    ahead: Ahead[R] | None = None
    try:
        for item in items:
            ready, ahead = ahead, Ahead(partial(function, item))
            if ready is not None:
                yield ready.result()
        if ahead is not None:
            yield ahead.result()
    finally:
        if ahead is not None:
            ahead.give_up()


@contextmanager
def on_their_way(at_once: int) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """What this gives takes functions and calls them: in other threads, so many `at_once`, as far as there are some to
    spare, while the caller makes the next one; with 0, before it returns. All are done at the end, or one has failed.
    """
    under_way: deque[Ahead[Any]] = deque()

    def put(function: Callable[[], Any]) -> None:
        if not at_once:
            function()
            return
        while len(under_way) >= at_once:
            under_way.popleft().result()
        under_way.append(Ahead(function))

    try:
        yield put
        while under_way:
            under_way.popleft().result()
    finally:
        for one in under_way:
            one.give_up()


def _threads() -> ThreadPoolExecutor:
    global _pool
    pool = _pool
    if pool is None:
        with _making:
            if _pool is None:
                _pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="zvcore-request")
            pool = _pool
    return pool


def _after_fork() -> None:
    # Threads do not come along.
    global _pool, _making
    _pool = None
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
