"""Less usual data and places: shards within shards, strings, filters, object stores; and what memory a look takes."""

from __future__ import annotations

import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
import zvcore.zvf as zvf
from tests.stores.servers import S3, best_server, s3_server
from zvcore.precomputed import ShardingSpec
from zvcore.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = np.random.default_rng(2).integers(1, 80, (32, 32)).astype("u2")
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
GZIP = {"name": "gzip", "configuration": {"level": 1}}


def shard(chunk: list[int], codecs: list[Any]) -> dict[str, Any]:
    configuration = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": [LITTLE, CRC], "index_location": "end"}
    return {"name": "sharding_indexed", "configuration": configuration}


def with_codecs(path: Path, codecs: list[Any]) -> zvcore.Array:
    """An array of which each object holds 16 x 16 items, by these codecs."""
    import json

    zvcore.create(path, format="zarr3", shape=(32, 32), dtype="u2", chunks=(16, 16))
    document = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps({**document, "codecs": codecs}))
    return zvcore.open(path, "r+")


@pytest.mark.parametrize("codecs", [
    [shard([8, 8], [shard([4, 4], [LITTLE, GZIP])])],
    [shard([8, 8], [LITTLE, GZIP]), GZIP],
    [shard([8, 8], [LITTLE, CRC]), CRC],
], ids=["nested", "compressed", "checked"])  # fmt: skip
def test_shards_that_are_read_as_a_whole(tmp_path: Path, codecs: list[Any]) -> None:
    with_codecs(tmp_path / "a", codecs)[...] = VALUES
    report = zvcore.verify(tmp_path / "a")
    assert report.problems == []
    assert report.counts["chunks"] in (16, 64)
    file = tmp_path / "a" / "c" / "1" / "0"
    whole = file.read_bytes()
    unseen = 0
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        report = zvcore.verify(tmp_path / "a")
        unseen += report.ok
        for problem in report.problems:
            assert problem.where == "c/1/0"
    # gzip's headers have bytes without a meaning.
    assert unseen <= 12
    file.write_bytes(whole[: len(whole) // 2])
    assert not zvcore.verify(tmp_path / "a").ok
    report = zvcore.repair(tmp_path / "a")
    assert report.losses
    assert zvcore.verify(tmp_path / "a").problems == []
    found = zvcore.open(tmp_path / "a")[...]
    assert np.array_equal(found[:16], VALUES[:16]) and np.array_equal(found[16:, 16:], VALUES[16:, 16:])


def test_one_chunk_of_shards_within_shards(tmp_path: Path) -> None:
    with_codecs(tmp_path / "a", [shard([8, 8], [shard([4, 4], [LITTLE, CRC])])])[...] = VALUES
    file = tmp_path / "a" / "c" / "0" / "1"
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    file.write_bytes(data)
    [problem] = zvcore.verify(tmp_path / "a", fast=True).problems
    assert problem.chunk == (0, 4)
    report = zvcore.repair(tmp_path / "a")
    assert report.counts["chunks dropped"] == 1
    found = zvcore.open(tmp_path / "a")[...]
    assert not found[:4, 16:20].any()
    found[:4, 16:20] = VALUES[:4, 16:20]
    assert np.array_equal(found, VALUES)


@pytest.mark.parametrize("options", [
    {"dtype": np.dtypes.StringDType()},
    {"dtype": np.dtypes.StringDType(), "shards": (8,)},
    {"dtype": "i4", "filters": [{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}]},
], ids=["strings", "strings in shards", "filter"])  # fmt: skip
def test_chunks_that_only_python_can_decode(tmp_path: Path, options: dict[str, Any]) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(16,), chunks=(4,), codec=None, **options)
    array[...] = np.arange(16).astype(array.dtype)
    assert zvcore.verify(tmp_path / "a").problems == []
    file = tmp_path / "a" / "c" / "1"
    data = file.read_bytes()
    file.write_bytes(b"\xff" * 5 + data[5:] if options["dtype"] != "i4" else data[:-3])
    report = zvcore.verify(tmp_path / "a")
    assert not report.ok
    assert report.problems[0].where == "c/1"
    zvcore.repair(tmp_path / "a")
    assert zvcore.verify(tmp_path / "a").ok


# --- places


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(best_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=["memory", "s3"])
def place(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """(address, storage_options)"""
    name = uuid.uuid4().hex
    if request.param == "memory":
        return f"memory://{name}", {}
    server = request.getfixturevalue("server")
    return server.url(name), {"storage_options": server.options}


@pytest.mark.filterwarnings("ignore")
def test_other_stores_than_folders(place: tuple[str, dict[str, Any]]) -> None:
    address, options = place
    spec = ShardingSpec(0, "identity", 1, 1, "gzip", "gzip")
    for name, given in {
        "zarr": {"format": "zarr3", "shards": (16, 16, 8), "codec": "gzip"},
        "n5": {"format": "n5", "codec": "gzip"},
        "volume": {"format": "precomputed", "sharding": spec, "key": "8"},
    }.items():
        array = zvcore.create(f"{address}/{name}", shape=(20, 16, 8), dtype="u2", chunks=(8, 8, 8), **given, **options)
        array[...] = 7
        assert zvcore.verify(f"{address}/{name}", **options).problems == []
        store = open_store(f"{address}/{name}", "r+", **options)
        key = next(key for key in store.list() if not key.endswith(("json", "info")))
        assert zvcore.inspect(f"{address}/{name}/{key}", **options)["size"] == store.size(key)
        data = bytes(store.get(key) or b"")
        store.put(key, data[:-9])
        [problem] = {problem.where for problem in zvcore.verify(f"{address}/{name}", **options).problems}
        assert problem == key
        assert not zvcore.verify(f"{address}/{name}/{key}", **options).ok
        zvcore.repair(f"{address}/{name}", **options)
        assert zvcore.verify(f"{address}/{name}", **options).ok
        assert bytes(store.get(f"{key}.bak") or b"") == data[:-9]


def test_what_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", f"memory://{uuid.uuid4().hex}/x"):
        for look in (zvcore.verify, zvcore.inspect, zvcore.repair, zvcore.compact):
            with pytest.raises(zvcore.errors.NotFoundError):
                look(path)
    (tmp_path / "photo.jpg").write_bytes(b"x")
    for path in (tmp_path, tmp_path / "photo.jpg"):
        [problem] = zvcore.verify(path).problems
        assert "no format" in problem.what
        with pytest.raises(zvcore.errors.UnsupportedError):
            zvcore.repair(path)


def test_a_copy_needs_a_place_of_its_own(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1")[...] = 1
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "something").write_bytes(b"x")
    with pytest.raises(zvcore.errors.ConflictError):
        zvcore.repair(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ValueError, match="where the original is"):
        zvcore.repair(tmp_path / "a", tmp_path / "a")


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("array", ["vertices", "vertex_fragments"])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_repair_of_vectors_gives_up_what_lost_a_part(tmp_path: Path, sharded: bool, array: str, copied: bool) -> None:
    lines = [np.full((3, 3), at, "f4") for at in (1, 12, 23, 34)]
    lines.append(np.array([[24, 24, 24], [26, 26, 26], [33, 33, 33]], "f4"))  # through two chunks
    path = tmp_path / "v"
    colours = [np.arange(len(line), dtype="f4") for line in lines]
    zvf.write_polylines(path, lines, chunk_shape=(10, 10, 10), vertex_attributes={"colour": colours})
    if sharded:
        zvf.shard_store(path, shard_shape=2)
    file = path / "0" / array / "c" / ("1/1/1" if sharded else "2/2/2")
    whole = file.read_bytes()
    if sharded:
        # Where the bytes of the chunk (2, 2, 2) lie, its shard says.
        name = f"0/{array}/c/1/1/1"
        damaged = bytearray(whole)
        damaged[zvcore.inspect(path / name)["map"][0][0]] ^= 255
        file.write_bytes(damaged)
    else:
        file.write_bytes(b"broken")
    assert not zvcore.verify(path).ok
    out = tmp_path / "copy" if copied else None
    report = zvcore.repair(path, out)
    fixed = path if out is None else out
    after = zvcore.verify(fixed)
    assert after.problems == [], str(after)
    assert [loss.chunk for loss in report.losses if loss.where == "0/object_index"] == [2, 4]
    level = zvf.open(fixed).level(0)
    for id in (0, 1, 3):
        assert np.array_equal(level.read_object(id), lines[id])
    for id in (2, 4):
        assert len(level.read_object(id)) == 0
    if not copied:
        assert file.with_name(file.name + ".bak").exists()


# --- memory

MEASURE = """
import resource, sys, zvcore
zvcore.precomputed, zvcore.zarr3, zvcore.n5
zvcore.verify(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert zvcore.verify(sys.argv[1], threads=2).ok
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="counts in other units there")
@pytest.mark.parametrize("options", [
    {"format": "zarr3", "codec": "zstd"},
    {"format": "zarr3", "codec": "zstd", "shards": (512, 512, 512)},
    {"format": "n5", "codec": "zstd"},
    {"format": "precomputed", "sharding": "advise"},
], ids=["zarr", "zarr shards", "n5", "precomputed"])  # fmt: skip
def test_memory_is_bounded(tmp_path: Path, options: dict[str, Any]) -> None:
    """512 MiB of values are looked at with a fraction of that."""
    for name, size in (("large", 512), ("small", 64)):
        array = zvcore.create(
            tmp_path / name, shape=(size, size, size * 2), dtype="u2", chunks=(64, 64, 64), **options
        )  # fmt: skip
        array[...] = 7
    answer = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "large"), str(tmp_path / "small")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(answer.stdout) / 1024 < 160, "MiB"
