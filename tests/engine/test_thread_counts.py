"""How many threads are asked for is checked where calls come in: everywhere alike, and before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def calls(tmp_path: Path) -> dict[str, Callable[[Any], Any]]:
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(8, 8), dtype="u1", chunks=(4, 4), shards=(8, 8))
    a[...] = 1
    n5 = zvcore.create(tmp_path / "n5", format="n5", shape=(8, 8), dtype="u1", chunks=(4, 4))
    n5[...] = 1
    lines = [np.zeros((2, 3), np.float32)]
    zvf.write_polylines(tmp_path / "v", lines, chunk_shape=(4, 4, 4))
    return {
        "read": lambda threads: a.read((slice(0, 4),), threads=threads),
        "write": lambda threads: a.write((slice(0, 4),), 2, threads=threads),
        "read_blocks": lambda threads: a.read_blocks([(0, 0)], threads=threads),
        "vectors": lambda threads: zvf.open(tmp_path / "v").level(0).read(threads=threads),
        "verify": lambda threads: zvcore.verify(tmp_path / "a", threads=threads),
        "verify n5": lambda threads: zvcore.verify(tmp_path / "n5", threads=threads),
        "repair": lambda threads: zvcore.repair(tmp_path / "a", threads=threads),
        "compact": lambda threads: zvcore.compact(tmp_path / "a", threads=threads),
        "inspect": lambda threads: zvcore.inspect(tmp_path / "a", threads=threads),
        "copy": lambda threads: zvcore.copy(tmp_path / "a", tmp_path / "made", threads=threads),
        "sync": lambda threads: zvcore.sync(tmp_path / "a", tmp_path / "made", threads=threads),
        "convert": lambda threads: zvcore.convert(
            tmp_path / "a", tmp_path / "made", format="n5", overwrite=True, threads=threads
        ),
        "plan": lambda threads: zvcore.plan(tmp_path / "a", tmp_path / "planned", format="n5", threads=threads),
        "downsample": lambda threads: zvcore.downsample(
            tmp_path / "a", tmp_path / "made", overwrite=True, threads=threads
        ),
        "manifest": lambda threads: zvcore.make_manifest(tmp_path / "n5", threads=threads),
    }


# A manifest with NaN threads never ended.
@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, float("nan"), float("inf"), (2,)], ids=repr)
def test_what_is_no_number_of_threads(tmp_path: Path, calls: dict[str, Callable[[Any], Any]], threads: object) -> None:
    for name, call in calls.items():
        with pytest.raises(ValueError, match=r"threads must be (a whole number|at least 1), not "):
            call(threads)
            pytest.fail(f"{name} took {threads!r}")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("threads", [None, 1, 2.0, np.int64(3), 10**30])
def test_what_is_one(calls: dict[str, Callable[[Any], Any]], threads: object) -> None:
    for call in calls.values():
        call(threads)
