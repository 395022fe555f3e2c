"""Volumes: what is written is read, whatever the layout, encoding, region; absolute coordinates."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.precomputed.volumes import MURMUR, create, open_, voxels
from zvcore.errors import MetadataError
from zvcore.precomputed import ShardedStore, ShardingSpec
from zvcore.precomputed.shard_placement import VolumeShards
from zvcore.stores import MemoryStore
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from pathlib import Path


def test_the_published_bytes_of_raw_chunks(tmp_path: Path) -> None:
    values = np.arange(5 * 3 * 3 * 2, dtype="u2").reshape(5, 3, 3, 2)
    spec = ShardingSpec(0, "identity", 0, 0)
    a = create(tmp_path, shape=(5, 3, 3, 2), chunks=(2, 2, 2), voxel_offset=(-10, 20, 30), sharding=spec)
    a[...] = values
    kv = ShardedStore(tmp_path / "1_1_1", spec)
    assert kv.ids().tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14]
    assert np.frombuffer(kv[0], "<u2").tolist() == [0, 18, 6, 24, 2, 20, 8, 26, 1, 19, 7, 25, 3, 21, 9, 27]
    assert np.frombuffer(kv[14], "<u2").tolist() == [88, 89]
    plain = create(tmp_path, key="plain", shape=(5, 3, 3, 2), chunks=(2, 2, 2), voxel_offset=(-10, 20, 30), codec="raw")
    plain[...] = values
    names = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert names[:2] == ["-10--8_20-22_30-32", "-10--8_20-22_32-33"]
    assert "-6--5_22-23_32-33" in names
    assert (tmp_path / "plain" / "-6--5_22-23_32-33").read_bytes() == kv[14]


ENCODINGS = [
    ("raw", "uint8", 1, {}),
    ("raw", "float32", 3, {}),
    ("raw", "int64", 1, None),
    ("compressed_segmentation", "uint32", 2, {}),
    ("compressed_segmentation", "uint64", 1, {"compressed_segmentation_block_size": (8, 4, 3)}),
    ("png", "uint8", 3, {"png_level": 1}),
    ("png", "uint16", 2, {}),
]


@pytest.mark.parametrize(("encoding", "dtype", "channels", "options"), ENCODINGS)
@pytest.mark.parametrize("sharding", [None, "advise", MURMUR])
def test_round_trip(
    tmp_path: Path, encoding: str, dtype: str, channels: int, options: dict[str, Any] | None, sharding: Any
) -> None:
    shape = (70, 45, 33, channels)
    if options is None:
        with pytest.raises(MetadataError, match="data type"):
            create(tmp_path, shape=shape, dtype=dtype, encoding=encoding, sharding=sharding)
        return
    a = create(
        tmp_path, shape=shape, dtype=dtype, encoding=encoding, sharding=sharding, resolution=(8, 8, 40), **options
    )
    assert (a.shape, a.dtype, a.chunks, a.format) == (shape, np.dtype(dtype), (32, 16, 16, channels), "precomputed")
    values = voxels(shape, dtype)
    a[...] = values
    b = open_(tmp_path, "r+", scale="8_8_40")
    got = b[...]
    assert got.flags.f_contiguous
    np.testing.assert_array_equal(got, values)
    # A part that cuts through chunks and shards, at the edge too.
    region = (slice(20, 70), slice(3, 30), slice(30, 33))
    b[region] = values[region] + 1
    values[region] += 1
    np.testing.assert_array_equal(a[...], values)
    np.testing.assert_array_equal(a[-1, ::-2, 5:31:3], values[-1, ::-2, 5:31:3])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], values)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_near(tmp_path: Path, channels: int) -> None:
    shape = (64, 40, 33, channels)
    a = create(tmp_path, shape=shape, dtype="uint8", encoding="jpeg", jpeg_quality=95, sharding="advise")
    values = np.asfortranarray(np.indices(shape)[:3].sum(0).astype("uint8"))
    a[...] = values
    got = open_(tmp_path, scale=0)[...]
    assert np.abs(got.astype(int) - values).max() <= 6
    assert json.loads((tmp_path / "info").read_text())["scales"][0]["jpeg_quality"] == 95
    # A picture is not compressed again.
    assert a.sharding.data_encoding == "raw"


def test_missing_chunks_are_zeros_and_zeros_are_not_stored(tmp_path: Path) -> None:
    a = create(tmp_path, sharding=MURMUR)
    assert not a[...].any()
    a[:32, :16, :16] = 7
    a[32:64] = 0
    assert len(ShardedStore(tmp_path / "1_1_1", MURMUR)) == 1
    assert a.block_exists((0, 0, 0, 0))
    assert not a.block_exists((1, 0, 0, 0))
    assert a[0, 0, 0, 0] == 7
    a[...] = 0
    assert not list((tmp_path / "1_1_1").glob("*.shard"))
    kept = open_(tmp_path, "r+", scale=0, write_empty_chunks=True)
    kept[...] = 0
    assert len(ShardedStore(tmp_path / "1_1_1", MURMUR)) == 27


def test_blocks(tmp_path: Path) -> None:
    a = create(tmp_path, sharding="advise")
    a.write_block((2, 2, 2, 0), np.full((6, 13, 1, 1), 9, "u2"))
    assert a.read_block((2, 2, 2, 0)).shape == (6, 13, 1, 1)
    data = a.read_encoded((2, 2, 2, 0))
    assert data is not None
    other = create(tmp_path / "other", sharding=MURMUR)
    other.write_encoded((2, 2, 2, 0), data)
    np.testing.assert_array_equal(a[...], other[...])
    assert a.delete_block((2, 2, 2, 0))
    assert not a.delete_block((2, 2, 2, 0))
    assert a.read_block((2, 2, 2, 0)) is None


def test_partial_writes_touch_only_their_shards(tmp_path: Path) -> None:
    a = create(tmp_path, shape=(128, 128, 64), chunks=(16, 16, 16), shards=(64, 64, 32), dtype="uint8")
    assert a.shards == (64, 64, 32, 1)
    a[...] = voxels((128, 128, 64, 1), "uint8")
    folder = tmp_path / "1_1_1"
    assert len(list(folder.iterdir())) == 8
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    a[60:70, 3, 3] = 255
    settle()
    changed = {path.name for path in folder.iterdir() if path.read_bytes() != before[path.name]}
    assert len(changed) == 2


@pytest.mark.parametrize("encoding", ["raw", "compressed_segmentation"])
@pytest.mark.parametrize("packed", ["raw", "gzip"])
def test_new_shards_are_written_while_their_chunks_are_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str, encoding: str
) -> None:
    values = voxels((70, 45, 33, 1), "uint32")
    values[:32, :32, :32] = 0  # a shard of which nothing is stored, and one with holes
    values[32:48, :16, :16] = 0

    def files(name: str) -> dict[str, bytes]:
        spec = ShardingSpec(2, "identity", 2, 3, packed, packed)
        a = create(
            tmp_path / name, shape=values.shape[:3], chunks=(16, 16, 16), dtype="uint32", sharding=spec,
            encoding=encoding,
        )  # fmt: skip
        a[...] = values
        np.testing.assert_array_equal(open_(tmp_path / name)[0][...], values)
        return {path.name: path.read_bytes() for path in (tmp_path / name / "1_1_1").iterdir()}

    def gathered(*_: object) -> None:
        raise AssertionError("values were gathered first")

    with monkeypatch.context() as patch:
        patch.setattr(VolumeShards, "pack_orders", lambda _, groups, __: [None] * len(groups))
        expected = files("gathered")
    monkeypatch.setattr(VolumeShards, "replace", gathered)
    found = files("packed")
    assert len(found) > 2
    assert found == expected


@pytest.mark.parametrize("packed", ["raw", "gzip"])
def test_shards_that_are_replaced_as_a_whole_are_written_like_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str
) -> None:
    values = voxels((70, 45, 33, 1), "uint32")
    values[:32, :32, :32] = 0  # a shard of which nothing is left, and one with holes
    values[32:48, :16, :16] = 0
    spec = ShardingSpec(2, "identity", 2, 3, packed, packed)

    def files(name: str, *versions: Any) -> dict[str, bytes]:
        a = create(tmp_path / name, shape=values.shape[:3], chunks=(16, 16, 16), dtype="uint32", sharding=spec)
        for version in versions:
            a[...] = version
        np.testing.assert_array_equal(open_(tmp_path / name)[0][...], versions[-1])
        settle()
        return {path.name: path.read_bytes() for path in (tmp_path / name / "1_1_1").iterdir()}

    def gathered(*_: object) -> None:
        raise AssertionError("values were gathered first")

    monkeypatch.setattr(VolumeShards, "replace", gathered)
    assert files("old", values + 5, values) == files("new", values)


def test_a_shard_that_is_replaced_keeps_bytes_that_no_index_mentions(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 1, 5, "raw", "raw")
    a = create(tmp_path, shape=(32, 32, 32), chunks=(16, 16, 16), dtype="uint8", sharding=spec)
    a[...] = 1
    store = ShardedStore(tmp_path / "1_1_1", spec, mode="r+")
    store.update([(3, store[3])], unindexed={3: b"unmentioned"})
    a[...] = 2
    assert any(b"unmentioned" in shard.read_bytes() for shard in (tmp_path / "1_1_1").glob("*.shard"))
    assert (a[...] == 2).all()


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_others_put_into_a_shard_while_it_is_being_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Before its new index is made, and after that, before it takes its place."""
    spec = ShardingSpec(0, "identity", 1, 5, "raw", "raw")
    made = {}
    for name in ("a", "b"):
        made[name] = create(tmp_path / name, shape=(48, 48, 48), chunks=(16, 16, 16), dtype="uint8", sharding=spec)
        made[name][...] = 1
    ShardedStore(tmp_path / "b" / "1_1_1", spec, mode="r+").update([(57, b"kept")])
    ends, packed = VolumeShards.ends, []

    def disturb() -> None:
        # A program that knows nothing of our locks.
        if not packed:
            packed.append(True)
            for path in (tmp_path / "b" / "1_1_1").glob("*.shard"):
                shutil.copyfile(path, tmp_path / "a" / "1_1_1" / path.name)

    def disturbed(*args: Any) -> Any:
        if when == "before":
            disturb()
        found = ends(*args)
        disturb()
        return found

    monkeypatch.setattr(VolumeShards, "ends", disturbed)
    made["a"][...] = 2
    assert packed
    assert ShardedStore(tmp_path / "a" / "1_1_1", spec)[57] == b"kept"
    assert (made["a"][...] == 2).all()


