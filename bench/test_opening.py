"""What comes before the first chunk: arrays and groups of Zarr v3 opened, made and listed, and single items.

    pytest bench/test_opening.py --benchmark-enable      times
    python -m bench.test_opening [word]                  ratios, the competitors taking turns

Everybody opens anew each time, as a worker does that is given a path: no tool may know the array from before.
What writes is done several times in a row: before each turn the disk is waited for, after which the processor knows
nothing any more, and a single call would be timed by how soon it remembers.
"""

from __future__ import annotations

import itertools
import pickle
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDE, CHUNK = 64, 32
MEMBERS = pick(200, 20)
ALL = ("zvcore", "tensorstore", "zarr")
Calls = dict[str, "Callable[[], Any]"]
_numbers = itertools.count()


@cache
def stored(name: str) -> Path:
    """Written by zarr-python."""
    path = scratch() / name
    array = zarr.create_array(path, shape=(SIDE,) * 3, chunks=(CHUNK,) * 3, dtype="u1")
    array[...] = np.ascontiguousarray(volume("em", (SIDE,) * 3))
    return path


@cache
def group() -> Path:
    path = scratch() / "group"
    made = zarr.open_group(path, mode="w")
    for number in range(MEMBERS):
        made.create_array(f"member{number}", shape=(4,), chunks=(4,), dtype="u1")
    return path


def by_tensorstore(path: Path, **options: Any) -> Any:
    context = tensorstore.Context({"file_io_sync": False})
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    return tensorstore.open(spec, context=context, **options).result()


def opening() -> Calls:
    path = stored("read")
    return {
        "zvcore": lambda: zvcore.open(path),
        "tensorstore": lambda: by_tensorstore(path),
        "zarr": lambda: zarr.open_array(path, mode="r"),
    }


def opening_and_reading() -> Calls:
    path = stored("read")
    box = (slice(0, CHUNK),) * 3
    return {
        "zvcore": lambda: zvcore.open(path)[box],
        "tensorstore": lambda: by_tensorstore(path)[box].read().result(),
        "zarr": lambda: zarr.open_array(path, mode="r")[box],
    }


def sent() -> Calls:
    """What a worker of Dask does for each of its tasks."""
    path = stored("read")
    box = (slice(0, CHUNK),) * 3
    arrays = {"zvcore": zvcore.open(path), "tensorstore": by_tensorstore(path), "zarr": zarr.open_array(path, mode="r")}
    there = {who: pickle.dumps(array) for who, array in arrays.items()}
    reads: dict[str, Callable[[Any], Any]] = {
        "zvcore": lambda array: array[box],
        "tensorstore": lambda array: array[box].read().result(),
        "zarr": lambda array: array[box],
    }
    expected = reads["zarr"](arrays["zarr"])

    def read(who: str) -> Any:
        return reads[who](pickle.loads(there[who]))

    for who in ALL:
        np.testing.assert_array_equal(read(who), expected)
    return {who: partial(read, who) for who in ALL}


def making() -> Calls:
    def place(who: str) -> Path:
        return scratch() / f"{who}{next(_numbers)}"

    metadata = {
        "shape": [SIDE] * 3,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK] * 3}},
    }
    size: dict[str, Any] = {"shape": (SIDE,) * 3, "chunks": (CHUNK,) * 3, "dtype": "u1"}
    return {
        "zvcore": lambda: zvcore.create(place("zvcore"), format="zarr3", **size),
        "tensorstore": lambda: tensorstore.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str(place("tensorstore"))},
                "metadata": metadata,
                "context": {"file_io_sync": False},
            },
            create=True,
        ).result(),
        "zarr": lambda: zarr.create_array(place("zarr"), **size),
    }


def listing() -> Calls:
    path = group()
    return {
        "zvcore": lambda: [*zvcore.open(path)],
        "zarr": lambda: [*zarr.open_group(path, mode="r")],
    }


def opening_members() -> Calls:
    path = group()
    return {
        "zvcore": lambda: [array.shape for array in zvcore.open(path).values()],
        "zarr": lambda: [array.shape for _, array in zarr.open_group(path, mode="r").arrays()],
    }


def items(write: bool) -> Calls:
    key = (3, 4, 5)
    paths = {who: stored(f"{who} items") for who in ("zvcore", "tensorstore", "zarr")}
    ours = zvcore.open(paths["zvcore"], mode="r+")
    theirs = by_tensorstore(paths["tensorstore"], read=True, write=True)
    array = zarr.open_array(paths["zarr"], mode="r+")
    if write:
        return {
            "zvcore": partial(ours.__setitem__, key, 7),
            "tensorstore": lambda: theirs[key].write(7).result(),
            "zarr": partial(array.__setitem__, key, 7),
        }
    return {
        "zvcore": lambda: ours[key],
        "tensorstore": lambda: theirs[key].read().result(),
        "zarr": lambda: array[key],
    }


IN_A_ROW = pick(20, 2)
CONTESTS = [
    Contest("open an array", ALL, opening),
    Contest("open an array and read a chunk", ALL, opening_and_reading),
    Contest("read a chunk of an array that was sent by pickle", ALL, sent),
    Contest("make an array", ALL, making, IN_A_ROW, writes=True),
    Contest("read one item", ALL, partial(items, False)),
    Contest("write one item", ALL, partial(items, True), IN_A_ROW, writes=True),
    Contest(f"list a group of {MEMBERS} arrays", ALL[::2], listing),
    Contest(f"open {MEMBERS} arrays of a group", ALL[::2], opening_members),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
