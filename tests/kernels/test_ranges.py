"""Moves of many byte ranges at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels.ranges import gather_ranges


@given(data=st.binary(max_size=50), ranges=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
def test_like_slices(data: bytes, ranges: list[tuple[int, int]]) -> None:
    offsets, sizes = (np.array([pair[i] for pair in ranges], np.uint64) for i in (0, 1))
    if any(offset + size > len(data) for offset, size in ranges):
        with pytest.raises(ValueError, match="do not lie within"):
            gather_ranges(data, offsets, sizes)
        return
    assert gather_ranges(data, offsets, sizes).tobytes() == b"".join(data[a : a + n] for a, n in ranges)


@pytest.mark.parametrize(("offset", "size"), [(2**64 - 1, 1), (1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (4, 0), (0, 4)])
def test_ranges_outside(offset: int, size: int) -> None:
    with pytest.raises(ValueError, match="do not lie within"):
        gather_ranges(b"abc", np.array([offset], np.uint64), np.array([size], np.uint64))


def test_columns_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="offsets"):
        gather_ranges(b"abc", np.zeros(2, np.uint64), np.zeros(1, np.uint64))
