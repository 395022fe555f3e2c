"""N5 between zvcore and zarr-n5: its store reads our containers, and our blocks are its codec's blocks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.n5 import add_zarr_metadata

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 12), reason="zarr-n5 needs Python 3.12"),
    pytest.mark.filterwarnings("ignore:Endian.big is deprecated:DeprecationWarning"),
]

SHAPE = (11, 7, 5)
CHUNKS = (4, 4, 4)
# What it claims to read.
CODECS: list[Any] = ["raw", "gzip", "blosc", {"name": "blosc", "cname": "zstd", "shuffle": "bitshuffle"}, "zstd"]


@pytest.fixture(autouse=True)
def their_codec() -> Any:
    with zarr.config.set({"codecs.n5_default": "zarr_n5.codec.default.N5DefaultCodec"}):
        yield


def sample(dtype: str) -> Any:
    values = np.random.default_rng(0).integers(0, 99, SHAPE).astype(dtype)
    values[:4, :4, :4] = 0
    return values


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float32"])
@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_it_reads_our_containers(codec: Any, dtype: str, tmp_path: Path) -> None:
    import zarr_n5

    container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    values = sample(dtype)
    container.create_dataset("d", shape=SHAPE, dtype=dtype, chunks=CHUNKS, codec=codec, attrs={"a": 1})[...] = values
    store = zarr_n5.N5WrapperStore(zarr.storage.LocalStore(str(tmp_path / "c.n5")))
    array = zarr.open_array(store, path="d", mode="r")
    np.testing.assert_array_equal(array[...], values)
    assert array.attrs["a"] == 1


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_its_codec_reads_what_we_describe(codec: Any, tmp_path: Path) -> None:
    """It does not write blocks in zarr-python 3.4."""
    ours = zvcore.create(tmp_path / "d", format="n5", shape=SHAPE, dtype="int32", chunks=CHUNKS, codec=codec)
    values = sample("int32")
    ours[...] = values
    add_zarr_metadata(tmp_path / "d")
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "d"), mode="r")[...], values)
