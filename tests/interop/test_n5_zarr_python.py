"""N5 through zarr-python 3: containers by `ZarrStore`, and folders that are N5 and Zarr v3 at once."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.codecs import numcodecs as wrapped

import zvcore
from zvcore.errors import ConflictError, MetadataError, UnsupportedError
from zvcore.n5 import ZarrStore, add_zarr_metadata
from zvcore.n5.zarr_codec import N5Default

JAVA = Path(__file__).parent.parent / "n5" / "data" / "java" / "container.n5"
EXPECTED = json.loads((JAVA.parent / "expected.json").read_text())
ARRAYS = [case for case in EXPECTED if case["kind"] == "array"]
ALL: list[Any] = [
    "raw", "gzip", {"name": "gzip", "use_zlib": True}, "bzip2", "xz", "lz4", "blosc", "zstd",
]  # fmt: skip
SHAPE = (11, 7, 5)
CHUNKS = (4, 4, 4)


@pytest.fixture(autouse=True)
def our_codec() -> Any:
    # zarr-n5, where it is installed, has a codec of the same name.
    with zarr.config.set({"codecs.n5_default": "zvcore.n5.zarr_codec.N5Default"}):
        yield


def sample(dtype: str = "uint16") -> Any:
    values = np.random.default_rng(0).integers(0, 99, SHAPE).astype(dtype)
    values[:4, :4, :4] = 0
    return values


@pytest.mark.parametrize("case", ARRAYS, ids=lambda case: case["path"])
def test_java_through_the_store(case: Any) -> None:
    array = zarr.open(ZarrStore(JAVA, read_only=True), mode="r")[case["path"]]
    assert array.shape == tuple(case["shape"])[::-1]
    np.testing.assert_array_equal(array[...], zvcore.open(JAVA / case["path"], order="C")[...])
    assert dict(array.attrs) == case["attrs"]


def test_java_groups() -> None:
    root = zarr.open(ZarrStore(JAVA, read_only=True), mode="r")
    assert set(root.keys()) == {case["path"] for case in EXPECTED if "/" not in case["path"]} - {"", "objects"}
    assert dict(root["groups/outer"].attrs) == next(c for c in EXPECTED if c["path"] == "groups/outer")["attrs"]
    assert set(root["groups/outer"].keys()) == {"data", "inner"}
    assert "0" not in root["sparse"].store_path.path
    with pytest.raises(KeyError):
        root["nothing"]


@pytest.mark.parametrize("codec", ALL, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_reads_and_writes_every_compression(codec: Any, dtype: str, tmp_path: Path) -> None:
    ours = zvcore.create(tmp_path / "d", format="n5", shape=SHAPE, dtype=dtype, chunks=CHUNKS, codec=codec, order="C")
    values = sample(dtype)
    ours[...] = values
    array = zarr.open_array(ZarrStore(tmp_path / "d"), mode="r+")
    np.testing.assert_array_equal(array[...], values)
    array[3:9, 1:5, ::2] = 7
    values[3:9, 1:5, ::2] = 7
    np.testing.assert_array_equal(zvcore.open(tmp_path / "d", order="C")[...], values)
    np.testing.assert_array_equal(array[...], values)
    # Blocks at the end are cropped as ours are.
    assert ours.read_encoded((2, 1, 1))[4:16].hex() == "000000010000000300000003"
    assert zvcore.open(tmp_path / "d").codec == ours.codec


@pytest.mark.parametrize(
    ("compressor", "members"),
    [
        (None, {"type": "raw"}),
        ("auto", {"type": "zstd", "level": 0}),
        (GzipCodec(level=3), {"type": "gzip", "level": 3, "useZlib": False}),
        (ZstdCodec(level=2), {"type": "zstd", "level": 2}),
        (
            BloscCodec(cname="lz4", clevel=3, shuffle="shuffle"),
            {"type": "blosc", "cname": "lz4", "clevel": 3, "shuffle": 1, "blocksize": 0},
        ),
    ],
    ids=str,
)
def test_creating(compressor: Any, members: Any, tmp_path: Path) -> None:
    root = zarr.open_group(ZarrStore(tmp_path / "c.n5"), mode="a")
    root.attrs["a"] = 1
    array = root.create_array(
        "g/d", shape=SHAPE, chunks=CHUNKS, dtype="uint16", compressors=compressor, attributes={"k": [1]},
        dimension_names=["z", "y", "x"],
    )  # fmt: skip
    values = sample()
    array[...] = values
    array[3:9, 1:5] = 7
    values[3:9, 1:5] = 7
    array.attrs["more"] = "µ"
    np.testing.assert_array_equal(array[...], values)
    document = json.loads((tmp_path / "c.n5/g/d/attributes.json").read_text())
    assert document == {
        "dataType": "uint16",
        "compression": members,
        "blockSize": list(CHUNKS)[::-1],
        "dimensions": list(SHAPE)[::-1],
        "k": [1],
        "more": "µ",
        "axes": ["x", "y", "z"],
    }
    assert json.loads((tmp_path / "c.n5/attributes.json").read_text()) == {"n5": "4.0.0", "a": 1}
    np.testing.assert_array_equal(zvcore.open(tmp_path / "c.n5", order="C")["g/d"][...], values)
    # Another store, which shows what is there as plain bytes.
    again = zarr.open(ZarrStore(tmp_path / "c.n5"), mode="r+")["g/d"]
    np.testing.assert_array_equal(again[...], values)
    assert again.metadata.dimension_names == ("z", "y", "x")
    again[0] = 1
    values[0] = 1
    np.testing.assert_array_equal(array[...], values)
    array.resize((20, 7, 5))
    assert zvcore.open(tmp_path / "c.n5")["g/d"].shape == (5, 7, 20)
    copy = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(copy[:11], values)
    # No zarr.json has appeared.
    assert not list((tmp_path / "c.n5").rglob("zarr.json"))


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
def test_codecs_of_numcodecs(tmp_path: Path) -> None:
    root = zarr.open_group(ZarrStore(tmp_path / "c.n5"), mode="a")
    values = sample()
    for name, compressor in [("bzip2", wrapped.BZ2(level=2)), ("xz", wrapped.LZMA()), ("lz4", wrapped.LZ4())]:
        array = root.create_array(name, shape=SHAPE, chunks=CHUNKS, dtype="uint16", compressors=compressor)
        array[...] = values
        np.testing.assert_array_equal(array[...], values)
        ours = zvcore.open(tmp_path / "c.n5", order="C")[name]
        assert ours.codec.name == name
        np.testing.assert_array_equal(ours[...], values)
    # Java's framing, not that of numcodecs.
    assert ours.read_encoded((1, 1, 1))[16:24] == b"LZ4Block"


def test_what_n5_cannot_hold(tmp_path: Path) -> None:
    root = zarr.open_group(ZarrStore(tmp_path / "c.n5"), mode="a")
    for options in (
        {"dtype": "bool"},
        {"dtype": "uint8", "fill_value": 3},
        {"dtype": "uint8", "shards": (8, 8, 8)},
        {"dtype": "uint8", "compressors": [GzipCodec(), ZstdCodec()]},
    ):
        with pytest.raises(UnsupportedError, match="N5 cannot hold"):
            root.create_array("d", shape=SHAPE, chunks=CHUNKS, **options)
        assert not (tmp_path / "c.n5/d").exists()
    with pytest.raises(MetadataError, match="belong to N5"):
        root.attrs["dimensions"] = 1


def test_deleting_and_listing(tmp_path: Path) -> None:
    root = zarr.open_group(ZarrStore(tmp_path / "c.n5"), mode="a")
    array = root.create_array("a/d", shape=(4, 6), chunks=(2, 2), dtype="uint8")
    array[2:, :2] = 1
    array[:2, 4:] = 0
    assert array.nchunks_initialized == 1
    assert sorted(root["a"].keys()) == ["d"]
    root.create_array("a/d", shape=(3,), chunks=(2,), dtype="uint8", overwrite=True)
    assert zvcore.open(tmp_path / "c.n5")["a/d"].shape == (3,)
    assert not list(zvcore.open(tmp_path / "c.n5")["a/d"].blocks())
    del root["a"]
    assert list(root.keys()) == []
    assert not (tmp_path / "c.n5/a").exists()


def test_read_only(tmp_path: Path) -> None:
    zarr.open_group(ZarrStore(tmp_path / "c.n5"), mode="a").create_array("d", shape=(4,), chunks=(2,), dtype="uint8")
    array = zarr.open(ZarrStore(tmp_path / "c.n5", read_only=True), mode="r")["d"]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.filterwarnings("ignore:Endian.big is deprecated:DeprecationWarning")  # zarr-n5's, with newer zarr-python
class TestBoth:
    """One folder, two formats."""

    @pytest.mark.parametrize("codec", ALL, ids=str)
    def test_every_compression(self, codec: Any, tmp_path: Path) -> None:
        container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
        container.attrs["a"] = 1
        ours = container.create_dataset(
            "g/d", shape=SHAPE, dtype="int32", chunks=CHUNKS, codec=codec, attrs={"axes": ["x", "y", "z"], "b": 2}
        )
        values = sample("int32")
        ours[...] = values
        assert add_zarr_metadata(tmp_path / "c.n5") == ["zarr.json", "g/zarr.json", "g/d/zarr.json"]
        root = zarr.open(str(tmp_path / "c.n5"), mode="r+")
        assert dict(root.attrs) == {"a": 1}
        array = root["g/d"]
        assert array.shape == SHAPE
        assert dict(array.attrs) == {"axes": ["x", "y", "z"], "b": 2}
        assert array.metadata.dimension_names == ("x", "y", "z")
        np.testing.assert_array_equal(array[...], values)
        # Written by zarr-python, blocks at the end are whole.
        array[5:, 2:] = 8
        values[5:, 2:] = 8
        np.testing.assert_array_equal(ours[...], values)
        np.testing.assert_array_equal(array[...], values)
        # It is still N5 for us.
        assert zvcore.open(tmp_path / "c.n5").attrs["a"] == 1
        assert add_zarr_metadata(tmp_path / "c.n5") == []

    def test_the_document(self, tmp_path: Path) -> None:
        zvcore.create(tmp_path / "d", format="n5", shape=(6, 4), dtype="uint16", chunks=(3, 2), codec="gzip")
        add_zarr_metadata(tmp_path / "d")
        assert json.loads((tmp_path / "d/zarr.json").read_text()) == {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [6, 4],
            "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 2]}},
            "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [
                {
                    "name": "n5_default",
                    "configuration": {
                        "codecs": [
                            {"name": "transpose", "configuration": {"order": [1, 0]}},
                            {"name": "bytes", "configuration": {"endian": "big"}},
                            {"name": "gzip", "configuration": {"level": 6}},
                        ]
                    },
                }
            ],
            "attributes": {},
        }

    def test_java(self, tmp_path: Path) -> None:
        shutil.copytree(JAVA, tmp_path / "c.n5")
        written = add_zarr_metadata(tmp_path / "c.n5")
        assert "objects/zarr.json" not in written
        root = zarr.open(str(tmp_path / "c.n5"), mode="r")
        for case in ARRAYS:
            np.testing.assert_array_equal(root[case["path"]][...], zvcore.open(JAVA / case["path"])[...])

    def test_another_document_is_not_lost(self, tmp_path: Path) -> None:
        zvcore.create(tmp_path / "d", format="n5", shape=(6,), dtype="uint16")
        (tmp_path / "d/zarr.json").write_text('{"zarr_format": 3}')
        with pytest.raises(ConflictError, match="overwrite=True"):
            add_zarr_metadata(tmp_path / "d")
        assert add_zarr_metadata(tmp_path / "d", overwrite=True) == ["zarr.json"]

    def test_broken_blocks(self, tmp_path: Path) -> None:
        ours = zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="uint16", chunks=(4,), codec="raw")
        add_zarr_metadata(tmp_path / "d")
        array = zarr.open_array(str(tmp_path / "d"), mode="r")
        for block, text in [(b"", "cut short"), (b"\0\1\0\1\0\0\0\4\0\0\0\1\0\1", "variable length")]:
            ours.write_encoded(0, block)
            with pytest.raises(zvcore.errors.CorruptDataError, match=text):
                array[...]

    def test_wrong_configurations(self) -> None:
        big = {"name": "bytes", "configuration": {"endian": "big"}}
        turn = {"name": "transpose", "configuration": {"order": [1, 0]}}
        for codecs in (
            [big],
            [turn],
            [turn, {"name": "bytes", "configuration": {"endian": "little"}}],
            [{"name": "transpose", "configuration": {"order": [0, 1]}}, big],
            [turn, big, "gzip", "zstd"],
        ):
            with pytest.raises(MetadataError, match="n5_default"):
                N5Default.from_dict({"name": "n5_default", "configuration": {"codecs": codecs}})
        with pytest.raises(MetadataError, match="configuration"):
            N5Default.from_dict({"name": "n5_default"})
