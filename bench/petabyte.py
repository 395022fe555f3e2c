"""A petabyte on paper: what planning, listing, journals and notes take for data that nobody stores for a test.

The stores here answer as those of a petabyte would: they list as many objects as asked for, and hold none. What is
measured is the processor time and the peak of memory of the code that works on the answers; the exponent is fitted over
the sizes, each in a process of its own.

    python -m bench.petabyte
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from zvcore.converting.copying import plan_copy
from zvcore.converting.journal import Journal, StepNote
from zvcore.converting.present import units_of
from zvcore.converting.view import whole
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SUBJECTS", "ManyShards", "measured", "only_listed"]

CHUNK, SHARD = 64, 256


class ManyShards(MemoryStore):
    """A Zarr array of `side` cubed shards, of which only the document is there: the shards are listed."""

    side = 0

    def list(self, prefix: str = "") -> Iterator[str]:
        names = sorted(map(str, range(self.side)))
        yield from (f"c/{z}/{y}/{x}" for z in names for y in names for x in names)
        yield "zarr.json"


def shards(count: int) -> Any:
    """An array with so many shards."""
    store = ManyShards()
    store.side = round(count ** (1 / 3))
    return zvcore.create(
        store, format="zarr3", shape=(store.side * SHARD,) * 3, chunks=(CHUNK,) * 3, shards=(SHARD,) * 3, dtype="u1"
    )


def only_listed(count: int) -> int:
    """Which units of a conversion have anything to do: how many."""
    array = shards(count)
    target = zvcore.create(MemoryStore(), format="n5", shape=array.shape, chunks=(SHARD,) * 3, dtype="u1")
    return len(units_of(plan_copy(whole(array), target, False, 1 << 30, "")))


def opening(count: int) -> None:
    """Opening an array of so many chunks, and reading one of them."""
    side = round(count ** (1 / 3)) * CHUNK
    store = MemoryStore()
    zvcore.create(store, format="zarr3", shape=(side,) * 3, chunks=(CHUNK,) * 3, shards=(8 * CHUNK,) * 3, dtype="u1")[
        :CHUNK, :CHUNK, :CHUNK
    ] = 7
    for _ in range(100):
        assert zvcore.open(store)[5, 6, 7] == 7


def planning(count: int) -> None:
    """`plan` of a conversion of so many shards into others with four coarser levels."""
    options: dict[str, Any] = {"format": "zarr3", "shards": (SHARD,) * 3, "codec": "gzip", "levels": 4}
    assert zvcore.plan(shards(count), MemoryStore(), **options).units


def journal(count: int) -> None:
    """Noting so many units, which come nearly in order."""
    with tempfile.TemporaryDirectory() as folder:
        made = Journal(LocalStore(folder), {}, None)
        note = StepNote(count, [1], [])
        made.begin()
        made.plan({"copy": note})
        made.begin_step("copy", note)
        for unit in range(count & ~15):
            made.add("copy", unit ^ 13)


def scattered_journal(count: int) -> None:
    """Noting units that come in any order: every second of so many, which is the worst that a note can hold."""
    made = Journal(MemoryStore(), {}, None)
    made.begin()
    note = StepNote(count, [1], [])
    made.plan({"copy": note})
    made.begin_step("copy", note)
    for unit in np.random.default_rng(0).permutation(count // 2).tolist():
        made.add("copy", 2 * unit)


def listing(count: int) -> None:
    """A folder tree of so many objects, listed."""
    store = ManyShards()
    store.side = round(count ** (1 / 3))
    assert sum(1 for _ in store.list()) == store.side**3 + 1


SUBJECTS: dict[str, tuple[Callable[[int], Any], tuple[int, ...]]] = {
    "open": (opening, (10**5, 10**7, 10**9)),
    "plan": (planning, (10**3, 10**5, 10**7)),
    "units": (only_listed, (10**5, 10**6, 10**7)),
    "journal": (journal, (10**5, 10**6, 10**7)),
    "scattered journal": (scattered_journal, (10**4, 10**5, 10**6)),
}


@contextmanager
def _measuring(found: dict[str, float]) -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.process_time()
    yield
    found["seconds"] = time.process_time() - began
    found["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before.ru_maxrss) / 1024


def measured(subject: str, count: int) -> dict[str, float]:
    """(seconds of processor time, MiB of memory) of one subject, in a process of its own."""
    command = [sys.executable, "-m", "bench.petabyte", subject, str(count)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def main() -> None:
    if len(sys.argv) > 2:
        work, _ = SUBJECTS[sys.argv[1]]
        found: dict[str, float] = {}
        work(1000)  # what is imported is not counted
        with _measuring(found):
            work(int(sys.argv[2]))
        print(json.dumps(found))
        return
    for subject, (_, sizes) in SUBJECTS.items():
        rows = [measured(subject, count) for count in sizes]
        rise = math.log(rows[-1]["seconds"] / rows[-2]["seconds"]) / math.log(sizes[-1] / sizes[-2])
        for count, row in zip(sizes, rows, strict=True):
            print(f"{subject:20} {count:12,} {row['seconds']:9.3f} s {row['memory']:8.1f} MiB")
        print(f"{subject:20} time ~ n^{rise:.2f}")


if __name__ == "__main__":
    main()
