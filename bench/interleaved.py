"""Comparing functions on a machine that others use too: they take turns, and the best time of each counts."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["all_times", "best_times"]


def all_times(
    functions: Mapping[str, Callable[[], Any]], seconds: float = 1.0, rounds: int = 5
) -> dict[str, list[float]]:
    """The times of each function. All together run for about `seconds`, and take at least `rounds` turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    collecting = gc.isenabled()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        turn = 0
        while turn < rounds or time.perf_counter() < end:
            for name, function in functions.items():
                start = time.perf_counter()
                function()
                times[name].append(time.perf_counter() - start)
            turn += 1
    finally:
        if collecting:
            gc.enable()
    return times


def best_times(functions: Mapping[str, Callable[[], Any]], seconds: float = 1.0, rounds: int = 5) -> dict[str, float]:
    """The shortest time of each function."""
    return {name: min(times) for name, times in all_times(functions, seconds, rounds).items()}
