"""Reading sharded stores, as others write them and as nobody writes them yet may."""

from __future__ import annotations

import itertools
import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.precomputed.shards import Counting, minishard_index, put, shard, simple_shard, slow_values, zipped
from zvcore.errors import CorruptDataError, NotFoundError, ReadOnlyError
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded
from zvcore.stores import LocalStore, MemoryStore
from zvcore.stores.indexes import index_cache
from zvcore.stores.late_writes import settle

PLAIN = ShardingSpec(0, "identity", 0, 0)
BIG = 2**64 - 1


def sample(count: int, seed: int = 0, dense: bool = False) -> dict[int, bytes]:
    generator = np.random.default_rng(seed)
    ids = np.arange(count) if dense else np.unique(generator.integers(0, BIG, count, np.uint64, endpoint=True))
    return {int(id): generator.bytes(int(generator.integers(0, 60))) + b"ab" * 40 for id in ids}


@pytest.fixture
def values() -> dict[int, bytes]:
    return sample(500)


@pytest.fixture
def kv(tmp_path: Path, values: dict[int, bytes]) -> ShardedStore:
    spec = ShardingSpec(0, "murmurhash3_x86_128", 3, 2, "gzip", "gzip")
    write_sharded(tmp_path, spec, values)
    return ShardedStore(tmp_path, spec)


def test_it_is_a_mapping(kv: ShardedStore, values: dict[int, bytes]) -> None:
    assert isinstance(kv, Mapping)
    assert len(kv) == len(values)
    assert list(kv) == sorted(values)
    np.testing.assert_array_equal(kv.ids(), np.array(sorted(values), np.uint64))
    assert dict(kv.items()) == values
    assert sorted(kv.values()) == sorted(values.values())
    assert dict(kv) == values
    assert kv == values
    some = next(iter(values))
    assert kv[some] == kv[np.uint64(some)] == values[some]
    assert isinstance(kv[some], bytes)
    assert some in kv
    assert np.uint64(some) in kv
    assert all(kv[id] == value for id, value in values.items())


def test_many_values_as_columns(kv: ShardedStore, values: dict[int, bytes]) -> None:
    some = list(values)[::-3]
    asked = [*some[:9], 5, *some[9:], some[0]]
    columns = kv.get_columns(asked)
    assert columns.found.tolist() == [id in values for id in asked]
    taken = [bytes(columns.data[a:b]) for a, b in itertools.pairwise(columns.offsets.tolist())]
    assert taken == [values.get(id, b"") for id in asked]
    room = bytearray(len(columns.data) + 7)
    into = kv.get_columns(np.array(asked, np.uint64), out=room)
    assert bytes(room) == bytes(columns.data) + bytes(7)
    np.testing.assert_array_equal(into.offsets, columns.offsets)
    assert np.shares_memory(into.data, np.frombuffer(room, np.uint8))
    for wrong in (bytearray(len(columns.data) - 1), bytes(len(room))):
        with pytest.raises((ValueError, BufferError)):
            kv.get_columns(asked, out=wrong)
    assert [len(column) for column in kv.get_columns([])] == [0, 1, 0]


@pytest.mark.parametrize("kind", [list, tuple, iter, set, lambda ids: np.array(ids, np.uint64)])
def test_ids_in_any_form(kv: ShardedStore, values: dict[int, bytes], kind: Any) -> None:
    some = list(values)[:5]
    assert kv.get_many(kind(some)) == {id: values[id] for id in some}


@pytest.mark.parametrize("wrong", [[-1], [2**64], (3, 2**70), [7, -(2**63)]])
def test_ids_that_cannot_be(kv: ShardedStore, wrong: Any) -> None:
    with pytest.raises(ValueError, match="between 0 and"):
        kv.get_many(wrong)
    with pytest.raises(TypeError):
        kv.get_many([1.5])  # type: ignore[list-item]
    assert kv.get_many([np.int8(4)]) == {}


