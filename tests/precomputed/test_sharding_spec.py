"""Where an id lives: the vectors that other implementations give, every legal and illegal document, advice on bits."""

from __future__ import annotations

import json
from typing import Any

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import kernels
from zvcore.errors import MetadataError
from zvcore.precomputed import ShardingSpec
from zvcore.precomputed.sharding_spec import SHARDING_TYPE, grid_bits, grid_of

ID = "identity"
MM = "murmurhash3_x86_128"
BIG = 2**64 - 1

# (hash, preshift, minishard, shard bits, id, file, minishard), measured with tensorstore and cloud-volume.
PLACES = [
    (ID, 0, 0, 0, 42, "0.shard", 0),
    (ID, 0, 0, 0, BIG, "0.shard", 0),
    (ID, 1, 2, 3, 7, "0.shard", 3),
    (ID, 1, 2, 3, 42, "5.shard", 1),
    (ID, 1, 2, 3, 1822975381, "2.shard", 2),
    (ID, 1, 2, 3, 185457065798402451, "2.shard", 1),
    (ID, 1, 2, 3, BIG, "7.shard", 3),
    (ID, 2, 3, 3, 170, "5.shard", 2),
    (ID, 9, 6, 15, 1822975381, "5950.shard", 50),
    (ID, 9, 6, 15, BIG, "7fff.shard", 63),
    (ID, 9, 6, 15, 0, "0000.shard", 0),
    (MM, 6, 11, 7, 0, "15.shard", 1601),
    (MM, 6, 11, 7, 42, "15.shard", 1601),
    (MM, 6, 11, 7, 170, "27.shard", 1882),
    (MM, 6, 11, 7, 1822975381, "42.shard", 18),
    (MM, 6, 11, 7, BIG, "46.shard", 252),
    (MM, 6, 11, 7, 185457065798402451, "61.shard", 566),
    (MM, 0, 9, 11, 0, "457.shard", 65),
    (MM, 0, 9, 11, 1, "267.shard", 154),
    (MM, 0, 9, 11, 7, "410.shard", 342),
    (MM, 0, 9, 11, 42, "4fa.shard", 122),
    (MM, 0, 9, 11, 170, "075.shard", 330),
    (MM, 0, 9, 11, 1822975381, "06d.shard", 417),
    (MM, 0, 9, 11, BIG, "5ae.shard", 282),
    (MM, 10, 13, 5, 0, "05.shard", 3649),
    (MM, 10, 13, 5, 1023, "05.shard", 3649),
    (MM, 10, 13, 5, 1822975381, "08.shard", 6457),
    (MM, 10, 13, 5, BIG, "09.shard", 3968),
    (MM, 0, 0, 64, 0, "4772b084e028ae41.shard", 0),
    (MM, 0, 3, 61, 0, "08ee56109c0515c8.shard", 1),
    (MM, 0, 3, 61, 42, "1841729f2a233e8f.shard", 2),
    (ID, 0, 0, 64, 42, "000000000000002a.shard", 0),
    (ID, 64, 2, 2, BIG, "0.shard", 0),
    (MM, 64, 4, 8, 12345, "e4.shard", 1),
]


@pytest.mark.parametrize(("hash", "pre", "mini", "shard", "id", "file", "minishard"), PLACES)
def test_places_that_others_give(
    hash: str, pre: int, mini: int, shard: int, id: int, file: str, minishard: int
) -> None:
    spec = ShardingSpec(pre, hash, mini, shard)
    shards, minishards = spec.locate([id])
    assert (spec.shard_name(shards[0]), int(minishards[0])) == (file, minishard)
    assert spec.shard_number(file) == int(shards[0])


def slow_place(spec: ShardingSpec, id: int) -> tuple[int, int]:
    shifted = id >> spec.preshift_bits
    if spec.hash == MM:
        shifted = int.from_bytes(mmh3.hash_bytes(shifted.to_bytes(8, "little"), 0, x64arch=False)[:8], "little")
    used = shifted & ((1 << (spec.minishard_bits + spec.shard_bits)) - 1)
    return used >> spec.minishard_bits, used & ((1 << spec.minishard_bits) - 1)


bits = st.one_of(st.sampled_from([0, 1, 31, 32, 33, 63, 64]), st.integers(0, 64))


