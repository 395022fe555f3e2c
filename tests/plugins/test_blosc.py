"""The blosc codec against numcodecs, the blosc package, published chunks and N5's other implementations."""

from __future__ import annotations

import contextlib
import mmap
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blosc
import numcodecs.blosc
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zvcore import codecs
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError, ZvcoreError
from zvcore.testing import check_codec
from zvcore.testing.codecs import decode_in_parts, find_plain

from .conftest import CHUNKS, N5Block, create_n5

Get = Callable[..., codecs.Codec]
SIX = CHUNKS["twelve bytes"]
SEVENS = struct.pack(">256H", *(i % 7 for i in range(256)))
# numcodecs' c-blosc does not have snappy.
COMPRESSORS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
SHUFFLES = ["noshuffle", "shuffle", "bitshuffle"]


@pytest.mark.parametrize("cname", COMPRESSORS)
def test_conformance(get: Get, cname: str) -> None:
    check_codec(get("blosc", cname=cname, shuffle="bitshuffle"), bounded=cname == "lz4")


PUBLISHED = [
    # Java's parameters.
    (
        {"cname": "blosclz", "clevel": 6, "shuffle": 0, "typesize": 1},
        SIX,
        "020112010c0000000c0000001c000000" + SIX.hex(),
    ),
    # zarr 2's, tensorstore's, z5's.
    ({"cname": "lz4", "clevel": 5, "shuffle": 1, "typesize": 2}, SIX, "020133020c0000000c0000001c000000" + SIX.hex()),
    # tensorstore's own test data.
    ({"cname": "zstd", "clevel": 3, "shuffle": 2, "typesize": 2}, SIX, "020196020c0000000c0000001c000000" + SIX.hex()),
    (
        {"cname": "lz4", "clevel": 6, "shuffle": 1, "typesize": 1},
        SEVENS,
        "020121010002000000020000310000001400000019000000ef00000001000200030004000500060e00ffdb500100020003",
    ),
    (
        {"cname": "lz4", "clevel": 6, "shuffle": 1, "typesize": 2},
        SEVENS,
        "0201210200020000000200003f000000140000000b0000001f000100e750000000000018000000ef00010203040506000102030405060e00"
        "da500600010203",
    ),
    (
        {"cname": "zstd", "clevel": 6, "shuffle": 1, "typesize": 2},
        SEVENS,
        "02019102000200000002000033000000140000001b00000028b52ffd6000018d0000380001020304050602007615aafa14b802",
    ),
]


@pytest.mark.parametrize(("parameters", "data", "stored"), PUBLISHED)
def test_published_chunks(get: Get, parameters: dict[str, Any], data: bytes, stored: str) -> None:
    codec = get("blosc", **parameters)
    assert codec.decode(bytes.fromhex(stored)) == data
    assert codec.decode(bytes.fromhex(stored), out=bytearray(len(data))) == data
    # Which bytes lz4 and zstd make is the library's affair; what is stored as it is is not.
    if len(data) < 128:
        assert codec.encode(data).hex() == stored


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("cname", COMPRESSORS)
def test_others_read_what_is_written_and_the_reverse(get: Get, cname: str, shuffle: str) -> None:
    number = SHUFFLES.index(shuffle)
    for data in CHUNKS.values():
        for typesize in (1, 2, 3, 8, 16, 17, 255, 300):
            codec = get("blosc", cname=cname, clevel=4, shuffle=shuffle, typesize=typesize)
            stored = codec.encode(data)
            assert codec.decode(stored) == data
            if data:
                # Neither of them can decode an empty chunk.
                assert numcodecs.blosc.decompress(stored) == blosc.decompress(stored) == data
            theirs = numcodecs.blosc.compress(data, cname.encode(), 4, number, 0, min(typesize, 255))
            assert codec.decode(theirs) == data


