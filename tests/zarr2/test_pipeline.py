"""Arrays of Zarr v2 in zarr-python, with zvcore's pipeline: the same values and chunks as with its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numcodecs
import numpy as np
import pytest
import zarr

import zvcore.zarr3

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHAPE, CHUNKS = (9, 10, 7), (4, 4, 4)
OWN = "zarr.core.codec_pipeline.BatchedCodecPipeline"
KEYS: list[Any] = [..., np.s_[3:8, 2:9:3, 1], np.s_[8], np.s_[0, 0, 0], np.s_[2:5, :, 6:7]]


@pytest.fixture(autouse=True)
def ours() -> Iterator[None]:
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        yield


@pytest.mark.filterwarnings("ignore:The data type")
@pytest.mark.parametrize(
    "dtype", ["|b1", "|u1", "<u2", ">u2", ">i4", "<f4", ">f8", "<c8", "|S5", ">U3", "<M8[ns]", ">m8[s]"]
)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("separator", "./")
def test_every_data_type_is_read_and_written_by_the_engine(
    tmp_path: Path, dtype: str, order: str, separator: str
) -> None:
    values = np.random.default_rng(0).integers(1, 99, SHAPE).astype("i8")
    given = values.view(np.dtype(dtype).newbyteorder("=")) if dtype[1] in "mM" else values.astype(dtype)
    options: dict[str, Any] = {
        "shape": SHAPE, "chunks": CHUNKS, "dtype": np.dtype(dtype), "zarr_format": 2, "order": order,
        "compressors": numcodecs.Zlib(1), "filters": None,
        "chunk_key_encoding": {"name": "v2", "separator": separator},
    }  # fmt: skip
    array = zarr.create_array(tmp_path / "a", **options)
    assert zvcore.zarr3.explain(array)["native"]
    array[...] = given
    array[2:5, 3, 1:] = given[2:5, 3, 1:]
    for key in KEYS:
        found = np.asarray(array[key])
        assert (found == given[key]).all() and found.dtype == np.dtype(dtype)
    with zarr.config.set({"codec_pipeline.path": OWN}):
        assert (np.asarray(zarr.open_array(tmp_path / "a", zarr_format=2)[...]) == given).all()
        zarr.create_array(tmp_path / "b", **options)[...] = given
    assert (np.asarray(zarr.open_array(tmp_path / "b", zarr_format=2)[...]) == given).all()
    assert (zvcore.open(tmp_path / "b")[...] == given).all()


KNOWS_NESTED = pytest.mark.skipif(
    zarr.__version__.startswith("3.1."), reason="zarr-python 3.1 reads no records in records"
)


@pytest.mark.parametrize(
    ("dtype", "native"),
    [
        ([("a", ">u2"), ("b", ">f4")], True), ([("a", "<u2"), ("b", "<f4")], True), ([("t", ">M8[2s]")], True),
        pytest.param([("n", [("x", ">i4")]), ("s", "|S3")], True, marks=KNOWS_NESTED),
        ([("a", "<u2"), ("b", ">f4")], False),
    ],
)  # fmt: skip
def test_records_are_in_the_byte_order_of_their_fields(tmp_path: Path, dtype: Any, native: bool) -> None:
    kind = np.dtype(dtype)
    values = np.frombuffer(bytes(range(1, 1 + kind.itemsize)) * 8, kind)
    with zarr.config.set({"codec_pipeline.path": OWN}):
        zarr.create_array(str(tmp_path), data=values, chunks=3, zarr_format=2, compressors=None)
    array = zarr.open_array(str(tmp_path), mode="r+")
    assert zvcore.zarr3.explain(array)["native"] is native
    assert np.asarray(array[:]).astype(kind).tobytes() == values.tobytes()
    values = values[[0, 4, 3, 2, 1, 5, 6, 7]]
    array[1:5] = values[1:5]
    with zarr.config.set({"codec_pipeline.path": OWN}):
        assert np.asarray(zarr.open_array(str(tmp_path), mode="r")[:]).astype(kind).tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("filters", "native", "order"),
    [
        *(
            (filters, True, order)
            for filters in (
                [numcodecs.Delta("<u2")], [numcodecs.Delta("<u2", "<i4"), numcodecs.Shuffle(4)], [numcodecs.Shuffle(2)]
            )
            for order in "CF"
        ),
        # With order "F", numcodecs itself refuses such chunks.
        ([numcodecs.Delta("|u1")], False, "C"),
        ([numcodecs.Shuffle(2), numcodecs.Delta("|u1")], False, "C"),
    ],
)  # fmt: skip
def test_filters_are_those_of_zarr_python(tmp_path: Path, filters: Any, native: bool, order: str) -> None:
    values = np.random.default_rng(0).integers(1, 60000, SHAPE).astype("<u2")
    options: dict[str, Any] = {
        "shape": SHAPE, "chunks": CHUNKS, "dtype": "<u2", "zarr_format": 2, "order": order, "filters": filters,
        "compressors": None,
    }  # fmt: skip
    array = zarr.create_array(tmp_path / "a", **options)
    assert zvcore.zarr3.explain(array)["native"] == native
    array[...] = values
    array[2:5, 3, 1:] = values[2:5, 3, 1:]
    assert (array[...] == values).all()
    with zarr.config.set({"codec_pipeline.path": OWN}):
        zarr.create_array(tmp_path / "b", **options)[...] = values
    for path in (tmp_path / "b").glob("[0-9]*"):
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()
    assert (zarr.open_array(tmp_path / "b", zarr_format=2)[...] == values).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("filters", "native"),
    [
        ([numcodecs.Delta(">u2")], True), ([numcodecs.Delta(">u2"), numcodecs.Shuffle(2)], True),
        ([numcodecs.Delta(">u2", ">u4")], False), ([numcodecs.AsType(">u4", ">u2")], False),
    ],
)  # fmt: skip
def test_filters_of_big_endian_items_are_those_of_zarr_python(
    tmp_path: Path, filters: Any, native: bool, order: str
) -> None:
    values = np.random.default_rng(0).integers(1, 60000, SHAPE).astype(">u2")
    options: dict[str, Any] = {
        "shape": SHAPE, "chunks": CHUNKS, "dtype": ">u2", "zarr_format": 2, "order": order, "filters": filters,
        "compressors": numcodecs.Zstd(1),
    }  # fmt: skip
    array = zarr.create_array(tmp_path / "a", **options)
    said = zvcore.zarr3.explain(array)
    assert said["native"] == native and said["python"] == []
    array[...] = values
    array[2:5, 3, 1:] = values[2:5, 3, 1:]
    assert (array[...] == values).all()
    with zarr.config.set({"codec_pipeline.path": OWN}):
        zarr.create_array(tmp_path / "b", **options)[...] = values
        assert (zarr.open_array(tmp_path / "a", zarr_format=2)[...] == values).all()
    for path in (tmp_path / "b").glob("[0-9]*"):
        ours, theirs = (numcodecs.Zstd(1).decode(one.read_bytes()) for one in (path, tmp_path / "a" / path.name))
        assert ours == theirs
    assert (zarr.open_array(tmp_path / "b", zarr_format=2)[...] == values).all()
    assert (zvcore.open(tmp_path / "b")[...] == values).all()


@pytest.mark.parametrize(("shape", "chunks"), [((), ()), ((7,), (3,))])
def test_arrays_of_few_axes_work(tmp_path: Path, shape: Any, chunks: Any) -> None:
    array = zarr.create_array(tmp_path, shape=shape, chunks=chunks, dtype="<u2", zarr_format=2)
    assert zvcore.zarr3.explain(array)["native"]
    array[...] = 5
    assert (array[...] == 5).all() and (tmp_path / "0").exists()
    array.resize((9,) * len(shape))
    assert np.asarray(array[...]).sum() == 5 * int(np.prod(shape))


@pytest.mark.parametrize("shards", [None, (6, 6, 8)])
@pytest.mark.parametrize(
    ("filters", "python"),
    [
        (["delta"], []),
        (["astype", "delta"], []),
        (["float", "delta"], ["numcodecs.astype", "numcodecs.delta"]),
    ],
    ids=str,
)
def test_explain_names_what_python_runs_chunk_by_chunk(
    tmp_path: Path, filters: list[str], python: Any, shards: Any
) -> None:
    known = {
        "delta": {"name": "numcodecs.delta", "configuration": {"dtype": "<u2"}},
        "astype": {"name": "numcodecs.astype", "configuration": {"encode_dtype": "<u2", "decode_dtype": "<u2"}},
        "float": {"name": "numcodecs.astype", "configuration": {"encode_dtype": "<f4", "decode_dtype": "<u2"}},
    }
    array = zarr.create_array(
        tmp_path, shape=SHAPE, chunks=(3, 3, 4), shards=shards, dtype="u2",
        filters=[known[name] for name in filters if name in known],
        compressors=[{"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}}],
    )  # fmt: skip
    said = zvcore.zarr3.explain(array)
    assert said["native"] and said["python"] == python
