"""Conversions into a bucket that end in the middle: what is there is whole, and they go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import finish, start
from tests.stores.servers import PATIENCE
from zvcore.errors import UnfinishedConversionWarning
from zvcore.stores import obstore_client, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request

CONVERTING = """
import json, sys
import zvcore
from zvcore.stores import obstore_client

obstore_client._MULTIPART_FROM = 12 << 20
zvcore.convert(sys.argv[1], sys.argv[2], threads=1, **json.loads(sys.argv[3]))
"""
# Shards of 20 MiB, which are uploaded in three parts once objects of 12 MiB are.
SHAPE, CHUNKS = (40, 1024, 1024), (20, 256, 256)
OPTIONS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3", "shards": [20, 1024, 1024], "codec": []},
    "precomputed": {
        "format": "precomputed",
        "codec": "raw",
        # Both halves, of 16 chunks, are a shard.
        "sharding": {
            "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": 2, "minishard_bits": 2,
            "shard_bits": 1, "minishard_index_encoding": "raw", "data_encoding": "raw",
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("format", OPTIONS)
def test_killed_within_an_upload(s3: S3, proxy: Proxy, tmp_path: Path, format: str) -> None:
    """The process dies when the second shard is half way up: no reader sees a part of it."""
    values = np.random.default_rng(0).integers(1, 256, SHAPE, dtype=np.uint8)
    source = zvcore.create(tmp_path / "src", format="zarr3", shape=SHAPE, dtype="u1", chunks=CHUNKS, codec=[])
    source[...] = values
    url = s3.url(f"killed-{uuid.uuid4()}")
    options = {**OPTIONS[format], "memory": 8 << 20}
    given = json.dumps({**options, "storage_options": s3.options})
    uploads: list[str] = []

    def spoil(request: Request) -> Any:
        if request.method != "PUT" or "partNumber=" not in request.path:
            return None
        name = request.path.split("?")[0]
        if name not in uploads:
            uploads.append(name)
        if len(uploads) == 2 and "partNumber=1&" not in f"{request.path}&":
            os.kill(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
            return "reset"
        return None

    proxy.spoil = spoil
    with subprocess.Popen([sys.executable, "-c", CONVERTING, str(tmp_path / "src"), url, given]) as process:
        assert process.wait(PATIENCE) == -signal.SIGKILL
    proxy.spoil = None
    assert len(uploads) == 2
    left = [key for key in open_store(url, "r", s3.options).list() if not key.endswith(".json") and key != "info"]
    assert len(left) == 1
    report = zvcore.verify(url, storage_options=s3.options)
    with pytest.warns(UnfinishedConversionWarning, match="of 2 units"):
        zvcore.open(url, storage_options=s3.options)
    assert zvcore.inspect(url, storage_options=s3.options)["unfinished"]["units"] == 2
    assert report.status == "unfinished" and all(problem.status == "unfinished" for problem in report.problems)
    assert report.counts["chunks" if format == "zarr3" else "values"] == 16
    report = zvcore.convert(tmp_path / "src", url, **options, verify=True, storage_options=s3.options)
    # Whether the first shard had been noted when the second was half way up is a matter of luck.
    assert report.ok and report.verified and report.units == 2 and report.resumed <= 1
    array = zvcore.open(url, storage_options=s3.options)
    found = array[...] if format == "zarr3" else array[0][..., 0].T
    np.testing.assert_array_equal(found, values)
    assert ".zvcore-convert.json" not in open_store(url, "r", s3.options).list()


def test_an_upload_that_fails_for_good(s3: S3, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses one part again and again: an error that names the shard, which is not there."""
    monkeypatch.setattr(obstore_client, "_MULTIPART_FROM", 12 << 20)
    values = np.random.default_rng(0).integers(1, 256, (20, 1024, 1024), dtype=np.uint8)
    source = zvcore.create(tmp_path / "src", format="zarr3", shape=values.shape, dtype="u1", chunks=CHUNKS, codec=[])
    source[...] = values
    url = s3.url(f"refused-{uuid.uuid4()}")
    proxy.spoil = lambda request: 403 if request.method == "PUT" and "partNumber=2" in request.path else None
    options = {"format": "zarr3", "shards": (20, 1024, 1024), "codec": [], "memory": 8 << 20}
    with pytest.raises(Exception, match="c/0/0/0"):
        zvcore.convert(source, url, **options, storage_options=s3.options)
    proxy.spoil = None
    store = open_store(url, "r", s3.options)
    assert sorted(store.list()) == [".zvcore-convert.json", "zarr.json"]
    assert zvcore.convert(source, url, **options, storage_options=s3.options, verify=True).verified


