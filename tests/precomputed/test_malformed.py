"""Broken shards: an error that names file, place, expected and found. Never cut bytes, never "missing"."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.precomputed.shards import minishard_index, put, shard, simple_shard, zipped
from zvcore.errors import CorruptDataError, StoreError, ZvcoreError
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = ShardingSpec(0, "identity", 0, 0)
ZIPPED = ShardingSpec(0, "identity", 0, 0, "gzip", "gzip")
GOOD = minishard_index([(10, 0, 4)])


def index(start: int, end: int) -> bytes:
    return struct.pack("<QQ", start, end)


def one(rows: Any, data: bytes = b"DATA") -> bytes:
    table = minishard_index(rows)
    return shard(PLAIN, {0: (len(data), len(data) + len(table))}, data + table)


def packed(index_bytes: bytes, value: bytes) -> bytes:
    """A shard of one value, 10, with both as given."""
    return shard(ZIPPED, {0: (len(value), len(value) + len(index_bytes))}, value + index_bytes)


def gzip_index(size: int) -> bytes:
    return zipped(minishard_index([(10, 0, size)]))


VALUE = zipped(b"some value, some value")

# name -> (specification, file, (key, offset or None, text of the message))
TABLE: dict[str, tuple[ShardingSpec, bytes, tuple[int | None, str]]] = {
    "empty file": (PLAIN, b"", (0, "expected 16 bytes, found 0")),
    "three bytes": (PLAIN, b"abc", (0, "expected 16 bytes, found 3")),
    "a file that ends within the shard index": (ShardingSpec(0, "identity", 3, 0), bytes(127), (0, "found 127")),
    "minishard range that ends before it starts": (PLAIN, index(10, 2) + bytes(50), (0, "found 10..2")),
    "minishard range up to 2**63 - 1": (PLAIN, index(10, 2**63 - 1) + bytes(50), (0, "up to 50")),
    "minishard range up to 2**64 - 1": (PLAIN, index(10, 2**64 - 1) + bytes(50), (0, "up to 50")),
    "minishard range that starts at 2**64 - 1": (PLAIN, index(2**64 - 1, 5) + bytes(50), (0, "up to 50")),
    "minishard index after the end of the file": (PLAIN, index(0, 48), (0, "found 0..48")),
    "minishard index of one byte": (PLAIN, index(0, 1) + b"x", (None, "24")),
    "minishard index of 25 bytes": (PLAIN, index(0, 25) + bytes(25), (None, "24")),
    "size up to 2**63 - 1": (PLAIN, one([(10, 0, 2**63 - 1)]), (None, "outside the file")),
    "size up to 2**64 - 1": (PLAIN, one([(10, 0, 2**64 - 1)]), (None, "outside the file")),
    "start and size that overflow": (PLAIN, one([(10, 2**64 - 3, 4)]), (None, "2**64|outside")),
    "value after the end of the file": (PLAIN, one([(10, 0, 200)]), (None, "200 bytes at 16")),
    "value that starts after the end": (PLAIN, one([(10, 500, 1)]), (None, "1 bytes at 516")),
    "id that is there twice": (PLAIN, one([(10, 0, 1), (10, 1, 1)]), (None, "more than once")),
    "raw index where gzip is declared": (
        ZIPPED, packed(minishard_index([(10, 0, len(VALUE))]), VALUE), (16 + len(VALUE), "gzip")
    ),
    "raw value where gzip is declared": (ZIPPED, packed(gzip_index(4), b"DATA"), (16, "gzip")),
    "empty value where gzip is declared": (ZIPPED, packed(gzip_index(0), b""), (16, "gzip")),
    "gzip value cut off": (ZIPPED, packed(gzip_index(len(VALUE) - 3), VALUE[:-3]), (16, "gzip")),
    "gzip index cut off": (ZIPPED, packed(gzip_index(len(VALUE))[:-9], VALUE), (16 + len(VALUE), "gzip")),
    "gzip value with bytes after it": (ZIPPED, packed(gzip_index(len(VALUE) + 4), VALUE + b"junk"), (16, "gzip")),
    "gzip value of two members": (ZIPPED, packed(gzip_index(2 * len(VALUE)), 2 * VALUE), (16, "gzip")),
    "gzip value with a wrong checksum": (
        ZIPPED, packed(gzip_index(len(VALUE)), VALUE[:-6] + b"\0\0" + VALUE[-4:]), (16, "gzip")
    ),
    "zlib value where gzip is declared": (
        ZIPPED, packed(gzip_index(12), b"\x78\x9c\x4b\x2c\x4a\x06\x00\x02\x4d\x01\x27\0"), (16, "gzip")
    ),
}  # fmt: skip


@pytest.fixture(params=["local", "memory"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return tmp_path if request.param == "local" else MemoryStore()


@pytest.mark.parametrize("name", TABLE)
def test_the_table(where: Any, name: str) -> None:
    spec, data, (offset, text) = TABLE[name]
    put(where, "0.shard", data)
    kv = ShardedStore(where, spec)
    for read in (
        lambda: kv[10],
        lambda: kv.get(10),
        lambda: kv.get_many([10]),
        lambda: kv.get_many([9, 10, 11]),
        lambda: dict(kv.items()),
    ):
        with pytest.raises(CorruptDataError) as caught:
            read()
        error = caught.value
        assert error.key == "0.shard"
        assert any(part in str(error) for part in text.split("|"))
        if offset is not None:
            assert error.offset == offset
        else:
            assert error.chunk in (10, "minishard 0")


@pytest.mark.parametrize("name", [name for name in TABLE if "gzip value" in name or "raw value" in name])
def test_a_broken_value_is_named(where: Any, name: str) -> None:
    spec, data, _ = TABLE[name]
    put(where, "0.shard", data)
    kv = ShardedStore(where, spec)
    for read in (lambda: kv[10], lambda: kv.get_many([10])):
        with pytest.raises(CorruptDataError) as caught:
            read()
        assert caught.value.chunk == 10
    assert kv.read_encoded(10)


def test_one_broken_entry_takes_no_other_with_it(where: Any) -> None:
    put(where, "0.shard", one([(1, 0, 2), (10, 2, 200), (11, 0, 4), (12, 0, 1), (12, 1, 1)]))
    kv = ShardedStore(where, PLAIN)
    assert kv[1] == b"DA"
    assert kv.get_many([1, 11]) == {1: b"DA", 11: b"DATA"}
    for id in (10, 12):
        with pytest.raises(CorruptDataError) as caught:
            kv[id]
        assert caught.value.chunk == id
        with pytest.raises(CorruptDataError):
            kv.get_many([1, id])
        with pytest.raises(CorruptDataError):
            assert id in kv
    with pytest.raises(CorruptDataError, match="more than once"):
        kv.ids()


def test_no_memory_is_taken_for_what_metadata_says(where: Any) -> None:
    put(where, "0.shard", bytes(1000))
    spec = ShardingSpec(0, "identity", 62, 0)
    kv = ShardedStore(where, spec)
    for read in (lambda: kv[10], lambda: kv.get_many([10]), kv.ids):
        with pytest.raises(CorruptDataError, match="cut off"):
            read()
    assert ShardedStore(MemoryStore(), spec).get(10) is None


def test_a_bomb_is_refused(where: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import zvcore.codecs

    monkeypatch.setattr(zvcore.codecs, "max_decoded_size", 1 << 20)
    bomb = zipped(bytes(4 << 20))
    put(where, "0.shard", packed(gzip_index(len(bomb)), bomb))
    kv = ShardedStore(where, ZIPPED)
    for read in (lambda: kv[10], lambda: kv.get_many([10])):
        with pytest.raises(CorruptDataError):
            read()


def test_a_folder_where_a_shard_should_be(tmp_path: Path) -> None:
    (tmp_path / "0.shard").mkdir()
    kv = ShardedStore(tmp_path, PLAIN)
    with pytest.raises(StoreError, match="it is a folder"):
        kv.get(1)
    assert len(kv) == 0


SAMPLE = {id: b"value %d " % id * (id % 5) for id in range(0, 60, 3)}


@given(data=st.data(), encoding=st.sampled_from(["raw", "gzip"]))
def test_mutations_give_a_value_or_an_error(data: st.DataObject, encoding: str) -> None:
    """A damaged file never crashes, never gives fewer bytes than the index says, and raises only our errors."""
    spec = ShardingSpec(0, "identity", 2, 0, encoding, encoding)
    store = MemoryStore()
    write_sharded(store, spec, SAMPLE)
    original = store.get("0.shard")
    assert original is not None
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(damaged) - 1))
        damaged[where] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))]
    store.put("0.shard", damaged)
    kv = ShardedStore(store, spec, "r+")
    for id in [*SAMPLE, 1]:
        for read in (lambda id=id: kv.get(id), lambda id=id: kv.get_many([id]).get(id)):
            try:
                value = read()
            except ZvcoreError:
                continue
            if value is not None and encoding == "raw":
                assert len(value) == kv.locate(id)[2]
            if value is not None and encoding == "gzip":
                # The checksum holds, so it is some value that was written.
                assert value in SAMPLE.values()
    for change in (kv.ids, lambda: kv.get_many(SAMPLE), lambda: kv.update({5: b"x"}), lambda: dict(kv.items())):
        try:
            change()
        except ZvcoreError:
            continue


@given(raw=st.binary(max_size=400), limit=st.integers(0, 500))
def test_any_bytes_as_a_minishard_index(raw: bytes, limit: int) -> None:
    from zvcore.precomputed._minishard import Minishard

    try:
        table = Minishard(raw, 16, limit)
    except CorruptDataError:
        return
    assert len(table) == len(raw) // 24
    assert (np.diff(table.ids.astype(object)) >= 0).all() if len(table) else True
    bad = table.bad_entries()
    for id, start, size, is_bad in zip(
        table.ids.tolist(), table.starts.tolist(), table.sizes.tolist(), bad.tolist(), strict=True
    ):
        assert is_bad == (16 + start + size > limit)
        try:
            found = table.find(id)
        except CorruptDataError:
            assert is_bad or (table.ids == id).sum() > 1
            continue
        assert found == (16 + start, size)


def test_good_after_bad(tmp_path: Path) -> None:
    """What failed is not remembered."""
    put(tmp_path, "0.shard", b"abc")
    kv = ShardedStore(tmp_path, PLAIN)
    with pytest.raises(CorruptDataError):
        kv[1]
    put(tmp_path, "0.shard", simple_shard(PLAIN, {1: b"one"}))
    assert kv[1] == b"one"
