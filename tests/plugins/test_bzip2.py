"""The bzip2 codec against the standard library and N5's other implementations."""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterator
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


def blocks() -> Iterator[tuple[str, bytes]]:
    """What libbz2 sorts and codes in different ways, of more than one block too."""
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(0, 3000, 60_000, dtype="<u4"), rng.integers(1, 9, 60_000))
    yield "noise", rng.bytes(250_000)
    yield "noise of few values", rng.integers(0, 9, 30_000, "u1").tobytes()
    yield "grey noise", rng.normal(128, 20, 250_000).astype("u1").tobytes()
    yield "labels", labels.tobytes()
    yield "a ramp", np.arange(100_000, dtype=">u4").tobytes()
    yield "one piece, repeated", rng.bytes(300) * 500
    yield "one piece, repeated, and its beginning", rng.bytes(300) * 500 + bytes(7)
    yield "one byte, in whole runs of libbz2", b"\1" * 259 * 100
    yield "one byte, but at the end", b"\1" * 200_000 + b"\0"
    yield "words", b" ".join(rng.choice([b"soma", b"axon", b"dendrite", b"spine"], 40_000).tolist())


BLOCKS = dict(blocks())


@pytest.mark.parametrize("block_size", [1, 9])
@pytest.mark.parametrize("name", BLOCKS)
def test_large_blocks_are_as_the_standard_library_writes_them(get: Get, name: str, block_size: int) -> None:
    codec = get("bzip2", block_size=block_size)
    data = BLOCKS[name]
    stored = bz2.compress(data, block_size)
    assert codec.encode(data) == stored
    assert codec.decode(stored) == data


def test_damage_in_a_large_block_is_found_where_the_standard_library_finds_it(get: Get) -> None:
    codec = get("bzip2")
    rng = np.random.default_rng(1)
    harmless = 0
    for name in ("grey noise", "labels", "words"):
        data = BLOCKS[name][:60_000]
        stored = bz2.compress(data)
        for place in [*range(4, 90), *rng.integers(90, len(stored), 120).tolist()]:
            damaged = bytearray(stored)
            damaged[place] ^= 1 << int(rng.integers(8))
            try:
                expected = bz2.decompress(damaged)
            except (OSError, ValueError):
                with pytest.raises(CorruptDataError):
                    codec.decode(damaged, max_size=len(data))
            else:
                assert codec.decode(damaged, max_size=len(data)) == expected
                harmless += 1
    assert harmless < 30


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
