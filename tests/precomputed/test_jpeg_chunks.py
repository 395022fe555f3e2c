"""Chunks as JPEG: decoded to where the values belong, and nothing is left of what lay there where a picture is none."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import zvcore
from zvcore.documents._jpeg import find_frame
from zvcore.documents.picture_headers import jpeg_header
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError
from zvcore.precomputed import encoding_images
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


@pytest.fixture(params=["native", "simplejpeg"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "simplejpeg":
        monkeypatch.setattr(encoding_images, "_jpeg_chunks", None)
    assert JpegChunk(shape=(1, 1, 1, 1)).native == (request.param == "native")
    chosen: str = request.param
    return chosen


def without_native(codec: JpegChunk) -> JpegChunk:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding_images, "_jpeg_chunks", None)
        other = JpegChunk(**codec.config())
        assert not other.native
    return other


def outcome(codec: JpegChunk, data: bytes) -> bytes | None:
    try:
        return bytes(codec.decode(data))
    except CorruptDataError:
        return None


def written_by_pillow(values: np.ndarray, **options: Any) -> bytes:
    pixels = np.moveaxis(values, 0, -1).reshape(-1, values.shape[3], values.shape[0])
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "JPEG", **options)
    return file.getvalue()


MARKS = (b"", b"\xff", b"\xff\0", b"\xff\xd9", b"\xff\xd0")
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"quality": 95, "subsampling": 0},
    {"progressive": True},
    {"optimize": True, "subsampling": 1},
    {"subsampling": 2, "progressive": True},
    {"restart_marker_rows": 1},
)


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
    if codec.native:
        codec.decode(stored, out=memoryview(direct)[:-8])
    else:
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
        for out in (None, bytearray(135 * channels)):
            with pytest.raises(CorruptDataError):
                codec.decode(bad, out=out)
        if not codec.native:
            with pytest.raises(CorruptDataError):
                codec.decode_directly(memoryview(bad), memoryview(bytearray(135 * channels)))


def test_a_library_that_goes_by_another_header_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = without_native(codec_of(1))
    stored = codec.encode(smooth(1))
    decode = simplejpeg.decode_jpeg

    def smaller(data: Any, *args: Any, **options: Any) -> Any:
        return decode(data, *args, **options)[:-1]

    monkeypatch.setattr(simplejpeg, "decode_jpeg", smaller)
    with pytest.raises(CorruptDataError, match="not one of this chunk"):
        codec.decode(stored)


def test_without_any_library_opening_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"format": "precomputed", "shape": (8, 8, 8), "dtype": "u1", "encoding": "jpeg"}
    zvcore.create(tmp_path / "before", **options)
    monkeypatch.setattr(encoding_images, "_jpeg_chunks", None)
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(CodecNotFoundError, match=r"zvcore\[images\]"):
        zvcore.create(tmp_path / "after", **options)
    with pytest.raises(CodecNotFoundError, match=r"zvcore\[images\]"):
        zvcore.open(tmp_path / "before", scale=0)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("shape", [SHAPE, (16, 8, 2), (8, 3, 7), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_of_other_programs(channels: int, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    z, y, x = np.mgrid[: shape[2], : shape[1], : shape[0]]
    values = np.stack([(3 * x + 7 * y + 11 * z + 40 * i) % 256 for i in range(channels)]).astype(np.uint8)
    stored = written_by_pillow(values, **options)
    codec = JpegChunk(shape=(*shape, channels))
    assert codec.decode(stored) == pixels_of(stored, channels)


@given(st.data())
def test_what_is_refused_and_what_it_decodes_to_does_not_depend_on_the_way(data: st.DataObject) -> None:
    channels = data.draw(st.sampled_from([1, 3]))
    codec = JpegChunk(shape=(*SHAPE, channels))
    stored = bytearray(written_by_pillow(smooth(channels), **data.draw(st.sampled_from(KINDS))))
    assert outcome(codec, bytes(stored)) is not None
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(stored) - 1))
        end = at + data.draw(st.sampled_from([0, 1, 1, 2, 30, len(stored)]))
        stored[at:end] = data.draw(st.sampled_from(MARKS) | st.binary(max_size=3))
        if not stored:
            break
    assert outcome(codec, bytes(stored)) == outcome(without_native(codec), bytes(stored))


def test_no_picture_is_read_with_the_tables_of_the_one_before() -> None:
    codec, quantization = codec_of(1), 0xDB
    stored = written_by_pillow(smooth(1), optimize=True)
    at, tables = 2, {}
    while stored[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(stored[at + 2 : at + 4], "big")
        if stored[at + 1] in (0xC4, quantization):
            tables[at, end] = stored[at + 1]
        at = end
    assert len(tables) >= 2
    for (begin, end), kind in tables.items():
        wanted = codec.decode(stored)
        found = outcome(codec, stored[:begin] + stored[end:])
        # Codes that are missing are the usual ones, which are not those of this picture.
        assert found is None if kind == quantization else found != wanted


def of_many_scans(gray: bytes, scans: int) -> bytes:
    """A picture of three channels, each in a scan of its own, made of a gray one; further scans are of the first."""
    frame, scan = gray.index(b"\xff\xc0"), gray.index(b"\xff\xda")
    length = int.from_bytes(gray[frame + 2 : frame + 4], "big")
    channels = b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
    header = b"\xff\xc0" + (8 + 9).to_bytes(2, "big") + gray[frame + 4 : frame + 9] + b"\x03" + channels
    content = gray[scan + 2 + int.from_bytes(gray[scan + 2 : scan + 4], "big") : -2]
    one_scan = b"\xff\xda\0\x08\x01%c\0\0\x3f\0" + content.replace(b"%", b"%%")
    numbers = [1, 2, 3, *(1 for _ in range(scans - 3))]
    body = b"".join(one_scan % number for number in numbers)
    return gray[:frame] + header + gray[frame + 2 + length : scan] + body + b"\xff\xd9"


def test_a_picture_of_very_many_scans_is_refused(way: str) -> None:
    codec, gray = codec_of(3), codec_of(1).encode(smooth(1))
    wanted = codec.decode(of_many_scans(gray, 3))
    assert codec.decode(of_many_scans(gray, 400)) == wanted
    if way == "native":
        with pytest.raises(CorruptDataError, match="more than 500 scans"):
            codec.decode(of_many_scans(gray, 600))


@pytest.mark.parametrize("shape", [(70_000, 1, 1), (2, 70_000, 1), (1, 7, 14_000)], ids=str)
def test_chunks_with_sides_that_pictures_cannot_have(shape: tuple[int, ...]) -> None:
    codec = JpegChunk(shape=(*shape, 1), quality=95)
    values = (np.arange(np.prod(shape)) // 64 % 200).astype(np.uint8)
    stored = codec.encode(values)
    assert abs(np.frombuffer(codec.decode(stored), np.uint8).astype(int) - values).max() < 30


def test_a_chunk_that_no_picture_can_be_made_of() -> None:
    # A prime.
    codec = JpegChunk(shape=(65_537, 1, 1, 1))
    with pytest.raises(MetadataError, match="65500"):
        codec.encode(bytes(65_537))


def test_of_a_chunk_no_more_is_decoded_than_is_wanted(tmp_path: Path, way: str) -> None:
    """What lies behind the wanted rows is not looked at; whoever wants it is told."""
    values = np.random.default_rng(2).integers(0, 255, (64, 64, 64, 1), "u1")
    options = {"shape": values.shape, "dtype": "u1", "chunks": (64, 64, 64), "encoding": "jpeg", "codec": "raw"}
    made = zvcore.create(tmp_path, format="precomputed", **options)
    made[...] = values
    whole = made[...]
    (file,) = (path for path in tmp_path.rglob("0-64_*"))
    file.write_bytes(file.read_bytes()[:-20000])
    volume = zvcore.open(tmp_path, scale=0)
    with pytest.raises(CorruptDataError):
        volume[:, :, 60:]
    if way == "native":
        np.testing.assert_array_equal(volume[:, :, :3], whole[:, :, :3])
    else:
        with pytest.raises(CorruptDataError):
            volume[:, :, :3]


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
