"""The lz4 codec against published streams, numcodecs, the lz4 package and N5's other implementations."""

from __future__ import annotations

import mmap
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import lz4.block
import lz4.frame
import numcodecs
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError, ZvcoreError
from zvcore.testing import check_codec

from .conftest import CHUNKS, N5Block, create_n5, has_own_libraries

if TYPE_CHECKING:
    from pathlib import Path

Get = Callable[..., codecs.Codec]
SIX = CHUNKS["twelve bytes"]
FRAMINGS = ["lz4block", "frame", "size_prefixed", "block"]
END = "4c5a34426c6f636b%02x000000000000000000000000"

# By lz4-java 1.8.0: data, block size, stream.
JAVA = [
    (SIX, 65536, "4c5a34426c6f636b160c0000000c00000090258b06" + SIX.hex() + END % 0x16),
    (
        struct.pack(">128H", *(i % 4 for i in range(128))),
        65536,
        "4c5a34426c6f636b26120000000001000047e4aa098f00000001000200030800e0500100020003" + END % 0x16,
    ),
    (
        bytes(200),
        64,
        "4c5a34426c6f636b200b000000400000000499fa031f00010027500000000000" * 3
        + "4c5a34426c6f636b1008000000080000003b6a65000000000000000000"
        + END % 0x10,
    ),
    (b"", 65536, END % 0x16),
]
# What other implementations of N5 made of the same six numbers.
RUST = bytes.fromhex("04224d186440a70c0000800001000200030004000500060000000041373308")
ZARR2 = bytes.fromhex("0c000000c0000100020003000400050006")
Z5 = bytes.fromhex("c0000100020003000400050006")


@pytest.mark.parametrize("sniff", [False, True])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_conformance(get: Get, framing: str, sniff: bool) -> None:
    check_codec(get("lz4", framing=framing, sniff=sniff), bounded=not sniff)


@pytest.mark.parametrize(("data", "block_size", "stream"), JAVA)
def test_streams_of_java(get: Get, data: bytes, block_size: int, stream: str) -> None:
    codec = get("lz4", block_size=block_size)
    stored = bytes.fromhex(stream)
    assert codec.encode(data) == stored
    assert codec.decode(stored) == data
    assert codec.decode(stored, out=bytearray(len(data))) == data
    # Java stops reading at the end mark.
    assert codec.decode(stored + b"junk", max_size=len(data)) == data
    assert codec.decode(stored + stored, out=bytearray(len(data))) == data


@pytest.mark.parametrize(
    ("block_size", "token"),
    [(64, 0x10), (1023, 0x10), (1024, 0x10), (1025, 0x11), (65536, 0x16), (65537, 0x17), (2**20, 0x1A), (2**25, 0x1F)],
)
def test_size_class_of_a_stream(get: Get, block_size: int, token: int) -> None:
    assert get("lz4", block_size=block_size).encode(b"").hex() == END % token


def blocks(stream: bytes) -> list[tuple[int, bytes, bytes]]:
    """(method, packed, decoded) of each block of a stream, by an independent reading of its description."""
    found = []
    at = 0
    while True:
        magic, token, packed, length, checksum = struct.unpack_from("<8sBIII", stream, at)
        assert magic == b"LZ4Block"
        at += 21
        if length == 0:
            assert (packed, checksum, at) == (0, 0, len(stream))
            return found
        data = stream[at : at + packed]
        at += packed
        decoded = data if token & 0xF0 == 0x10 else lz4.block.decompress(data, uncompressed_size=length)
        assert len(decoded) == length
        assert xxhash.xxh32_intdigest(decoded, 0x9747B28C) & 0x0FFFFFFF == checksum
        found.append((token & 0xF0, data, decoded))


@pytest.mark.parametrize("level", [0, 1, 9, 12])
@pytest.mark.parametrize("block_size", [64, 1000, 65536, 2**25])
def test_blocks_of_a_stream(get: Get, block_size: int, level: int) -> None:
    codec = get("lz4", block_size=block_size, level=level)
    for data in CHUNKS.values():
        if len(data) > 500 * block_size:
            data = data[: 50 * block_size + 7]
        stored = codec.encode(data)
        found = blocks(stored)
        assert b"".join(decoded for _, _, decoded in found) == data == codec.decode(stored)
        assert all(len(decoded) == block_size for _, _, decoded in found[:-1])
        for method, packed, decoded in found:
            assert (method == 0x20) == (len(packed) < len(decoded))
            if method == 0x10:
                # Stored as it is only if lz4 does not make it smaller, our own or the package's.
                size = len(numcodecs.LZ4().encode(decoded)) - 4
                assert level or (size if codec.native else len(lz4.block.compress(decoded))) >= len(decoded)


