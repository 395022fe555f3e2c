"""The engine itself: many tiny chunks, a handful of huge ones, one chunk, and a plain copy as the limit.

    pytest bench/test_engine.py --benchmark-enable      times
    python -m bench.test_engine                         ratios, the competitors taking turns

"numpy" does by hand what the engine does: np.frombuffer on pieces of one file and assignment to the result. "memcpy" is
a plain copy of as many bytes.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
numbers = itertools.count()


def stored(values: Any, chunks: tuple[int, ...], codec: Any, shards: tuple[int, ...] | None = None) -> Any:
    array = zvcore.create(
        FOLDER / str(next(numbers)),
        format="zarr3",
        shape=values.shape,
        dtype=values.dtype,
        chunks=chunks,
        shards=shards,
        codec=codec,
    )
    array[...] = values
    return array


def by_hand(array: Any, values: Any) -> Callable[[], Any]:
    """Reads a shard as a whole and assigns each of its raw chunks."""
    path = next(path for path in Path(array.layout.store.root).glob("c/**/*") if path.is_file())
    chunks = array.chunks

    def read() -> Any:
        raw = np.fromfile(path, values.dtype, values.size)
        out = np.empty_like(values)
        pieces = raw.reshape(-1, *chunks)
        grid = [range(0, bound, extent) for bound, extent in zip(values.shape, chunks, strict=True)]
        for piece, start in zip(pieces, itertools.product(*grid), strict=True):
            out[tuple(slice(at, at + extent) for at, extent in zip(start, chunks, strict=True))] = piece
        return out

    return read


def many_tiny() -> dict[str, Callable[[], Any]]:
    values = np.ascontiguousarray(volume("microscopy", (64, 64, 64)))
    array = stored(values, (2, 2, 2), None, values.shape)
    return {"zvcore": lambda: array[...], "numpy": by_hand(array, values)}


def few_huge() -> dict[str, Callable[[], Any]]:
    values = np.tile(volume("em", (64, 64, 64)), (4, 4, 4))
    array = stored(values, (64, 256, 256), None)
    return {"zvcore": lambda: array[...], "memcpy": lambda: values.copy()}


def middling() -> dict[str, Callable[[], Any]]:
    values = np.tile(volume("em", (64, 64, 64)), (4, 4, 4))
    array = stored(values, (32, 32, 32), None, values.shape)
    return {"zvcore": lambda: array[...], "numpy": by_hand(array, values)}


def one_chunk() -> dict[str, Callable[[], Any]]:
    values = np.tile(volume("em", (64, 64, 64)), (4, 4, 4))
    array = stored(values, (32, 32, 32), None, values.shape)
    copied = values[32:64, 64:96, 96:128]
    return {"zvcore": lambda: array[32:64, 64:96, 96:128], "memcpy": copied.copy}


CONTESTS = [
    Contest("read 32768 chunks of 16 bytes", ("zvcore", "numpy"), many_tiny),
    Contest("read 512 chunks of 32 KiB", ("zvcore", "numpy"), middling),
    Contest("read 4 chunks of 4 MiB", ("zvcore", "memcpy"), few_huge),
    Contest("read one chunk of 32 KiB", ("zvcore", "memcpy"), one_chunk, 20),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_engine(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
