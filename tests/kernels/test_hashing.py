"""MurmurHash3_x86_128 of ids: published vectors, the whole algorithm in Python, mmh3, every vector path."""

from __future__ import annotations

import threading
from typing import Any

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels import cpu, murmurhash3_x86_128

PUBLISHED = {
    0: 0x4772B084E028AE41,
    1: 0xE8BD67D616D4CE9A,
    2: 0xD62F9CD21B013F5A,
    3: 0x6B596E4F0E43E4D1,
    7: 0xDD7C2BAE73982156,
    28484021: 0xD939F32FEFBEFF3E,
    42: 0xC20B94F95119F47A,
    255: 0x4E2FC5B5B87BF79A,
    256: 0x4964FC5B464976DA,
    65535: 0x199ACFF150ACD49C,
    0xFFFFFFFF: 0x007260FFC08751BE,
    0x100000000: 0xBBB12D133B78FD64,
    0x0123456789ABCDEF: 0x708036264C109D93,
    1822975381: 0x587EDEBA6A30DBA1,
    185457065798402451: 0xED917429433B56EE,
    720575940621039145: 0x5DD0E7CB4A9D13ED,
    2**63: 0x998A35E4316ACFA8,
    2**64 - 2: 0xFBE3D946CC0F77F4,
    2**64 - 1: 0x574F66BD212B5D1A,
}


def hash_of(number: int) -> int:
    """The algorithm for any 8-byte input: all four words of the state, nothing left out."""

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF

    def mix(word: int) -> int:
        word ^= word >> 16
        word = word * 0x85EBCA6B & 0xFFFFFFFF
        word ^= word >> 13
        word = word * 0xC2B2AE35 & 0xFFFFFFFF
        return word ^ word >> 16

    state = [0, 0, 0, 0]
    low, high = number & 0xFFFFFFFF, number >> 32
    state[1] ^= rotate(high * 0xAB0E9789 & 0xFFFFFFFF, 16) * 0x38B34AE5 & 0xFFFFFFFF
    state[0] ^= rotate(low * 0x239B961B & 0xFFFFFFFF, 15) * 0xAB0E9789 & 0xFFFFFFFF
    state = [word ^ 8 for word in state]
    for last in (False, True):
        state[0] = sum(state) & 0xFFFFFFFF
        state[1:] = [(word + state[0]) & 0xFFFFFFFF for word in state[1:]]
        if not last:
            state = [mix(word) for word in state]
    return state[0] | state[1] << 32


def hash_of_mmh3(number: int) -> int:
    return mmh3.hash64(number.to_bytes(8, "little"), 0, False, False)[0]


def test_published_hashes(simd_path: str) -> None:
    hashes = murmurhash3_x86_128(list(PUBLISHED))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == list(PUBLISHED.values())
    assert [hash_of(number) for number in PUBLISHED] == list(PUBLISHED.values())


@given(st.lists(st.integers(0, 2**64 - 1), max_size=70))
def test_agrees_with_the_algorithm_on_every_path(ids: list[int]) -> None:
    expected = [hash_of(number) for number in ids]
    before = cpu.simd_path()
    try:
        for path in cpu.available_paths():
            cpu.force_path(path)
            assert murmurhash3_x86_128(np.array(ids, np.uint64)).tolist() == expected, path
    finally:
        cpu.force_path(before)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 31, 255, 256, 257, 5003])
def test_agrees_with_mmh3_at_any_count(simd_path: str, count: int) -> None:
    ids = np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64)
    assert murmurhash3_x86_128(ids).tolist() == [hash_of_mmh3(number) for number in ids.tolist()]


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", ">u8"])
def test_any_integer_type_and_stride(simd_path: str, dtype: str) -> None:
    ids = (np.arange(777) % 128).astype(dtype)
    expected = [hash_of(number) for number in ids.tolist()]
    unaligned = np.frombuffer(b"x" + ids.tobytes(), np.uint8)[1:].view(dtype)
    frozen = ids.copy()
    frozen.flags.writeable = False
    for column in (ids, np.repeat(ids, 3)[::3], ids[::-1].copy()[::-1], unaligned, frozen):
        assert murmurhash3_x86_128(column).tolist() == expected
    assert murmurhash3_x86_128(np.broadcast_to(ids[5], 400)).tolist() == [expected[5]] * 400


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([3, -1], ValueError, r"ids\[1\] is -1, but must be between 0 and 2\*\*64 - 1"),
        (np.array([3, -1], "i4"), ValueError, r"ids\[1\] is -1"),
        ([2**64], ValueError, r"ids must be between 0 and 2\*\*64 - 1"),
        ([1.0], TypeError, "ids must be integers"),
        (np.zeros(3), TypeError, "ids must be integers, not float64"),
        (np.zeros(3, "M8[s]"), TypeError, "ids must be integers, not datetime64"),
        (np.zeros((2, 2), "u8"), ValueError, "ids must have 1 axis, not 2"),
        (5, ValueError, "ids must have 1 axis, not 0"),
        ("text", ValueError, "ids must have 1 axis, not 0"),
    ],
)
def test_wrong_ids_are_refused(ids: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        murmurhash3_x86_128(ids)


def test_many_threads_at_once() -> None:
    columns = [np.random.default_rng(seed).integers(0, 2**64, 50_000, dtype=np.uint64) for seed in range(8)]
    expected = [murmurhash3_x86_128(column) for column in columns]
    barrier = threading.Barrier(len(columns))
    right: list[int] = []

    def work(index: int) -> None:
        barrier.wait()
        if all(np.array_equal(murmurhash3_x86_128(columns[index]), expected[index]) for _ in range(20)):
            right.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(columns))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(right) == list(range(len(columns)))
