"""Many regions at once: patches for training, tiles for viewers, in one call or awaited together.

    pytest bench/test_regions.py --benchmark-enable      times
    python -m bench.test_regions [word]                  ratios, the competitors taking turns

The arrays of `test_callers`. Of tensorstore all futures are asked for before the first is waited for, as its users do,
with and without its `Batch`; where an event loop waits, it waits for all.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr

from bench import test_buckets, test_patterns
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.test_callers import COUNT, EDGE, KINDS, WRITTEN, boxes, opened, opened_far

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.test_callers import Box

Calls = dict[str, "Callable[[], Any]"]

PATCH = 4 * EDGE
PATCHES = pick(32, 4)
TENSORSTORE = ("tensorstore", "tensorstore, Batch")


@cache
def loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def in_futures(theirs: Any, wanted: Sequence[Box]) -> list[Any]:
    return [future.result() for future in [theirs[box].read() for box in wanted]]


def in_a_batch(theirs: Any, wanted: Sequence[Box]) -> list[Any]:
    with tensorstore.Batch() as batch:
        futures = [theirs[box].read(batch=batch) for box in wanted]
    return [future.result() for future in futures]


def compared(calls: Calls, wanted: Sequence[Box]) -> Calls:
    found = {who: call() for who, call in calls.items()}
    for who, values in found.items():
        assert len(values) == len(wanted)
        for value, expected in zip(values, found["tensorstore"], strict=True):
            np.testing.assert_array_equal(value, expected, err_msg=who)
    return calls


def reading(kind: str, codec: str, wanted: Sequence[Box]) -> Calls:
    ours, theirs, key = opened(kind, codec)
    ours_wanted = [key(box) for box in wanted]
    calls = {
        "zvcore": lambda: ours.read_regions(ours_wanted),
        "tensorstore": partial(in_futures, theirs, wanted),
        "tensorstore, Batch": partial(in_a_batch, theirs, wanted),
    }
    return compared(calls, wanted)


def far(kind: str, codec: str, delay: float, wanted: Sequence[Box]) -> Calls:
    ours, theirs = opened_far(kind, codec, delay)
    calls = {
        "zvcore": lambda: ours.read_regions(wanted),
        "tensorstore": partial(in_futures, theirs, wanted),
        "tensorstore, Batch": partial(in_a_batch, theirs, wanted),
    }
    return compared(calls, wanted)


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


def awaited(ask: Callable[[Box], Any], wanted: Sequence[Box]) -> Callable[[], Any]:
    async def one(box: Box) -> Any:
        return await ask(box)

    async def together() -> Any:
        return await asyncio.gather(*[one(box) for box in wanted])

    return lambda: loop().run_until_complete(together())


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
        Contest(f"await {COUNT} small boxes of {kind}, {codec}", ("zvcore", "tensorstore", "zarr"),
                partial(awaiting, kind, codec, boxes(EDGE, COUNT)))
        for kind, codec in WRITTEN
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
