"""Bits that blosc shuffles, here in another way than c-blosc does: what others write is read, and they read ours."""

from __future__ import annotations

import blosc
import numcodecs.blosc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs

BITSHUFFLE = 2


def counting(seed: int, count: int, typesize: int) -> bytes:
    """Elements in whose high bits little happens, and in the low ones much."""
    rng = np.random.default_rng(seed)
    planes = rng.integers(0, 256, (count, typesize), np.uint8)
    planes[:, typesize // 2 :] >>= 5
    return planes.tobytes()


@given(
    typesize=st.one_of(st.integers(1, 20), st.sampled_from([32, 64, 255])),
    count=st.one_of(st.integers(1, 9000), st.integers(1, 30).map(lambda n: n * 256)),
    rest=st.sampled_from([0, 0, 1, 7]),
    seed=st.integers(0, 99),
    cname=st.sampled_from(["lz4", "zstd"]),
    blocksize=st.sampled_from([0, 0, 4096, 8192 + 256]),
)
def test_others_have_the_same_bits(typesize: int, count: int, rest: int, seed: int, cname: str, blocksize: int) -> None:
    data = counting(seed, count, typesize) + bytes(range(rest))
    ours = codecs.get("blosc", cname=cname, clevel=5, shuffle=BITSHUFFLE, typesize=typesize, blocksize=blocksize)
    theirs = numcodecs.blosc.compress(data, cname.encode(), 5, BITSHUFFLE, blocksize, typesize)
    assert bytes(ours.decode(theirs)) == data
    assert numcodecs.blosc.decompress(bytes(ours.encode(data))) == data


@pytest.mark.parametrize("typesize", [1, 2, 4, 8])
def test_what_is_shuffled_becomes_small(typesize: int) -> None:
    """Both sides could be wrong alike, and still give back what was there."""
    data = counting(1, (1 << 18) // typesize, typesize)
    ours = codecs.get("blosc", cname="zstd", clevel=5, shuffle=BITSHUFFLE, typesize=typesize)
    stored = bytes(ours.encode(data))
    theirs = blosc.compress(data, typesize, 5, BITSHUFFLE, "zstd")
    assert blosc.decompress(stored) == data
    assert len(theirs) < len(data) and abs(len(stored) - len(theirs)) < len(theirs) // 50
