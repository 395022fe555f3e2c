"""CRC-32 is zlib's, whatever computes it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels.crc32 import crc32


@given(st.binary(max_size=70), st.binary(max_size=300), st.integers(1, 2000))
def test_it_is_that_of_zlib_in_one_piece_or_several(first: bytes, second: bytes, times: int) -> None:
    assert crc32(first) == zlib.crc32(first)
    assert crc32(second, crc32(first)) == zlib.crc32(first + second)
    assert crc32(memoryview(second * times)[1:]) == zlib.crc32((second * times)[1:])


def test_any_buffer_in_one_piece_is_taken() -> None:
    values = np.arange(60_000, dtype="u2").reshape(200, 300)
    assert crc32(values) == crc32(values.tobytes()) == zlib.crc32(values)
    assert crc32(np.zeros((3, 0))) == 0
    with pytest.raises((BufferError, ValueError)):
        crc32(values[:, ::2])
    with pytest.raises(TypeError):
        crc32("text")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        crc32(b"", 1 << 32)
    with pytest.raises(OverflowError):
        crc32(b"", -1)
