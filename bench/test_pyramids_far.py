"""Coarser levels of an image in a bucket, near and 5 ms away, beside tensorstore, which makes them by `downsample`.

    pytest bench/test_pyramids_far.py --benchmark-enable
    python -m bench.test_pyramids_far [word]

A Zarr v3 array of a chunk per object becomes an image of two coarser levels whose finest is the array as it is stored.
tensorstore copies the objects by its key-value store, all at once. The server is the small one of `test_objectstore`.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.s3_server import empty
from bench.scale import pick
from bench.test_buckets import FAR, end, place_for_tensorstore, server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIDE = pick(256, 64)
CHUNK = SIDE // 4
LEVELS = 2
KINDS = {"8 bits": ("em", "u1"), "16 bits": ("em", "u2")}


@cache
def source(kind: str, delay: float) -> str:
    data, dtype = KINDS[kind]
    place = f"image-{kind.replace(' ', '-')}"
    tile = min(SIDE, 128)
    values = np.tile(volume(data, (tile,) * 3).astype(dtype), [SIDE // tile] * 3)
    array = zvcore.create(
        f"s3://bucket/{place}", format="zarr3", shape=values.shape, dtype=dtype, chunks=(CHUNK,) * 3, codec="zstd",
        storage_options=server(delay).options,
    )  # fmt: skip
    array[...] = values
    return place


def pyramid(kind: str, delay: float) -> dict[str, Callable[[], Any]]:
    place, options = source(kind, delay), server(delay).options

    def we() -> None:
        here, there = f"s3://bucket/{place}", "s3://bucket/made/ours"
        zvcore.convert(here, there, format="zarr3", levels=LEVELS, storage_options=options)

    def they() -> None:
        here = tensorstore.KvStore.open(place_for_tensorstore(delay, place)).result()
        there = tensorstore.KvStore.open(place_for_tensorstore(delay, "made/theirs/0")).result()
        names = here.list().result()
        found = [here.read(name) for name in names]
        for done in [there.write(name, one.result().value) for name, one in zip(names, found, strict=True)]:
            done.result()
        for level in range(1, LEVELS + 1):
            finer = {"driver": "zarr3", "kvstore": place_for_tensorstore(delay, f"made/theirs/{level - 1}")}
            view = {"driver": "downsample", "base": finer, "downsample_factors": [2] * 3, "downsample_method": "mean"}
            shown = tensorstore.open(view, read=True).result()
            metadata = {
                "shape": shown.shape, "data_type": shown.dtype.name,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK] * 3}},
                "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 3}}],
            }  # fmt: skip
            kvstore = place_for_tensorstore(delay, f"made/theirs/{level}")
            spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata, "create": True}
            tensorstore.open(spec).result().write(shown).result()

    return {"zvcore": we, "tensorstore": they}


def clear(delay: float) -> None:
    empty(server(delay).endpoint, "made")


CONTESTS = [
    Contest(
        f"{LEVELS} coarser of {kind} in a bucket{distance}", ("zvcore", "tensorstore"), partial(pyramid, kind, delay),
        clearing=partial(clear, delay),
    )
    for kind in KINDS
    for distance, delay in (("", 0.0), (" 5 ms away", FAR))
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Iterator[None]:
    yield
    end()
    source.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