def test_frames(get: Get) -> None:
    codec = get("lz4", framing="frame")
    assert codec.decode(RUST) == SIX
    for data in CHUNKS.values():
        for level in (0, 3, 12):
            stored = get("lz4", framing="frame", level=level).encode(data)
            assert lz4.frame.decompress(stored) == data
            info = lz4.frame.get_frame_info(stored)
            # liblz4 cannot write a size of 0.
            assert info["content_checksum"]
            assert info["content_size"] == len(data)
        assert not lz4.frame.get_frame_info(get("lz4", framing="frame", checksum=False).encode(data))[
            "content_checksum"
        ]
        for options in (
            {},
            {"block_linked": False},
            {"content_checksum": True, "block_checksum": True},
            {"block_size": lz4.frame.BLOCKSIZE_MAX4MB, "store_size": False},
            {"compression_level": 9},
        ):
            theirs = lz4.frame.compress(data, **options)
            assert codec.decode(theirs) == data
            assert codec.decode(theirs, out=bytearray(len(data))) == data
            if data:
                with pytest.raises(CorruptDataError):
                    codec.decode(theirs, max_size=len(data) - 1)


SKIPPABLE = bytes.fromhex("502a4d18 03000000 616263")


def test_frames_that_follow_each_other_are_one(get: Get) -> None:
    codec = get("lz4", framing="frame")
    few = CHUNKS["few values"]
    stored = RUST + lz4.frame.compress(few, store_size=False) + lz4.frame.compress(b"") + RUST
    assert codec.decode(stored) == SIX + few + SIX
    assert codec.decode(stored, out=bytearray(len(few) + 24)) == SIX + few + SIX
    with pytest.raises(CorruptDataError):
        codec.decode(stored, max_size=len(few) + 23)


def test_skippable_frames() -> None:
    codec = codecs.get("lz4", framing="frame")
    assert codec.decode(SKIPPABLE + RUST + SKIPPABLE + RUST) == SIX + SIX


@pytest.mark.parametrize("acceleration", [-5, 0, 1, 10, 2**31 - 1])
def test_size_prefixed_is_numcodecs(get: Get, acceleration: int) -> None:
    codec = get("lz4", framing="size_prefixed", acceleration=acceleration)
    theirs = numcodecs.LZ4(acceleration=acceleration)
    for data in CHUNKS.values():
        stored = codec.encode(data)
        assert stored == theirs.encode(data)
        assert codec.decode(stored) == data
        if data:
            assert theirs.decode(stored) == data
    assert codec.decode(ZARR2) == SIX


@pytest.mark.parametrize("level", range(13))
def test_blocks_are_liblz4s(get: Get, level: int) -> None:
    codec = get("lz4", framing="block", level=level)
    for data in CHUNKS.values():
        stored = codec.encode(data)
        assert codec.decode(stored) == codec.decode(stored, out=bytearray(len(data))) == data
        assert lz4.block.decompress(stored, uncompressed_size=max(1, len(data))) == data
        if level >= 3:
            assert stored == lz4.block.compress(data, "high_compression", compression=level, store_size=False)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("stored", [bytes.fromhex(JAVA[0][2]), RUST, ZARR2, Z5], ids=["Java", "Rust", "Zarr 2", "z5"])
def test_any_framing_is_recognised(get: Get, framing: str, stored: bytes) -> None:
    codec = get("lz4", framing=framing, sniff=True)
    assert codec.decode(stored) == codec.decode(stored, out=bytearray(12)) == SIX
    for size in range(12):
        with pytest.raises(CorruptDataError):
            codec.decode(stored, max_size=size)
        with pytest.raises(CorruptDataError):
            codec.decode(stored, out=bytearray(size))
    for size in (13, 100):
        with pytest.raises(CorruptDataError):
            codec.decode(stored, out=bytearray(size))


