"""Pages that the system has to give for a read, counted: none where results get the memory of those before them.

A page costs as much as reading 4 KiB does, so a read that takes new ones each time takes half as long again or more,
which no count of instructions shows.
"""

from __future__ import annotations

import resource
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CASES", "MARGIN", "count_faults", "faults_of"]

# What Python itself may take now and then. A result of 64^3 that gets new pages takes 128.
MARGIN = 2.0


def faults_of(work: Callable[[], Any], times: int) -> float:
    """Pages that the system gives this process for each of so many reads that one call does, after two calls."""
    work()
    work()
    counts = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        work()
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(counts) / times


def one_by_one(array: Any, times: int) -> None:
    for _ in range(times):
        array[...]


def in_a_list(array: Any, times: int) -> None:
    """The results of all reads are there before the first goes."""
    results = [array[...] for _ in range(times)]
    results.clear()


# (chunk's side, reads, what does them). Results of 64^3 are kept by the pool of medium ones, of 160^3 by that of large.
CASES: dict[str, tuple[int, int, Callable[[Any, int], None]]] = {
    "read a raw chunk of 64^3": (64, 32, one_by_one),
    "read a raw chunk of 64^3, 32 into a list": (64, 32, in_a_list),
    "read a raw chunk of 160^3": (160, 8, one_by_one),
    "read a raw chunk of 160^3, 8 into a list": (160, 8, in_a_list),
}


def count_faults() -> dict[str, float]:
    """Pages for each read."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="zvcore-bench-") as folder:
        for number, (name, (side, reads, work)) in enumerate(CASES.items()):
            shape = (side,) * 3
            path = Path(folder) / str(number)
            made = zvcore.create(path, format="zarr3", shape=shape, dtype="u2", chunks=shape, codec=None)
            made[...] = np.random.default_rng(0).integers(0, 999, shape, "u2")
            found[name] = faults_of(partial(work, zvcore.open(path), reads), reads)
    return found
