"""The blosc codec against the libraries of numcodecs and of the blosc package, which read what it writes."""

from __future__ import annotations

from typing import Any

import blosc
import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs

# native/blosc_lz4.c has a search of its own for LZ4, with `make native`, at all levels but the highest.
LEVELS = (1, 5, 8, 9)


def lz4(level: int, shuffle: int, typesize: int, blocksize: int = 0) -> Any:
    return codecs.get("blosc", cname="lz4", clevel=level, shuffle=shuffle, typesize=typesize, blocksize=blocksize)


def values() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    walk = np.cumsum(rng.normal(0, 4, 100_000)) + 1000
    return {
        "an image": (walk + rng.poisson(30, 100_000)).astype("<u2"),
        "labels": np.repeat(rng.integers(0, 1 << 40, 900), rng.integers(1, 300, 900)).astype("<u8"),
        "small steps": np.cumsum(rng.integers(-1, 2, 200_000)).astype("<i4"),
        "smooth floats": np.convolve(rng.normal(size=60_000), np.hanning(99))[:60_000],
        "noise": rng.integers(0, 256, 100_000, "u1"),
        "zeros": np.zeros(100_000, "<u4"),
        "text": np.frombuffer(b" ".join(f"{n * n % 977} of {n}".encode() for n in range(9000)), "u1"),
    }


@pytest.mark.parametrize("kind", values())
@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_lz4(kind: str, shuffle: int, level: int) -> None:
    found = values()[kind]
    for part in (found, found[:9000], found[3:500], found[:20], found[:1]):
        data = part.tobytes()
        codec = lz4(level, shuffle, part.itemsize)
        stored = codec.encode(data)
        assert codec.decode(stored) == data
        assert numcodecs.Blosc().decode(stored) == data
        assert blosc.decompress(stored) == data
        # Nothing depends on what the same thread compressed before.
        assert lz4(level, shuffle, part.itemsize).encode(data) == stored
        theirs = numcodecs.Blosc("lz4", level, shuffle).encode(part)
        # It looks at fewer places, and in planes of shuffled values not for matches of four bytes.
        assert len(stored) <= (1.15 if shuffle and part.itemsize > 1 else 1.02) * len(theirs) + 64


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 400), st.integers(0, 255)), max_size=60),
    st.sampled_from(LEVELS),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 128, 1024]),
)
def test_repeats_of_every_kind(parts: Any, level: int, shuffle: int, typesize: int, blocksize: int) -> None:
    """Runs, earlier bytes once more, counting and noise, in blocks small enough that they end within each of these."""
    rng = np.random.default_rng(len(parts))
    data = bytearray()
    for kind, length, number in parts:
        if kind == 0:
            data += bytes([number]) * length
        elif kind == 1 and data:
            at = number * len(data) // 256
            data += (data[at:] * length)[:length]
        elif kind == 2:
            data += bytes((number + step) % 256 for step in range(length))
        else:
            data += rng.bytes(length)
    codec = lz4(level, shuffle, typesize, blocksize)
    stored = codec.encode(bytes(data))
    assert codec.decode(stored) == bytes(data)
    if data:
        assert numcodecs.Blosc().decode(stored) == bytes(data)
