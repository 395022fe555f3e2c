"""One task and several functions that do it: timed by pytest-benchmark side by side, or taking turns for a table.

A module of benchmarks has a list of contests, one line of `pytest.mark.parametrize(*entrants(contests))`, and
`run_alone(contests)` for when it is run as a script.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from bench.interleaved import all_written, best_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Contest", "entrants", "run_alone"]


ROUNDS = 9

# Only those of the contest that is running: the data of all of them would not fit.
_kept: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True)
class Contest:
    """A task and what can do it, "zvcore" first. `prepare` makes the functions, so data exists only when needed."""

    name: str
    names: tuple[str, ...]
    prepare: Callable[[], dict[str, Callable[[], Any]]]
    calls: int = 1  # how many calls take long enough to be measured
    writes: bool = False  # files, which are on the disk before the next function has its turn
    clearing: Callable[[], Any] | None = None  # called before each of the functions, outside of the clock

    def functions(self) -> dict[str, Callable[[], Any]]:
        functions = self.prepare()
        assert tuple(functions) == self.names
        return functions

    def kept(self) -> dict[str, Callable[[], Any]]:
        """The functions, made once for all that take part: pytest asks for each of them separately."""
        if self.name not in _kept:
            _kept.clear()
            _kept[self.name] = self.functions()
        return _kept[self.name]

    def before(self) -> Callable[[], None] | None:
        """What is to be called before each of the functions, outside of the clock."""
        steps = [*filter(None, (self.clearing, all_written if self.writes else None))]

        def take_all() -> None:
            for step in steps:
                step()

        return take_all if steps else None

    def run(self, benchmark: Any, who: str) -> None:
        """Time one of the functions with pytest-benchmark, in a group with the others."""
        benchmark.group = self.name
        benchmark.name = who
        before = self.before()
        if before is not None:
            benchmark.pedantic(self.kept()[who], setup=before, rounds=ROUNDS)
        else:
            benchmark(self.kept()[who])


def entrants(contests: Sequence[Contest]) -> tuple[str, list[Any]]:
    """The arguments of `pytest.mark.parametrize`: each function of each contest."""
    return "contest,who", [
        pytest.param(contest, name, id=f"{contest.name}-{name}") for contest in contests for name in contest.names
    ]


def _repeated(function: Callable[[], Any], calls: int) -> Callable[[], None]:
    def run() -> None:
        for _ in repeat(None, calls):
            function()

    return run


def run_alone(contests: Sequence[Contest], seconds: float = 2.0) -> None:
    """Print the best time of "zvcore" for each contest, and how many times as fast it is as each of the others.

    Only contests whose names contain all words of the command line take part.
    """
    print("| task | zvcore, µs | times as fast as |\n|---|---|---|")
    wanted = set(sys.argv[1:])
    for contest in contests:
        if not wanted <= set(contest.name.split()):
            continue
        functions = {name: _repeated(function, contest.calls) for name, function in contest.functions().items()}
        times = best_times(functions, seconds, ROUNDS, contest.before())
        ours = times.pop("zvcore")
        ratios = ", ".join(f"{name} {time / ours:.2f}" for name, time in times.items())
        print(f"| {contest.name} | {ours / contest.calls * 1e6:.3f} | {ratios} |", flush=True)
