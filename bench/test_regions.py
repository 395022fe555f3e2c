"""Many regions at once: patches for training, tiles for viewers, in one call or awaited together.

    pytest bench/test_regions.py --benchmark-enable      times
    python -m bench.test_regions [word]                  ratios, the competitors taking turns

The arrays of `test_callers`. Of tensorstore all futures are asked for before the first is waited for, as its users do,
with and without its `Batch`; where an event loop waits, it waits for all.
"""

from __future__ import annotations

import asyncio
import shutil
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr

import zvcore
from bench import test_buckets, test_patterns
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.scratch import journaled, scratch
from bench.test_callers import COUNT, EDGE, KINDS, WRITTEN, boxes, cells, opened, opened_far
from bench.test_patterns import CODECS, SIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.test_callers import Box

Calls = dict[str, "Callable[[], Any]"]

PATCH = 4 * EDGE
PATCHES = pick(32, 4)
ARRAYS = pick(64, 4)
TENSORSTORE = ("tensorstore", "tensorstore, Batch")
WRITERS = ("zvcore", "tensorstore", "tensorstore, Transaction")


@cache
def loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def in_futures(theirs: Any, wanted: Sequence[Box]) -> list[Any]:
    return [future.result() for future in [theirs[box].read() for box in wanted]]


def in_a_batch(theirs: Any, wanted: Sequence[Box]) -> list[Any]:
    with tensorstore.Batch() as batch:
        futures = [theirs[box].read(batch=batch) for box in wanted]
    return [future.result() for future in futures]


def write_in_futures(theirs: Any, wanted: Sequence[Box], given: Sequence[Any]) -> None:
    for future in [theirs[box].write(value) for box, value in zip(wanted, given, strict=True)]:
        future.result()


def write_in_a_transaction(theirs: Any, wanted: Sequence[Box], given: Sequence[Any]) -> None:
    with tensorstore.Transaction() as changes:
        changed = theirs.with_transaction(changes)
        for future in [changed[box].write(value) for box, value in zip(wanted, given, strict=True)]:
            future.result()


def compared(calls: Calls, wanted: Sequence[Any]) -> Calls:
    found = {who: call() for who, call in calls.items()}
    for who, values in found.items():
        assert len(values) == len(wanted)
        for value, expected in zip(values, found["tensorstore"], strict=True):
            np.testing.assert_array_equal(value, expected, err_msg=who)
    return calls


def reading(kind: str, codec: str, wanted: Sequence[Box]) -> Calls:
    ours, theirs, key = opened(kind, codec)
    ours_wanted = [key(box) for box in wanted]
    calls: Calls = {
        "zvcore": lambda: ours.read_regions(ours_wanted),
        "tensorstore": partial(in_futures, theirs, wanted),
        "tensorstore, Batch": partial(in_a_batch, theirs, wanted),
    }
    return compared(calls, wanted)


def far(kind: str, codec: str, delay: float, wanted: Sequence[Box]) -> Calls:
    ours, theirs = opened_far(kind, codec, delay)
    calls: Calls = {
        "zvcore": lambda: ours.read_regions(wanted),
        "tensorstore": partial(in_futures, theirs, wanted),
        "tensorstore, Batch": partial(in_a_batch, theirs, wanted),
    }
    return compared(calls, wanted)


def place_of(kind: str, codec: str, who: str) -> Path:
    return journaled() / f"regions of {kind} {codec} of {who.replace(',', '')}"


def written_to(kind: str, codec: str, who: str) -> Path:
    path = place_of(kind, codec, who)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(test_patterns.stored(kind, codec), path)
    return path


def writing(kind: str, codec: str, wanted: Sequence[Box]) -> Calls:
    """Over what is there. Where regions overlap they have the same values."""
    source = test_patterns.values(kind)
    given = [np.ascontiguousarray(source[box]) for box in wanted]
    ours = zvcore.open(written_to(kind, codec, "zvcore"), mode="r+")
    theirs = test_patterns.by_tensorstore(written_to(kind, codec, "tensorstore"), read=True, write=True)
    others = test_patterns.by_tensorstore(written_to(kind, codec, "tensorstore, Transaction"), read=True, write=True)
    calls: Calls = {
        "zvcore": lambda: ours.write_regions(wanted, given),
        "tensorstore": partial(write_in_futures, theirs, wanted, given),
        "tensorstore, Transaction": partial(write_in_a_transaction, others, wanted, given),
    }
    for who, array in zip(calls, (ours, theirs, others), strict=True):
        array[wanted[0]] = given[0] ^ 1
        calls[who]()
        np.testing.assert_array_equal(zarr.open_array(place_of(kind, codec, who))[...], source, err_msg=who)
    return calls