@given(
    data=st.binary(max_size=3000),
    repeat=st.integers(1, 60),
    cname=st.sampled_from([*COMPRESSORS, "snappy"]),
    clevel=st.integers(0, 9),
    shuffle=st.sampled_from(SHUFFLES),
    typesize=st.integers(1, 40),
    blocksize=st.sampled_from([0, 1, 200, 4096, 10**6, 2**31 - 1]),
)
def test_any_data_and_parameters(data: bytes, repeat: int, **parameters: Any) -> None:
    codec = codecs.get("blosc", **parameters)
    assert codec.native
    stored = codec.encode(data * repeat)
    assert len(stored) <= len(data) * repeat + 16
    assert codec.decode(stored, out=bytearray(len(data) * repeat)) == data * repeat


@given(
    data=st.binary(min_size=1, max_size=3000),
    repeat=st.integers(1, 60),
    typesize=st.integers(1, 20),
    blocksize=st.sampled_from([0, 1, 128, 200, 4096]),
    cname=st.sampled_from(COMPRESSORS),
    shuffle=st.sampled_from(SHUFFLES),
    damage=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=4),
    whole=st.booleans(),
)
def test_blocks_decode_one_by_one_to_what_the_chunk_does_or_not_at_all(
    data: bytes, repeat: int, damage: list[tuple[int, int]], whole: bool, **parameters: Any
) -> None:
    codec = codecs.get("blosc", clevel=5, **parameters)
    items = data * repeat * (parameters["typesize"] if whole else 1)
    stored = bytearray(codec.encode(items))
    for place, value in damage:
        stored[place % (len(stored) if place & 1 else min(len(stored), 64))] = value
    found = decode_in_parts(codec, bytes(stored), len(items))
    if found is not None:
        assert codec.decode(bytes(stored), out=bytearray(len(items))) == found
    if not damage and found is not None:
        assert found == items


def test_chunks_of_several_blocks_have_parts() -> None:
    data = bytes(range(256)) * 4096
    for cname in COMPRESSORS:
        codec = codecs.get("blosc", cname=cname, shuffle=1, typesize=2, blocksize=65536)
        stored = codec.encode(data)
        assert decode_in_parts(codec, stored, len(data)) == data
        # Of another size than expected, cut off, stored as it is, with blocks or an end that hold no whole items.
        assert decode_in_parts(codec, stored, len(data) - 2) is None
        assert decode_in_parts(codec, stored[:-1], len(data)) is None
        for place, value in ((2, stored[2] | 0x02), (2, stored[2] | 0x08), (3, 0), (3, 3)):
            changed = bytearray(stored)
            changed[place] = value
            assert decode_in_parts(codec, bytes(changed), len(data)) is None


@given(
    size=st.integers(1, 3000),
    typesize=st.integers(1, 20),
    damage=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 255)), max_size=3),
    cut=st.integers(-2, 2),
)
@example(size=1, typesize=1, damage=[(17, 0)], cut=0)  # behind the end of what is stored: taken from its beginning on
def test_what_compression_made_no_smaller_is_found_where_it_lies_or_decoded(
    size: int, typesize: int, damage: list[tuple[int, int]], cut: int
) -> None:
    codec = codecs.get("blosc", cname="lz4", shuffle="noshuffle", typesize=typesize)
    data = np.random.default_rng(size).bytes(size)
    stored = bytearray(codec.encode(data))
    assert find_plain(codec, bytes(stored), size) == data
    assert find_plain(codec, bytes(stored), size + 1) is None
    for place, value in damage:
        stored[place % len(stored)] = value
    changed = bytes(stored) + bytes(cut) if cut >= 0 else bytes(stored[:cut])
    found = find_plain(codec, changed, size)
    if found is not None:
        assert numcodecs.blosc.decompress(changed) == found


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, b"\x01"), (2, b"\x01"), (2, b"\x0a"), (3, b"\0"), (4, b"\0\0\0\0"), (8, b"\0\0\0\0"), (8, b"\xff\xff\xff\xff"),
     (8, b"\x01\x10\0\0"), (12, b"\xff\x0f\0\0"), (12, b"\x11\x10\0\0")],
)  # fmt: skip
def test_a_chunk_stored_as_it_is_whose_header_lies_is_refused(place: int, value: bytes) -> None:
    codec = codecs.get("blosc", cname="lz4", shuffle="noshuffle", typesize=1)
    stored = bytearray(codec.encode(np.random.default_rng(1).bytes(4096)))
    stored[place : place + len(value)] = value
    assert find_plain(codec, bytes(stored), 4096) is None
    with pytest.raises(CorruptDataError):
        codec.decode(bytes(stored), out=bytearray(4096))