PART = """
import json, sys
import zvcore

print(zvcore.convert(sys.argv[1], sys.argv[2], part=sys.argv[4], **json.loads(sys.argv[3])).waiting)
"""


def test_parts_that_begin_at_once_in_a_bucket_make_one_array(s3_process: S3, tmp_path: Path) -> None:
    """There are no locks: who is second tries again, and only one closes it."""
    values = np.random.default_rng(0).integers(1, 256, (64, 64, 64), dtype=np.uint8)
    source = zvcore.create(tmp_path / "src", format="zarr3", shape=values.shape, dtype="u1", chunks=(16, 16, 16))
    source[...] = values
    url = s3_process.url(f"parts-{uuid.uuid4()}")
    options = {
        "format": "zarr3", "shards": [32, 32, 32], "chunks": [8, 8, 8], "memory": 1 << 18, "levels": 1,
        "storage_options": s3_process.options,
    }  # fmt: skip
    running = [start(PART, tmp_path / "src", url, json.dumps(options), f"{number}/3") for number in (1, 2, 3)]
    assert "None" in [finish(process).strip() for process in running]
    made = zvcore.open(url, storage_options=s3_process.options)
    assert np.array_equal(made["0"][...], values)
    assert zvcore.verify(url, storage_options=s3_process.options).ok
    store = open_store(url, "r", s3_process.options)
    assert not [key for key in store.list() if ".zvcore-convert." in key]


def test_what_lies_in_an_unfinished_conversion_is_opened_with_the_warning(s3: S3, proxy: Proxy, tmp_path: Path) -> None:
    source = zvcore.create(tmp_path / "src", format="zarr3", shape=(32, 32, 32), dtype="u1", chunks=(8, 8, 8))
    source[...] = 7
    url = s3.url(f"{uuid.uuid4()}/deep/image")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"format": "zarr3", "levels": 1, "memory": 1 << 14, "storage_options": s3.options}
    with pytest.raises(KeyboardInterrupt):
        zvcore.convert(tmp_path / "src", url, **options, progress=interrupt, threads=1)
    level = next(iter(zvcore.inspect(url, storage_options=s3.options)["members"]))
    with pytest.warns(UnfinishedConversionWarning, match=f"^{url}: an unfinished conversion"):
        zvcore.open(f"{url}/{level}", storage_options=s3.options)
    with pytest.warns(UnfinishedConversionWarning, match=f"^{url}: an unfinished conversion"):
        zvcore.open(open_store(url, "r", s3.options).child(level))
    zvcore.convert(tmp_path / "src", url, **options)
    proxy.forget()
    assert (zvcore.open(f"{url}/{level}", storage_options=s3.options)[...] == 7).all()
    asked = [one.key.rpartition("/")[0] for one in proxy.requests if ".zvcore-convert.json" in one.key]
    # Once in each folder up to the bucket.
    assert len(asked) == len(set(asked)) == 5


def test_how_far_above_a_place_is_asked_is_bounded(s3: S3, proxy: Proxy) -> None:
    url = s3.url("/".join([str(uuid.uuid4()), *"abcdefghijklmnop"]))
    array = zvcore.create(url, format="zarr3", shape=(4,), dtype="u1", chunks=(4,), storage_options=s3.options)
    array[...] = 1
    proxy.forget()
    zvcore.open(url, storage_options=s3.options)
    assert sum(".zvcore-convert.json" in one.key for one in proxy.requests) == 9
    above = [one.root for one in open_store(url, "r", s3.options).above()]
    assert above == [url.rsplit("/", depth)[0] for depth in range(1, 9)]


