"""Stores copied as they are, from folder to folder, beside the programs and functions by which people copy files.

    pytest bench/test_copies.py --benchmark-enable            times
    python -m bench.test_copies [word]                        ratios, the competitors taking turns

"shutil" is Python's `copytree`; "cp -r" and "rsync" are programs of their own, their start included. A copy that is
there already is compared byte by byte by all that are asked to, once nothing of it has changed.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.scratch import journaled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Calls = dict[str, "Callable[[], Any]"]
SIDE = pick(256, 32)
# What chunks there are, and in shards of how much; of 16 bits.
STORES: dict[str, tuple[int, int | None, str]] = {
    "small chunks": (SIDE // 16, None, "zstd"),
    "chunks": (SIDE // 4, None, "zstd"),
    "shards": (SIDE // 8, SIDE // 2, "raw"),
}


@cache
def source(kind: str) -> Path:
    chunk, shard, codec = STORES[kind]
    path = journaled() / f"copied {kind}.zarr"
    values = volume("em", (SIDE,) * 3).astype("u2") * 16
    shards: dict[str, Any] = {} if shard is None else {"shards": (shard,) * 3}
    array = zvcore.create(
        path, format="zarr3", shape=values.shape, dtype="u2", chunks=(chunk,) * 3, codec=codec, **shards
    )
    array[...] = values
    return path


def targets() -> Path:
    return journaled() / "targets"


def clear() -> None:
    """All copies, of whomever: who makes one pays for no removal."""
    shutil.rmtree(targets(), ignore_errors=True)
    targets().mkdir()


def by_zvcore(here: Path, there: Path) -> None:
    assert zvcore.copy(here, there).ok


def by_cp(here: Path, there: Path) -> None:
    subprocess.run(["cp", "-r", here, there], check=True)


WAYS: dict[str, Callable[[Path, Path], Any]] = {"zvcore": by_zvcore, "cp -r": by_cp, "shutil": shutil.copytree}


def copying(kind: str) -> Calls:
    here = source(kind)
    return {who: partial(way, here, targets() / who) for who, way in WAYS.items()}


def compared_by_zvcore(here: Path, there: Path) -> None:
    report = zvcore.sync(here, there)
    assert report.ok
    assert "objects copied" not in report.counts


def compared_by_diff(here: Path, there: Path) -> None:
    subprocess.run(["diff", "-rq", here, there], check=True)


def compared_by_rsync(here: Path, there: Path) -> None:
    subprocess.run(["rsync", "-rc", f"{here}/", there], check=True)


COMPARING: dict[str, Callable[[Path, Path], Any]] = {"zvcore": compared_by_zvcore, "diff -rq": compared_by_diff}
if shutil.which("rsync"):
    COMPARING["rsync -rc"] = compared_by_rsync


def comparing(kind: str) -> Calls:
    here = source(kind)
    there = here.with_suffix(".there")
    by_zvcore(here, there)
    return {who: partial(way, here, there) for who, way in COMPARING.items()}


CONTESTS = [
    *(
        Contest(f"copy a folder of {kind}", tuple(WAYS), partial(copying, kind), writes=True, clearing=clear)
        for kind in STORES
    ),
    *(
        Contest(f"find that a copy of {kind} is the same", tuple(COMPARING), partial(comparing, kind))
        for kind in STORES
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
