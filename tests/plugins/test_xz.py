"""The xz codec against the standard library, numcodecs and N5's other implementations."""

from __future__ import annotations

import lzma
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.testing import check_codec

from .conftest import CHUNKS, N5Block, create_n5

if TYPE_CHECKING:
    from pathlib import Path

Get = Callable[..., codecs.Codec]
SIX = CHUNKS["twelve bytes"]
# The specification's example.
GOOD = bytes.fromhex(
    "fd377a585a000004e6d6b4460200210116000000742fe5a301000b000100020003000400050006000d0309ca34ec15a7"
    "0001240ca618d8d81fb6f37d010000000004595a"
)


def test_conformance(get: Get) -> None:
    check_codec(get("xz", preset=1))


def test_golden_bytes(get: Get) -> None:
    assert get("xz").encode(SIX) == get("xz", preset=6).encode(SIX) == GOOD
    assert get("xz").decode(GOOD) == SIX


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("preset", range(10))
def test_same_bytes_as_the_standard_library(get: Get, preset: int, extreme: bool) -> None:
    codec = get("xz", preset=preset, extreme=extreme)
    for data in (b"", b"x", SIX, CHUNKS["few values"][:5000], CHUNKS["noise"][:3000]):
        stored = codec.encode(data)
        assert stored == lzma.compress(
            data, check=lzma.CHECK_CRC64, preset=preset | (lzma.PRESET_EXTREME if extreme else 0)
        )
        assert codec.decode(stored) == data


def test_noise_stays_below_the_bound() -> None:
    codec = codecs.get("xz", preset=0)
    assert codec._native is not None
    noise = np.random.default_rng(0).bytes(4_000_000)
    surplus = []
    for size in (1_000_000, 4_000_000):
        stored = codec.encode(noise[:size])
        assert codec.decode(stored) == noise[:size]
        surplus.append((len(stored) - size, codec._native.bound(size) - size))
    # The bound grows faster with the size than what it bounds.
    assert surplus[0][0] < surplus[0][1] - 64
    assert surplus[1][0] - surplus[0][0] < surplus[1][1] - surplus[0][1]


def test_streams_that_follow_each_other_are_one(get: Get) -> None:
    few = CHUNKS["few values"]
    stream = GOOD + bytes(8) + lzma.compress(few, preset=1) + GOOD + bytes(4)
    codec = get("xz")
    assert codec.decode(stream) == SIX + few + SIX
    assert codec.decode(stream, out=bytearray(len(few) + 24)) == SIX + few + SIX
    with pytest.raises(CorruptDataError):
        codec.decode(stream, max_size=len(few) + 23)


@given(parts=st.lists(st.binary(max_size=300), min_size=1, max_size=4), padding=st.integers(0, 3))
def test_any_streams(parts: list[bytes], padding: int) -> None:
    codec = codecs.get("xz", preset=1)
    assert codec.decode(b"".join(codec.encode(part) + bytes(4 * padding) for part in parts)) == b"".join(parts)


@pytest.mark.parametrize("check", [lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256])
def test_streams_with_other_checks_and_filters(get: Get, check: int) -> None:
    filters = [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 3}]
    ramp = CHUNKS["ramp"]
    stored = lzma.compress(ramp, check=check, filters=filters)
    assert get("xz").decode(stored) == ramp
    assert get("xz").decode(stored, out=bytearray(len(ramp))) == ramp


@pytest.mark.parametrize("preset", [0, 6, 9])
def test_the_index_tells_the_size(preset: int) -> None:
    native = codecs.get("xz", preset=preset)._native
    assert native is not None
    for data in CHUNKS.values():
        assert native.decoded_hint(native.encode(data)) == len(data)
    for stored in (b"", GOOD[:-1], GOOD + GOOD, GOOD + bytes(4), GOOD[:-20] + bytes(20), GOOD[12:]):
        assert native.decoded_hint(stored) is None


def test_every_prefix_is_refused(get: Get) -> None:
    codec = get("xz")
    for size in range(len(GOOD)):
        for options in ({}, {"max_size": 12}, {"out": bytearray(12)}):
            with pytest.raises(CorruptDataError):
                codec.decode(GOOD[:size], **options)


def test_every_flipped_bit_is_found(get: Get) -> None:
    codec = get("xz")
    for bit in range(8 * len(GOOD)):
        damaged = bytearray(GOOD)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptDataError, UnsupportedError)):
            codec.decode(damaged, max_size=100)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\xfd7zXZ",
        bytes(40),
        GOOD + b"\0",
        GOOD + bytes(7),
        bytes(4) + GOOD,
        GOOD + b"junk",
        GOOD + GOOD[:-1],
        lzma.compress(SIX, format=lzma.FORMAT_ALONE),
    ],
)
def test_malformed(get: Get, stored: bytes) -> None:
    with pytest.raises(CorruptDataError, match="xz"):
        get("xz").decode(stored)


def test_a_dictionary_larger_than_the_limit_is_refused(get: Get) -> None:
    stored = lzma.compress(SIX, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}])
    with pytest.raises(UnsupportedError, match=r"(?i)memory"):
        get("xz").decode(stored)
    assert get("xz").decode(lzma.compress(SIX, preset=9)) == SIX


