"""Comparing functions on a machine that others use too: they take turns, and the best time of each counts."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from typing import TYPE_CHECKING, Any

from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["all_times", "all_written", "best_times", "not_collecting", "taking_turns", "timed", "turns_to_pass"]


# Every function takes part in at least one of this many turns.
_MOST_PASSED = 16


def all_written() -> None:
    """Until the disk has what was left to the system: otherwise the next function pays for what this one wrote."""
    settle()
    os.sync()


@contextlib.contextmanager
def not_collecting() -> Iterator[None]:
    """Without Python's garbage collector, in every call that counts: how often it runs, and how long, is decided by
    what else lives in the process, which here is the data of all rows.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def timed(function: Callable[[], Any], before: Callable[[], Any] | None = None) -> Callable[[], float]:
    """How many seconds a call took, each time it is called; `before` is called first, and does not count."""

    def run() -> float:
        if before is not None:
            before()
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return run


def taking_turns(
    works: Mapping[str, Callable[[], float]],
    seconds: float = 1.0,
    rounds: int = 5,
    passing: Mapping[str, int] | None = None,
) -> dict[str, list[float]]:
    """What each of these returned, the seconds that it took. All together run for about `seconds`, and take at least
    `rounds` turns.

    Each turn begins with another one, so that none always runs behind the same one. `passing` is what `turns_to_pass`
    returns; all take part in the first turn.
    """
    names = [*works]
    times: dict[str, list[float]] = {name: [] for name in works}
    with not_collecting():
        end = time.perf_counter() + seconds
        turn = 0
        while turn < rounds or time.perf_counter() < end:
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                if passing is None or turn % passing[name] == 0:
                    times[name].append(works[name]())
            turn += 1
    return times


def all_times(
    functions: Mapping[str, Callable[[], Any]],
    seconds: float = 1.0,
    rounds: int = 5,
    passing: Mapping[str, int] | None = None,
    before: Callable[[], Any] | None = None,
) -> dict[str, list[float]]:
    """The times of each function, which take turns. `before` is called before each, outside of the clock."""
    works = {name: timed(function, before) for name, function in functions.items()}
    return taking_turns(works, seconds, rounds, passing)


def turns_to_pass(once: Mapping[str, float]) -> dict[str, int]:
    """{name: n}, where a function takes part in every n-th turn, from the seconds that each took once: those far behind
    the fastest leave the time to the ones whose order is in question.
    """
    fastest = max(min(once.values()), 1e-9)
    return {name: max(1, min(_MOST_PASSED, int(taken / (2 * fastest)))) for name, taken in once.items()}


def best_times(
    functions: Mapping[str, Callable[[], Any]],
    seconds: float = 1.0,
    rounds: int = 5,
    before: Callable[[], Any] | None = None,
) -> dict[str, float]:
    """The shortest time of each function."""
    return {name: min(times) for name, times in all_times(functions, seconds, rounds, before=before).items()}
