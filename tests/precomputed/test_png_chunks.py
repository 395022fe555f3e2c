"""Chunks as PNG: all pictures that can hold one are read as libpng reads them, and hostile ones are refused."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from typing import Any

import imagecodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs
from zvcore.errors import CorruptDataError
from zvcore.precomputed.encoding_images import PngChunk
from zvcore.testing.codecs import check_table

COLOUR_TYPES = (0, 4, 2, 6)
KINDS = [(channels, itemsize) for channels in (1, 2, 3, 4) for itemsize in (1, 2)]
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
SIGNATURE = b"\x89PNG\r\n\x1a\n"

pytestmark = pytest.mark.skipif(not codecs.get("gzip").native, reason="zlib streams are Python's here: so are pictures")


def piece(kind: bytes, content: bytes, crc: int | None = None) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(
        ">I", zlib.crc32(kind + content) if crc is None else crc
    )  # fmt: skip


def header(width: int, height: int, channels: int = 1, itemsize: int = 1, **other: int) -> bytes:
    kind = other.get("kind", COLOUR_TYPES[channels - 1])
    methods = (other.get("compression", 0), other.get("filter", 0), other.get("interlaced", 0))
    return piece(b"IHDR", struct.pack(">IIBBBBB", width, height, other.get("depth", 8 * itemsize), kind, *methods))


def lines_of(pixels: np.ndarray, filters: list[int]) -> bytes:
    """Big-endian pixels (height, width, channels) as the lines of a picture, with these filters in turn."""
    rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(pixels.shape[0], -1).astype(int)
    distance = pixels.shape[2] * pixels.itemsize
    left = np.zeros_like(rows)
    left[:, distance:] = rows[:, :-distance]
    above, between = np.zeros_like(rows), np.zeros_like(rows)
    above[1:], between[1:] = rows[:-1], left[:-1]
    guess = left + above - between
    apart = np.stack([abs(guess - one) for one in (left, above, between)])
    nearest = np.choose(apart.argmin(0), [left, above, between])
    guesses = (np.zeros_like(rows), left, above, (left + above) // 2, nearest)
    found = b""
    for row in range(len(rows)):
        filter = filters[row % len(filters)]
        found += bytes([filter]) + (rows[row] - guesses[filter][row]).astype(np.uint8).tobytes()
    return found


def picture(pixels: np.ndarray, filters: list[int], interlaced: bool = False, parts: int = 1, level: int = 6) -> bytes:
    height, width, channels = pixels.shape
    big = pixels.astype(pixels.dtype.newbyteorder(">"))
    if interlaced:
        passes = [big[y::dy, x::dx] for x, y, dx, dy in ADAM7]
        lines = b"".join(lines_of(one, filters) for one in passes if one.size)
    else:
        lines = lines_of(big, filters)
    stream = zlib.compress(lines, level)
    cuts = [len(stream) * i // parts for i in range(parts + 1)]
    pieces = [piece(b"IDAT", stream[begin:end]) for begin, end in itertools.pairwise(cuts)]
    head = header(width, height, channels, pixels.itemsize, interlaced=int(interlaced))
    return SIGNATURE + head + piece(b"tEXt", b"a\0b") + b"".join(pieces) + piece(b"IEND", b"")


def values_of(pixels: np.ndarray) -> bytes:
    return np.moveaxis(pixels, -1, 0).astype(pixels.dtype.newbyteorder("<")).tobytes()


def codec_of(pixels: np.ndarray) -> PngChunk:
    height, width, channels = pixels.shape
    return PngChunk(shape=(width, height, 1, channels), itemsize=pixels.itemsize)


@st.composite
def pixels(draw: st.DrawFn) -> np.ndarray:
    channels, itemsize = draw(st.sampled_from(KINDS))
    shape = (draw(st.integers(1, 19)), draw(st.integers(1, 19)), channels)
    seed, top = draw(st.integers(0, 1 << 20)), draw(st.sampled_from([2, 9, 256, 256**itemsize]))
    return np.random.default_rng(seed).integers(0, top, shape).astype(f"u{itemsize}")


@given(
    pixels=pixels(), filters=st.lists(st.integers(0, 4), min_size=1, max_size=7), interlaced=st.booleans(),
    parts=st.integers(1, 4),
)  # fmt: skip
def test_pictures_of_all_kinds_are_read(pixels: np.ndarray, filters: list[int], interlaced: bool, parts: int) -> None:
    data, codec = picture(pixels, filters, interlaced, parts), codec_of(pixels)
    # The helper is right: libpng reads it so.
    theirs = imagecodecs.png_decode(data)
    np.testing.assert_array_equal(theirs.reshape(pixels.shape), pixels)
    assert codec.decode(data) == values_of(pixels)
    out = bytearray(pixels.nbytes)
    codec.decode(data, out=out)
    assert out == values_of(pixels)


@given(pixels=pixels(), level=st.integers(0, 9))
def test_what_is_written_is_read_by_others(pixels: np.ndarray, level: int) -> None:
    codec = codec_of(pixels).replace(level=level)
    data = codec.encode(values_of(pixels))
    np.testing.assert_array_equal(imagecodecs.png_decode(data).reshape(pixels.shape), pixels)
    assert codec.decode(data) == bytes(codec._decode(memoryview(data), 1 << 30)) == values_of(pixels)
    # And what they write.
    theirs = codec._encode(memoryview(values_of(pixels)))
    assert codec.decode(theirs) == values_of(pixels)


@pytest.mark.parametrize(("channels", "itemsize"), KINDS)
def test_the_table_keeps_its_word(channels: int, itemsize: int) -> None:
    codec = PngChunk(shape=(9, 4, 3, channels), itemsize=itemsize)
    size = 9 * 4 * 3 * channels * itemsize
    noise = np.random.default_rng(3).integers(0, 256, size, np.uint8).tobytes()
    check_table(codec, {"noise": noise, "zeros": bytes(size)})


def test_pictures_of_other_libraries() -> None:
    image = pytest.importorskip("PIL.Image")
    rows, columns = np.mgrid[:40, :70]
    for channels, mode in ((1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")):
        values = np.stack([(rows * 3 + columns * 5 * i) % 256 for i in range(1, channels + 1)], -1).astype(np.uint8)
        file = io.BytesIO()
        image.fromarray(values if channels > 1 else values[..., 0], mode).save(file, "PNG")
        assert codec_of(values).decode(file.getvalue()) == values_of(values)


PIXELS = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
LINES = lines_of(PIXELS, [0])
STREAM = zlib.compress(LINES)
HEAD, DATA, END = header(8, 8), piece(b"IDAT", STREAM), piece(b"IEND", b"")
TEXT = piece(b"tEXt", b"a\0b", 7)
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not a PNG"),
    "no header": (SIGNATURE + DATA + END, "not a PNG"),
    "header cut off": (SIGNATURE + HEAD[:-1], "not a PNG"),
    "header changed": (SIGNATURE + HEAD[:-1] + b"\0" + DATA + END, "IHDR"),
    "another signature": (b"\x89PNG\n\x1a\n\0" + HEAD + DATA + END, "not a PNG"),
    "no pixels": (SIGNATURE + HEAD + END, "no pixels before"),
    "nothing behind the header": (SIGNATURE + HEAD, "ends before"),
    "a piece that reaches beyond the end": (SIGNATURE + HEAD + b"\xff\xff\xff\xfftEXt" + DATA, "ends before"),
    "pixels cut off": (SIGNATURE + HEAD + DATA[:-5], "ends within|ends before"),
    "second half cut off": (
        SIGNATURE + HEAD + piece(b"IDAT", STREAM[:9]) + piece(b"IDAT", STREAM[9:])[:-1], "ends within",
    ),
    "pixels changed": (SIGNATURE + HEAD + piece(b"IDAT", STREAM, 1) + END, "IDAT"),
    "a second header": (SIGNATURE + HEAD + HEAD + DATA + END, "no pixels before"),
    "a piece that must be known": (SIGNATURE + HEAD + piece(b"ABCD", b"") + DATA + END, "no pixels before"),
    "a transparent colour": (SIGNATURE + HEAD + piece(b"tRNS", b"\0\5") + DATA + END, "transparent"),
    "fewer lines": (SIGNATURE + HEAD + piece(b"IDAT", zlib.compress(LINES[:-9])) + END, "fewer pixels"),
    "no stream": (SIGNATURE + HEAD + piece(b"IDAT", b"") + END, "fewer pixels|not a valid"),
    "stream cut off": (SIGNATURE + HEAD + piece(b"IDAT", STREAM[:-4]) + END, "not a valid"),
    "the stream's sum": (SIGNATURE + HEAD + piece(b"IDAT", STREAM[:-1] + b"\0") + END, "not a valid"),
    "no zlib": (SIGNATURE + HEAD + piece(b"IDAT", b"\x1f\x8b" + STREAM[2:]) + END, "not a valid"),
    "filter 5": (SIGNATURE + HEAD + piece(b"IDAT", zlib.compress(b"\5" + LINES[1:])) + END, "filter"),
    "last filter 255": (
        SIGNATURE + HEAD + piece(b"IDAT", zlib.compress(LINES[:-9] + b"\xff" + LINES[-8:])) + END, "filter",
    ),
    "another size": (SIGNATURE + header(8, 9) + DATA + END, "8 x 9"),
    "colours": (SIGNATURE + header(8, 8, 3) + DATA + END, "of 3"),
    "16 bits": (SIGNATURE + header(8, 8, 1, 2) + DATA + END, "16 bits"),
    "4 bits": (SIGNATURE + header(8, 8, depth=4) + DATA + END, "4 bits"),
    "a palette": (SIGNATURE + header(8, 8, kind=3) + piece(b"PLTE", b"abc") + DATA + END, "palette"),
    "no kind of pixel": (SIGNATURE + header(8, 8, kind=5) + DATA + END, "header"),
    "no width": (SIGNATURE + header(0, 8) + DATA + END, "header"),
    "a negative height": (SIGNATURE + header(8, 0xFFFFFFF8) + DATA + END, "header"),
    "another compression": (SIGNATURE + header(8, 8, compression=1) + DATA + END, "header"),
    "other filters": (SIGNATURE + header(8, 8, filter=1) + DATA + END, "header"),
    "interlaced otherwise": (SIGNATURE + header(8, 8, interlaced=2) + DATA + END, "header"),
    "interlaced, it says": (SIGNATURE + header(8, 8, interlaced=1) + DATA + END, "fewer pixels|more pixels"),
}  # fmt: skip
# What these hold and libpng passes over would be lost in silence.
STRICTER = {
    "more lines": SIGNATURE + HEAD + piece(b"IDAT", zlib.compress(LINES + LINES[:9])) + END,
    "bytes behind the stream": SIGNATURE + HEAD + piece(b"IDAT", STREAM + b"12345") + END,
}
GOOD = {
    "plain": SIGNATURE + HEAD + DATA + END,
    "no end": SIGNATURE + HEAD + DATA,
    "half an end": SIGNATURE + HEAD + DATA + END[:6],
    "anything behind": SIGNATURE + HEAD + DATA + END + b"anything",
    "damaged decoration": SIGNATURE + HEAD + TEXT + DATA + TEXT + END,
    "a palette that is not used": SIGNATURE + HEAD + piece(b"PLTE", b"abc") + DATA + END,
    "empty pieces": SIGNATURE + HEAD + piece(b"IDAT", b"") + DATA + piece(b"IDAT", b"") + END,
    "more behind the end": SIGNATURE + HEAD + DATA + TEXT + piece(b"IDAT", b"123"),
}
CODEC = codec_of(PIXELS)


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_picture_of_the_chunk_is_refused(name: str) -> None:
    data, text = BAD[name]
    with pytest.raises(CorruptDataError, match=text):
        CODEC.decode(data)
    with pytest.raises(CorruptDataError):
        CODEC.decode(data, out=bytearray(64))
    # libpng does so, too.
    with pytest.raises(CorruptDataError):
        CODEC._decode(memoryview(data), 1 << 20)


@pytest.mark.parametrize("name", STRICTER)
def test_more_than_a_picture_is_refused(name: str) -> None:
    with pytest.raises(CorruptDataError):
        CODEC.decode(STRICTER[name])


@pytest.mark.parametrize("name", GOOD)
def test_what_libpng_passes_over_is_passed_over(name: str) -> None:
    assert CODEC.decode(GOOD[name]) == PIXELS.tobytes()
    assert bytes(CODEC._decode(memoryview(GOOD[name]), 1 << 20)) == PIXELS.tobytes()


def test_no_memory_is_taken_for_what_a_header_claims() -> None:
    """A chunk of 2^29 voxels of 2 bytes, of which there are none in the picture."""
    side = 1 << 15
    codec = PngChunk(shape=(side, side // 2, 1, 1), itemsize=2)
    assert codec.native
    data = SIGNATURE + header(side, side // 2, 1, 2) + DATA + END
    with pytest.raises(CorruptDataError, match="fewer pixels"):
        codec.decode(data)


def test_a_picture_that_is_larger_than_allowed() -> None:
    with pytest.raises(CorruptDataError):
        CODEC.decode(GOOD["plain"], max_size=63)
    assert CODEC.decode(GOOD["plain"], max_size=64) == PIXELS.tobytes()


@given(st.data())
def test_damage_gives_the_values_or_an_error(data: Any) -> None:
    good = bytearray(picture(PIXELS, [0, 1, 2, 3, 4], data.draw(st.booleans()), 2))
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] ^= data.draw(st.integers(1, 255))
    bad = bytes(good[: data.draw(st.integers(len(good) // 2, len(good)))])
    try:
        found = CODEC.decode(bad)
    except CorruptDataError:
        return
    assert found == PIXELS.tobytes()


def test_a_chunk_of_another_size_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="no chunk of shape"):
        CODEC.encode(bytes(63))
