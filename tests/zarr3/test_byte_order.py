"""Fixed-width text in either byte order: each character has one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
import zvcore.zarr3

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:The data type")

TEXTS = np.array([["a", "bcd", ""], ["ü€𝄞", "x", "yz"], ["q", "r", "s"]] * 3)
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 300])
@pytest.mark.parametrize(
    "options",
    [{"codec": None}, {"codec": "zstd", "filters": [TRANSPOSE]}, {"shards": (4, 4), "fill_value": "f"}],
    ids=["raw", "transposed", "shards"],
)
def test_big_endian_text_is_read_and_written(tmp_path: Path, length: int, options: dict[str, Any]) -> None:
    mirror = TEXTS.astype(f"U{length}")
    array = zvcore.create(
        tmp_path, format="zarr3", shape=mirror.shape, dtype=f"U{length}", chunks=(2, 2), endian="big", **options
    )
    array[...] = mirror
    array[1:4, 2] = mirror[1:4, 2] = "hi"[:length]
    array = zvcore.open(tmp_path)
    np.testing.assert_array_equal(array[...], mirror)
    np.testing.assert_array_equal(array[::-1, ::2], mirror[::-1, ::2])
    np.testing.assert_array_equal(array.oindex[[5, 1], :], mirror[[5, 1], :])
    np.testing.assert_array_equal(array.vindex[[1, 5], [2, 0]], mirror[[1, 5], [2, 0]])
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], mirror)
    assert zvcore.verify(tmp_path).problems == []


@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_big_endian_text_of_zarr_python_and_through_the_pipeline(tmp_path: Path, shards: Any) -> None:
    mirror = TEXTS.copy()
    big = zarr.codecs.BytesCodec(endian="big")
    options: dict[str, Any] = {"serializer": big, "chunks": (2, 2), "shards": shards, "compressors": None}
    if shards is not None:
        inner = zarr.codecs.ShardingCodec(chunk_shape=(2, 2), codecs=[big])
        options = {"serializer": inner, "chunks": shards, "compressors": None}
    zarr.create_array(tmp_path, shape=mirror.shape, dtype="U3", **options)[...] = mirror
    np.testing.assert_array_equal(zvcore.open(tmp_path)[...], mirror)
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        array = zarr.open_array(tmp_path, mode="r+")
        assert zvcore.zarr3.explain(array)["native"]
        np.testing.assert_array_equal(array[...], mirror)
        array[2:5, 1:] = mirror[2:5, 1:] = "new"
        np.testing.assert_array_equal(array[1:6], mirror[1:6])
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], mirror)


def test_text_is_converted_from_one_byte_order_into_the_other(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "big", format="zarr3", shape=TEXTS.shape, dtype=TEXTS.dtype, chunks=(2, 2), endian="big", codec=None
    )
    array[...] = TEXTS
    zvcore.convert(tmp_path / "big", tmp_path / "little", format="zarr3", chunks=(3, 2))
    np.testing.assert_array_equal(zvcore.open(tmp_path / "little")[...], TEXTS)
