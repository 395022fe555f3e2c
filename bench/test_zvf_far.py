"""Lines in Zarr Vectors on a web server 5 ms away, beside zarr-vectors.

    pytest bench/test_zvf_far.py --benchmark-enable      times
    python -m bench.test_zvf_far [word]                  ratios, the competitors taking turns

The server is that of `test_web`.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import obstore.store
import pytest
import zarr.storage

from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.test_buckets import FAR, end, server, upload
from zvcore import zvf

if TYPE_CHECKING:
    from collections.abc import Callable

LINES = pick(3000, 100)
WANTED = list(range(0, LINES, pick(150, 20)))
BOX = ((10, 10, 10), (60, 60, 60))
Functions = dict[str, "Callable[[], Any]"]


@cache
def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="zvcore-bench-"))


@cache
def address(kind: str) -> str:
    """Where on the server the store lies, in shards or not."""
    generator = np.random.default_rng(0)
    lines = [
        np.cumsum(generator.normal(0, 2, (60, 3)), 0, np.float32) + generator.uniform(0, 200, 3).astype("f4")
        for _ in range(LINES)
    ]
    folder = scratch() / kind
    zvf.write_polylines(folder, lines, chunk_shape=(50, 50, 50))
    if kind == "shards":
        zvf.shard_store(folder)
    return f"{server(FAR).endpoint}/bucket/{upload(FAR, folder, f'lines in {kind}')}"


def theirs(kind: str) -> Any:
    from zarr_vectors.building import open_store as open_theirs

    # By itself it makes a store of obstore's too, which refuses what is not encrypted.
    store = obstore.store.HTTPStore.from_url(address(kind), client_options={"allow_http": True})
    return open_theirs(zarr.storage.ObjectStore(store, read_only=True))


def by_zarr_vectors(store: Any, **what: Any) -> Any:
    from zarr_vectors.types.polylines import read_polylines

    return read_polylines(store, **what)


def first(kind: str) -> Functions:
    wanted = WANTED[1]
    return {
        "zvcore": lambda: zvf.open(address(kind)).level(0).read_object(wanted),
        "zarr-vectors": lambda: by_zarr_vectors(theirs(kind), object_ids=[wanted]),
    }


def several(kind: str) -> Functions:
    level, store = zvf.open(address(kind)).level(0), theirs(kind)
    return {
        "zvcore": lambda: level.read_objects(WANTED),
        "zarr-vectors": lambda: by_zarr_vectors(store, object_ids=WANTED),
    }


def box(kind: str) -> Functions:
    level, store = zvf.open(address(kind)).level(0), theirs(kind)
    corners = tuple(np.array(corner, float) for corner in BOX)
    return {
        "zvcore": lambda: level.read_bbox(*BOX),
        "zarr-vectors": lambda: by_zarr_vectors(store, bbox=corners),
    }


PEERS = ("zvcore", "zarr-vectors")
CONTESTS = [
    Contest(f"{what} {kind}, 5 ms away", PEERS, partial(make, kind))
    for kind in ("files", "shards")
    for what, make in (
        ("open a store and read a line in", first),
        (f"read {len(WANTED)} lines in", several),
        ("read the lines of a box in", box),
    )
]
# If the peer is installed.
CONTESTS = CONTESTS if importlib.util.find_spec("zarr_vectors") else []


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    end()
    address.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS, seconds=8.0)
    finally:
        end()
        shutil.rmtree(scratch(), ignore_errors=True)
