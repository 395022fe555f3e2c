"""Literals of the only block of a frame, each stream read from two places: what libzstd gives, or an error."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs

from .conftest import decoded_alone, has_own_libraries, noise

CODEC = codecs.get("zstd")
BLOCK = 128 << 10

pytestmark = pytest.mark.skipif(not has_own_libraries(), reason="the libzstd of the system has one loop for all blocks")


def flat(seed: int, size: int, rare: int) -> bytes:
    """Codes of nearly one length: who begins in the middle of one seldom comes upon another."""
    weights = np.ones(256)
    weights[:rare] = 0.4
    weights[250] = 8
    return np.random.default_rng(seed).choice(256, size, p=weights / weights.sum()).astype(np.uint8).tobytes()


def steps(seed: int, size: int, length: int) -> bytes:
    """Quiet and loud parts, as where an image has an edge: the halves of streams have far from as many symbols."""
    parts = [noise(seed + i, length, (2, 30)[i % 2]) for i in range(size // length + 1)]
    return b"".join(parts)[:size]


@st.composite
def values(draw: st.DrawFn) -> bytes:
    seed, size = draw(st.integers(0, 99)), draw(st.integers(4000, BLOCK))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return flat(seed, size, draw(st.integers(1, 60)))
    if kind == 1:
        return steps(seed, size, draw(st.integers(500, size)))
    made = bytearray(noise(seed, size, draw(st.sampled_from([6, 9, 12, 20, 40]))))
    if kind == 2:  # with some matches
        made[size // 2 : size // 2 + 300] = made[:300]
    return bytes(made)


decoded = partial(decoded_alone, CODEC)


def decoded_by_libzstd(stored: bytes, size: int) -> bytes | None:
    try:
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
    except zstandard.ZstdError:
        return None


@given(
    data=values(),
    level=st.integers(1, 6),
    damage=st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), max_size=2),
)
def test_one_block_is_what_libzstd_gives(data: bytes, level: int, damage: list[tuple[int, int]]) -> None:
    stored = bytearray(zstandard.ZstdCompressor(level=level).compress(data))
    assert decoded(bytes(stored), len(data)) == data
    for place, change in damage:
        stored[place % len(stored)] ^= change
    known = decoded_by_libzstd(bytes(stored), len(data))
    # Damage that libzstd does not see may be told here; never the other way round, and never something else.
    assert decoded(bytes(stored), len(data)) in (None, known)


def test_damage_of_either_half_is_told_or_decoded_as_libzstd_does() -> None:
    data = noise(8, 32 << 10, 20)
    stored = zstandard.ZstdCompressor(level=3).compress(data)
    told = known = 0
    for place in range(200, len(stored) - 8, 61):
        bad = bytearray(stored)
        bad[place] ^= 0x5A
        found = decoded(bytes(bad), len(data))
        theirs = decoded_by_libzstd(bytes(bad), len(data))
        assert found != data and found in (None, theirs)
        told += found is None
        known += theirs is None
    # The streams end elsewhere in many cases, which libzstd does not look at.
    assert told > 50 and told >= known
