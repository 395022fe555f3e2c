"""Runs the units of a conversion: on threads of this process, or on the workers of a cluster."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from zvcore.engine import default_thread_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Parts", "Work", "run_units"]


class Work(Protocol):
    """Something cut into units that know nothing of each other. Picklable."""

    def __len__(self) -> int: ...

    def run(self, unit: int, threads: int | None) -> Any: ...

    @property
    def unit_memory(self) -> int:
        """The most bytes that one unit takes while it runs."""
        ...

    @property
    def spread(self) -> bool:
        """Whether one unit keeps all threads busy."""
        ...


@dataclass(frozen=True)
class Parts:
    """Units to run, one after the other, how many these are, and how much memory those have that run at once."""

    units: Iterable[int]
    count: int
    memory: int


def run_units(work: Work, parts: Parts, *, threads: int | None, client: Any = None) -> Iterator[tuple[int, Any]]:
    """Run these units of a step: (unit, what it returned) as they come.

    In this process as many run at once as there are threads and memory allows, or one if it keeps all threads busy;
    what is left of the threads works within the units. On a cluster each task is a unit, with one thread unless
    `threads` says more.
    """
    if client is not None:
        from zvcore.distributed import run_tasks

        yield from run_tasks(client, _run_pickled, parts.units, pickle.dumps(work), threads or 1)
        return
    total = default_thread_count() if threads is None else threads
    at_once = 1 if work.spread else max(1, min(total, parts.memory // max(1, work.unit_memory), parts.count))
    yield from _run_here(work, parts.units, at_once, -(-total // at_once))


def _run_here(work: Work, units: Iterable[int], at_once: int, threads: int) -> Iterator[tuple[int, Any]]:
    rest = iter(units)
    stop = threading.Event()
    running: dict[Future[Any], int] = {}

    def run(unit: int) -> Any:
        return None if stop.is_set() else work.run(unit, threads)

    with ThreadPoolExecutor(at_once, "zvcore-convert") as pool:
        try:
            for unit in rest:
                running[pool.submit(run, unit)] = unit
                if len(running) > at_once:
                    yield from _finished(running)
            while running:
                yield from _finished(running)
        finally:
            stop.set()


def _finished(running: dict[Future[Any], int]) -> Iterator[tuple[int, Any]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        unit = running.pop(future)
        yield unit, future.result()


# A worker is sent many units of the same work: it takes it out of its wrapping once.
_works: dict[bytes, Work] = {}
_works_lock = threading.Lock()


def _run_pickled(unit: int, packed: bytes, threads: int) -> Any:
    with _works_lock:
        work = _works.get(packed)
        if work is None:
            if len(_works) >= 8:
                _works.clear()
            work = _works[packed] = pickle.loads(packed)
    return work.run(unit, threads)


def _after_fork() -> None:
    global _works_lock
    _works_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