def test_writing_a_shard_that_is_there_keeps_what_else_lies_in_it(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 1, 5, "raw", "raw")
    a = create(tmp_path, shape=(48, 48, 48), chunks=(16, 16, 16), dtype="uint8", sharding=spec)
    a[...] = 1
    # An id that no chunk of the grid has, in the same shard.
    store = ShardedStore(tmp_path / "1_1_1", spec, mode="r+")
    store.update([(57, b"kept")])
    a[...] = 2
    assert ShardedStore(tmp_path / "1_1_1", spec)[57] == b"kept"
    assert (a[...] == 2).all()


regions = st.tuples(*[st.tuples(st.integers(0, 40), st.integers(0, 40)) for _ in range(3)])


@given(
    shape=st.tuples(*[st.integers(1, 40)] * 3, st.integers(1, 2)),
    chunk=st.tuples(*[st.integers(1, 20)] * 3),
    offset=st.tuples(*[st.integers(-30, 30)] * 3),
    sharding=st.sampled_from([None, "advise", MURMUR]),
    writes=st.lists(regions, max_size=4),
)
def test_any_volume_is_like_numpy(
    shape: tuple[int, ...], chunk: tuple[int, ...], offset: tuple[int, ...], sharding: Any, writes: list[Any]
) -> None:
    store = MemoryStore()
    a = create(store, shape=shape, dtype="uint8", chunks=chunk, sharding=sharding, voxel_offset=offset)
    mirror = np.zeros(shape, "uint8")
    for number, region in enumerate(writes, 1):
        box = tuple(slice(*sorted((min(x, n), min(y, n)))) for (x, y), n in zip(region, shape, strict=False))
        a[box] = number
        mirror[box] = number
    np.testing.assert_array_equal(open_(store, scale=0)[...], mirror)
    np.testing.assert_array_equal(open_(store, scale=0).at[...], mirror)


def test_absolute_coordinates(tmp_path: Path) -> None:
    a = create(tmp_path, voxel_offset=(-5, 10, 20))
    values = voxels((70, 45, 33, 1), "uint16")
    a[...] = values
    assert a.voxel_offset == (-5, 10, 20)
    assert a.bounds == ((-5, 65), (10, 55), (20, 53))
    np.testing.assert_array_equal(a.at[-5:7, 12:20], values[:12, 2:10])
    np.testing.assert_array_equal(a.at[-1, :, 52, 0], values[4, :, 32, 0])
    np.testing.assert_array_equal(a.at[::7, ..., 0], values[::7, ..., 0])
    a.at[60:, 54, 20] = 3
    assert (a[65:, 44, 0] == 3).all()
    for key in [np.s_[-6], np.s_[65], np.s_[0:66], np.s_[-6:0], np.s_[5:3], np.s_[:, 9], np.s_[::-1], np.s_[1.5]]:
        with pytest.raises(IndexError):
            a.at[key]
    for key in [np.s_[..., ...], np.s_[0, 10, 20, 0, 0]]:
        with pytest.raises(IndexError):
            a.at[key]
