"""What comes before the first chunk in a bucket, near and 5 ms away: arrays made and sent, groups, attributes, growth.

    pytest bench/test_opening_far.py --benchmark-enable      times
    python -m bench.test_opening_far [word]                  ratios, the competitors taking turns

Groups and arrays are those of `test_opening`, datasets those of `test_xarray`, and the server is the small one of
`test_objectstore`. zarr-python has obstore's store, which its authors recommend. Nothing is consolidated but the
datasets.
"""

from __future__ import annotations

import itertools
import pickle
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import xarray
import zarr
from obstore.store import S3Store

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.s3_server import empty
from bench.scale import pick
from bench.test_buckets import FAR, end, ours, place_for_tensorstore, server, theirs, upload
from bench.test_opening import CHUNK, MEMBERS, SIDE, group, stored
from bench.test_xarray import stored as dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Calls = dict[str, "Callable[[], Any]"]
ALL = ("zvcore", "tensorstore", "zarr")
TWO = ALL[::2]
FRAMES = pick(4, 2)
_numbers = itertools.count()


@cache
def put(delay: float, what: str) -> str:
    """Where in the bucket a copy of a group or an array lies; each competitor that changes one has its own."""
    kinds: dict[str, Callable[[], Path]] = {"group": group, "dataset": partial(dataset, 3)}
    return upload(delay, kinds.get(what, partial(stored, "read"))(), what)


def for_zarr(delay: float, place: str, *, read_only: bool = False) -> Any:
    secrets = server(delay).options
    store = S3Store(
        "bucket", prefix=place, endpoint=secrets["endpoint"], region=secrets["region"],
        access_key_id=secrets["access_key_id"], secret_access_key=secrets["secret_access_key"],
        client_options={"allow_http": True},
    )  # fmt: skip
    return zarr.storage.ObjectStore(store, read_only=read_only)


def opened_group(delay: float) -> Any:
    return zvcore.open(f"s3://bucket/{put(delay, 'group')}", storage_options=server(delay).options)


def making(delay: float) -> Calls:
    metadata = {
        "shape": [SIDE] * 3, "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK] * 3}},
    }  # fmt: skip
    size: dict[str, Any] = {"shape": (SIDE,) * 3, "chunks": (CHUNK,) * 3, "dtype": "u1"}
    options = server(delay).options

    def by_tensorstore() -> Any:
        spec = {"driver": "zarr3", "kvstore": place_for_tensorstore(delay, f"made/{next(_numbers)}")}
        return tensorstore.open({**spec, "metadata": metadata}, create=True).result()

    return {
        "zvcore": lambda: zvcore.create(
            f"s3://bucket/made/{next(_numbers)}", format="zarr3", storage_options=options, **size
        ),
        "tensorstore": by_tensorstore,
        "zarr": lambda: zarr.create_array(for_zarr(delay, f"made/{next(_numbers)}"), **size),
    }


def sent(delay: float) -> Calls:
    place, box = put(delay, "array"), (slice(0, CHUNK),) * 3
    arrays = {"zvcore": ours(delay, place), "tensorstore": theirs(delay, place), "zarr": zarr.open_array(
        for_zarr(delay, place), mode="r"
    )}  # fmt: skip
    there = {who: pickle.dumps(array) for who, array in arrays.items()}
    return {
        "zvcore": lambda: pickle.loads(there["zvcore"])[box],
        "tensorstore": lambda: pickle.loads(there["tensorstore"])[box].read().result(),
        "zarr": lambda: pickle.loads(there["zarr"])[box],
    }


def listing(delay: float) -> Calls:
    place = put(delay, "group")
    return {
        "zvcore": lambda: [*opened_group(delay)],
        "zarr": lambda: [*zarr.open_group(for_zarr(delay, place), mode="r")],
    }


def opening_members(delay: float) -> Calls:
    place = put(delay, "group")
    return {
        "zvcore": lambda: [array.shape for array in opened_group(delay).values()],
        "zarr": lambda: [array.shape for _, array in zarr.open_group(for_zarr(delay, place), mode="r").arrays()],
    }


def opening_datasets(delay: float) -> Calls:
    place, options = put(delay, "dataset"), server(delay).options
    return {
        "zvcore": lambda: xarray.open_dataset(f"s3://bucket/{place}", engine="zvcore", storage_options=options),
        "zarr": lambda: xarray.open_dataset(for_zarr(delay, place, read_only=True), engine="zarr"),
    }


def setting(delay: float) -> Calls:
    """An attribute of one's own array, several times."""
    one = ours(delay, put(delay, "array of zvcore"))
    other = zarr.open_array(for_zarr(delay, put(delay, "array of zarr")))
    numbers = range(FRAMES)
    return {
        "zvcore": lambda: [one.attrs.update(number=number) for number in numbers],
        "zarr": lambda: [other.attrs.update(number=number) for number in numbers],
    }


def growing(delay: float) -> Calls:
    """One frame after the other is put behind the others; then the array is as short as before."""
    frames = np.random.default_rng(0).integers(1, 255, (8 + FRAMES, 256, 256), np.uint8)
    few = frames[:8]

    def made(who: str) -> str:
        place = f"frames-of-{who}"
        array = zvcore.create(
            f"s3://bucket/{place}", format="zarr3", shape=few.shape, dtype="u1", chunks=(1, 256, 256),
            overwrite=True, storage_options=server(delay).options,
        )  # fmt: skip
        array[...] = few
        return place

    one, other, third = (made(who) for who in ALL)
    by_us, by_tensorstore = ours(delay, one), theirs(delay, other)
    by_zarr = zarr.open_array(for_zarr(delay, third))

    def we() -> None:
        for number in range(len(few), len(frames)):
            by_us.resize((number + 1, 256, 256))
            by_us[number] = frames[number]
        by_us.resize(few.shape)

    def they() -> None:
        longer = by_tensorstore
        for number in range(len(few), len(frames)):
            longer = longer.resize(exclusive_max=[number + 1, 256, 256]).result()
            longer[number].write(frames[number]).result()
        longer.resize(exclusive_max=few.shape).result()

    def others() -> None:
        for number in range(len(few), len(frames)):
            by_zarr.append(frames[number : number + 1])
        by_zarr.resize(few.shape)

    return {"zvcore": we, "tensorstore": they, "zarr": others}


TASKS: list[tuple[str, tuple[str, ...], Callable[[float], Calls]]] = [
    ("make an array", ALL, making),
    ("read a chunk of an array that was sent by pickle", ALL, sent),
    (f"list a group of {MEMBERS} arrays", TWO, listing),
    (f"open {MEMBERS} arrays of a group", TWO, opening_members),
    ("open a dataset of xarray", TWO, opening_datasets),
    (f"set an attribute {FRAMES} times", TWO, setting),
    (f"append {FRAMES} frames", ALL, growing),
]


def clear(delay: float) -> None:
    """What was made: the server looks through all that it has for each list."""
    empty(server(delay).endpoint, "made")


CONTESTS = [
    Contest(f"{what} in a bucket{distance}", who, partial(make, delay), clearing=partial(clear, delay))
    for what, who, make in TASKS
    for distance, delay in (("", 0.0), (" 5 ms away", FAR))
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Iterator[None]:
    yield
    end()
    put.cache_clear()


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
