"""The zstd codec against the zstandard package and published streams."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numcodecs
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs
from zvcore.errors import CorruptDataError, MetadataError
from zvcore_plugins import zstd
from zvcore_plugins.without_libraries import zstd as without

DATA = bytes(np.random.default_rng(2).integers(0, 20, 300_000, "u1"))
SKIPPABLE = bytes.fromhex("532a4d18 03000000 616263")
SIX = bytes.fromhex("000100020003000400050006")


def streaming(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize("level", [-131072, -7, -1, 0, 1, 3, 9, 22])
@pytest.mark.parametrize("checksum", [False, True])
def test_zstandard_reads_what_is_written(level: int, checksum: bool) -> None:
    codec = codecs.get("zstd", level=level, checksum=checksum)
    for data in (b"", b"x", DATA):
        stored = codec.encode(data)
        frame = zstandard.get_frame_parameters(stored)
        assert (frame.content_size, frame.has_checksum) == (len(data), checksum)
        assert zstandard.ZstdDecompressor().decompress(stored, max_output_size=1) == data
        assert codec.decode(stored) == data


def test_level_zero_is_the_default() -> None:
    assert codecs.get("zstd", level=0).encode(DATA) == codecs.get("zstd").encode(DATA)


@pytest.mark.parametrize(
    "stored",
    [
        "28b52ffd200c610000000100020003000400050006",
        "28b52ffd0058610000000100020003000400050006",
        "28b52ffd240c610000000100020003000400050006e8b4befe",
    ],
    ids=["content size", "streaming", "checksum"],
)
def test_published_streams(stored: str) -> None:
    codec = codecs.get("zstd")
    assert codec.decode(bytes.fromhex(stored)) == SIX
    assert codec.decode(bytes.fromhex(stored), out=bytearray(12)) == SIX


def test_golden_bytes() -> None:
    assert codecs.get("zstd", level=3).encode(SIX).hex() == "28b52ffd200c610000000100020003000400050006"


@pytest.mark.parametrize("without_size", [streaming, zstandard.ZstdCompressor(write_content_size=False).compress])
def test_frames_without_content_size(without_size: Any) -> None:
    codec = codecs.get("zstd")
    for data in (b"", b"x", DATA, bytes(5_000_000)):
        stored = without_size(data)
        assert codec.decode(stored) == data
        assert codec.decode(stored, out=bytearray(len(data))) == data
        if data:
            with pytest.raises(CorruptDataError):
                codec.decode(stored, max_size=len(data) - 1)


def test_frames_are_one_stream() -> None:
    codec = codecs.get("zstd")
    stream = codec.encode(DATA) + SKIPPABLE + streaming(b"mid") + codec.encode(b"") + codec.encode(b"end")
    assert codec.decode(stream) == DATA + b"midend"
    assert codec.decode(SKIPPABLE) == b""
    assert codec.decode(SKIPPABLE + codec.encode(b"a")) == b"a"


GOOD = codecs.get("zstd", checksum=True).encode(DATA)


@pytest.mark.parametrize(
    ("stored", "match"),
    [
        (b"", "no frame"),
        (b"\0", "zstd"),
        (GOOD[:-1], "zstd"),
        (GOOD[:3], "zstd"),
        (GOOD + b"\0", "zstd"),
        (GOOD + GOOD[:100], "zstd"),
        (SKIPPABLE[:-1], "zstd"),
        (b"\x1f\x8b" + bytes(20), "zstd"),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "checksum"),
        # A dictionary is asked for.
        (bytes.fromhex("28b52ffd210c0c610000000100020003000400050006"), "zstd"),
        # 2**63 bytes are declared.
        (bytes.fromhex("28b52ffde0000000000000008061000000"), "zstd"),
    ],
)
def test_malformed(stored: bytes, match: str) -> None:
    codec = codecs.get("zstd")
    for options in ({}, {"max_size": len(DATA)}, {"out": bytearray(len(DATA))}):
        with pytest.raises(CorruptDataError, match=match):
            codec.decode(stored, **options)


def test_levels_that_numcodecs_lets_the_library_bring_down() -> None:
    codec = codecs.from_zarr3({"name": "numcodecs.zstd", "configuration": {"level": 100}})
    assert codec.level == 22
    assert bytes(codec.decode(numcodecs.Zstd(level=100).encode(b"zvcore" * 9), max_size=54)) == b"zvcore" * 9
    with pytest.raises(MetadataError):
        codecs.from_zarr3({"name": "zstd", "configuration": {"level": 100}})


def test_spellings() -> None:
    assert codecs.get("zstd", level=5).to_n5() == {"type": "zstd", "level": 5}
    assert codecs.get("zstd", level=5, checksum=True).to_n5() == {"type": "zstd", "level": 5, "checksum": True}
    zarr = {"name": "zstd", "configuration": {"level": 5, "checksum": False}}
    assert codecs.get("zstd", level=5).to_zarr3() == zarr
    assert codecs.from_zarr3(zarr) == codecs.from_n5({"type": "zstd", "level": 5}) == codecs.get("zstd", level=5)
    # zarr 2 in N5
    zarr2 = {"type": "zstd", "id": "zstd", "level": 1}
    assert codecs.from_n5(zarr2).to_n5() == zarr2


@pytest.mark.parametrize("level", [-131073, 23, "3", 1.5, None])
def test_wrong_levels(level: object) -> None:
    with pytest.raises(MetadataError, match=r"'level'.*from -131072 to 22"):
        codecs.from_zarr3({"name": "zstd", "configuration": {"level": level}}, "zarr.json")


@given(st.binary(max_size=300), st.integers(-5, 9), st.booleans(), st.data())
def test_damaged_streams_decode_as_zstandard_decodes_them(data: Any, level: Any, checksum: Any, draw: Any) -> None:
    codec = codecs.get("zstd", level=level, checksum=checksum)
    data *= draw.draw(st.sampled_from([1, 1, 50]))
    stored = codec.encode(data)
    assert zstandard.ZstdDecompressor().decompress(stored) == data
    damaged = bytearray(stored)[: draw.draw(st.integers(0, len(stored)))]
    for at in draw.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=3)):
        if damaged:
            damaged[at] ^= 1 << draw.draw(st.integers(0, 7))
    try:
        decoded = codec.decode(damaged, max_size=1 << 20)
    except CorruptDataError:
        decoded = None
    if decoded is not None and damaged[:4] == stored[:4]:
        assert zstandard.ZstdDecompressor().decompressobj().decompress(bytes(damaged)) == decoded


def camera(seed: int, samples: int, electrons: float = 60) -> Any:
    """What a camera adds to next to no light: noise of 16 bits, of which eight say nothing."""
    rng = np.random.default_rng(seed)
    return (100 + rng.poisson(electrons, samples) * 2 + rng.normal(0, 1.6, samples)).astype("<u2")


# native/search_samples.h searches these in another way, with `make native`.
@pytest.mark.parametrize("level", [3, 4])
@pytest.mark.parametrize("order", ["<u2", ">u2", "<u4", ">i4", "<f4", "<i8", ">f8", "<f8"])
def test_noisy_images(level: int, order: str) -> None:
    codec = codecs.get("zstd", level=level)
    for samples in (3000, 8192, 70_001, 300_000):
        data = camera(samples, samples).astype(order).tobytes()
        for part in (data, data[1:], data[:-3]):
            stored = codec.encode(part)
            assert zstandard.ZstdDecompressor().decompress(stored) == part
            # Nothing depends on what the same thread compressed before.
            assert codecs.get("zstd", level=level).encode(part) == stored
            assert len(stored) <= 1.01 * len(zstandard.ZstdCompressor(level=level).compress(part)) + 100


def wide() -> dict[str, bytes]:
    """What has samples of four and eight bytes, noise or not."""
    rng = np.random.default_rng(5)
    values = np.sort(rng.integers(0, 1 << 40, 60_000, "u8"))
    words = [bytes(rng.integers(97, 123, size, "u1")).decode() for size in rng.integers(2, 9, 400)]
    text = " ".join(words[word] for word in np.minimum(rng.geometric(0.02, 20_000), 400) - 1)
    records = np.zeros(20_000, [("x", "<f8"), ("y", "<f8"), ("kind", "<u4"), ("weight", "<f4")])
    records["x"] = rng.normal(size=20_000).astype("f4")
    records["y"] = np.arange(20_000)
    records["kind"] = rng.integers(0, 7, 20_000)
    records["weight"] = rng.integers(0, 100, 20_000)
    return {
        "sorted ids": values.tobytes(),
        "ids": rng.choice(values, 60_000).tobytes(),
        "few ids": rng.integers(0, 10, 60_000, "u8").tobytes(),
        "labels": np.repeat(rng.choice(values, 3000), 30).tobytes(),
        "a walk": np.cumsum(rng.integers(-20, 20, 100_000)).astype("<i4").tobytes(),
        "floats of 64 bits that were of 32": rng.normal(size=60_000).astype("f4").astype("<f8").tobytes(),
        "floats of 64 bits": rng.normal(size=60_000).tobytes(),
        "UTF-16": text.encode("utf-16-le"),
        "UTF-32": text.encode("utf-32-le"),
        "records": records.tobytes(),
        "points": np.cumsum(rng.normal(size=(30_000, 3)).astype("<f4"), 0).tobytes(),
    }


@pytest.mark.parametrize("level", [3, 4])
@pytest.mark.parametrize("kind", wide())
def test_wide_samples(level: int, kind: str) -> None:
    codec = codecs.get("zstd", level=level)
    whole = wide()[kind]
    for data in (whole, whole[:40_000], whole[5:-2]):
        stored = codec.encode(data)
        assert zstandard.ZstdDecompressor().decompress(stored) == data
        assert codecs.get("zstd", level=level).encode(data) == stored
        assert len(stored) <= 1.01 * len(zstandard.ZstdCompressor(level=level).compress(data)) + 100


@pytest.mark.parametrize("seed", range(8))
def test_noise_beside_everything_else(seed: int) -> None:
    """Blocks that look like noise at first, and then do not, or only in parts."""
    rng = np.random.default_rng(seed)
    noise = camera(seed, 90_000).tobytes()
    others = [
        bytes(90_000),
        np.repeat(rng.integers(0, 5000, 900, "u2"), 70).tobytes(),
        rng.integers(0, 256, 50_000, "u1").tobytes(),
        np.cumsum(rng.integers(-3, 4, 40_000)).astype("<i2").tobytes(),
        ("".join(map(chr, rng.permutation(np.repeat(np.arange(97, 123), 900))))).encode("utf-16-le"),
        noise[:3000] * 20,
        camera(seed, 40_000).astype("<i8").tobytes(),
        camera(seed, 40_000).astype("<f4").tobytes(),
    ]
    codec = codecs.get("zstd")
    ours = theirs = 0
    for _ in range(6):
        parts: list[bytes] = []
        for _ in range(4):
            # Of whole samples, as everything in an array is.
            parts.append(others[rng.integers(len(others))][: 8 * rng.integers(1, 11_000)])
            parts.append(noise[8 * rng.integers(4000) : 8 * rng.integers(4000, 22_500)])
        data = b"".join(parts)
        stored = codec.encode(data)
        assert zstandard.ZstdDecompressor().decompress(stored) == data
        assert codec.decode(stored) == data
        ours += len(stored)
        theirs += len(zstandard.ZstdCompressor(level=3).compress(data))
    # Other versions of the library divide such data into other blocks.
    if codecs.available()["zstd"].library == "libzstd {}.{}.{}".format(*zstandard.ZSTD_VERSION):
        assert ours <= 1.02 * theirs


@pytest.mark.skipif(sys.platform != "linux", reason="asks for memory where Linux has some")
def test_noise_at_a_low_address() -> None:
    """A compressor that is used again counts on, so what it calls its first position lies below the data, and may lie
    below all memory.
    """
    length, private, fixed = 2**17, 0x22, 0x100000
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    place = libc.mmap(0x10000, length, 3, private | fixed, -1, 0)
    if place != 0x10000:
        pytest.skip("there is no memory to be had at low addresses")
    try:
        room = (ctypes.c_char * length).from_address(place)
        codec = codecs.get("zstd")
        for seed in range(6):
            data = camera(seed, length // 2).tobytes()
            room.raw = data
            assert zstandard.ZstdDecompressor().decompress(codec.encode(memoryview(room).cast("B"))) == data
        del room
    finally:
        libc.munmap(place, length)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("size", [0, 1, 10, 300, 70_000, 300_000])
def test_one_frame_is_told_by_its_headers(size: int, checksum: bool) -> None:
    """By the library as without it: what is taken over without decoding it is looked at by this alone."""
    plain = np.random.default_rng(size).integers(0, 3, size, dtype="u1").tobytes()
    frame = bytes(codecs.get("zstd", checksum=checksum).encode(plain))
    cases = [(frame, size + 1), (frame[:-1], size), (frame[:5], size), (frame + b"x", size), (b"x" + frame, size)]
    cases += [(frame + frame, size), (b"", size), (b"\x50\x2a\x4d\x18\x00\x00\x00\x00" + frame, size)]
    for module in filter(None, (zstd._zstd, without)):
        assert module.is_one_frame(memoryview(frame), size)
        assert not any(module.is_one_frame(memoryview(data), of) for data, of in cases)
    for at in range(0, len(frame), max(1, len(frame) // 50)):
        damaged = bytearray(frame)
        damaged[at] ^= 1 << at % 8
        found = {module.is_one_frame(memoryview(damaged), size) for module in filter(None, (zstd._zstd, without))}
        assert len(found) == 1
