"""Real images and tracts (bench/measured.py), written and read whole beside the other implementations.

pytest bench/test_measured.py --benchmark-enable
python -m bench.test_measured [words of a row]
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from bench import pipelines
from bench.contest import Contest, entrants, run_alone
from bench.measured import IMAGES, stacked, tracts
from bench.scale import pick
from zvcore import zvf

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from zarr_vectors.types.polylines import read_polylines, write_polylines

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")

COPIES = pick(32, 2)
COPIES_OF_TRACTS = pick(10, 1)
BY_ZARR = ("zarrs", "zarr")
PEERS = ("zvcore", "tensorstore", *BY_ZARR)
CODECS: dict[str, dict[str, Any]] = {
    "zstd": {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
    "gzip": {"name": "gzip", "configuration": {"level": 5}},
    "blosc": {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}},
}


@cache
def folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def made(kind: str, codec: str, name: str) -> Path:
    """An empty array of a shard for four images, whose chunks are a quarter of an image each."""
    path = folder() / f"{kind}-{codec}-{name}"
    values = stacked(kind, COPIES)
    image = values.shape[1:]
    config = CODECS[codec]
    if codec == "blosc":
        config = {**config, "configuration": {**config["configuration"], "typesize": values.itemsize}}
    zvcore.create(
        path, format="zarr3", shape=values.shape, dtype=values.dtype, fill_value=0, overwrite=True,
        chunks=(1, image[0] // 2, image[1] // 2, image[2]), shards=(min(4, COPIES), *image),
        codec=[zvcore.codecs.from_zarr3(config)],
    )  # fmt: skip
    return path


def opened(path: Path, who: str) -> Any:
    if who in BY_ZARR:
        return pipelines.opened(path, who, "r+")
    if who == "zvcore":
        return zvcore.open(path, mode="r+")
    context = {"cache_pool": {"total_bytes_limit": 0}, "file_io_sync": False}
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}, "context": context}
    return tensorstore.open({**spec, "recheck_cached_data": "open"}, open=True, read=True, write=True).result()


def writing(kind: str, codec: str) -> dict[str, Callable[[], Any]]:
    values = stacked(kind, COPIES)
    arrays = {who: opened(made(kind, codec, who), who) for who in PEERS}
    return {
        "zvcore": partial(arrays["zvcore"].__setitem__, ..., values),
        "tensorstore": lambda: arrays["tensorstore"].write(values).result(),
        **{who: pipelines.within(who, partial(arrays[who].__setitem__, ..., values)) for who in BY_ZARR},
    }


def reading(kind: str, codec: str) -> dict[str, Callable[[], Any]]:
    path = made(kind, codec, "read")
    opened(path, "zvcore")[...] = stacked(kind, COPIES)
    arrays = {who: opened(path, who) for who in PEERS}
    calls: dict[str, Callable[[], Any]] = {
        "zvcore": partial(arrays["zvcore"].__getitem__, ...),
        "tensorstore": lambda: arrays["tensorstore"].read().result(),
        **{who: pipelines.within(who, partial(arrays[who].__getitem__, ...)) for who in BY_ZARR},
    }
    for who, call in calls.items():
        assert np.array_equal(call(), stacked(kind, COPIES)), f"{who} reads something else"
    return calls


# What the tracts are stored with: millimetres in cells of 40.
CELL = (40.0,) * 3


def writing_tracts(sharded: bool) -> dict[str, Callable[[], Any]]:
    lines = tracts(COPIES_OF_TRACTS)
    shards = 2 if sharded else None

    def run(who: str, write: Callable[..., Any]) -> None:
        path = folder() / f"tracts-{who}"
        shutil.rmtree(path, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write(path, lines, chunk_shape=CELL, shard_shape=shards)

    return {
        "zvcore": partial(run, "zvcore", zvf.write_polylines),
        "zarr-vectors": partial(run, "zarr-vectors", write_polylines),
    }


def reading_tracts(sharded: bool) -> dict[str, Callable[[], Any]]:
    path = folder() / f"tracts-{sharded}"
    if not path.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_polylines(path, tracts(COPIES_OF_TRACTS), chunk_shape=CELL, shard_shape=2 if sharded else None)
    return {"zvcore": lambda: zvf.open(path).level(0).read(), "zarr-vectors": lambda: read_polylines(path)}


BOTH = ("zvcore", "zarr-vectors")
CONTESTS = [
    *(
        contest
        for kind in IMAGES
        for codec in CODECS
        for contest in (
            Contest(f"write {kind}, {codec}", PEERS, partial(writing, kind, codec), writes=True),
            Contest(f"read {kind}, {codec}", PEERS, partial(reading, kind, codec)),
        )
    ),
    *(
        contest
        for sharded, words in ((False, ""), (True, ", sharded"))
        for contest in (
            Contest(f"write tracts{words}", BOTH, partial(writing_tracts, sharded), writes=True),
            Contest(f"read tracts{words}", BOTH, partial(reading_tracts, sharded)),
        )
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_measured(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
