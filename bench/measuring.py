"""Times of contests within a number of seconds: most of it for all alike, the rest where the order is in question.

On a machine that others use too, two tools that are equally fast need many turns until their best times say so. The
rows in which the best peer is less than a tenth slower than zvcore, or faster, get the rest of the time, at least nine
turns if it lasts. zvcore and all that are close to it take three turns in every row, even if these last longer than the
row's share of the time.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import sys
import time
import traceback
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

from bench.interleaved import not_collecting, taking_turns, timed, turns_to_pass
from bench.suites import LIMITS, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.suites import Entry

__all__ = ["FOR_ALL", "Times", "first_turns", "in_question", "measure_contests", "more_turns", "seconds_due", "summary"]

FOR_ALL = 0.75  # of the time; the rest is for rows in question
CLOSE = 1.1
ENOUGH = 9  # turns
LEAST = 3
NEAR = 1.5  # times as long as zvcore
LONG = 0.3  # seconds of a call that is not much longer for being the first
FAR = 4.0  # times as long as zvcore
AGAIN = 1.5  # seconds of a first call that may have lasted because it was the first

Times = dict[str, list[float]]


def in_question(times: Mapping[str, list[float]]) -> list[str]:
    """zvcore and the peers that are faster, or slower by less than a tenth; nobody if there is no such peer."""
    ours = min(times["zvcore"])
    peers = [name for name in times if name not in LIMITS | OURS and min(times[name]) < CLOSE * ours]
    return ["zvcore", *peers] if peers else []


def first_turns(
    works: Mapping[str, Callable[[], float]], once: Mapping[str, float], seconds: float, close: int = LEAST
) -> Times:
    """Turns for as long as this; each has been called `once` before. Those that are close to zvcore, or faster, take at
    least so many, however long they last: one turn says little of them.

    Those that take long and are far behind are not called again if the others' turns would not get done: by now it is
    said that they are slower, and the seconds are for the rows in which that is in question. By how much they are is
    said by their second call, where the first was short enough for what only first calls do to count.
    """
    left_out = {
        name: taken
        for name, taken in once.items()
        if name != "zvcore" and taken > max(LONG, FAR * once["zvcore"]) and sum(once.values()) > seconds / 3
    }
    again = [name for name, taken in left_out.items() if taken < AGAIN]
    twice = taking_turns({name: works[name] for name in again}, 0.0, 1) if again else {}
    seconds -= sum(map(sum, twice.values()))
    works = {name: work for name, work in works.items() if name not in left_out}
    once = {name: taken for name, taken in once.items() if name in works}
    passing = turns_to_pass(once)
    rounds = LEAST
    if sum(once[name] for name in once if passing[name] < LEAST) >= seconds / LEAST:
        rounds = close
        near = NEAR * once.get("zvcore", min(once.values()))
        passing = {name: 1 if once[name] <= near else max(LEAST, number) for name, number in passing.items()}
    others = {name: [taken, *twice.get(name, ())] for name, taken in left_out.items()}
    return taking_turns(works, max(0.0, seconds), rounds, passing) | others


def more_turns(works: Mapping[str, Callable[[], float]], times: Times, seconds: float) -> None:
    """Add turns of those in question to their times, for as long as this, at least one."""
    names = in_question(times)
    if names:
        for name, found in taking_turns({name: works[name] for name in names}, seconds, 1).items():
            times[name] += found


def seconds_due(times: Times) -> float:
    """How long those in question take for the turns that they lack."""
    names = in_question(times)
    return sum(max(0, ENOUGH - len(times[name])) * min(times[name]) for name in names)


def summary(times: Times, calls: int = 1) -> dict[str, dict[str, float]]:
    return {
        name: {"best": min(found) / calls, "median": statistics.median(found) / calls, "turns": len(found)}
        for name, found in times.items()
    }


def repeated(function: Callable[[], Any], calls: int) -> Callable[[], None]:
    if calls == 1:
        return function

    def run() -> None:
        for _ in repeat(None, calls):
            function()

    return run


@dataclass
class Row:
    """A contest and the times that were found so far."""

    entry: Entry
    times: Times = field(default_factory=dict)
    preparing: float = 0.0  # seconds
    error: str = ""

    def works(self) -> dict[str, Callable[[], float]]:
        start = time.perf_counter()
        contest = self.entry.contest
        works = {
            name: timed(repeated(function, contest.calls), contest.before())
            for name, function in contest.functions().items()
        }
        self.preparing = time.perf_counter() - start
        return works

    def measure(self, seconds: float) -> None:
        """Preparing it and calling each function once count as part of its time."""
        end = time.perf_counter() + seconds
        works = self.works()
        with not_collecting():
            once = {name: work() for name, work in works.items()}
        self.times = first_turns(works, once, end - time.perf_counter())

    def seconds_due(self) -> float:
        # Each is called once more before it counts again.
        return self.preparing + sum(min(self.times[name]) for name in in_question(self.times)) + seconds_due(self.times)

    def measure_more(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        works = self.works()
        with not_collecting():
            for name in in_question(self.times):
                works[name]()
        more_turns(works, self.times, end - time.perf_counter())

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """One peer that fails must not cost the others their numbers; it is shown."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.error = f"{type(error).__name__}: {error}"
        print(line(self.result()), file=sys.stderr, flush=True)
        gc.collect()

    def result(self) -> dict[str, Any]:
        found = {"suite": self.entry.suite, "task": self.entry.name}
        if self.error:
            return {**found, "error": self.error}
        return {**found, "times": summary(self.times, self.entry.contest.calls)}


def measure_contests(chosen: list[Entry], seconds: float) -> list[dict[str, Any]]:
    start = time.perf_counter()
    rows = [Row(entry) for entry in chosen]
    for number, row in enumerate(rows):
        share = max(0.2, (start + FOR_ALL * seconds - time.perf_counter()) / (len(rows) - number))
        with row.failing():
            row.measure(share)
    # Those that need least come first: what they leave is for the others.
    close = sorted((row for row in rows if not row.error and in_question(row.times)), key=Row.seconds_due)
    for number, row in enumerate(close):
        left = start + seconds - time.perf_counter()
        if left <= row.preparing:
            break
        with row.failing():
            row.measure_more(min(left, max(left / (len(close) - number), row.seconds_due())))
    return [row.result() for row in rows]


def line(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"{result['suite']:12} {result['task']}: {result['error'][:200]}"
    times = {name: found["best"] for name, found in result["times"].items()}
    ours = times.pop("zvcore")
    ratios = ", ".join(f"{name} {taken / ours:.2f}" for name, taken in times.items())
    return f"{result['suite']:12} {result['task']:50} {ours * 1e6:12.1f} us  {ratios}"