def test_spellings() -> None:
    codec = codecs.get("xz", preset=4)
    assert codec.to_n5() == {"type": "xz", "preset": 4}
    assert codecs.from_n5(codec.to_n5()) == codec
    assert codecs.from_n5({"type": "xz"}) == codecs.get("xz", preset=6)
    extreme = codecs.get("xz", preset=4, extreme=True)
    assert extreme.to_n5() == {"type": "xz", "preset": 4, "extreme": True}
    assert codecs.from_n5(extreme.to_n5()) == extreme
    for one in (codec, extreme):
        document = one.to_zarr3()
        assert document["name"] == "numcodecs.lzma"
        # What numcodecs makes of the same document.
        theirs = numcodecs.get_codec({"id": "lzma", **document["configuration"]})
        assert bytes(theirs.encode(SIX * 50)) == one.encode(SIX * 50)
        assert codecs.from_zarr3(document) == one
    assert codecs.from_zarr3({"name": "xz", "configuration": {"preset": 2}}).config() == {"preset": 2, "extreme": False}


@pytest.mark.parametrize("value", [-1, 10, "6", True, None, 1.5, 2**31])
def test_wrong_presets(value: object) -> None:
    with pytest.raises(MetadataError, match=r"'preset'.*from 0 to 9"):
        codecs.from_n5({"type": "xz", "preset": value}, "a/attributes.json")


DELTA = [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
NUMCODECS = [
    {"format": 1, "check": -1, "preset": None, "filters": None},
    {"format": 1, "check": lzma.CHECK_SHA256, "preset": 3, "filters": None},
    {"format": 1, "check": lzma.CHECK_NONE, "preset": None, "filters": DELTA},
    {"format": 2, "check": -1, "preset": 5, "filters": None},
    {"format": 3, "check": -1, "preset": None, "filters": DELTA},
]


@pytest.mark.parametrize("members", NUMCODECS)
def test_all_of_numcodecs_lzma(get: Get, members: dict[str, Any]) -> None:
    theirs = numcodecs.get_codec({"id": "lzma", **members})
    ours = [
        # Zarr 2 in N5.
        codecs.from_n5({"type": "lzma", **members}),
        codecs.from_zarr3({"name": "numcodecs.lzma", "configuration": members}),
    ]
    for codec in ours:
        twin = pickle.loads(pickle.dumps(codec))
        assert twin == codec
        assert hash(twin) == hash(codec)
        for data in CHUNKS.values():
            stored = bytes(theirs.encode(data))
            assert bytes(codec.encode(data)) == stored
            assert codec.decode(stored) == twin.decode(stored, out=bytearray(len(data))) == data
            if data:
                with pytest.raises(CorruptDataError):
                    codec.decode(stored, max_size=len(data) - 1)
                with pytest.raises(CorruptDataError):
                    codec.decode(stored[:-1])
        with pytest.raises((CorruptDataError, UnsupportedError)):
            codec.decode(b"certainly not an lzma stream of any kind")
    written = {key: value for key, value in members.items() if value is not None}
    assert ours[0].to_n5() == {"type": "lzma", **written}
    configuration = ours[1].to_zarr3()["configuration"]
    assert bytes(numcodecs.get_codec({"id": "lzma", **configuration}).encode(SIX)) == bytes(theirs.encode(SIX))


@pytest.mark.parametrize(
    "members",
    [
        {"format": 3},
        {"format": 3, "filters": [{"id": 99}]},
        {"format": 3, "filters": ["delta"]},
        {"format": 3, "filters": [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 40}]},
        {"format": 1, "check": 15},
        {"format": 1, "preset": 77, "check": 1},
    ],
)
def test_lzma_parameters_that_liblzma_refuses(members: dict[str, Any]) -> None:
    codec = codecs.from_n5({"type": "lzma", **members})
    with pytest.raises(UnsupportedError):
        codec.encode(SIX)
    if members["format"] == lzma.FORMAT_RAW:
        with pytest.raises((CorruptDataError, UnsupportedError)):
            codec.decode(GOOD)


@pytest.mark.parametrize("members", [{"format": 4}, {"format": "xz"}, {"check": 16}, {"filters": {}}, {"preset": "9"}])
def test_wrong_lzma_members(members: dict[str, Any]) -> None:
    with pytest.raises(MetadataError, match=next(iter(members))):
        codecs.from_n5({"type": "lzma", **members}, "a/attributes.json")
    with pytest.raises(MetadataError, match=next(iter(members))):
        codecs.from_zarr3({"name": "numcodecs.lzma", "configuration": members}, "zarr.json")


@pytest.mark.parametrize("writer", ["z5py", "tensorstore"])
def test_n5_blocks_of_others(tmp_path: Path, writer: str) -> None:
    values = np.arange(6 * 7, dtype="i4").reshape(6, 7)
    read = create_n5(tmp_path, writer, values, {"type": "xz", "preset": 3})
    block = N5Block(tmp_path / "n5" / "a")
    codec = codecs.from_n5(block.compression)
    stored = block.read()
    assert codec.decode(stored) == values.astype(">i4").tobytes()
    assert codec.encode(values.astype(">i4").tobytes()) == stored
    block.write(codec.encode(values[::-1].astype(">i4").tobytes()))
    assert np.array_equal(read(), values[::-1])
