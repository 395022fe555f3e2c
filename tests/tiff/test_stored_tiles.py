"""Tiles and strips of TIFF that the engine reads by itself, and the blocks of those that tifffile decodes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.borrowed.blocks import BlockLayout
from zvcore.borrowed.stored import StoredLayout
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from pathlib import Path

tifffile = pytest.importorskip("tifffile")

VALUES = np.random.default_rng(3).integers(0, 4000, (4, 100, 90)).astype("u2")


def made(path: Path, values: np.ndarray[Any, Any] = VALUES, byteorder: str | None = None, **options: Any) -> Path:
    with tifffile.TiffWriter(path, byteorder=byteorder) as writer:
        writer.write(values, **{"photometric": "minisblack", **options})
    return path


KINDS: dict[str, dict[str, Any]] = {
    "plain": {"tile": (32, 48)}, "zlib": {"tile": (32, 48), "compression": "zlib"},
    "zstd": {"tile": (32, 48), "compression": "zstd"}, "lzma": {"tile": (32, 48), "compression": "lzma"},
    "predictor": {"tile": (32, 48), "compression": "zlib", "predictor": 2},
    "strips": {"rowsperstrip": 20, "compression": "zlib"},
    "strips with predictor": {"rowsperstrip": 25, "compression": "zlib", "predictor": 2},
    "volumes": {"tile": (16, 32, 48), "volumetric": True, "compression": "zlib"},
}  # fmt: skip


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["u1", "i2", "u4"])
def test_the_engine_reads_what_tifffile_wrote(tmp_path: Path, kind: str, dtype: str, byteorder: str) -> None:
    values = VALUES.astype(dtype)
    array = zvcore.open(made(tmp_path / "a.tif", values, byteorder, **KINDS[kind]))
    assert isinstance(array.layout, StoredLayout)
    assert np.array_equal(array[...], values) and np.array_equal(array[1:3, 7:95:5, 88], values[1:3, 7:95:5, 88])
    assert zvcore.verify(tmp_path / "a.tif").ok


@pytest.mark.parametrize("options", [{"predictor": 2}, {}])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_colours_are_read_by_the_engine(tmp_path: Path, planar: str, options: dict[str, Any]) -> None:
    values = VALUES[:3].astype("u1")
    values = np.ascontiguousarray(values.transpose(1, 2, 0)) if planar == "contig" else values
    options = {"photometric": "rgb", "planarconfig": planar, "tile": (32, 48), "compression": "zlib", **options}
    array = zvcore.open(made(tmp_path / "a.tif", values, **options))
    assert isinstance(array.layout, StoredLayout) and np.array_equal(array[...], values)


def test_chunks_are_tiles_of_one_page(tmp_path: Path) -> None:
    assert zvcore.open(made(tmp_path / "a.tif", tile=(32, 48), compression="zlib")).chunks == (1, 32, 48)
    pytest.importorskip("imagecodecs")
    big = np.tile(VALUES, (1, 3, 3))
    array = zvcore.open(made(tmp_path / "b.tif", big, tile=(128, 128), compression="lzw"))
    assert isinstance(array.layout, BlockLayout) and array.chunks == (1, 128, 128)
    assert np.array_equal(array[...], big)
    # Very small ones are read several at once, and never those of another page.
    array = zvcore.open(made(tmp_path / "c.tif", tile=(16, 16), compression="lzw"))
    assert array.chunks[0] == 1 and array.chunks[1] > 16 and np.array_equal(array[...], VALUES)


def test_what_only_tifffile_decodes_is_left_to_it(tmp_path: Path) -> None:
    floats = np.random.default_rng(0).random((64, 64)).astype("f4")
    array = zvcore.open(made(tmp_path / "a.tif", floats, tile=(32, 32), compression="zlib", predictor=3))
    assert isinstance(array.layout, BlockLayout) and np.array_equal(array[...], floats)
    # Programs differ in whether the last strip is whole.
    array = zvcore.open(made(tmp_path / "b.tif", rowsperstrip=30, compression="zlib"))
    assert isinstance(array.layout, BlockLayout) and np.array_equal(array[...], VALUES)


def test_tiles_stay_as_they_are_where_the_destination_has_the_codec(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", tile=(32, 48), compression="zlib")
    report = zvcore.convert(
        path, tmp_path / "out", format="zarr3", codec="numcodecs.zlib", shards=(4, 64, 96), verify=True
    )
    assert report.ok and report.copied == 4 * 4 * 2 and report.encoded == 0
    assert np.array_equal(zarr.open_array(tmp_path / "out", mode="r")[...], VALUES)
    # What all readers know is taken unless one asks for another.
    again = zvcore.convert(path, tmp_path / "zstd", format="zarr3")
    assert again.encoded == 32 and zvcore.open(tmp_path / "zstd").codec.name in ("zstd", "gzip", "blosc")
    predicted = made(tmp_path / "b.tif", tile=(32, 48), compression="zlib", predictor=2)
    report = zvcore.convert(predicted, tmp_path / "b", format="zarr3", codec="numcodecs.zlib", verify=True)
    assert report.copied == 0 and np.array_equal(zvcore.open(tmp_path / "b")[...], VALUES)


def tags(raw: bytearray) -> dict[int, int]:
    """{code: where its entry lies} in the first page of a classic little-endian TIFF."""
    (first,) = struct.unpack_from("<I", raw, 4)
    (count,) = struct.unpack_from("<H", raw, first)
    return {struct.unpack_from("<H", raw, at)[0]: at for at in range(first + 2, first + 2 + 12 * count, 12)}


def test_an_offset_outside_of_the_file_is_told(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", VALUES[0], tile=(32, 48), compression="zlib")
    raw = bytearray(path.read_bytes())
    (where,) = struct.unpack_from("<I", raw, tags(raw)[324] + 8)
    struct.pack_into("<I", raw, where, 2**31)
    path.write_bytes(raw)
    with pytest.raises(CorruptDataError):
        zvcore.open(path)[...]
    report = zvcore.verify(path)
    assert report.status == "damaged" and len(report.problems) == 1


def test_fewer_tiles_than_the_shape_needs_are_told(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", VALUES[0], tile=(32, 48), compression="zlib")
    raw = bytearray(path.read_bytes())
    struct.pack_into("<I", raw, tags(raw)[324] + 4, 3)
    path.write_bytes(raw)
    with pytest.raises(CorruptDataError):
        zvcore.open(path)[...]


def test_a_tile_that_is_not_stored_is_zero(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", VALUES[0], tile=(32, 48), compression="zlib")
    raw = bytearray(path.read_bytes())
    for code in (324, 325):
        (where,) = struct.unpack_from("<I", raw, tags(raw)[code] + 8)
        size = {3: "<H", 4: "<I"}[struct.unpack_from("<H", raw, tags(raw)[code] + 2)[0]]
        struct.pack_into(size, raw, where + struct.calcsize(size), 0)
    path.write_bytes(raw)
    expected = VALUES[0].copy()
    expected[:32, 48:] = 0
    assert np.array_equal(zvcore.open(path)[...], expected)


def test_bytes_behind_plain_tiles_are_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", VALUES[0], tile=(32, 48))
    raw = bytearray(path.read_bytes())
    entry = tags(raw)[325]
    kind = {3: "<H", 4: "<I"}[struct.unpack_from("<H", raw, entry + 2)[0]]
    (where,) = struct.unpack_from("<I", raw, entry + 8)
    struct.pack_into(kind, raw, where, struct.unpack_from(kind, raw, where)[0] + 7)
    path.write_bytes(raw)
    assert np.array_equal(zvcore.open(path)[...], VALUES[0])
