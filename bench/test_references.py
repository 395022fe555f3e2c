"""References of kerchunk's kind to the chunks of an HDF5 file, here, on a web server, and on one 5 ms away.

    pytest bench/test_references.py --benchmark-enable         times
    python -m bench.test_references [word]                     ratios, all taking turns

All read through the same file system of fsspec: zvcore what it opens itself, zarr-python with its own pipeline and with
zvcore's. The server is the small one of `test_objectstore`.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import fsspec
import h5py
import numpy as np
import pytest
import zarr
from zarr.storage import FsspecStore

import zvcore
import zvcore.zarr3
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.pipelines import PIPELINES, within
from bench.scale import pick
from bench.scratch import scratch
from bench.test_buckets import FAR, end, upload_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SIDE = pick(256, 64)
CHUNK = SIDE // 4
# None: in a file here.
WHERE: dict[str, float | None] = {"": None, " on a web server": 0.0, " on a web server 5 ms away": FAR}
PARTS: dict[str, Any] = {"all": np.s_[...], "a plane": np.s_[SIDE // 3], "a chunk": np.s_[:CHUNK, :CHUNK, :CHUNK]}
WAYS = {"zvcore": None, "zarr+zvcore": "zarr+zvcore", "zarr": "zarr"}


@cache
def file() -> Path:
    path = scratch() / "referred-to.h5"
    tile = min(SIDE, 128)
    values = np.tile(volume("em", (tile,) * 3), [SIDE // tile] * 3).astype("<u2") * 16
    with h5py.File(path, "w") as made:
        made.create_dataset("d", data=values, chunks=(CHUNK,) * 3, compression="gzip", compression_opts=3)
    return path


@cache
def references(delay: float | None) -> Any:
    text = json.dumps(zvcore.references(file()))
    if delay is not None:
        url = upload_whole(delay, file().read_bytes(), "referred-to.h5")
        text = text.replace(f"file://{file()}", url).replace(str(file()), url)
    return json.loads(text)


def opened(who: str, delay: float | None) -> Any:
    protocol, loops = "file" if delay is None else "http", who != "zvcore"
    filesystem = fsspec.filesystem(
        "reference", fo=references(delay), remote_protocol=protocol, asynchronous=loops,
        remote_options={"asynchronous": loops}, skip_instance_cache=True,
    )  # fmt: skip
    if not loops:
        return zvcore.open(filesystem.get_mapper("d"))
    with zarr.config.set({"codec_pipeline.path": PIPELINES[who]}):
        return zarr.open_array(FsspecStore(filesystem, read_only=True), path="d", mode="r", zarr_format=2)


def reading(part: str, delay: float | None) -> dict[str, Callable[[], Any]]:
    def read(who: str, way: str | None) -> Callable[[], Any]:
        call = partial(opened(who, delay).__getitem__, PARTS[part])
        return call if way is None else within(way, call)

    return {who: read(who, way) for who, way in WAYS.items()}


CONTESTS = [
    Contest(f"read {part} of references to HDF5{where}", tuple(WAYS), partial(reading, part, delay))
    for part in PARTS
    for where, delay in WHERE.items()
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Iterator[None]:
    yield
    end()
    references.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