def test_shuffle_and_item_size_follow_the_array(get: Get) -> None:
    ramp = np.arange(10_000, dtype="<u4")
    auto = get("blosc", shuffle="auto")
    assert get("blosc", shuffle=-1) == auto
    for dtype, number in (("u1", 2), ("<u4", 1), (">f8", 1)):
        codec = auto.for_dtype(np.dtype(dtype))
        size = np.dtype(dtype).itemsize
        header = codec.encode(ramp)
        # Bit 0 of the flags is the byte shuffle's, bit 2 the bit shuffle's.
        assert header[2] & 5 == {1: 1, 2: 4}[number]
        assert header[3] == size
        assert codec.to_n5()["shuffle"] == number
        assert codec.to_zarr3()["configuration"]["shuffle"] == SHUFFLES[number]
        assert codec.to_zarr3()["configuration"]["typesize"] == size
    given = get("blosc", typesize=3)
    assert given.for_dtype(np.dtype("u8")) is given
    plain = get("blosc")
    assert len(plain.for_dtype(ramp.dtype).encode(ramp)) < len(plain.encode(ramp)) / 5
    # Items larger than c-blosc knows are bytes to it.
    assert get("blosc", typesize=300).encode(ramp)[3] == 1


def header(
    size: int, block: int, stored: int, version: int = 2, compressor: int = 1, flags: int = 0x21, item: int = 1
) -> bytes:
    return bytes([version, compressor, flags, item]) + struct.pack("<iii", size, block, stored)


GOOD = codecs.get("blosc", typesize=2).encode(SEVENS)


def test_every_prefix_is_refused(get: Get) -> None:
    codec = get("blosc")
    for size in range(len(GOOD)):
        for options in ({}, {"max_size": 512}, {"out": bytearray(512)}):
            with pytest.raises(CorruptDataError):
                codec.decode(GOOD[:size], **options)


@pytest.mark.parametrize(
    ("stored", "match"),
    [
        (b"", "too short"),
        (GOOD[:15], "too short"),
        (GOOD + b"\0", "header says"),
        (bytes(40), "format 2.*of 0"),
        # blosc2's formats, and its frames.
        (b"\x05" + GOOD[1:], "blosc2"),
        (b"\x04" + GOOD[1:], "blosc2"),
        (b"\x9e\xa8b2frame\x00" + bytes(60), "format 2.*of 158"),
        (header(-1, 100, 20) + bytes(4), "sizes"),
        (header(2**31 - 2, 100, 20) + bytes(4), "sizes"),
        (header(100, 0, 20) + bytes(4), "size"),
        (header(100, -5, 20) + bytes(4), "size"),
        (header(100, 101, 20) + bytes(4), "size"),
        (header(100, 2**31 - 1, 20) + bytes(4), "size"),
        # Stored as it is, but not all of it.
        (header(100, 100, 20, flags=0x22) + bytes(4), "damaged"),
        # Flags and compressors that nobody has defined.
        (header(100, 100, 40, flags=0x29) + bytes(24), "damaged|unknown"),
        (header(100, 100, 20, item=0) + bytes(4), "damaged|sizes"),
        # Block starts that do not fit in, lie outside, or reach beyond the end.
        (header(100_000, 100, 20) + bytes(4), "damaged"),
        (header(512, 512, 24) + struct.pack("<iI", -4, 4), "damaged"),
        (header(512, 512, 24) + struct.pack("<iI", 2**31 - 1, 4), "damaged"),
        (header(512, 512, 24) + struct.pack("<iI", 20, 2**31 - 1), "damaged"),
        (header(512, 512, 24) + struct.pack("<iI", 20, 512), "damaged"),
        # Items of three bytes in a block of 512: its last two would never be written.
        (
            header(512, 512, 20 + 3 * 174, item=3) + struct.pack("<i", 20) + (struct.pack("<i", 170) + bytes(170)) * 3,
            "dam|sizes",
        ),
    ],
)
def test_malformed(get: Get, stored: bytes, match: str) -> None:
    codec = get("blosc")
    for options in ({}, {"max_size": 2**31}):
        with pytest.raises(CorruptDataError, match=match):
            codec.decode(stored, **options)


