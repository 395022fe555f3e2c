"""Sharded stores against tensorstore and CloudVolume: what either writes is read by the others, value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
from cloudvolume.cacheservice import CacheService
from cloudvolume.cloudvolume import SharedConfiguration
from cloudvolume.datasource.precomputed.common import compressed_morton_code
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification, ShardReader

from zvcore import kernels
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded

if TYPE_CHECKING:
    from pathlib import Path

SPECS = [
    ShardingSpec(0, "identity", 0, 0, "raw", "raw"),
    ShardingSpec(0, "identity", 0, 0, "gzip", "gzip"),
    ShardingSpec(1, "identity", 2, 3, "gzip", "raw"),
    ShardingSpec(1, "identity", 2, 3, "raw", "gzip"),
    ShardingSpec(9, "identity", 6, 15, "gzip", "gzip"),
    ShardingSpec(63, "identity", 1, 1, "gzip", "gzip"),
    ShardingSpec(0, "murmurhash3_x86_128", 3, 4, "gzip", "gzip"),
    ShardingSpec(0, "murmurhash3_x86_128", 0, 8, "raw", "raw"),
    ShardingSpec(6, "murmurhash3_x86_128", 11, 2, "gzip", "gzip"),
]


def name(spec: ShardingSpec) -> str:
    return "-".join(map(str, [spec.preshift_bits, spec.hash[:2], spec.minishard_bits, spec.shard_bits,
                              spec.minishard_index_encoding, spec.data_encoding]))  # fmt: skip


@pytest.fixture(params=SPECS, ids=name)
def spec(request: pytest.FixtureRequest) -> ShardingSpec:
    return request.param


@pytest.fixture
def values() -> dict[int, bytes]:
    generator = np.random.default_rng(3)
    ids = [0, 1, 7, 42, 255, 1822975381, 185457065798402451, 2**63, 2**64 - 2, 2**64 - 1]
    ids += generator.integers(0, 2**64, 60, np.uint64).tolist() + list(range(3000, 3060))
    return {int(id): generator.bytes(int(generator.integers(1, 50))) * int(generator.integers(1, 9)) for id in ids}


def by_tensorstore(folder: Path, spec: ShardingSpec) -> Any:
    return tensorstore.KvStore.open(
        {
            "driver": "neuroglancer_uint64_sharded",
            "metadata": spec.to_json(),
            "base": {"driver": "file", "path": f"{folder}/"},
        }
    ).result()


def key(id: int) -> bytes:
    return id.to_bytes(8, "big")


class Meta:
    def __init__(self, folder: Path) -> None:
        self.cloudpath = f"file://{folder}"


def by_cloud_volume(folder: Path, spec: ShardingSpec) -> ShardReader:
    config = SharedConfiguration(
        cdn_cache=False, compress=None, compress_level=None, green=False, mip=0, parallel=1, progress=False,
        secrets=None, spatial_index_db=None, cache_locking=False, codec_threads=1,
    )  # fmt: skip
    cache = CacheService(f"file://{folder}", False, config, Meta(folder))
    return ShardReader(f"file://{folder}", cache, ShardingSpecification.from_dict(spec.to_json()))


def test_tensorstore_reads_ours(tmp_path: Path, spec: ShardingSpec, values: dict[int, bytes]) -> None:
    write_sharded(tmp_path, spec, values)
    theirs = by_tensorstore(tmp_path, spec)
    reads = {id: theirs.read(key(id)) for id in values}
    assert {id: read.result().value for id, read in reads.items()} == values
    assert sorted(theirs.list().result()) == sorted(map(key, values))
    assert theirs.read(key(99)).result().state == "missing"


def test_ours_reads_tensorstore(tmp_path: Path, spec: ShardingSpec, values: dict[int, bytes]) -> None:
    theirs = by_tensorstore(tmp_path, spec)
    with tensorstore.Transaction() as transaction:
        for id, value in values.items():
            theirs.with_transaction(transaction)[key(id)] = value
    kv = ShardedStore(tmp_path, spec)
    assert dict(kv) == values
    assert kv.get_many(values) == values
    assert all(kv[id] == value for id, value in values.items())


def test_both_change_the_same_store(tmp_path: Path, spec: ShardingSpec, values: dict[int, bytes]) -> None:
    write_sharded(tmp_path, spec, values)
    theirs = by_tensorstore(tmp_path, spec)
    kv = ShardedStore(tmp_path, spec, "r+")
    some = list(values)
    theirs[key(some[0])] = b"theirs"
    kv.update({some[1]: b"ours", 5: b"five"})
    del theirs[key(some[2])]
    kv.delete(some[3:5])
    want = {**values, some[0]: b"theirs", some[1]: b"ours", 5: b"five"}
    for id in some[2:5]:
        del want[id]
    assert dict(kv) == want
    assert {int.from_bytes(id, "big"): theirs[id] for id in theirs.list().result()} == want


def test_cloud_volume_reads_ours(tmp_path: Path, spec: ShardingSpec, values: dict[int, bytes]) -> None:
    write_sharded(tmp_path, spec, values)
    theirs = by_cloud_volume(tmp_path, spec)
    found = theirs.get_data(list(values))
    assert {int(id): bytes(value) for id, value in found.items()} == values
    listed = [theirs.list_labels(path.name) for path in tmp_path.iterdir()]
    assert sorted(np.concatenate(listed).tolist()) == sorted(values)
    assert theirs.get_data(99) is None


def test_ours_reads_cloud_volume(tmp_path: Path, spec: ShardingSpec, values: dict[int, bytes]) -> None:
    specification = ShardingSpecification.from_dict(spec.to_json())
    for file, data in specification.synthesize_shards(values).items():
        (tmp_path / file).write_bytes(data)
    kv = ShardedStore(tmp_path, spec, "r+")
    assert dict(kv) == values
    assert kv.get_many(values) == values
    assert all(kv[id] == value for id, value in values.items())
    kv.update({5: b"five"})
    assert bytes(by_cloud_volume(tmp_path, spec).get_data(5)) == b"five"
    assert dict(kv) == {**values, 5: b"five"}


def test_places_are_those_of_cloud_volume(spec: ShardingSpec, values: dict[int, bytes]) -> None:
    specification = ShardingSpecification.from_dict(spec.to_json())
    shards, minishards = spec.locate(list(values))
    for id, shard, minishard in zip(values, shards.tolist(), minishards.tolist(), strict=True):
        place = specification.compute_shard_location(np.uint64(id))
        assert f"{place.shard_number}.shard" == spec.shard_name(shard)
        assert int(place.minishard_number) == minishard


@pytest.mark.parametrize("grid", [(3, 3, 3), (2, 3, 1), (16, 4, 2), (538, 618, 805), (1944, 1048, 442)])
def test_chunk_ids_are_those_of_cloud_volume(grid: tuple[int, int, int]) -> None:
    points = np.random.default_rng(0).integers(0, grid, (50, 3))
    np.testing.assert_array_equal(kernels.compressed_morton(points, grid), compressed_morton_code(points, grid))
