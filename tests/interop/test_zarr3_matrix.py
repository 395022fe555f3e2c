"""What each writes the others read: zarr-python (with and without our pipeline), zarrs-python, tensorstore, zvcore.

One document per chain; each writer fills a copy of it by a whole write and then a partial one, each reader reads it
whole, in part and item by item.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr
import zarrs  # noqa: F401  registers its pipeline

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

SHAPE, OUTER, INNER = (25, 26), (10, 12), (5, 4)
WHO = ("zarr", "zarrs", "tensorstore", "zvcore", "zarr+zvcore")
PIPELINES = {
    "zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
    "zarr+zvcore": "zvcore.zarr3.CodecPipeline",
}
Codec = dict[str, Any]


def named(name: str, **configuration: Any) -> Codec:
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


LITTLE, BIG = named("bytes", endian="little"), named("bytes", endian="big")
CRC = named("crc32c")
GZIP = named("gzip", level=1)
ZSTD = named("zstd", level=1, checksum=False)
LZ4 = named("blosc", cname="lz4", clevel=1, shuffle="shuffle", typesize=2, blocksize=0)
BLOSC_ZSTD = named("blosc", cname="zstd", clevel=1, shuffle="bitshuffle", typesize=2, blocksize=0)
TRANSPOSE = named("transpose", order=[1, 0])
CHAINS: dict[str, list[Codec]] = {
    "raw": [LITTLE],
    "big": [BIG],
    "gzip": [LITTLE, GZIP],
    "zstd": [LITTLE, ZSTD],
    "zstd with checksum": [LITTLE, named("zstd", level=3, checksum=True)],
    "blosc lz4": [LITTLE, LZ4],
    "blosc zstd": [LITTLE, BLOSC_ZSTD],
    "crc32c": [BIG, CRC],
    "gzip crc32c": [LITTLE, GZIP, CRC],
    "transposed": [TRANSPOSE, BIG, ZSTD],
}


def sharded(
    codecs: list[Codec], inner: tuple[int, ...] = INNER, location: str = "end", index: list[Codec] | None = None
) -> Codec:
    index = [LITTLE, CRC] if index is None else index
    return named(
        "sharding_indexed", chunk_shape=list(inner), codecs=codecs, index_codecs=index, index_location=location
    )


LAYOUTS: dict[str, list[Codec]] = {
    **{name: CHAINS[name] for name in ("raw", "zstd", "blosc lz4", "gzip crc32c", "transposed")},
    **{f"sharded {name}": [sharded(codecs)] for name, codecs in CHAINS.items()},
    "index at start": [sharded([LITTLE, ZSTD], location="start")],
    "index big-endian": [sharded([LITTLE], index=[BIG, CRC])],
    "index without checksum": [sharded([LITTLE, GZIP], index=[LITTLE])],
    "index transposed": [sharded([LITTLE], index=[named("transpose", order=[2, 1, 0]), BIG, CRC])],
    "nested": [sharded([sharded([LITTLE, GZIP], (5, 3))], (5, 6))],
    "transposed shard": [TRANSPOSE, sharded([LITTLE, ZSTD], (2, 2))],
    "codecs behind the shard": [sharded([LITTLE]), GZIP, CRC],
}
# What others cannot do, by their own word; we must do all of it.
UNABLE = {("tensorstore", "codecs behind the shard")}

VALUES = (np.arange(25 * 26, dtype=np.uint16).reshape(SHAPE) * 7 % 61).astype(np.uint16)
VALUES[5:15, :12] = 3  # chunks that need not be stored


class Side:
    """One implementation's array."""

    def __init__(self, who: str, path: Path) -> None:
        self.who = who
        if who == "tensorstore":
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
            self.array: Any = tensorstore.open(spec, open=True, read=True, write=True).result()
        elif who == "zvcore":
            self.array = zvcore.open(path, mode="r+")
        else:
            with zarr.config.set({"codec_pipeline.path": PIPELINES[who]}):
                self.array = zarr.open_array(path, mode="r+")

    def __getitem__(self, key: Any) -> Any:
        if self.who == "tensorstore":
            return self.array[key].read().result()
        if self.who == "zvcore":
            return self.array[key]
        with zarr.config.set({"codec_pipeline.path": PIPELINES[self.who]}):
            return self.array[key]

    def __setitem__(self, key: Any, values: Any) -> None:
        if self.who in PIPELINES:
            with zarr.config.set({"codec_pipeline.path": PIPELINES[self.who]}):
                self.array[key] = values
        else:
            self.array[key] = values


def make(path: Path, codecs: list[Codec]) -> None:
    path.mkdir()
    document = {
        "zarr_format": 3, "node_type": "array", "shape": list(SHAPE), "data_type": "uint16",
        "chunk_grid": named("regular", chunk_shape=list(OUTER)),
        "chunk_key_encoding": named("default", separator="/"),
        "fill_value": 3, "codecs": codecs, "attributes": {},
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(document))


@pytest.mark.filterwarnings("ignore")  # zarr-python warns of some chains, zarrs of those that it leaves to zarr-python
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writer", WHO)
def test_everybody_reads_what_everybody_writes(tmp_path: Path, writer: str, layout: str) -> None:
    if (writer, layout) in UNABLE:
        make(tmp_path / "a", LAYOUTS[layout])
        with pytest.raises(ValueError, match=r"[Ss]harding"):
            Side(writer, tmp_path / "a")
        return
    make(tmp_path / "a", LAYOUTS[layout])
    array = Side(writer, tmp_path / "a")
    array[:, :] = VALUES
    expected = VALUES.copy()
    expected[4:18, 9:25] = 500 + VALUES[4:18, 9:25]
    array[4:18, 9:25] = expected[4:18, 9:25]
    for who in WHO:
        if (who, layout) in UNABLE:
            continue
        reader = Side(who, tmp_path / "a")
        np.testing.assert_array_equal(reader[:, :], expected, err_msg=who)
        np.testing.assert_array_equal(reader[2:22, 10:11], expected[2:22, 10:11], err_msg=who)
        assert reader[24:25, 25:26][0, 0] == expected[24, 25]
        # And changes it, so that the next reads what two have written.
        reader[0:3, 0:26] = expected[0:3] = np.uint16(WHO.index(who) + 1)
    np.testing.assert_array_equal(
        array[:, :] if writer != "tensorstore" else Side(writer, tmp_path / "a")[:, :], expected
    )


@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shards", [None, (8, 8)])
def test_data_types(tmp_path: Path, kind: str, shards: tuple[int, int] | None) -> None:
    dtype = np.dtype(kind)
    values = (np.arange(100).reshape(10, 10) % 2 if kind == "bool" else np.arange(100).reshape(10, 10) - 50).astype(
        dtype
    )
    ours = zvcore.create(
        tmp_path, format="zarr3", shape=(10, 10), chunks=(4, 4), shards=shards, dtype=dtype, codec="zstd"
    )
    ours[...] = values
    for who in WHO:
        side = Side(who, tmp_path)
        np.testing.assert_array_equal(side[:, :], values)
        side[0:5, 0:5] = values[0:5, 0:5] = values[5:10, 5:10]
        np.testing.assert_array_equal(zvcore.open(tmp_path)[...], values)
