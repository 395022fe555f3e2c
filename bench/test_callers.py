"""Programs with threads of their own, as Dask and loaders of training data have: many calls at once, each for a little.

    pytest bench/test_callers.py --benchmark-enable      times
    python -m bench.test_callers [word]                  ratios, the competitors taking turns

The arrays of `test_patterns` and `test_formats`, opened once for all threads.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from bench import test_archives, test_buckets, test_formats, test_patterns
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.scratch import journaled
from bench.test_patterns import CODECS, SIDE, values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Calls = dict[str, "Callable[[], Any]"]
Box = tuple[slice, ...]

EDGE = SIDE // 16
COUNT = pick(400, 20)
THREADS = (1, 8)
KINDS = [
    ("chunks", "raw"), ("chunks", "zstd"), ("shards", "raw"), ("shards", "zstd"),
    ("n5 blosc", ""), ("zarr2 zstd", ""), ("volume raw", ""), ("volume shards", ""),
]  # fmt: skip
WRITTEN = [("chunks", "raw"), ("chunks", "zstd"), ("shards", "raw"), ("shards", "zstd")]
WHO = ("zvcore", "tensorstore")


def boxes(edge: int, count: int) -> list[Box]:
    starts = np.random.default_rng(1).integers(0, SIDE - edge, (count, 3)).tolist()
    return [tuple(slice(start, start + edge) for start in box) for box in starts]


def cells(edge: int) -> list[Box]:
    return [
        tuple(slice(start, start + edge) for start in corner)
        for corner in itertools.product(range(0, SIDE, edge), repeat=3)
    ]


def in_threads(call: Callable[[Box], Any], given: Sequence[Box], count: int) -> None:
    """Each thread has its share of the calls, and makes one after the other."""

    def share(number: int) -> None:
        for box in given[number::count]:
            call(box)

    threads = [threading.Thread(target=share, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def opened(kind: str, codec: str) -> tuple[Any, Any, Callable[[Box], Any]]:
    """(for zvcore, for tensorstore, what a box is called for zvcore)."""
    ours: Any
    key: Callable[[Box], Any] = tuple
    if codec:
        path = test_patterns.stored(kind, codec)
        ours, theirs = zvcore.open(path), test_patterns.by_tensorstore(path)
    else:
        path = test_formats.stored(kind, SIDE, test_formats.CHUNK, True)
        format = test_formats.KINDS[kind].format
        ours, theirs = test_formats.by_zvcore(format, path, "r"), test_formats.by_tensorstore(format, path)
        key = partial(test_formats.ours_at, format)
    return ours, theirs, key


def reading(kind: str, codec: str, threads: int) -> Calls:
    ours, theirs, key = opened(kind, codec)
    wanted = boxes(EDGE, COUNT)
    np.testing.assert_array_equal(ours[key(wanted[0])], theirs[wanted[0]].read().result())
    return {
        "zvcore": partial(in_threads, lambda box: ours[key(box)], wanted, threads),
        "tensorstore": partial(in_threads, lambda box: theirs[box].read().result(), wanted, threads),
    }


def packed(codec: str, threads: int) -> Calls:
    """In an archive."""
    path = test_archives.archive(codec, "chunks")
    ours, theirs = zvcore.open(path), test_archives.by_tensorstore(path)
    wanted = boxes(EDGE, COUNT)
    np.testing.assert_array_equal(ours[wanted[0]], theirs[wanted[0]].read().result())
    return {
        "zvcore": partial(in_threads, lambda box: ours[box], wanted, threads),
        "tensorstore": partial(in_threads, lambda box: theirs[box].read().result(), wanted, threads),
    }


def opened_far(kind: str, codec: str, delay: float) -> tuple[Any, Any]:
    """In a bucket, near or so many seconds away."""
    place = test_buckets.put(delay, kind, codec, "of all")
    return test_buckets.ours(delay, place), test_buckets.theirs(delay, place)


def far(kind: str, codec: str, delay: float, threads: int) -> Calls:
    ours, theirs = opened_far(kind, codec, delay)
    wanted = boxes(EDGE, COUNT // 2)
    np.testing.assert_array_equal(ours[wanted[0]], theirs[wanted[0]].read().result())
    return {
        "zvcore": partial(in_threads, lambda box: ours[box], wanted, threads),
        "tensorstore": partial(in_threads, lambda box: theirs[box].read().result(), wanted, threads),
    }


def writing(kind: str, codec: str, threads: int) -> Calls:
    """Whole chunks, or whole shards, each by one call."""
    wanted, made = test_patterns.KINDS[kind], {}
    given = values(kind)
    for who in WHO:
        made[who] = journaled() / f"calls {kind} {codec} of {who}"
        shutil.rmtree(made[who], ignore_errors=True)
        zarr.create_array(
            made[who], shape=wanted.shape, chunks=wanted.chunks, shards=wanted.shards, dtype=wanted.dtype,
            compressors=CODECS[codec],
        )  # fmt: skip
    ours = zvcore.open(made["zvcore"], mode="r+")
    theirs = test_patterns.by_tensorstore(made["tensorstore"], read=True, write=True)
    parts = cells((wanted.shards or wanted.chunks)[0])
    calls: Calls = {
        "zvcore": partial(in_threads, lambda box: ours.__setitem__(box, given[box]), parts, threads),
        "tensorstore": partial(in_threads, lambda box: theirs[box].write(given[box]).result(), parts, threads),
    }
    for who, call in calls.items():
        call()
        np.testing.assert_array_equal(zarr.open_array(made[who])[...], given)
    return calls


def called(threads: int) -> str:
    return "one thread" if threads == 1 else f"{threads} threads"


CONTESTS = [
    *(
        Contest(f"read {COUNT} small boxes of {f'{kind}, {codec}' if codec else kind}, {called(threads)}", WHO,
                partial(reading, kind, codec, threads))
        for kind, codec in KINDS
        for threads in THREADS
    ),
    *(
        Contest(f"read {COUNT} small boxes of chunks, {codec}, in an archive, {called(threads)}", WHO,
                partial(packed, codec, threads))
        for codec in ("raw", "zstd")
        for threads in THREADS
    ),
    *(
        Contest(f"read {COUNT // 2} small boxes of {kind}, {codec}, in a bucket{away}, {called(threads)}", WHO,
                partial(far, kind, codec, delay, threads))
        for kind, codec in WRITTEN
        for away, delay, some in (("", 0.0, (8,)), (" 5 ms away", test_buckets.FAR, (8, 32)))
        for threads in some
    ),
    *(
        Contest(f"write {kind}, {codec}, each by itself, {called(threads)}", WHO,
                partial(writing, kind, codec, threads), writes=True)
        for kind, codec in WRITTEN
        for threads in THREADS
    ),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    test_buckets.end()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
    test_buckets.end()