def awaiting(kind: str, codec: str, wanted: Sequence[Box]) -> Calls:
    ours, theirs, _ = opened(kind, codec)
    array = loop().run_until_complete(
        zarr.api.asynchronous.open_array(store=str(test_patterns.stored(kind, codec)), mode="r")
    )
    calls: Calls = {
        "zvcore": awaited(ours.aread, wanted),
        "tensorstore": awaited(lambda box: theirs[box].read(), wanted),
        "zarr": awaited(array.getitem, wanted),
    }
    return compared(calls, wanted)


def awaiting_far(kind: str, codec: str, delay: float, wanted: Sequence[Box]) -> Calls:
    ours, theirs = opened_far(kind, codec, delay)
    calls: Calls = {
        "zvcore": awaited(ours.aread, wanted),
        "tensorstore": awaited(lambda box: theirs[box].read(), wanted),
    }
    return compared(calls, wanted)


def awaited(ask: Callable[[Any], Any], wanted: Sequence[Any]) -> Callable[[], Any]:
    async def one(box: Any) -> Any:
        return await ask(box)

    async def together() -> Any:
        return await asyncio.gather(*[one(box) for box in wanted])

    return lambda: loop().run_until_complete(together())


@cache
def arrays(codec: str) -> list[Path]:
    """One for each moment of a series, each of one chunk."""
    group = zarr.open_group(scratch() / f"arrays {codec}", mode="w")
    paths = []
    for number in range(ARRAYS):
        values = test_patterns.values("chunks")[number : number + EDGE, : 4 * EDGE, : 4 * EDGE]
        array = group.create_array(
            f"t{number}", shape=values.shape, chunks=values.shape, dtype=values.dtype, compressors=CODECS[codec]
        )
        array[...] = values
        paths.append(scratch() / f"arrays {codec}" / f"t{number}")
    return paths


def awaiting_arrays(codec: str) -> Calls:
    ours = [zvcore.open(path) for path in arrays(codec)]
    theirs = [test_patterns.by_tensorstore(path) for path in arrays(codec)]
    part = (slice(2, EDGE // 2),)
    calls = {
        "zvcore": awaited(lambda array: array.aread(part), ours),
        "tensorstore": awaited(lambda array: array[part].read(), theirs),
    }
    return compared(calls, ours)


PLACES = (("", 0.0), (" 5 ms away", test_buckets.FAR))
CONTESTS = [
    *(
        Contest(f"read {COUNT} small boxes at once of {f'{kind}, {codec}' if codec else kind}",
                ("zvcore", *TENSORSTORE), partial(reading, kind, codec, boxes(EDGE, COUNT)))
        for kind, codec in KINDS
    ),
    *(
        Contest(f"read {PATCHES} patches at once of {kind}, {codec}", ("zvcore", *TENSORSTORE),
                partial(reading, kind, codec, boxes(PATCH, PATCHES)))
        for kind, codec in WRITTEN
    ),
    *(
        Contest(f"write {COUNT} small boxes at once of {kind}, {codec}", WRITERS,
                partial(writing, kind, codec, boxes(EDGE, COUNT)), writes=True)
        for kind, codec in WRITTEN
    ),
    *(
        Contest(f"write {what} at once, {codec}", WRITERS, partial(writing, kind, codec, cells(edge)), writes=True)
        for what, kind, edge in (("chunks", "chunks", test_patterns.CHUNK), ("shards", "shards", SIDE // 2))
        for codec in ("raw", "zstd")
    ),
    *(
        Contest(f"await {COUNT} small boxes of {kind}, {codec}", ("zvcore", "tensorstore", "zarr"),
                partial(awaiting, kind, codec, boxes(EDGE, COUNT)))
        for kind, codec in WRITTEN
    ),
    *(
        Contest(f"await a part of each of {ARRAYS} arrays, {codec}", ("zvcore", "tensorstore"),
                partial(awaiting_arrays, codec))
        for codec in ("raw", "zstd")
    ),
    *(
        Contest(f"read {COUNT // 2} small boxes at once of {kind}, {codec}, in a bucket{away}",
                ("zvcore", *TENSORSTORE), partial(far, kind, codec, delay, boxes(EDGE, COUNT // 2)))
        for kind, codec in WRITTEN
        for away, delay in PLACES
    ),
    *(
        Contest(f"await {COUNT // 2} small boxes of {kind}, {codec}, in a bucket{away}", ("zvcore", "tensorstore"),
                partial(awaiting_far, kind, codec, delay, boxes(EDGE, COUNT // 2)))
        for kind, codec in WRITTEN
        for away, delay in PLACES
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