@pytest.mark.parametrize("shards", [(16, 64, 64), (16, 48, 48)], ids=["chunks fit", "chunks are gathered"])
def test_each_shard_is_one_request(s3: S3, proxy: Proxy, tmp_path: Path, shards: tuple[int, ...]) -> None:
    """What was written is not asked for again to be counted."""
    values = np.random.default_rng(0).integers(0, 256, (16, 128, 128), dtype=np.uint8)
    values[:, :32, :32] = 0
    source = zvcore.create(tmp_path / "src", format="zarr3", data=values, chunks=(16, 32, 32), codec="gzip")
    url = s3.url(f"counted-{uuid.uuid4()}")
    chunks = tuple(extent // 2 for extent in shards)
    asked: list[tuple[str, str]] = []

    def note(request: Request) -> None:
        asked.append((request.method, request.path.split("?")[0]))

    proxy.spoil = note
    report = zvcore.convert(
        source, url, format="zarr3", shards=shards, chunks=chunks, codec="zstd", storage_options=s3.options
    )
    proxy.spoil = None
    of_shards = [(method, path) for method, path in asked if "/c/" in path]
    array = zvcore.open(url, storage_options=s3.options)
    np.testing.assert_array_equal(array[...], values)
    stored = [key for key in array.store.list() if key.startswith("c/")]
    assert sorted(method for method, _ in of_shards) == ["PUT"] * len(stored)
    assert len({path for _, path in of_shards}) == len(stored)
    empty = sum(not values[place].any() for place in _places(values.shape, chunks))
    grid = [-(-extent // chunk) for extent, chunk in zip(values.shape, chunks, strict=True)]
    assert (report.encoded, report.empty) == (int(np.prod(grid)) - empty, empty)


def _places(shape: tuple[int, ...], chunks: tuple[int, ...]) -> list[tuple[slice, ...]]:
    starts = np.ndindex(*(-(-extent // chunk) for extent, chunk in zip(shape, chunks, strict=True)))
    return [tuple(slice(n * chunk, (n + 1) * chunk) for n, chunk in zip(at, chunks, strict=True)) for at in starts]


SOURCES: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3", "codec": "zstd"},
    "volume": {"format": "precomputed", "codec": "raw"},
    "shards": {"format": "zarr3", "shards": (32, 32, 32), "codec": "zstd"},
    "zarr2": {"format": "zarr2", "codec": "blosc"},
    "n5": {"format": "n5", "codec": "gzip"},
}


def far_source(s3: S3, kind: str) -> tuple[zvcore.Array, np.ndarray]:
    """An array in the bucket without some of its chunks."""
    values = np.random.default_rng(0).integers(1, 60000, (70, 64, 64), dtype=np.uint16)
    values[:16, :16] = 0
    url = s3.url(f"levels-{uuid.uuid4()}")
    made = zvcore.create(
        url, shape=values.shape, dtype="u2", chunks=(16, 16, 16), storage_options=s3.options, **SOURCES[kind]
    )
    array = made if isinstance(made, zvcore.Array) else made[0]
    array[...] = values[..., np.newaxis] if array.ndim == 4 else values
    return array, values


@pytest.mark.parametrize("kind", SOURCES)
def test_levels_are_made_of_chunks_that_are_fetched_once(s3: S3, proxy: Proxy, tmp_path: Path, kind: str) -> None:
    """What is taken over as it is stored is decoded for the coarser levels, and not asked for again."""
    array, values = far_source(s3, kind)
    format = SOURCES[kind]["format"]
    url = array.store.address.removesuffix("/1_1_1")
    proxy.forget()
    report = zvcore.convert(url, tmp_path / "far", format=format, levels=2, storage_options=s3.options)
    # Names of chunks and shards end with a number, those of documents do not.
    chunks = [
        (one.key, one.headers.get("range")) for one in proxy.requests if one.method == "GET" and one.key[-1:].isdigit()
    ]
    assert chunks and len(chunks) == len({*chunks})
    assert report.copied == 5 * 4 * 4 - 4
    zvcore.create(
        tmp_path / "near", data=values if array.ndim == 3 else values[..., np.newaxis], chunks=(16, 16, 16),
        **SOURCES[kind],
    )  # fmt: skip
    zvcore.convert(tmp_path / "near", tmp_path / "same", format=format, levels=2)
    one, other = zvcore.open(tmp_path / "far").children(), zvcore.open(tmp_path / "same").children()
    assert [*one] == [*other] and len(one) == 3
    for name in one:
        np.testing.assert_array_equal(one[name][...], other[name][...])


def test_levels_of_a_damaged_chunk_are_not_made(s3: S3, tmp_path: Path) -> None:
    array, _ = far_source(s3, "zarr3")
    array.store.put("c/2/2/2", b"damaged")
    with pytest.raises(zvcore.errors.CorruptDataError, match="c/2/2/2"):
        zvcore.convert(array.store.address, tmp_path / "far", format="zarr3", levels=1, storage_options=s3.options)
    assert zvcore.verify(tmp_path / "far").status == "unfinished"
