"""The bzip2 codec against the standard library and N5's other implementations."""

from __future__ import annotations

import bz2
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs
from zvcore.errors import CorruptDataError, MetadataError
from zvcore.testing import check_codec

from .conftest import CHUNKS, N5Block, create_n5

if TYPE_CHECKING:
    from pathlib import Path

Get = Callable[..., codecs.Codec]
SIX = CHUNKS["twelve bytes"]
# The specification's example, and the same by libbz2.
SPECIFICATION = "425a6839314159265359023e0dd200000040007f002000310c010d31a87394337c5dc914e1424008f83748"
LIBBZ2 = "425a6839314159265359023e0dd200000040007f002000221a63508600e72866f8bb9229c2848011f06e90"


def test_conformance(get: Get) -> None:
    check_codec(get("bzip2"))


def test_golden_bytes(get: Get) -> None:
    codec = get("bzip2")
    assert codec.decode(bytes.fromhex(SPECIFICATION)) == codec.decode(bytes.fromhex(LIBBZ2)) == SIX
    assert codec.encode(SIX).hex() == LIBBZ2


@pytest.mark.parametrize("block_size", range(1, 10))
def test_same_bytes_as_the_standard_library(get: Get, block_size: int) -> None:
    codec = get("bzip2", block_size=block_size)
    for data in CHUNKS.values():
        assert codec.encode(data) == bz2.compress(data, block_size)
        assert codec.decode(codec.encode(data)) == data


def test_streams_that_follow_each_other_are_one(get: Get) -> None:
    stream = bz2.compress(SIX, 1) + bz2.compress(b"") + bz2.compress(CHUNKS["few values"]) + bz2.compress(b"")
    decoded = SIX + CHUNKS["few values"]
    codec = get("bzip2")
    assert codec.decode(stream) == decoded
    assert codec.decode(stream, out=bytearray(len(decoded))) == decoded
    with pytest.raises(CorruptDataError):
        codec.decode(stream, max_size=len(decoded) - 1)


@given(parts=st.lists(st.binary(max_size=300), min_size=1, max_size=4), block_size=st.integers(1, 9))
def test_any_streams(parts: list[bytes], block_size: int) -> None:
    codec = codecs.get("bzip2", block_size=block_size)
    assert codec.decode(b"".join(map(codec.encode, parts))) == b"".join(parts)


GOOD = bytes.fromhex(LIBBZ2)


def test_every_prefix_is_refused(get: Get) -> None:
    codec = get("bzip2")
    for size in range(len(GOOD)):
        for options in ({}, {"max_size": 12}, {"out": bytearray(12)}):
            with pytest.raises(CorruptDataError):
                codec.decode(GOOD[:size], **options)


def test_a_flipped_bit_never_changes_the_data(get: Get) -> None:
    codec = get("bzip2")
    harmless = 0
    for bit in range(8 * len(GOOD)):
        damaged = bytearray(GOOD)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert codec.decode(damaged, max_size=12) == SIX
        except CorruptDataError:
            continue
        harmless += 1
    # The stream's own block size, what fills up its last byte, codes that no symbol has.
    assert harmless < 20


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"BZh9",
        b"BZh0" + GOOD[4:],
        b"\x1f\x8b" + GOOD,
        GOOD + b"\0",
        GOOD + b"BZh",
        GOOD + GOOD[:-1],
        GOOD + b"junk behind the stream",
    ],
)
def test_malformed(get: Get, stored: bytes) -> None:
    with pytest.raises(CorruptDataError, match="bzip2"):
        get("bzip2").decode(stored)


def test_spellings() -> None:
    codec = codecs.get("bzip2", block_size=5)
    assert codec.to_n5() == {"type": "bzip2", "blockSize": 5}
    assert codec.to_zarr3() == {"name": "numcodecs.bz2", "configuration": {"level": 5}}
    assert codecs.from_n5(codec.to_n5()) == codecs.from_zarr3(codec.to_zarr3()) == codec
    assert codecs.from_n5({"type": "bzip2"}) == codecs.get("bzip2", block_size=9)
    assert codecs.from_n5({"type": "bzip2", "blockSize": 5, "x": [1]}).to_n5() == {
        "type": "bzip2",
        "blockSize": 5,
        "x": [1],
    }


@pytest.mark.parametrize("value", [0, 10, -1, "5", True, None, 2.5])
def test_wrong_block_sizes(value: object) -> None:
    with pytest.raises(MetadataError, match=r"'blockSize'.*from 1 to 9"):
        codecs.from_n5({"type": "bzip2", "blockSize": value}, "a/attributes.json")


@pytest.mark.parametrize("writer", ["z5py", "tensorstore"])
def test_n5_blocks_of_others(tmp_path: Path, writer: str) -> None:
    values = np.arange(6 * 7, dtype="u2").reshape(6, 7)
    read = create_n5(tmp_path, writer, values, {"type": "bzip2", "blockSize": 7})
    block = N5Block(tmp_path / "n5" / "a")
    codec = codecs.from_n5(block.compression)
    payload = codec.decode(block.read())
    assert payload == values.astype(">u2").tobytes()
    block.write(codec.encode(values[::-1].astype(">u2").tobytes()))
    assert np.array_equal(read(), values[::-1])
