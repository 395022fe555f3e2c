"""Minishard indices: a slow oracle, what tensorstore and cloud-volume wrote, wrap-around, everything refused."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification
from hypothesis import given
from hypothesis import strategies as st

from zvcore.errors import CorruptDataError
from zvcore.kernels import decode_minishard_index, encode_minishard_index

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 2**64

Entries = list[tuple[int, int, int]]


def decode(raw: bytes) -> Entries:
    """The definition, one entry at a time."""
    count = len(raw) // 24
    ids, offsets, sizes = (struct.unpack_from(f"<{count}Q", raw, 8 * count * row) for row in range(3))
    entries = []
    number = end = 0
    for delta, gap, size in zip(ids, offsets, sizes):
        number = (number + delta) % LIMIT
        offset = (end + gap) % LIMIT
        end = (offset + size) % LIMIT
        entries.append((number, offset, size))
    return entries


def encode(entries: Entries) -> bytes:
    rows: tuple[list[int], list[int], list[int]] = ([], [], [])
    number = end = 0
    for entry in entries:
        rows[0].append((entry[0] - number) % LIMIT)
        rows[1].append((entry[1] - end) % LIMIT)
        rows[2].append(entry[2])
        number, end = entry[0], entry[1] + entry[2]
    return b"".join(struct.pack(f"<{len(row)}Q", *row) for row in rows)


def columns(entries: Entries) -> list[list[int]]:
    return [[entry[column] for entry in entries] for column in range(3)]


def decoded(raw: Any) -> list[list[int]]:
    return [column.tolist() for column in decode_minishard_index(raw)]


WRITTEN = [
    pytest.param(b"", [], id="empty"),
    pytest.param(struct.pack("<3Q", 10, 0, 5), [(10, 0, 5)], id="one"),
    pytest.param(struct.pack("<6Q", 3, 4, 100, 0, 20, 30), [(3, 100, 20), (7, 120, 30)], id="one after the other"),
    pytest.param(struct.pack("<6Q", 3, 4, 100, 8, 20, 30), [(3, 100, 20), (7, 128, 30)], id="a gap"),
    pytest.param(struct.pack("<6Q", 5, LIMIT - 2, 0, 0, 1, 1), [(5, 0, 1), (3, 1, 1)], id="ids fall"),
    pytest.param(struct.pack("<6Q", 5, 0, 0, 0, 1, 1), [(5, 0, 1), (5, 1, 1)], id="an id twice"),
    pytest.param(struct.pack("<6Q", 5, 1, 16, LIMIT - 9, 9, 9), [(5, 16, 9), (6, 16, 9)], id="shared bytes"),
    pytest.param(struct.pack("<6Q", 5, 1, 16, LIMIT - 20, 9, 4), [(5, 16, 9), (6, 5, 4)], id="offsets fall"),
    pytest.param(struct.pack("<3Q", LIMIT - 1, 7, 0), [(LIMIT - 1, 7, 0)], id="an empty value, the largest id"),
    pytest.param(struct.pack("<3Q", 0, LIMIT - 1, 0), [(0, LIMIT - 1, 0)], id="the largest offset"),
    pytest.param(struct.pack("<3Q", 0, 0, LIMIT - 1), [(0, 0, LIMIT - 1)], id="the largest size"),
    pytest.param(struct.pack("<3Q", 0, 1, LIMIT - 2), [(0, 1, LIMIT - 2)], id="the largest end"),
]


@pytest.mark.parametrize(("raw", "entries"), WRITTEN)
def test_both_ways(raw: bytes, entries: Entries) -> None:
    assert decode(raw) == entries
    assert decoded(raw) == columns(entries)
    assert encode_minishard_index(*(np.array(column, np.uint64) for column in columns(entries))) == raw


SPECIFICATION = {
    "@type": "neuroglancer_uint64_sharded_v1",
    "preshift_bits": 0,
    "hash": "identity",
    "minishard_bits": 1,
    "shard_bits": 0,
    "minishard_index_encoding": "raw",
    "data_encoding": "raw",
}
VALUES = {number: bytes([number]) * (number % 7) for number in (2, 3, 10, 11, 17, 40, 41, 66, 200, 202, 255)}


def shard_of_tensorstore() -> bytes:
    store = tensorstore.KvStore.open(
        {"driver": "neuroglancer_uint64_sharded", "metadata": SPECIFICATION, "base": "memory://"}
    ).result()
    with tensorstore.Transaction() as transaction:
        for number, value in VALUES.items():
            store.with_transaction(transaction).write(number.to_bytes(8, "big"), value).result()
    return bytes(store.base.read("0.shard").result().value)


def shard_of_cloud_volume() -> bytes:
    members = {name: value for name, value in SPECIFICATION.items() if name != "@type"}
    return bytes(ShardingSpecification("neuroglancer_uint64_sharded_v1", **members).synthesize_shard(VALUES))


@pytest.mark.parametrize("shard_of", [shard_of_tensorstore, shard_of_cloud_volume])
def test_what_other_implementations_wrote(shard_of: Callable[[], bytes]) -> None:
    shard = shard_of()
    found = {}
    for minishard in range(2):
        begin, end = struct.unpack_from("<2Q", shard, 16 * minishard)
        raw = shard[32 + begin : 32 + end]
        entries = decode_minishard_index(raw)
        assert encode_minishard_index(*entries) == raw
        for number, offset, size in zip(*(column.tolist() for column in entries)):
            assert number % 2 == minishard
            found[number] = shard[32 + offset : 32 + offset + size]
    assert found == VALUES


def test_the_results_are_writable_uint64() -> None:
    for column in decode_minishard_index(encode([(1, 2, 3), (4, 5, 6)])):
        assert column.dtype == np.uint64
        assert column.flags.c_contiguous
        assert column.flags.aligned
        assert column.flags.writeable


@given(st.binary(max_size=24 * 40))
def test_any_bytes_are_decoded_or_refused(raw: bytes) -> None:
    if len(raw) % 24:
        with pytest.raises(CorruptDataError):
            decode_minishard_index(raw)
        return
    entries = decode(raw)
    too_long = [index for index, (_, offset, size) in enumerate(entries) if offset + size >= LIMIT]
    if too_long:
        with pytest.raises(CorruptDataError, match=f"entry {too_long[0]} of a minishard index reaches") as caught:
            decode_minishard_index(raw)
        assert caught.value.chunk == entries[too_long[0]][0]
        assert caught.value.found == entries[too_long[0]][2]
    else:
        assert decoded(raw) == columns(entries)
        assert encode_minishard_index(*decode_minishard_index(raw)) == raw


uint64s = st.integers(0, LIMIT - 1) | st.integers(0, 300)
ranges = st.tuples(uint64s, uint64s, uint64s).filter(lambda entry: entry[1] + entry[2] < LIMIT)


@given(st.lists(ranges, max_size=60))
def test_round_trip(entries: Entries) -> None:
    raw = encode_minishard_index(*(np.array(column, np.uint64) for column in columns(entries)))
    assert raw == encode(entries)
    assert decoded(raw) == columns(entries)


def test_a_large_index() -> None:
    rng = np.random.default_rng(3)
    ids = np.sort(rng.integers(0, 2**63, 100_003, dtype=np.uint64))
    sizes = rng.integers(0, 70_000, ids.size, dtype=np.uint64)
    offsets = np.cumsum(sizes) - sizes
    raw = encode_minishard_index(ids, offsets, sizes)
    table = np.frombuffer(raw, "<u8").reshape(3, -1)
    assert np.array_equal(np.cumsum(table[0]), ids)
    assert not table[1].any()
    for column, expected in zip(decode_minishard_index(raw), (ids, offsets, sizes)):
        assert np.array_equal(column, expected)


def test_any_buffer_at_any_address() -> None:
    entries = [(9, 8, 7), (6, 5, 4), (10, 10, 10)]
    raw = encode(entries)
    shifted = [memoryview(b"x" * shift + raw)[shift:] for shift in range(8)]
    table = np.frombuffer(raw, "<u8").reshape(3, 3)
    for buffer in (*shifted, bytearray(raw), memoryview(raw), table, np.frombuffer(raw, "u1").reshape(8, 9)):
        assert decoded(buffer) == columns(entries)


def test_the_input_is_given_back_and_not_shared() -> None:
    raw = bytearray(encode([(1, 2, 3)]))
    ids, _, _ = decode_minishard_index(raw)
    raw[:] = bytes(24)
    raw.append(0)  # raises BufferError while a view of it is held
    with pytest.raises(CorruptDataError):
        decode_minishard_index(raw)
    raw.append(0)
    assert ids.tolist() == [1]


@pytest.mark.parametrize("length", [1, 8, 16, 23, 25, 47, 240_001])
def test_a_length_that_holds_no_whole_entries(length: int) -> None:
    with pytest.raises(CorruptDataError) as caught:
        decode_minishard_index(bytes(length))
    assert caught.value.found == length
    assert (
        str(caught.value)
        == f"a minishard index of n entries has 24 * n bytes (expected a multiple of 24, found {length})"
    )


@pytest.mark.parametrize(
    ("before", "offset", "size"), [(0, 1, LIMIT - 1), (3, LIMIT - 1, 1), (70, LIMIT - 5, LIMIT - 5)]
)
def test_a_range_that_no_object_can_hold(before: int, offset: int, size: int) -> None:
    entries = [(index, 10 * index, 5) for index in range(before)]
    raw = encode([*entries, (77, offset, size), (78, 0, 1)])
    with pytest.raises(CorruptDataError) as caught:
        decode_minishard_index(raw)
    error = caught.value
    assert (error.chunk, error.found) == (77, size)
    assert str(error).startswith(f"chunk 77: entry {before} of a minishard index reaches 2**64")
    assert f"at most {LIMIT - 1 - offset} bytes from {offset} on" in str(error)
    with pytest.raises(ValueError, match=f"entry {before}: {size} bytes from {offset} on reach"):
        encode_minishard_index(*(np.array(column, np.uint64) for column in columns([*entries, (77, offset, size)])))


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        ("text", TypeError, "bytes-like object, not str"),
        (None, TypeError, "bytes-like object, not NoneType"),
        (memoryview(bytes(96))[::2], ValueError, "in one piece in C order"),
        (np.zeros((3, 4), order="F"), ValueError, "in one piece in C order"),
    ],
)
def test_what_is_not_a_buffer_in_one_piece_is_refused(raw: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        decode_minishard_index(raw)


@pytest.mark.parametrize("dtype", ["i4", ">u4", "i8", ">i8", "u8", ">u8"])
def test_columns_of_any_integer_type_and_stride(dtype: str) -> None:
    entries = [(7 * index % 50, 20 * index, index % 5) for index in range(100)]
    table = np.array(entries, dtype)
    expected = encode(entries)
    assert encode_minishard_index(*table.T) == expected
    assert encode_minishard_index(*np.ascontiguousarray(table.T)) == expected
    assert encode_minishard_index(*np.ascontiguousarray(table[::-1].T)[:, ::-1]) == expected
    assert encode_minishard_index(*table.T.tolist()) == expected
    unaligned = np.frombuffer(b"x" + table.T.tobytes(), np.uint8)[1:].view(dtype).reshape(3, -1)
    assert encode_minishard_index(*unaligned) == expected


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1], [1, 2], [1]), ValueError, "must be equally many, not 1, 2 and 1"),
        (([1, 2], [1, 2], [1]), ValueError, "must be equally many, not 2, 2 and 1"),
        (([-1], [1], [1]), ValueError, r"ids\[0\] is -1"),
        (([1], [2, -3], [1]), ValueError, r"offsets\[1\] is -3"),
        (([1], [1], [1.5]), TypeError, "sizes must be integers"),
        (([1], [1], [[1]]), ValueError, "sizes must have 1 axis, not 2"),
        (([1], [2**64], [1]), ValueError, "offsets must be between"),
    ],
)
def test_wrong_columns_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encode_minishard_index(*arguments)


def test_many_threads_at_once() -> None:
    blobs = []
    for seed in range(8):
        sizes = np.random.default_rng(seed).integers(0, 1000, 30_000, dtype=np.uint64)
        blobs.append(encode_minishard_index(sizes + np.uint64(seed), np.cumsum(sizes), sizes))
    barrier = threading.Barrier(len(blobs))
    right: list[int] = []

    def work(index: int) -> None:
        barrier.wait()
        if all(encode_minishard_index(*decode_minishard_index(blobs[index])) == blobs[index] for _ in range(20)):
            right.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(blobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(right) == list(range(len(blobs)))
