"""Whole writes over old files by each way to replace a file that waits for no sync, beside the other implementations.

"zvcore" is what is done where nobody asks for anything else, until the call returns, as the others are: what they leave
to the system is on the disk before the next has its turn. `durability="late"` leaves more than they do, to a thread
that waits for the disk and removes the old files: "zvcore, settled" has that in its time, and so the disk's, which
nobody else waits for.
`python -m bench.durability` has a table with new files as well, and with syncs.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.contest import Contest, entrants, run_alone
from bench.durability import CASES, values_of
from zvcore.stores.durability import DEFAULT
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Callable

# What a contest calls them, and the ways.
OURS = {"zvcore": DEFAULT, "zvcore, rename": "rename", "zvcore, none": "none"}


def writers(case: str) -> dict[str, Callable[[], Any]]:
    make, peers, side = CASES[case]
    folder = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=os.environ.get("ZVCORE_BENCH_DIR")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = values_of(side)
    found = {name: make(OURS.get(name, name), folder / name, data) for name in (*OURS, *peers)}
    for write in found.values():
        write()
    return {"zvcore": found["zvcore"], "zvcore, settled": partial(settled, found["zvcore"]), **found}


def settled(write: Callable[[], Any]) -> None:
    write()
    settle()


CONTESTS = [
    Contest(
        f"write over old files: {case}",
        ("zvcore", "zvcore, settled", *[*OURS][1:], *peers),
        partial(writers, case),
        writes=True,
    )
    for case, (_, peers, _) in CASES.items()
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_writing_over_old_files(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