@given(
    data=st.binary(max_size=400), repeat=st.integers(1, 400), writer=st.sampled_from(FRAMINGS), level=st.integers(0, 12)
)
def test_any_data_in_any_framing(data: bytes, repeat: int, writer: str, level: int) -> None:
    data *= repeat
    stored = codecs.get("lz4", framing=writer, level=level, block_size=1024).encode(data)
    assert codecs.get("lz4", framing=writer).decode(stored, out=bytearray(len(data))) == data
    recognising = codecs.from_n5({"type": "lz4", "blockSize": 65536})
    assert recognising.native
    assert recognising.decode(stored) == recognising.decode(stored, out=bytearray(len(data))) == data


def test_a_raw_block_that_begins_like_a_size_prefix(get: Get) -> None:
    # 16 literals, the first two of them zero: as a number, the first four bytes are the block's own decoded size, 496.
    literals = bytes(2) + bytes(range(14))
    block = bytes([0xFF, 1]) + literals + struct.pack("<H", 16) + bytes([255, 255 - 50, 0x50]) + b"12345"
    size = int.from_bytes(block[:4], "little")
    block = bytes([0xFF, 1]) + literals + struct.pack("<H", 16)
    missing = size - 16 - 19 - 5
    block += bytes([255] * (missing // 255) + [missing % 255, 0x50]) + b"12345"
    data = lz4.block.decompress(block, uncompressed_size=size)
    assert len(data) == size == int.from_bytes(block[:4], "little")
    codec = get("lz4", sniff=True)
    assert codec.decode(block, out=bytearray(size)) == codec.decode(block) == data


def stream_of(*parts: tuple[int, int, int, int, bytes], end: bool = True) -> bytes:
    """A stream of blocks given as token, packed and decoded length, checksum, data."""
    stream = b"".join(b"LZ4Block" + struct.pack("<BIII", *numbers) + data for *numbers, data in parts)
    return stream + (bytes.fromhex(END % 0x16) if end else b"")


def digest(data: bytes) -> int:
    return xxhash.xxh32_intdigest(data, 0x9747B28C) & 0x0FFFFFFF


RAW_BLOCK = (0x16, 12, 12, digest(SIX), SIX)
GOOD = stream_of(RAW_BLOCK)
PACKED = lz4.block.compress(bytes(200), store_size=False)


def test_the_stream_that_the_table_starts_from(get: Get) -> None:
    assert get("lz4").decode(GOOD) == SIX
    assert get("lz4").decode(stream_of((0x26, len(PACKED), 200, digest(bytes(200)), PACKED))) == bytes(200)
    assert get("lz4").decode(stream_of(RAW_BLOCK, RAW_BLOCK, RAW_BLOCK)) == SIX * 3


@pytest.mark.parametrize(
    ("stored", "match"),
    [
        (b"", "byte 0: the stream ends early"),
        (b"LZ4Block", "byte 0: the stream ends early"),
        (stream_of(RAW_BLOCK, end=False), "byte 33: the stream ends early, without its end mark"),
        (GOOD[:-1], "byte 33: the stream ends early"),
        (b"lz4Block" + GOOD[8:], "byte 0: wrong magic"),
        (stream_of(RAW_BLOCK, end=False) + b"x" * 21, "byte 33: wrong magic"),
        (stream_of((0x36, 12, 12, digest(SIX), SIX)), "byte 0: unknown method"),
        (stream_of((0x06, 12, 12, digest(SIX), SIX)), "byte 0: unknown method"),
        (stream_of((0x16, 12, 12, digest(SIX) ^ 1, SIX)), "byte 0: checksum mismatch"),
        # All 32 bits of the hash, where 28 are stored.
        (stream_of((0x16, 12, 12, xxhash.xxh32_intdigest(SIX, 0x9747B28C), SIX)), "byte 0: checksum mismatch"),
        (stream_of((0x26, len(PACKED), 200, digest(b""), PACKED)), "byte 0: checksum mismatch"),
        (stream_of((0x16, 12, 11, digest(SIX), SIX)), "byte 0: impossible lengths"),
        (stream_of((0x16, 0, 12, digest(SIX), b"")), "byte 0: impossible lengths"),
        (stream_of((0x16, 12, 0, 0, SIX)), "byte 0: impossible lengths"),
        (stream_of((0x16, 2**32 - 1, 2**32 - 1, 0, b"")), "byte 0: impossible lengths"),
        (stream_of((0x26, 2**31, 100, 0, b"")), "byte 0: impossible lengths|ends early"),
        # More than the size class of 1024 allows.
        (stream_of((0x10, 1025, 1025, digest(bytes(1025)), bytes(1025))), "byte 0: impossible lengths"),
        (stream_of((0x1F, 2**25, 2**25, 0, b"")), "byte 0: the stream ends early"),
        (stream_of(RAW_BLOCK, (0x16, 100, 100, 0, bytes(99)), end=False), "byte 33: the stream ends early"),
        (stream_of((0x26, len(PACKED), 199, 0, PACKED)), "byte 0: damaged|declared size"),
        (stream_of((0x26, len(PACKED), 201, 0, PACKED)), "byte 0: damaged|declared size"),
        (stream_of((0x26, 3, 200, 0, b"\0\0\0")), "byte 0: damaged|declared size"),
        (GOOD[:-12] + bytes(8) + b"\1\0\0\0", "byte 33: .*checksum"),
    ],
)
def test_malformed_streams(get: Get, stored: bytes, match: str) -> None:
    for options in ({}, {"max_size": 2**26}, {"out": bytearray(12)}):
        with pytest.raises(CorruptDataError, match=match if "out" not in options else "lz4"):
            get("lz4").decode(stored, **options)
    # What is recognised as nothing else is told by what it should be.
    with pytest.raises(CorruptDataError, match="lz4"):
        codecs.from_n5({"type": "lz4"}).decode(stored)


def test_the_error_for_an_unrecognised_stream_says_what_it_should_be() -> None:
    for obj, match in (
        ({"type": "lz4", "blockSize": 65536}, "wrong magic"),
        ({"type": "lz4", "id": "lz4", "acceleration": 1}, "size"),
        ({"type": "lz4", "blockSize": 6}, "damaged lz4 block"),
    ):
        with pytest.raises(CorruptDataError, match=match):
            codecs.from_n5(obj).decode(b"\xff" * 30 + b"nothing that anybody would write", out=bytearray(1000))


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_prefix_is_refused(get: Get, framing: str) -> None:
    data = SIX * 9
    stored = codecs.get("lz4", framing=framing).encode(data)
    for codec in (get("lz4", framing=framing), get("lz4", framing=framing, sniff=True)):
        for size in range(len(stored)):
            with pytest.raises(CorruptDataError):
                codec.decode(stored[:size], out=bytearray(len(data)))
            if framing == "block" or (framing == "size_prefixed" and codec.sniff):
                # If nobody knows its size, a raw block may end early without that anybody sees it.
                continue
            with pytest.raises(CorruptDataError):
                codec.decode(stored[:size])


@pytest.mark.parametrize(
    ("framing", "stored", "match"),
    [
        ("frame", b"", "ends early"),
        ("frame", b"\x04\x22\x4d", "lz4"),
        ("frame", RUST[:-1], "ends early"),
        ("frame", RUST + b"\0", "lz4"),
        ("frame", RUST + b"junk behind the frame", "(?i)frame"),
        ("frame", RUST[:-1] + b"\x09", "checksum"),
        ("frame", RUST[:6] + b"\0" + RUST[7:], "checksum"),
        ("frame", ZARR2, "(?i)frame"),
        ("size_prefixed", b"", "too short"),
        ("size_prefixed", ZARR2[:4], "too short"),
        ("size_prefixed", b"\x0d" + ZARR2[1:], "declared size"),
        ("size_prefixed", b"\x0b" + ZARR2[1:], "declared size"),
        ("size_prefixed", b"\xff\xff\xff\xff" + ZARR2[4:], "lz4"),
        ("size_prefixed", ZARR2 + b"\0", "lz4"),
        ("block", b"", "damaged"),
        ("block", Z5[:-1], "damaged"),
        ("block", Z5 + b"\xff", "damaged"),
        # A match that reaches back before the start, one of distance 0, lengths that run away.
        ("block", bytes.fromhex("1041ffff00"), "damaged"),
        ("block", b"\xff" * 1000, "damaged"),
        ("block", b"\xf0" + b"\xff" * 1000, "damaged"),
    ],
)
def test_malformed(get: Get, framing: str, stored: bytes, match: str) -> None:
    for options in ({}, {"max_size": 2**26}):
        with pytest.raises(CorruptDataError, match=match):
            get("lz4", framing=framing).decode(stored, **options)


def test_frames_with_a_dictionary_are_refused() -> None:
    # A frame's header with the identifier of a dictionary.
    header = b"\x61\x40" + struct.pack("<I", 7)
    frame = b"\x04\x22\x4d\x18" + header + bytes([xxhash.xxh32_intdigest(header, 0) >> 8 & 0xFF]) + bytes(4)
    with pytest.raises(UnsupportedError, match="dictionary"):
        codecs.get("lz4", framing="frame").decode(frame)


@given(
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=6),
    framing=st.sampled_from(FRAMINGS),
    sniff=st.booleans(),
)
def test_damage_never_harms(changes: list[tuple[int, int]], framing: str, sniff: bool) -> None:
    data = b"".join(struct.pack("<H", i * i // 9 % 700) for i in range(900))
    codec = codecs.get("lz4", framing=framing, sniff=sniff, block_size=300)
    damaged = bytearray(codec.encode(data))
    for position, value in changes:
        damaged[position % len(damaged)] = value
    for options in ({"out": bytearray(len(data))}, {"max_size": 4000}):
        try:
            decoded = codec.decode(damaged, **options)
        except ZvcoreError:
            continue
        # The two framings with checksums do not let wrong data pass.
        assert decoded == data or framing not in ("lz4block", "frame") or sniff


@pytest.mark.parametrize("framing", FRAMINGS)
def test_what_is_declared_is_not_believed(get: Get, framing: str) -> None:
    codec = get("lz4", framing=framing)
    bomb = {
        "lz4block": stream_of((0x2F, 140_000, 2**25, 0, bytes(140_000))) * 60,
        "frame": b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 2**40) + bytes(9),
        "size_prefixed": struct.pack("<I", 2**32 - 1) + bytes(20),
        "block": b"\x1f\0\1\0" + b"\xff" * 1_000_000 + b"\0\x50" + bytes(5),
    }[framing]
    for options in ({"max_size": 1000}, {"out": bytearray(1000)}, {"max_size": 1 << 20}):
        with pytest.raises(CorruptDataError):
            codec.decode(bomb, **options)


@pytest.mark.parametrize("framing", ["size_prefixed", "block"])
def test_one_block_holds_less_than_two_gib(framing: str) -> None:
    # Memory that is never touched is never taken.
    with mmap.mmap(-1, 0x7E000001) as large, pytest.raises(UnsupportedError, match="at most 2113929216 bytes"):
        codecs.get("lz4", framing=framing).encode(large)


def test_hints() -> None:
    for framing in FRAMINGS:
        for sniff in (False, True):
            native = codecs.get("lz4", framing=framing, sniff=sniff)._native
            assert native is not None
            for data in CHUNKS.values():
                # A frame cannot declare that it is empty, and a raw block declares nothing.
                declared = framing != "block" and (framing != "frame" or len(data) > 0)
                assert native.decoded_hint(native.encode(data)) == (len(data) if declared else None)
            assert native.decoded_hint(b"") is None
            assert native.decoded_hint(b"\xff" * 50) is None


def test_many_threads(get: Get) -> None:
    mixed = [codecs.get("lz4", framing=framing).encode(data) for framing in FRAMINGS for data in CHUNKS.values()]
    codec = get("lz4", sniff=True)
    barrier = threading.Barrier(10)
    faults: list[str] = []

    def work() -> None:
        barrier.wait()
        for stored, data in zip(mixed, list(CHUNKS.values()) * len(FRAMINGS), strict=True):
            if codec.decode(stored, out=bytearray(len(data))) != data:
                faults.append("changed")
            try:
                codec.decode(stored[:-1], out=bytearray(len(data)))
                faults.append("not refused")
            except CorruptDataError:
                pass

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.parametrize(
    ("document", "parameters"),
    [
        ({"blockSize": 65536}, {}),
        ({}, {}),
        ({"blockSize": 1000.0}, {"block_size": 1000}),
        ({"blockSize": 65536, "level": 9}, {"level": 9}),
        ({"blockSize": 64, "acceleration": 3, "framing": "lz4block"}, {"block_size": 64, "acceleration": 3}),
        ({"blockSize": 65536, "framing": "frame"}, {"framing": "frame"}),
        ({"blockSize": 65536, "framing": "frame", "checksum": False}, {"framing": "frame", "checksum": False}),
        ({"id": "lz4", "acceleration": 4}, {"framing": "size_prefixed", "acceleration": 4}),
        ({"acceleration": 1}, {"framing": "size_prefixed"}),
        ({"blockSize": 6}, {"framing": "block"}),
        ({"blockSize": 12, "level": 9}, {"framing": "block", "level": 9}),
        ({"blockSize": 65536, "what": {"is": "this"}}, {}),
    ],
)
def test_n5_documents(document: dict[str, Any], parameters: dict[str, Any]) -> None:
    document = {"type": "lz4", **document}
    codec = codecs.from_n5(document, "a/attributes.json")
    assert codec.config() == codecs.get("lz4", **parameters, sniff=True).config()
    written = codec.to_n5()
    # Every parameter that matters is written, and nothing is lost.
    assert document.items() <= written.items()
    assert codecs.from_n5(written).config() == codec.config()
    if not ({"level", "framing", "what"} & document.keys()):
        assert codecs.get("lz4", **parameters).to_n5() in (written, {**written, "blockSize": 6})


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("blockSize", 33554433),
        ("blockSize", -1),
        ("blockSize", "65536"),
        ("blockSize", None),
        ("blockSize", 64.5),
        ("framing", "java"),
        ("level", 13),
        ("acceleration", "1"),
    ],
)
def test_wrong_values_in_n5(member: str, value: object) -> None:
    with pytest.raises(MetadataError, match=f"{member!r}"):
        codecs.from_n5({"type": "lz4", member: value}, "a/attributes.json")


