"""Chunks as JPEG: decoded to where the values belong, and nothing is left of what lay there where a picture is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.documents._jpeg import find_frame
from zvcore.documents.picture_headers import jpeg_header
from zvcore.errors import CorruptDataError
from zvcore.precomputed.encoding_images import JpegChunk

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (9, 5, 3)


def smooth(channels: int) -> np.ndarray:
    """[channel, z, y, x], as a chunk lies."""
    z, y, x = np.mgrid[: SHAPE[2], : SHAPE[1], : SHAPE[0]]
    return np.stack([(5 * x + 7 * y + 11 * z + 40 * i) % 200 for i in range(channels)]).astype(np.uint8)


def codec_of(channels: int) -> JpegChunk:
    return JpegChunk(shape=(*SHAPE, channels), quality=100)


def pixels_of(stored: bytes, channels: int) -> bytes:
    found = simplejpeg.decode_jpeg(stored, "GRAY" if channels == 1 else "RGB", fastdct=False)
    return np.moveaxis(found.reshape(-1, channels), -1, 0).tobytes()


@pytest.mark.parametrize("channels", [1, 3])
def test_values_are_those_of_the_library_wherever_they_go(channels: int) -> None:
    codec, values = codec_of(channels), smooth(channels)
    stored = codec.encode(values)
    wanted = pixels_of(stored, channels)
    assert codec.decode(stored) == wanted
    out = bytearray(values.nbytes)
    codec.decode(stored, out=out)
    assert out == wanted
    direct = bytearray(b"\xa5" * (values.nbytes + 8))
    assert codec.decode_directly(memoryview(stored), memoryview(direct)[:-8])
    assert direct == wanted + b"\xa5" * 8
    assert abs(np.frombuffer(wanted, np.uint8).astype(int) - values.ravel()).max() < 12


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("chunks", [SHAPE, (4, 5, 2)])
def test_values_of_volumes(tmp_path: Path, channels: int, chunks: tuple[int, ...]) -> None:
    values = smooth(channels).transpose(3, 2, 1, 0)
    zvcore.create(
        tmp_path, format="precomputed", shape=values.shape, dtype="u1", chunks=chunks, encoding="jpeg", jpeg_quality=100
    )[...] = values
    volume = zvcore.open(tmp_path, scale=0)
    whole = volume[...]
    assert abs(whole.astype(int) - values).max() < 40
    for region in ((slice(2, 5), slice(None), 1), (3, 2), (slice(None, None, -2),)):
        np.testing.assert_array_equal(volume[region], whole[region])
    out = np.empty(values.shape, "u1", "F")
    volume.read(..., out)
    np.testing.assert_array_equal(out, whole)


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_of_other_sizes_and_damaged_ones_are_refused(channels: int) -> None:
    codec = codec_of(channels)
    stored = codec.encode(smooth(channels))
    other = JpegChunk(shape=(9, 5, 2, channels)).encode(smooth(channels)[:, :2])
    colours = codec_of(4 - channels).encode(smooth(4 - channels))
    for bad in (b"", b"\xff\xd8", stored[:-20], stored[: len(stored) // 2], other, colours, b"\0" + stored):
        for decode in (
            codec.decode,
            lambda data: codec.decode_directly(memoryview(data), memoryview(bytearray(135 * channels))),
        ):
            with pytest.raises(CorruptDataError):
                decode(bad)


def test_a_library_that_goes_by_another_header_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = codec_of(1)
    stored = codec.encode(smooth(1))
    decode = simplejpeg.decode_jpeg

    def smaller(data: Any, *args: Any, **options: Any) -> Any:
        return decode(data, *args, **options)[:-1]

    monkeypatch.setattr(simplejpeg, "decode_jpeg", smaller)
    with pytest.raises(CorruptDataError, match="not one of this chunk"):
        codec.decode(stored)


def by_segments(data: bytes) -> tuple[int, ...] | None:
    """(height, width, channels, where what follows begins), slowly."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker == 1 or 0xD0 <= marker <= 0xD7:
            at += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if at + 10 > len(data) or data[at + 4] != 8:
                return None
            sizes = int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big")
            return (*sizes, data[at + 9], at + 2 + length)
        if length < 2 or marker in (0, 0xDA):
            return None
        at += 2 + length
    return None


MARKERS = st.sampled_from([0, 1, 0xC0, 0xC2, 0xC4, 0xC8, 0xCC, 0xCF, 0xD0, 0xD7, 0xD8, 0xDA, 0xDB, 0xE0, 0xFF])
SEGMENTS = st.builds(
    lambda marker, content, change: bytes([0xFF, marker]) + (len(content) + change).to_bytes(2, "big") + content,
    MARKERS,
    st.binary(max_size=12) | st.just(b"\x08\0\x07\0\x09\x01"),
    st.sampled_from([2, 2, 2, 2, 0, 1, 3, 700]),
)


@given(st.lists(SEGMENTS | st.binary(max_size=3) | st.just(b"\xff"), max_size=6).map(b"".join))
def test_the_header_is_found_among_any_segments(segments: bytes) -> None:
    data = b"\xff\xd8" + segments
    wanted = by_segments(data)
    at, _ = find_frame(data)
    assert at >= 2
    if wanted is None:
        with pytest.raises(CorruptDataError, match="no readable header"):
            jpeg_header(data)
    else:
        header = jpeg_header(memoryview(data))
        assert (header.height, header.width, header.channels, header.body) == wanted
