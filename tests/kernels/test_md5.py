"""MD5 of several buffers at once: the vectors of RFC 1321, hashlib, every vector path."""

from __future__ import annotations

import hashlib
import mmap
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels import cpu
from zvcore.kernels.md5 import md5_each

# Section A.5.
PUBLISHED = {
    b"": "d41d8cd98f00b204e9800998ecf8427e",
    b"a": "0cc175b9c0f1b6a831c399e269772661",
    b"abc": "900150983cd24fb0d6963f7d28e17f72",
    b"message digest": "f96b697d7cb7938d525a2f31aaf161d0",
    b"abcdefghijklmnopqrstuvwxyz": "c3fcd3d76192e4007dfb496cca67e13b",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": "d174ab98d277d9f5a5611c2c9f419d9f",
    b"1234567890" * 8: "57edf4a22be3c955ac49da2e2107b67a",
}


def expected(buffers: list[bytes]) -> list[str]:
    return [hashlib.md5(one, usedforsecurity=False).hexdigest() for one in buffers]


def test_published(simd_path: str) -> None:
    assert md5_each(PUBLISHED) == [*PUBLISHED.values()]


@given(data=st.lists(st.binary(max_size=300), max_size=70))
def test_as_hashlib(data: list[bytes]) -> None:
    for path in cpu.available_paths():
        cpu.force_path(path)
        try:
            assert md5_each(data) == expected(data)
        finally:
            cpu.force_path(None)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 33, 100])
def test_any_number_of_any_length(simd_path: str, count: int) -> None:
    """Those that end while others go on, in lanes that take the next one or none."""
    rng = np.random.default_rng(count)
    data = [rng.bytes(int(size)) for size in rng.choice([0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 5000], count)]
    assert md5_each(data) == expected(data)
    data = [rng.bytes(4096 + number) for number in range(count)]
    assert md5_each(iter(data)) == expected(data)


def test_a_long_one_among_short_ones(simd_path: str) -> None:
    data = [bytes(100), bytes(1 << 18), *[bytes([number]) * 20000 for number in range(40)]]
    assert md5_each(data) == expected(data)


def test_buffers_of_any_kind(simd_path: str) -> None:
    numbers = np.arange(1000, dtype=">u4").reshape(10, 100)
    with mmap.mmap(-1, 4096) as mapped:
        data = [bytearray(b"xyz"), memoryview(b"abcdef")[1:4], numbers, mapped, np.zeros((0, 3)), b""]
        assert md5_each(data) == expected([memoryview(one).tobytes() for one in data])
    mapped.close()  # nothing is held any more


def test_what_is_no_buffer_is_refused(simd_path: str) -> None:
    with pytest.raises(TypeError):
        md5_each([b"abc", "text"])
    scattered = np.arange(12, dtype="u1").reshape(3, 4)[:, ::2]
    with pytest.raises((BufferError, ValueError)):
        md5_each([b"123456"] * 5 + [scattered])
    writable = bytearray(64)
    with pytest.raises((BufferError, ValueError)):
        md5_each([writable, b"123456", b"123456", scattered])
    writable.append(1)  # which was given back


def test_threads() -> None:
    data = [bytes([number]) * 10000 for number in range(64)]
    wanted, found = expected(data), []
    threads = [threading.Thread(target=lambda: found.append(md5_each(data))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4