@pytest.mark.parametrize("block_size", [63, 33554433])
def test_block_sizes_that_java_refuses(block_size: int) -> None:
    with pytest.raises(MetadataError, match="from 64 to 33554432"):
        codecs.get("lz4", block_size=block_size)


def test_zarr_documents() -> None:
    sized = codecs.get("lz4", framing="size_prefixed", acceleration=2)
    assert sized.to_zarr3() == {"name": "numcodecs.lz4", "configuration": {"acceleration": 2}}
    assert codecs.from_zarr3(sized.to_zarr3()).config() == sized.config()
    for parameters in (
        {},
        {"framing": "frame"},
        {"framing": "block", "level": 3},
        {"framing": "size_prefixed", "level": 3},
    ):
        codec = codecs.get("lz4", **parameters)
        document = codec.to_zarr3()
        assert document["name"] == "lz4"
        assert codecs.from_zarr3(document) == codec
    assert codecs.from_zarr3("lz4").framing == "size_prefixed"
    assert codecs.from_zarr3({"name": "lz4", "configuration": {"acceleration": 1}}).framing == "size_prefixed"


def test_what_z5_and_zarr_2_declare_is_written_as_they_read_it(tmp_path: Path) -> None:
    values = np.arange(60 * 70, dtype="u2").reshape(60, 70)
    read = create_n5(tmp_path, "z5py", values, {"type": "lz4"})
    block = N5Block(tmp_path / "n5" / "a")
    codec = codecs.from_n5(block.compression)
    assert codec.to_n5() == block.compression
    assert codec.decode(block.read()) == values.astype(">u2").tobytes()
    block.write(codec.encode(values[::-1].astype(">u2").tobytes()))
    assert np.array_equal(read(), values[::-1])
    assert codecs.from_n5({"type": "lz4", "id": "lz4", "acceleration": 1}).encode(SIX) == ZARR2


def test_without_any_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from zvcore_plugins import lz4 as plugin

    monkeypatch.setattr(plugin, "_lz4", None)
    for name in ("lz4", "lz4.block", "lz4.frame", "xxhash"):
        monkeypatch.setitem(sys.modules, name, None)
    codec = codecs.get("lz4")
    with pytest.raises(UnsupportedError, match=r"install xxhash.*libxxhash-dev"):
        codec.decode(GOOD)
    with pytest.raises(UnsupportedError, match="install lz4"):
        codec.encode(SIX)


@pytest.mark.skipif(not has_own_libraries(), reason="the lz4 of the system takes such matches")
@pytest.mark.parametrize("size", [30, 150, 400, 5000])
def test_a_match_at_no_distance_is_damage(size: int) -> None:
    """lz4 makes zeros of it."""
    codec = codecs.get("lz4", framing="block")
    for data in (b"a" * size, b"a" * size + bytes(range(200))):
        stored = bytearray(codec.encode(data))
        assert bytes(codec.decode(bytes(stored), max_size=len(data))) == data
        stored[stored.index(b"a\1\0") + 1] = 0
        with pytest.raises(CorruptDataError):
            codec.decode(bytes(stored), max_size=len(data))
