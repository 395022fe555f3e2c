"""Shards that are written part by part are the same as those that are written as a whole."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from zvcore.engine import Buffers
from zvcore.errors import CorruptDataError
from zvcore.precomputed import ShardingSpec
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def values_of(shape: tuple[int, ...]) -> np.ndarray:
    """Noise with holes as large as several chunks, of which nothing is stored."""
    rng = np.random.default_rng(list(shape))
    values = rng.integers(0, 40, shape, "uint8")
    for start in itertools.product(*(range(0, n, 16) for n in shape)):
        if rng.random() < 0.3:
            values[tuple(slice(i, i + 16) for i in start)] = 0
    return values


def spec(hash: str, preshift: int, minishard: int, shard: int, data: str = "gzip") -> dict[str, Any]:
    return ShardingSpec(preshift, hash, minishard, shard, "gzip", data).to_json()


SHARDINGS = {
    "one shard": spec("identity", 4, 8, 0),
    "shards are boxes": spec("identity", 2, 3, 7, "raw"),
    "a chunk in each minishard": spec("identity", 0, 6, 6),
    "no boxes": spec("identity", 2, 3, 4),
    "hashed": spec("murmurhash3_x86_128", 1, 2, 2),
}


@pytest.mark.parametrize("shape", [(64, 64, 64), (70, 33, 41), (9, 100, 8), (7, 7, 7)], ids=str)
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_volumes(tmp_path, shape, sharding):
    """Parts of several chunks, of one, and shards as a whole: the same files."""
    values = values_of(shape)
    source = zvcore.create(tmp_path / "src", format="n5", shape=shape, dtype="u1", chunks=(8, 8, 8), codec="gzip")
    source[...] = values
    found = []
    for number, memory in enumerate((1 << 30, 8 * 4096, 1)):
        target = tmp_path / str(number)
        report = zvcore.convert(
            source, target, format="precomputed", sharding=SHARDINGS[sharding], memory=memory,
            chunks=(8, 8, 8), verify=True,
        )  # fmt: skip
        assert report.verified and not report.problems
        found.append(files(target))
        assert report.bytes_out == sum(len(data) for name, data in found[-1].items() if name.endswith(".shard"))
    assert found[0] == found[1] == found[2]
    path = {"driver": "file", "path": str(tmp_path / "1")}
    theirs = tensorstore.open({"driver": "neuroglancer_precomputed", "kvstore": path}).result()
    np.testing.assert_array_equal(theirs[..., 0].read().result(), values)


@pytest.mark.parametrize("codec", ["raw", "gzip", "zstd"])
def test_encoded_again(tmp_path, codec):
    """Chunks of another grid, another type and another codec, of a Zarr array with another order of axes."""
    values = values_of((50, 40, 45))
    source = zvcore.create(tmp_path / "src", format="zarr3", shape=values.shape, dtype="u1", chunks=(16, 12, 20))
    source[...] = values
    for format, options in (
        ("precomputed", {"sharding": spec("identity", 3, 6, 0, "raw" if codec == "zstd" else codec)}),
        ("zarr3", {"shards": (64, 48, 48), "codec": [] if codec == "raw" else codec}),
    ):
        for memory in (1 << 30, 8 * 4096):
            report = zvcore.convert(
                source, tmp_path / f"{format}-{memory}", format=format, chunks=(8, 8, 8), dtype="uint16", memory=memory,
                verify=True, **options,
            )  # fmt: skip
            assert report.verified and report.encoded and not report.problems
            stored = files(tmp_path / f"{format}-{memory}").items()
            # Zarr's chunks lie in c/, the scales of a volume have names of their own.
            assert report.bytes_out == sum(len(data) for name, data in stored if "/" in name and "json" not in name)
        whole, parts = (zvcore.open(tmp_path / f"{format}-{memory}") for memory in (1 << 30, 8 * 4096))
        if format == "precomputed":
            assert files(tmp_path / f"{format}-{1 << 30}") == files(tmp_path / f"{format}-{8 * 4096}")
            whole, parts = whole[0], parts[0]
        np.testing.assert_array_equal(whole[...], parts[...])


def test_a_broken_chunk_leaves_no_shard(tmp_path):
    values = values_of((64, 64, 64))
    source = zvcore.create(
        tmp_path / "src", format="n5", shape=values.shape, dtype="u1", chunks=(8, 8, 8), codec="gzip"
    )
    source[...] = values
    chunk = max((tmp_path / "src/7/7").iterdir())
    chunk.write_bytes(chunk.read_bytes()[:40])
    with pytest.raises(CorruptDataError):
        zvcore.convert(
            source, tmp_path / "dst", format="precomputed", chunks=(16, 16, 16), memory=8 * 4096,
            sharding=spec("identity", 3, 6, 0),
        )  # fmt: skip
    assert not [name for name in files(tmp_path / "dst") if "shard" in name or "zvtmp" in name]


@pytest.mark.parametrize("kind", [LocalStore, MemoryStore])
def test_a_shard_without_chunks_is_none(tmp_path, kind):
    store = kind(tmp_path) if kind is LocalStore else kind()
    sharding = ShardingSpec(3, "identity", 3, 0)
    array = zvcore.create(
        store, format="precomputed", shape=(32, 32, 32), dtype="u1", chunks=(8, 8, 8), sharding=sharding.to_json()
    )
    array[...] = 1
    key = array.layout.chunk_name((0, 0, 0, 0))
    assert store.exists(key)
    with array.layout.placement.stream(key):
        pass
    assert not store.exists(key)
    assert not array[...].any()


def test_chunks_come_in_order():
    array = zvcore.create(
        MemoryStore(), format="precomputed", shape=(32, 32, 32), dtype="u1", chunks=(8, 8, 8),
        sharding=ShardingSpec(3, "identity", 3, 0).to_json(),
    )  # fmt: skip
    array[...] = 1
    layout = array.layout
    key = layout.chunk_name((0, 0, 0, 0))
    with pytest.raises(ValueError, match="comes before"):
        with layout.placement.stream(key) as add:
            add(np.array([[1, 0, 0, 0]], np.int64), Buffers.of([b"one"]))
            add(np.array([[0, 0, 0, 0]], np.int64), Buffers.of([b"two"]))
    assert array[...].all()


@pytest.mark.parametrize("grid", [(8, 8, 8), (5, 9, 3), (1, 1, 7), (1, 1, 1), (33, 2, 4)], ids=str)
def test_runs_are_boxes_in_order(grid):
    """The boxes of each shard give its ids one after the other, whatever fits into one."""
    places = np.array(list(np.ndindex(*grid)), np.int64)
    ids = zvcore.kernels.compressed_morton(places, grid)
    total = sum(int(n - 1).bit_length() for n in grid)
    for inside in range(total + 2):
        sharding = ShardingSpec(inside // 2, "identity", inside - inside // 2, max(0, total - inside))
        shards, _ = sharding.locate(ids)
        for shard in np.unique(shards).tolist():
            expected = sorted(ids[shards == shard].tolist())
            for chunks in (1, 2, 3, 8, 64, 10**6):
                found = []
                for box in sharding.runs(grid, shard, chunks):
                    within = np.array(list(itertools.product(*(range(*span) for span in box))), np.int64)
                    assert 0 < len(within) <= chunks
                    found.extend(sorted(zvcore.kernels.compressed_morton(within, grid).tolist()))
                assert found == expected