def test_a_chunk_that_declares_too_much_is_refused_before_memory_is_taken(get: Get) -> None:
    declared = 2**31 - 1 - 16
    bomb = header(declared, 1 << 20, 200) + bytes(184)
    with pytest.raises(CorruptDataError, match=str(declared)):
        get("blosc").decode(bomb, max_size=1000)
    with pytest.raises(CorruptDataError):
        get("blosc").decode(bomb, out=bytearray(1000))


@given(
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=6),
    cname=st.sampled_from([*COMPRESSORS, "snappy"]),
    shuffle=st.sampled_from(SHUFFLES),
    typesize=st.sampled_from([1, 2, 3, 8, 16]),
    blocksize=st.sampled_from([0, 128, 256]),
    cut=st.integers(0, 60),
)
def test_damage_never_harms(
    changes: list[tuple[int, int]], cname: str, shuffle: str, typesize: int, blocksize: int, cut: int
) -> None:
    codec = codecs.get("blosc", cname=cname, shuffle=shuffle, typesize=typesize, blocksize=blocksize)
    data = bytes((i * i // 9) % 37 for i in range(1400))
    damaged = bytearray(codec.encode(data))
    for position, value in changes:
        damaged[position % len(damaged)] = value
    damaged = damaged[: max(16, len(damaged) - cut)]
    # Past the checks of the header.
    damaged[0] = 2
    damaged[12:16] = struct.pack("<i", len(damaged))
    for options in ({"out": bytearray(len(data))}, {"max_size": 4000}):
        with contextlib.suppress(ZvcoreError):
            codec.decode(damaged, **options)


def test_compressors_that_are_not_built_in(get: Get, part: str) -> None:
    stored = codecs.get("blosc", cname="snappy").encode(SEVENS) if part == "native" else None
    if stored is not None:
        assert codecs.get("blosc").decode(stored) == SEVENS
    else:
        with pytest.raises(UnsupportedError, match="snappy"):
            get("blosc", cname="snappy").encode(SEVENS)
    # 5 and up name nothing.
    damaged = bytearray(GOOD)
    damaged[2] |= 0xE0
    with pytest.raises((UnsupportedError, CorruptDataError)):
        get("blosc").decode(damaged)


def test_limit_of_two_gib(get: Get) -> None:
    # Memory that is never touched is never taken.
    with mmap.mmap(-1, 2**31 - 16) as large, pytest.raises(UnsupportedError, match=f"at most {2**31 - 17} bytes"):
        get("blosc").encode(large)


def test_many_threads(get: Get) -> None:
    codec = get("blosc", typesize=4)
    stored = {data: codec.encode(data) for data in CHUNKS.values()}
    barrier = threading.Barrier(10)
    faults: list[str] = []

    def work() -> None:
        barrier.wait()
        for _ in range(5):
            for data, chunk in stored.items():
                if codec.decode(chunk) != data or codec.encode(data) != chunk:
                    faults.append("changed")
                try:
                    codec.decode(chunk[:-1])
                    faults.append("not refused")
                except CorruptDataError:
                    pass

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_threads_that_end_leave_no_memory_behind_and_damage_nothing_for_the_next(get: Get) -> None:
    """A library may keep what it decodes zstd with for each thread."""
    blosc = get("blosc", cname="zstd", shuffle="shuffle", typesize=4)
    data = np.random.default_rng(0).integers(0, 50, 1 << 16, dtype="u4").tobytes()
    stored = blosc.encode(data)
    damaged = bytearray(stored)
    damaged[len(stored) // 2 : len(stored) // 2 + 64] = bytes(64)
    wrong: list[str] = []

    def work() -> None:
        with contextlib.suppress(CorruptDataError):
            blosc.decode(bytes(damaged))
        if blosc.decode(stored) != data:
            wrong.append(threading.current_thread().name)

    def run(count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    run(50)
    before = resident()
    run(300)
    assert not wrong
    assert resident() - before < 300 * 60_000  # a context of zstd takes some 95 kB


def resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def test_spellings() -> None:
    java = {"type": "blosc", "cname": "lz4", "clevel": 6, "shuffle": 2, "blocksize": 0, "nthreads": 4, "typesize": 1}
    codec = codecs.from_n5(java)
    assert codec.config() == {"cname": "lz4", "clevel": 6, "shuffle": "bitshuffle", "blocksize": 0, "typesize": None}
    # What is not understood is kept, also when the item size is settled.
    assert codec.to_n5() == codec.for_dtype(np.dtype("u2")).to_n5() == java
    written = codecs.get("blosc").for_dtype(np.dtype("u2")).to_n5()
    assert written == {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    # Java's defaults, where a document says nothing.
    least = codecs.from_n5({"type": "blosc"})
    assert least.config() == {"cname": "blosclz", "clevel": 6, "shuffle": "noshuffle", "blocksize": 0, "typesize": None}
    auto = codecs.from_n5({"type": "blosc", "shuffle": -1})
    assert auto.for_dtype(np.dtype("u1")).to_n5()["shuffle"] == 2
    zarr = {"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}
    codec = codecs.from_zarr3({"name": "blosc", "configuration": zarr})
    assert codec.to_zarr3() == {"name": "blosc", "configuration": zarr}
    numcodecs_ = {
        "name": "numcodecs.blosc",
        "configuration": {"cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0},
    }
    codec = codecs.from_zarr3(numcodecs_)
    assert codec.native
    assert codec.shuffle == "auto"
    assert codec.to_zarr3() == codec.for_dtype(np.dtype("u2")).to_zarr3() == numcodecs_


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("cname", "brotli"),
        ("cname", 1),
        ("clevel", 10),
        ("clevel", -1),
        ("shuffle", 3),
        ("shuffle", -2),
        ("shuffle", "byteshuffle"),
        ("shuffle", True),
        ("shuffle", None),
        ("blocksize", -1),
        ("blocksize", 2**31),
    ],
)
def test_wrong_values(member: str, value: object) -> None:
    with pytest.raises(MetadataError, match=f"{member!r}"):
        codecs.from_n5({"type": "blosc", member: value}, "a/attributes.json")
    with pytest.raises(MetadataError, match=f"{member!r}"):
        codecs.from_zarr3({"name": "blosc", "configuration": {member: value}}, "zarr.json")


@pytest.mark.parametrize("writer", ["z5py", "tensorstore"])
def test_n5_blocks_of_others(tmp_path: Path, writer: str) -> None:
    values = np.arange(60 * 70, dtype="u2").reshape(60, 70)
    compression = {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    read = create_n5(tmp_path, writer, values, compression)
    block = N5Block(tmp_path / "n5" / "a")
    codec = codecs.from_n5(block.compression).for_dtype(values.dtype)
    stored = block.read()
    assert codec.decode(stored) == values.astype(">u2").tobytes()
    mine = codec.encode(values[::-1].astype(">u2").tobytes())
    # The item size is the array's, as with them.
    assert mine[3] == stored[3] == 2
    block.write(mine)
    assert np.array_equal(read(), values[::-1])
