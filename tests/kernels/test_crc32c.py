"""CRC-32C: published vectors, a bit-by-bit oracle, two peers, every vector path, every kind of buffer."""

from __future__ import annotations

import array
import mmap
import random
import threading
from typing import Any

import crc32c as icrar_crc32c
import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels import cpu, crc32c

# RFC 3720 B.4, and the indices of empty Zarr shards of n chunks with the bytes that are stored behind them
PUBLISHED = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(reversed(range(32))), 0x113FDB5C),
    *[
        (b"\xff" * 16 * chunks, int.from_bytes(bytes.fromhex(stored), "little"))
        for chunks, stored in [
            (1, "104c2fef"),
            (4, "664ecd2f"),
            (16, "5c4a460f"),
            (64, "e4cde547"),
            (512, "17342033"),
            (4096, "447f5a54"),
            (32768, "42fb069d"),
        ]
    ],
]


def oracle(data: bytes, value: int = 0) -> int:
    """The definition, one bit at a time."""
    state = value ^ 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


# All block sizes of all paths (136, 272, 952, 16320; 64, 256; 384, 3072, 24576), a little more and a little less.
BLOCKS = (8, 64, 136, 256, 272, 384, 952, 1024, 3072, 16320, 24576)
LENGTHS = sorted({*range(300), *(block * k + d for block in BLOCKS for k in (1, 2, 3) for d in range(-9, 10)), 70_001})


@pytest.mark.parametrize(("data", "checksum"), PUBLISHED, ids=[f"{checksum:08x}" for _, checksum in PUBLISHED])
def test_published_vectors(simd_path: str, data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


def test_every_length_near_a_block_boundary(simd_path: str) -> None:
    data = random.Random(1).randbytes(max(LENGTHS) + 64)
    for length in LENGTHS:
        start = length % 61
        piece = data[start : start + length]
        assert crc32c(memoryview(data)[start : start + length]) == google_crc32c.value(piece), length
        assert crc32c(piece, 0x1234ABCD) == icrar_crc32c.crc32c(piece, 0x1234ABCD), length


def test_large_data(simd_path: str) -> None:
    """More than a megabyte is worked on by pages, eight of 4 KiB at once."""
    data = random.Random(3).randbytes((1 << 20) + (1 << 18))
    for length in (1 << 20, (1 << 20) + (1 << 15)):
        for difference in (-4097, -64, -1, 0, 1, 63, 64, 200, 4096, 32767):
            piece = memoryview(data)[length % 61 : length % 61 + length + difference]
            assert crc32c(piece, 77) == icrar_crc32c.crc32c(piece, 77), length + difference


@given(data=st.binary(max_size=700), value=st.integers(0, 2**32 - 1))
def test_agrees_with_the_definition_on_every_path(data: bytes, value: int) -> None:
    expected = oracle(data, value)
    before = cpu.simd_path()
    try:
        for path in cpu.available_paths():
            cpu.force_path(path)
            assert crc32c(data, value) == expected, path
    finally:
        cpu.force_path(before)


@given(data=st.binary(max_size=3000), cut=st.integers(0, 3000))
def test_continues_where_another_call_stopped(data: bytes, cut: int) -> None:
    assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data)


def test_any_buffer_whose_bytes_lie_in_one_piece() -> None:
    data = random.Random(2).randbytes(4096)
    expected = google_crc32c.value(data)
    values = np.frombuffer(data, np.uint32)
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data

    class Bytes(bytes):
        pass

    buffers: list[Any] = [
        data,
        Bytes(data),
        bytearray(data),
        memoryview(data),
        memoryview(b"xx" + data)[2:],
        array.array("d", data),
        mapped,
        values,
        values.reshape(32, 32),
        values.view(">u2").reshape(2, -1),
    ]
    for buffer in buffers:
        assert crc32c(buffer) == expected, type(buffer)
    assert crc32c(np.zeros((0, 3))) == 0


@pytest.mark.parametrize(
    "scattered",
    [memoryview(b"abcd")[::2], np.arange(10)[::-1], np.zeros((4, 4), order="F"), np.zeros((4, 4))[:, 1:]],
)
def test_scattered_bytes_are_refused(scattered: Any) -> None:
    with pytest.raises(ValueError, match="in one piece in C order; copy the data first"):
        crc32c(scattered)


@pytest.mark.parametrize("wrong", ["text", None, 5, [1, 2]])
def test_what_is_not_a_buffer_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"bytes-like object, not {type(wrong).__name__}"):
        crc32c(wrong)


@pytest.mark.parametrize("value", [-1, 2**32, 2**64, -(2**70)])
def test_a_value_that_is_no_checksum_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 2\*\*32 - 1"):
        crc32c(b"abc", value)


@pytest.mark.parametrize("value", [None, "1", 1.0])
def test_a_value_that_is_no_integer_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        crc32c(b"abc", value)


def test_a_value_may_be_a_numpy_integer() -> None:
    assert crc32c(b"456789", value=np.uint32(crc32c(b"123"))) == 0xE3069283


def test_the_buffer_is_given_back() -> None:
    for size in (10, 1 << 20):
        data = bytearray(size)
        crc32c(data)
        data.append(0)  # raises BufferError while a view of it is held


def test_many_threads_at_once() -> None:
    blobs = [random.Random(seed).randbytes(size) for seed, size in enumerate([10, 5000, 100_000, 1_000_003] * 2)]
    expected = [google_crc32c.value(blob) for blob in blobs]
    barrier = threading.Barrier(len(blobs))
    found: dict[int, set[int]] = {}

    def work(index: int) -> None:
        barrier.wait()
        found[index] = {crc32c(blobs[index]) for _ in range(20)}

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(blobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {index: {checksum} for index, checksum in enumerate(expected)}