def test_ids_of_indexes_in_any_order_are_listed_once_each_in_order() -> None:
    """Eight minishards and more are listed without a table of each; entries need not stand in order."""
    entries = [[(16 * k + m, 16 * k, 1) for k in (3, 1, 2)] for m in range(16)]
    data = b"".join(minishard_index(one) for one in entries)
    size = len(data) // 16
    raw = b"".join(struct.pack("<QQ", m * size, m * size + size) for m in range(16)) + data
    store = MemoryStore()
    store.put("0.shard", raw)
    kv = ShardedStore(store, ShardingSpec(0, "identity", 4, 0))
    assert kv.ids().tolist() == sorted(id for one in entries for id, _, _ in one)
    assert kv.shard_ids(0).tolist() == [id for one in entries for id in sorted(id for id, _, _ in one)]


def test_ids_of_many_shards_are_listed_together_and_what_is_wrong_with_one_is_said(tmp_path: Path) -> None:
    values = sample(900)
    spec = ShardingSpec(0, "murmurhash3_x86_128", 4, 7, "gzip", "gzip")
    write_sharded(tmp_path, spec, values)
    assert len([*tmp_path.glob("*.shard")]) > 70
    kv = ShardedStore(tmp_path, spec)
    assert kv.ids().tolist() == sorted(values)
    assert kv.ids().tolist() == sorted(id for shard in range(128) for id in kv.shard_ids(shard).tolist())
    (tmp_path / "05.shard").write_bytes(bytes(spec.index_size))  # one without values
    some = kv.shard_ids(6)
    assert kv.ids().tolist() == sorted({*values} - {id for id in values if spec.place(id)[0] == 5})
    damaged = bytearray((tmp_path / "06.shard").read_bytes())
    offset, size = next((a, b - a) for a, b in struct.iter_unpack("<QQ", damaged[: spec.index_size]) if a != b)
    damaged[spec.index_size + offset + size // 2] ^= 0xFF
    settle()
    (tmp_path / "06.shard").write_bytes(damaged)
    with pytest.raises(CorruptDataError, match=r"06\.shard") as caught:
        kv.ids()
    assert len(some) and caught.value.offset == spec.index_size + offset


def test_what_is_missing(kv: ShardedStore) -> None:
    for absent in (5, BIG):
        assert absent not in kv
        assert kv.get(absent) is None
        assert kv.get(absent, b"x") == b"x"
        assert kv.read_encoded(absent) is None
        with pytest.raises(NotFoundError, match=str(absent)):
            kv[absent]
        with pytest.raises(KeyError):
            kv.locate(absent)
        with pytest.raises(KeyError):
            kv.read_before(absent, 1)
    assert "5" not in kv
    assert None not in kv
    assert -1 not in kv
    assert 2**64 not in kv
    with pytest.raises(ValueError):
        kv[-1]
    with pytest.raises(TypeError):
        kv["5"]  # type: ignore[index]
    with pytest.raises(TypeError):
        kv.get(1.0)  # type: ignore[call-overload]


def test_get_many(kv: ShardedStore, values: dict[int, bytes]) -> None:
    assert kv.get_many(list(values)) == values
    assert kv.get_many(np.array(list(values), np.uint64)[::-1]) == values
    some = list(values)[:3]
    assert kv.get_many([some[0], 5, some[1], some[0], 6]) == {id: values[id] for id in some[:2]}
    assert kv.get_many([]) == {}
    assert kv.get_many(id for id in some) == {id: values[id] for id in some}
    with pytest.raises(ValueError):
        kv.get_many([-1])
    with pytest.raises(TypeError):
        kv.get_many([1.5])


def test_locate_names_the_stored_bytes(kv: ShardedStore, values: dict[int, bytes], tmp_path: Path) -> None:
    for id in list(values)[:20]:
        name, offset, size = kv.locate(id)
        stored = (tmp_path / name).read_bytes()[offset : offset + size]
        assert stored == kv.read_encoded(id)
        assert stored[:2] == b"\x1f\x8b"


def test_reading_only(kv: ShardedStore) -> None:
    with pytest.raises(ReadOnlyError):
        kv.update({1: b""})
    with pytest.raises(ReadOnlyError):
        kv.delete([1])
    with pytest.raises(ValueError, match="mode"):
        ShardedStore(kv.store, kv.spec, "w")
    with pytest.raises(NotFoundError):
        ShardedStore(Path(kv.store.root) / "nowhere", kv.spec)


def test_a_specification_may_be_json(kv: ShardedStore, values: dict[int, bytes]) -> None:
    assert ShardedStore(kv.store, kv.spec.to_json()) == values


def test_pickled(kv: ShardedStore, values: dict[int, bytes]) -> None:
    assert pickle.loads(pickle.dumps(kv)) == values


def test_values_of_length_zero(tmp_path: Path) -> None:
    for encoding in ("raw", "gzip"):
        spec = ShardingSpec(0, "identity", 1, 1, encoding, encoding)
        folder = tmp_path / encoding
        write_sharded(folder, spec, {3: b"", 4: b"x", 8: b""})
        kv = ShardedStore(folder, spec)
        assert dict(kv) == {3: b"", 4: b"x", 8: b""}
        assert kv[3] == b""
        assert 3 in kv
        assert kv.get(8, b"no") == b""
    put(tmp_path / "zero", "0.shard", simple_shard(PLAIN, {1: b""}))
    assert ShardedStore(tmp_path / "zero", PLAIN)[1] == b""
    spec = ShardingSpec(0, "identity", 0, 0, "raw", "gzip")
    with pytest.raises(CorruptDataError) as caught:
        ShardedStore(tmp_path / "zero", spec)[1]
    assert caught.value.chunk == 1


# What the format allows and others may write.

ODDITIES = {
    "unsorted ids": ([(5, 0, 1), (3, 1, 1), (9, 2, 1)], b"ABC", {5: b"A", 3: b"B", 9: b"C"}),
    "backwards in the file": ([(1, 2, 1), (2, 1, 1), (3, 0, 1)], b"ABC", {1: b"A"[:0] + b"C", 2: b"B", 3: b"A"}),
    "gaps": ([(1, 3, 1), (2, 7, 2)], b"...A...BB....", {1: b"A", 2: b"BB"}),
    "shared range": ([(5, 0, 2), (6, 0, 2)], b"AB", {5: b"AB", 6: b"AB"}),
    "overlapping": ([(5, 0, 3), (6, 1, 3)], b"ABCD", {5: b"ABC", 6: b"BCD"}),
    "largest id": ([(BIG, 0, 1), (0, 1, 1)], b"AB", {BIG: b"A", 0: b"B"}),
    "empty value at the end": ([(1, 0, 1), (2, 1, 0)], b"A", {1: b"A", 2: b""}),
}


@pytest.mark.parametrize("name", ODDITIES)
@pytest.mark.parametrize("where", ["after", "before"])
@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_legal_oddities(tmp_path: Path, name: str, where: str, encoding: str) -> None:
    rows, data, want = ODDITIES[name]
    spec = ShardingSpec(0, "identity", 0, 0, encoding, "raw")
    if where == "after":
        index = minishard_index(rows)
        index = zipped(index) if encoding == "gzip" else index
        stored = shard(spec, {0: (len(data), len(data) + len(index))}, data + index)
    else:
        # The length of the index counts, not what its numbers are; with gzip it depends on them.
        length = 0
        for _ in range(5):
            index = minishard_index([(id, start + length, size) for id, start, size in rows])
            index = zipped(index) if encoding == "gzip" else index
            length = len(index)
        stored = shard(spec, {0: (0, length)}, index + data)
    put(tmp_path, "0.shard", stored)
    kv = ShardedStore(tmp_path, spec)
    assert kv.get_many(want) == want
    assert dict(kv) == want
    assert all(kv[id] == value for id, value in want.items())
    assert kv.ids().tolist() == sorted(want)


def test_empty_ranges_that_are_not_zero(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 2, 0)
    index = minishard_index([(1, 0, 1)])
    put(tmp_path, "0.shard", shard(spec, {0: (9, 9), 1: (1, 25), 2: (2**63, 2**63)}, b"A" + index))
    kv = ShardedStore(tmp_path, spec)
    assert dict(kv) == {1: b"A"}
    assert kv.get_many([0, 1, 2, 4]) == {1: b"A"}
    assert 0 not in kv
    assert 2 not in kv


def test_bytes_after_everything_and_absent_files(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 0, 4)
    put(tmp_path, "3.shard", simple_shard(spec, {3: b"A", 19: b"B"}) + b"more")
    put(tmp_path, "info", b"{}")
    put(tmp_path, "3.shard.gz", b"not ours")
    put(tmp_path, "03.shard", b"not ours")
    kv = ShardedStore(tmp_path, spec)
    assert dict(kv) == {3: b"A", 19: b"B"}
    assert kv.get(4) is None


def test_legacy_pair(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "murmurhash3_x86_128", 2, 2, "gzip", "gzip")
    values = sample(40)
    write_sharded(tmp_path / "new", spec, values)
    old = tmp_path / "old"
    old.mkdir()
    for path in (tmp_path / "new").glob("*.shard"):
        data = path.read_bytes()
        (old / f"{path.stem}.index").write_bytes(data[: spec.index_size])
        (old / f"{path.stem}.data").write_bytes(data[spec.index_size :])
    kv = ShardedStore(old, spec)
    assert dict(kv) == values
    assert kv.get_many(values) == values
    some = next(iter(values))
    assert kv[some] == values[some]
    name, offset, size = kv.locate(some)
    assert name.endswith(".data")
    assert (old / name).read_bytes()[offset : offset + size] == kv.read_encoded(some)
    (old / name).unlink()
    index_cache().clear()
    with pytest.raises(CorruptDataError, match="data file"):
        kv[some]


def test_legacy_pair_becomes_one_file_when_changed(tmp_path: Path) -> None:
    data = simple_shard(PLAIN, {1: b"A", 2: b"B"})
    put(tmp_path, "0.index", data[:16])
    put(tmp_path, "0.data", data[16:])
    kv = ShardedStore(tmp_path, PLAIN, "r+")
    kv.update({3: b"C"})
    assert [path.name for path in tmp_path.iterdir()] == ["0.shard"]
    assert dict(kv) == {1: b"A", 2: b"B", 3: b"C"}
    assert slow_values(PLAIN, tmp_path) == dict(kv)


def test_large_indices_are_read_entry_by_entry(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "murmurhash3_x86_128", 16, 1, "gzip", "raw")
    values = sample(300)
    write_sharded(tmp_path, spec, values)
    assert slow_values(spec, tmp_path) == values
    # Its empty parts are holes.
    kv = ShardedStore(tmp_path, spec)
    assert kv.get_many(values) == values
    assert all(kv[id] == value for id, value in values.items())
    assert dict(kv) == values


# How much is asked for.


def counted() -> tuple[ShardedStore, Counting, list[int]]:
    spec = ShardingSpec(0, "identity", 6, 0, "gzip", "gzip")
    store = Counting()
    write_sharded(store, spec, {id: bytes(200) for id in range(64 * 16)})
    index_cache().clear()
    store.reads.clear()
    return ShardedStore(store, spec), store, [7 + 64 * i for i in range(16)]


def test_sixteen_ids_of_a_minishard_take_three_requests_then_one() -> None:
    kv, store, ids = counted()
    assert len(kv.get_many(ids)) == 16
    assert len(store.reads) == 3
    store.reads.clear()
    assert len(kv.get_many(ids)) == 16
    assert len(store.reads) == 1
    store.reads.clear()
    assert kv[ids[0]] == bytes(200)
    assert len(store.reads) == 1


def test_one_id_takes_three_requests_then_one() -> None:
    kv, store, ids = counted()
    assert kv[ids[0]] == bytes(200)
    assert len(store.reads) == 3
    store.reads.clear()
    assert kv[ids[1]] == bytes(200)
    assert len(store.reads) == 1


def test_ids_take_two_requests_a_shard() -> None:
    kv, store, _ = counted()
    assert len(kv.ids()) == 64 * 16
    assert len(store.reads) == 2


def test_missing_ids_of_a_known_minishard_take_none() -> None:
    kv, store, ids = counted()
    kv.get_many(ids[:1])
    store.reads.clear()
    assert kv.get_many([7 + 64 * 100, 7 + 64 * 200]) == {}
    assert 7 + 64 * 100 not in kv
    assert store.reads == []


def test_replaced_files_are_seen(tmp_path: Path) -> None:
    put(tmp_path, "0.shard", simple_shard(PLAIN, {1: b"old"}))
    kv = ShardedStore(tmp_path, PLAIN)
    assert kv[1] == b"old"
    for round in range(5):
        put(tmp_path, "0.shard", simple_shard(PLAIN, {0: b"x" * round, 1: b"new" * round}))
        assert kv[1] == b"new" * round
        assert kv.get_many([1, 0]) == {0: b"x" * round, 1: b"new" * round}
    (tmp_path / "0.shard").unlink()
    assert kv.get(1) is None


@pytest.mark.parametrize("store", ["local", "memory"])
def test_stores_of_every_kind(store: str, tmp_path: Path) -> None:
    where = LocalStore(tmp_path) if store == "local" else MemoryStore()
    spec = ShardingSpec(2, "murmurhash3_x86_128", 2, 3, "gzip", "gzip")
    values = sample(200)
    write_sharded(where, spec, values)
    kv = ShardedStore(where, spec, "r+")
    assert dict(kv) == values
    kv.update({1: b"one"})
    kv.delete(list(values))
    assert dict(kv) == {1: b"one"}


bits = st.integers(0, 5)


@given(
    pre=st.sampled_from([0, 1, 5, 63, 64]),
    hash=st.sampled_from(["identity", "murmurhash3_x86_128"]),
    mini=bits,
    shards=bits,
    index_encoding=st.sampled_from(["raw", "gzip"]),
    data_encoding=st.sampled_from(["raw", "gzip"]),
    values=st.dictionaries(st.one_of(st.integers(0, BIG), st.integers(0, 40)), st.binary(max_size=30), max_size=25),
    changes=st.dictionaries(
        st.one_of(st.integers(0, BIG), st.integers(0, 40)), st.one_of(st.none(), st.binary(max_size=30)), max_size=8
    ),
)
def test_any_specification_and_any_ids(
    pre: int, hash: str, mini: int, shards: int, index_encoding: str, data_encoding: str,
    values: dict[int, bytes], changes: dict[int, bytes | None], tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    spec = ShardingSpec(pre, hash, mini, shards, index_encoding, data_encoding)
    folder = tmp_path_factory.mktemp("any")
    write_sharded(folder, spec, values)
    assert slow_values(spec, folder) == values
    kv = ShardedStore(folder, spec, "r+")
    assert dict(kv) == values
    assert kv.get_many(values) == values
    kv.update({id: value for id, value in changes.items() if value is not None})
    kv.delete([id for id, value in changes.items() if value is None])
    want = {**values, **changes}
    want = {id: value for id, value in want.items() if value is not None}
    assert slow_values(spec, folder) == want
    assert dict(kv) == want
    assert all(kv[id] == value for id, value in want.items())
    # Changing gives the same bytes as writing all at once.
    again = tmp_path_factory.mktemp("again")
    write_sharded(again, spec, want)
    settle()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in again.iterdir()
    }