@given(
    pre=bits,
    mini=bits,
    shard=bits,
    hash=st.sampled_from([ID, MM]),
    ids=st.lists(st.one_of(st.integers(0, BIG), st.integers(0, 300)), max_size=8),
)
def test_every_legal_combination(pre: int, mini: int, shard: int, hash: str, ids: list[int]) -> None:
    shard = min(shard, 64 - mini)
    spec = ShardingSpec(pre, hash, mini, shard)
    shards, minishards = spec.locate(ids)
    assert shards.dtype == minishards.dtype == np.uint64
    assert list(zip(shards.tolist(), minishards.tolist(), strict=True)) == [slow_place(spec, id) for id in ids]
    assert [spec.place(id) for id in ids] == [slow_place(spec, id) for id in ids]
    for number in shards.tolist():
        assert spec.shard_number(spec.shard_name(number)) == number
    assert ShardingSpec.from_json(spec.to_json()) == spec
    assert ShardingSpec.from_json(json.dumps(spec.to_json())) == spec


def document(**changes: Any) -> dict[str, Any]:
    base = {
        "@type": SHARDING_TYPE, "hash": MM, "preshift_bits": 1, "minishard_bits": 2, "shard_bits": 3,
        "minishard_index_encoding": "gzip", "data_encoding": "raw",
    }  # fmt: skip
    base.update(changes)
    return {name: value for name, value in base.items() if value is not ...}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"@type": "neuroglancer_uint64_sharded_v2"}, "@type"),
        ({"@type": ...}, "@type"),
        ({"hash": ...}, "sharding.hash: expected .*, found nothing"),
        ({"preshift_bits": ...}, "sharding.preshift_bits: expected an integer from 0 to 64, found nothing"),
        ({"shard_bits": ..., "minishard_bits": ...}, "sharding.minishard_bits: expected .*, found nothing"),
        ({"hash": "identity_hash"}, "spelled 'identity'"),
        ({"hash": "sha1"}, "sharding.hash: expected 'identity' or 'murmurhash3_x86_128', found 'sha1'"),
        ({"hash": 5}, "sharding.hash: expected .* found 5"),
        ({"preshift_bits": 65}, "sharding.preshift_bits: expected an integer from 0 to 64, found 65"),
        ({"preshift_bits": -1}, "sharding.preshift_bits: .*, found -1"),
        ({"minishard_bits": 65}, "sharding.minishard_bits: .*, found 65"),
        ({"shard_bits": 2**70}, "sharding.shard_bits: .*, found 11805"),
        ({"shard_bits": 3.0}, r"sharding.shard_bits: .*, found 3\.0"),
        ({"shard_bits": "3"}, "sharding.shard_bits: .*, found '3'"),
        ({"shard_bits": True}, "sharding.shard_bits: .*, found True"),
        ({"minishard_bits": 40, "shard_bits": 25}, "more bits than a hash has"),
        ({"data_encoding": "zlib"}, "sharding.data_encoding: expected 'raw', 'gzip' or .*, found 'zlib'"),
        ({"minishard_index_encoding": None}, "sharding.minishard_index_encoding: .*, found None"),
    ],
)
def test_illegal_documents(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(MetadataError, match=text):
        ShardingSpec.from_json(document(**changes))


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null"])
def test_documents_that_are_none(text: str) -> None:
    with pytest.raises(MetadataError):
        ShardingSpec.from_json(text)


def test_missing_encodings_are_raw_and_unknown_members_are_kept() -> None:
    spec = ShardingSpec.from_json(document(minishard_index_encoding=..., data_encoding=..., note={"by": "me"}))
    assert (spec.minishard_index_encoding, spec.data_encoding) == ("raw", "raw")
    assert spec.to_json()["note"] == {"by": "me"}
    with pytest.raises(MetadataError, match="note"):
        ShardingSpec.from_json(document(note=1), strict=True)


def test_shard_numbers_outside() -> None:
    spec = ShardingSpec(0, ID, 0, 5)
    assert spec.shard_name(31) == "1f.shard"
    for number in (-1, 32):
        with pytest.raises(ValueError, match="32 shards"):
            spec.shard_name(number)
    for name in ("20.shard", "1F.shard", "f.shard", "00f.shard", "1f.shard.gz", "info", ".shard", "0x.shard", "1f"):
        assert spec.shard_number(name) is None
    assert spec.shard_number("1f.index") == spec.shard_number("1f.data") == 31
    assert ShardingSpec(0, ID, 0, 0).shard_name(0) == "0.shard"


@pytest.mark.parametrize("ids", [[-1], [2**64], np.array([-5, 3]), np.array([[1]]), [1, -1]])
def test_ids_that_are_no_uint64(ids: Any) -> None:
    with pytest.raises(ValueError):
        ShardingSpec().locate(ids)


@pytest.mark.parametrize("ids", [[1.5], np.array([1.0]), ["1"], [None]])
def test_ids_that_are_no_integers(ids: Any) -> None:
    with pytest.raises(TypeError):
        ShardingSpec().locate(ids)


def test_ids_of_every_integer_kind() -> None:
    spec = ShardingSpec(0, MM, 4, 4)
    want = spec.locate([1, 2, 200])
    for ids in (np.array([1, 2, 200], kind) for kind in ("u1", "i2", ">u4", "i8", ">u8")):
        for got, expected in zip(spec.locate(ids), want, strict=True):
            np.testing.assert_array_equal(got, expected)
    assert spec.locate(range(0))[0].size == 0
    assert spec.locate(2**63 + 1)[0].size == 1


@given(
    count=st.integers(0, 10**10),
    size=st.integers(0, 10**14),
    max_id=st.one_of(st.none(), st.integers(0, BIG)),
    hash=st.sampled_from([ID, MM]),
)
def test_advice_is_legal_and_never_collapses(count: int, size: int, max_id: int | None, hash: str) -> None:
    spec = ShardingSpec.advise(count=count, bytes=size, max_id=max_id, hash=hash)
    key_bits = 64 if max_id is None else max_id.bit_length()
    assert spec.shard_bits + spec.minishard_bits <= max(key_bits, 0)
    # What is shifted away is never needed to tell shards and minishards apart.
    assert spec.preshift_bits <= max(0, key_bits - spec.shard_bits - spec.minishard_bits)


@pytest.mark.parametrize("hash", [ID, MM])
@pytest.mark.parametrize(("count", "size"), [(1000, 10 << 30), (100_000, 1 << 30), (5_000_000, 2 << 30)])
def test_advice_reaches_its_targets(hash: str, count: int, size: int) -> None:
    spec = ShardingSpec.advise(count=count, bytes=size, max_id=count - 1, hash=hash)
    shards, minishards = spec.locate(np.arange(count))
    used = np.bincount(shards.astype(np.int64), minlength=1 << spec.shard_bits)
    assert 16 << 20 <= size / np.count_nonzero(used) <= 64 << 20
    assert np.count_nonzero(used) > len(used) / 2
    assert used.max() <= 2 * count / len(used) + 10
    per_minishard = np.unique(shards * np.uint64(spec.minishard_count) + minishards, return_counts=True)[1]
    assert per_minishard.max() <= 2 * 512


def test_dense_unhashed_ids_stay_together() -> None:
    spec = ShardingSpec.advise(count=1 << 20, bytes=1 << 30, max_id=(1 << 20) - 1, hash=ID)
    shards, _ = spec.locate(np.arange(1 << 20))
    # Runs of 512 ids lie in one minishard.
    _, minishards = spec.locate(np.arange(512))
    assert len(np.unique(minishards)) == 1
    assert len(np.unique(shards)) == 16


@pytest.mark.parametrize(
    ("shape", "chunk"),
    [((2048, 2048, 1000), (64, 64, 64)), ((100, 100, 100), (64, 64, 64)), ((50000, 30000, 7000, 3), (128, 128, 16))],
)
def test_volume_advice_makes_boxes(shape: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    spec = ShardingSpec.advise_volume(shape, chunk, np.uint8)
    grid = grid_of(shape[:3], chunk)
    assert spec.hash == ID
    assert spec.preshift_bits + spec.minishard_bits + spec.shard_bits == sum(grid_bits(grid))
    box = spec.shard_grid(grid)
    assert box is not None
    whole = np.prod(shape)
    inside = np.prod(box) * np.prod(chunk) * (shape[3] if len(shape) > 3 else 1)
    assert inside <= 256 << 20
    assert inside >= min(whole, 128 << 20) / 2


def test_shards_of_a_wanted_shape() -> None:
    spec = ShardingSpec.for_shards((1024, 1024, 512), (64, 64, 64), (256, 256, 256))
    assert spec.shard_grid((16, 16, 8)) == (4, 4, 4)
    with pytest.raises(ValueError, match=r"\(512, 256, 256\)"):
        ShardingSpec.for_shards((1024, 1024, 512), (64, 64, 64), (256, 256, 512))


@pytest.mark.parametrize("grid", [(5, 3, 2), (8, 8, 2), (1, 7, 4), (16, 4, 2)])
def test_shards_are_the_boxes_that_their_ids_fill(grid: tuple[int, int, int]) -> None:
    coords = np.argwhere(np.ones(grid, bool))
    codes = kernels.compressed_morton(coords, grid)
    total = sum(grid_bits(grid))
    for inside in range(total + 1):
        spec = ShardingSpec(inside, ID, 0, total - inside)
        box = spec.shard_grid(grid)
        assert box is not None
        shards, _ = spec.locate(codes)
        cells = coords // box
        for shard in np.unique(shards):
            assert len(np.unique(cells[shards == shard], axis=0)) == 1
        assert len(np.unique(shards)) == len(np.unique(cells, axis=0))
    assert ShardingSpec(0, MM, 0, total).shard_grid(grid) is None
    assert ShardingSpec(0, ID, 0, total - 1).shard_grid(grid) is None
