"""What is not boxes: lists along axes, masks, points, axes the other way round; and values put there.

    pytest bench/test_selections.py --benchmark-enable      times
    python -m bench.test_selections [word]                  ratios, the competitors taking turns

The arrays of `test_patterns`.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.scratch import journaled
from bench.test_patterns import SIDE, WHO, by_tensorstore, stored

if TYPE_CHECKING:
    from collections.abc import Callable

Calls = dict[str, "Callable[[], Any]"]

CODECS = ("raw", "zstd")
RANDOM = np.random.default_rng(3)
SOME = np.sort(RANDOM.choice(SIDE, SIDE // 12, replace=False))
MIXED = RANDOM.permutation(SIDE)[: SIDE // 12]
POINTS = tuple(RANDOM.integers(0, SIDE, 1000) for _ in range(3))
ALL = slice(None)
BACK = slice(None, None, -1)
LESION = np.zeros((SIDE,) * 3, bool)
LESION[SIDE // 3 : SIDE // 3 + SIDE // 16, SIDE // 5 : SIDE // 3, SIDE // 6 : 4 * SIDE // 5] = True
SCATTERED = RANDOM.random((SIDE,) * 3) < 0.003

# (what, how the array is indexed, by what)
READS: list[tuple[str, str, Any]] = [
    ("the planes of a list", "oindex", SOME),
    ("the columns of a list", "oindex", (ALL, ALL, MIXED)),
    ("where three lists cross", "oindex", (SOME, MIXED, SOME)),
    ("the items of a mask", "vindex", LESION),
    ("the scattered items of a mask", "vindex", SCATTERED),
    ("all, axes reversed", "plain", (BACK, BACK, BACK)),
]
WRITES: list[tuple[str, str, Any]] = [
    ("the planes of a list", "oindex", SOME),
    ("the columns of a list", "oindex", (ALL, ALL, MIXED)),
    ("the items of a mask", "vindex", LESION),
    ("1000 points", "vindex", POINTS),
    ("every 2nd plane", "plain", slice(None, None, 2)),
]


def indexed(array: Any, how: str) -> Any:
    return array if how == "plain" else getattr(array, how)


def reading(kind: str, codec: str, how: str, key: Any) -> Calls:
    path = stored(kind, codec)
    ours, theirs = indexed(zvcore.open(path), how), indexed(by_tensorstore(path), how)
    np.testing.assert_array_equal(ours[key], theirs[key].read().result())
    calls: Calls = {"zvcore": lambda: ours[key], "tensorstore": lambda: theirs[key].read().result()}
    if takes(how, key):
        array = indexed(zarr.open_array(path, mode="r"), how)
        calls["zarr"] = lambda: array[key]
    return calls


def takes(how: str, key: Any) -> bool:
    """zarr-python does not read axes backwards."""
    return how != "plain" or BACK not in np.atleast_1d(np.array(key, object)).tolist()


def writing(kind: str, codec: str, how: str, key: Any) -> Calls:
    """The same values each time."""
    paths = {who: journaled() / f"{kind} {codec} {how} of {who}" for who in WHO}
    for path in paths.values():
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(stored(kind, codec), path)
    ours = indexed(zvcore.open(paths["zvcore"], mode="r+"), how)
    theirs = indexed(by_tensorstore(paths["tensorstore"], read=True, write=True), how)
    array = indexed(zarr.open_array(paths["zarr"], mode="r+"), how)
    # Others than are there, so that what is written can be told from what was.
    given = np.ascontiguousarray(indexed(zvcore.open(stored(kind, codec)), how)[key] ^ 1)
    calls: Calls = {
        "zvcore": lambda: ours.__setitem__(key, given),
        "tensorstore": lambda: theirs[key].write(given).result(),
        "zarr": lambda: array.__setitem__(key, given),
    }
    for call in calls.values():
        call()
    written = [zarr.open_array(path)[...] for path in paths.values()]
    for other in written[1:]:
        np.testing.assert_array_equal(written[0], other)
    return calls


CONTESTS = [
    *(
        Contest(f"read {what} of {kind}, {codec}", WHO if takes(how, key) else WHO[:2],
                partial(reading, kind, codec, how, key))
        for what, how, key in READS
        for kind in ("chunks", "shards")
        for codec in CODECS
    ),
    *(
        Contest(f"write {what} of {kind}, {codec}", WHO, partial(writing, kind, codec, how, key), writes=True)
        for what, how, key in WRITES
        for kind in ("chunks", "shards")
        for codec in CODECS
    ),
]  # fmt: skip


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
