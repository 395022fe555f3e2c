"""Writes of Zarr Vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from tests.faults.powercut.kind import STEPS, Kind, in_order, nothing

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.stores import LocalStore

BOUNDS = ([0] * 3, [100] * 3)


def lines(value: int) -> list[Any]:
    return [np.full((3 + i, 3), value, "f4") + i for i in range(4)]


def begin_lines(path: Path) -> None:
    zvcore.zvf.write_polylines(path, lines(1), chunk_shape=(16.0,) * 3, bounds=BOUNDS)


def step_append_lines(store: LocalStore, value: int) -> None:
    zvcore.zvf.write_polylines(store, lines(value), append=True)


def step_new_lines(store: LocalStore, value: int) -> None:
    place = store.child(str(value))
    zvcore.zvf.write_polylines(place, lines(1), chunk_shape=(16.0,) * 3, bounds=BOUNDS)


def batches_of_lines(path: Path) -> int:
    """How many whole batches of four lines there are, each of its own value."""
    store = zvcore.zvf.open(path)
    level = store.level(0)
    ids = level.object_ids(present_only=True)
    assert len(ids) % 4 == 0
    for start in range(0, len(ids), 4):
        vectors = level.read_objects(ids[start : start + 4])
        for i, line in enumerate(lines(start // 4 + 1)):
            np.testing.assert_array_equal(vectors[i], line)
    assert zvcore.zvf.validate(path).ok
    return len(ids) // 4


def check_lines(path: Path) -> list[int]:
    return [batches_of_lines(path)]


def check_new_lines(path: Path) -> list[int]:
    done = {value: (path / str(value) / "zarr.json").exists() for value in STEPS}
    for value, there in done.items():
        assert not there or batches_of_lines(path / str(value)) == 1
    return [in_order(done)]


def step_shard_lines(store: LocalStore, value: int) -> None:
    if value == 2:
        zvcore.zvf.shard_store(store, shard_shape=2)
    else:
        zvcore.zvf.reshard(store, 4)


def check_shard_lines(path: Path) -> list[int]:
    """Whatever its arrays are packed in, all is there; each array is replaced for itself."""
    assert batches_of_lines(path) == 1
    info = zvcore.zvf.get_shard_info(path)
    return [{None: 1, 2: 2, 4: 3}[(one["shard_shape"] or [None])[0]] for one in info["arrays"]]


def kinds() -> list[Kind]:
    return [
        Kind("vectors, written", nothing, step_new_lines, check_new_lines),
        Kind("vectors, appended", begin_lines, step_append_lines, check_lines),
        Kind("vectors, shard_store and reshard", begin_lines, step_shard_lines, check_shard_lines),
    ]
