"""Data types beyond the plain numbers: records, raw bytes, times, and numbers that numpy does not have."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.codecs.small_numbers import FLOATS, INTEGERS
from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError
from zvcore.stores import MemoryStore
from zvcore.zarr3.dtypes import data_type_of, parse_data_type

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:The data type", "ignore:Missing 'endian'")

RECORD = np.dtype(
    [("x", "f4"), ("n", "i2"), ("raw", "V3"), ("at", [("t", "M8[10us]"), ("ok", "?")]), ("name", "U2"), ("z", "c8")]
)
# What the released tensorstore knows.
TENSORSTORE = {
    "bfloat16", "float8_e3m4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int2", "int4",
}  # fmt: skip


def document(path: Path) -> Any:
    return json.loads((path / "zarr.json").read_text())


def changed(path: Path, **members: Any) -> None:
    (path / "zarr.json").write_text(json.dumps({**document(path), **members}))


def records(count: int = 7) -> Any:
    values = np.zeros(count, RECORD)
    values["x"] = np.arange(count) / 4
    values["n"] = np.arange(count) * -300
    values["raw"] = [np.void(bytes([i, 0, 255])) for i in range(count)]
    values["at"]["t"] = np.arange(count) * 10**12
    values["at"]["ok"] = np.arange(count) % 2
    values["name"] = [chr(945 + i) for i in range(count)]
    values["z"] = np.arange(count) * (1 + 2j)
    return values


def opened(path: Path, field: str | None = None) -> Any:
    spec: dict[str, Any] = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    if field is not None:
        spec["field"] = field
    return tensorstore.open(spec).result()


# It writes and reads records as `structured`, with fields that are pairs.
KNOWS_STRUCT = pytest.mark.skipif(zarr.__version__.startswith("3.1."), reason="zarr-python 3.1 knows no `struct`")


def test_records_of_zarr_python_are_read_under_either_name(tmp_path: Path) -> None:
    values = np.array([(1, 2.5), (3, -1.5), (5, 0.25)], [("a", "u1"), ("b", "f8")])
    made = zarr.create_array(tmp_path, shape=(3,), dtype=values.dtype, chunks=(2,))
    made[...] = values
    assert document(tmp_path)["data_type"]["name"] in ("struct", "structured")
    assert (zvcore.open(tmp_path)[...] == values).all()


@KNOWS_STRUCT
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("shards", [None, (4,)])
def test_records_both_ways_with_zarr_python(tmp_path: Path, endian: str, shards: Any) -> None:
    values = records()
    fill = records(3)[2]
    ours = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(7,), dtype=RECORD, chunks=(2,), shards=shards, endian=endian,
        fill_value=fill,
    )  # fmt: skip
    assert (ours[...] == fill).all()
    ours[:5] = values[:5]
    theirs = zarr.open_array(tmp_path / "a", mode="r+")
    assert theirs.dtype == RECORD
    assert (theirs[:5] == values[:5]).all()
    assert (theirs[5:] == fill).all()
    theirs[5:] = values[5:]
    assert (zvcore.open(tmp_path / "a")[...] == values).all()
    made = zarr.create_array(
        tmp_path / "b", shape=(7,), dtype=RECORD, chunks=(2,), shards=shards, fill_value=fill,
        serializer=zarr.codecs.BytesCodec(endian=endian),
    )  # fmt: skip
    made[1:] = values[1:]
    again = zvcore.open(tmp_path / "b", mode="r+")
    assert again[0] == fill
    assert (again[1:] == values[1:]).all()
    assert document(tmp_path / "a")["data_type"] == document(tmp_path / "b")["data_type"]
    assert document(tmp_path / "a")["fill_value"] == document(tmp_path / "b")["fill_value"]


@KNOWS_STRUCT
def test_the_pipeline_of_zarr_python_reads_and_writes_records(tmp_path: Path) -> None:
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        array = zarr.create_array(tmp_path, shape=(7,), chunks=(2,), dtype=RECORD)
        assert zvcore.zarr3.explain(array)["native"]
        array[...] = records()
        assert (array[1:6:2] == records()[1:6:2]).all()
    assert (zarr.open_array(tmp_path)[...] == records()).all()


def test_fields_of_records_are_read_by_tensorstore(tmp_path: Path) -> None:
    dtype = [("x", "f4"), ("n", "i2"), ("b", "u1")]
    values = np.array([(1.5, -3, 200), (2.5, 300, 1), (0.25, 7, 9)], dtype)
    zvcore.create(tmp_path, format="zarr3", shape=(3,), dtype=dtype, chunks=(2,), codec="gzip")[...] = values
    for name in values.dtype.names:
        assert (opened(tmp_path, name).read().result() == values[name]).all()


@KNOWS_STRUCT
def test_gaps_between_fields_are_not_stored(tmp_path: Path) -> None:
    aligned = np.dtype([("a", "u1"), ("b", "f8")], align=True)
    values = np.zeros(3, aligned)
    values["b"] = [1, 2, 3]
    array = zvcore.create(tmp_path, format="zarr3", shape=(3,), dtype=aligned, chunks=(3,), codec=None)
    array[...] = values
    assert array.dtype.itemsize == 9
    assert (tmp_path / "c/0").stat().st_size == 27
    assert (zarr.open_array(tmp_path)[...]["b"] == values["b"]).all()


def test_records_under_their_old_name(tmp_path: Path) -> None:
    """zarr-python wrote fields as pairs, no byte order, and the fill value as the bytes of an item."""
    values = np.array([(1.5, 2), (3.5, 4)], [("x", "<f4"), ("y", "<i2")])
    zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype=values.dtype, chunks=(2,), codec=None)[:2] = values
    fill = base64.b64encode(values[1].tobytes()).decode()
    old = {"name": "structured", "configuration": {"fields": [["x", "float32"], ["y", "int16"]]}}
    changed(tmp_path, data_type=old, fill_value=fill, codecs=[{"name": "bytes"}])
    expected = np.concatenate([values, values[[1, 1]]])
    assert (zvcore.open(tmp_path)[...] == expected).all()
    assert (zarr.open_array(tmp_path)[...] == expected).all()


@pytest.mark.parametrize(
    ("dtype", "what"),
    [
        (np.dtype([("a", "i4", (2,))]), "array in it"),
        (np.dtype([(("title", "a"), "i4")]), "title"),
        (np.dtype([("a", object)]), "object"),
    ],
)
def test_records_that_have_no_spelling_are_refused(tmp_path: Path, dtype: Any, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        zvcore.create(tmp_path, format="zarr3", shape=(3,), dtype=dtype)


@pytest.mark.parametrize("fields", [[("x", ">f4"), ("n", "<i2")], [("x", "<f4"), ("n", "<i2")]])
@pytest.mark.parametrize("fill", [0, (1.5, 7)])
def test_records_go_from_version_2_to_version_3_and_back(tmp_path: Path, fields: Any, fill: Any) -> None:
    """In version 2, each field has an order of bytes of its own."""
    values = np.array([(i / 4, -i) for i in range(10)], fields)
    zvcore.create(tmp_path / "a", format="zarr2", shape=(11,), dtype=fields, chunks=(3,), fill_value=fill)[:10] = values
    there = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", verify=True)
    back = zvcore.convert(tmp_path / "b", tmp_path / "c", format="zarr2", verify=True)
    assert there.ok and back.ok
    for name in "bc":
        found = zvcore.open(tmp_path / name)[...]
        assert found[:10].tolist() == values.tolist()
        assert found[10].tolist() == ((0, 0) if fill == 0 else fill)


def test_formats_without_records_and_small_numbers_say_so(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype=RECORD, fill_value=records()[2])
    zvcore.create(tmp_path / "b", format="zarr3", shape=(4,), dtype="int4")
    zvcore.create(tmp_path / "d", format="zarr3", shape=(4,), dtype="uint4")
    for name, format_names in (("a", "n5 precomputed"), ("b", "n5 precomputed"), ("d", "n5 precomputed zarr2")):
        for format in format_names.split():
            with pytest.raises(ZvcoreError, match="data type"):
                zvcore.convert(tmp_path / name, tmp_path / "c", format=format)


def struct(*fields: Any) -> Any:
    return {"name": "struct", "configuration": {"fields": list(fields)}}


def nested(depth: int) -> Any:
    inner: Any = "int8"
    for _ in range(depth):
        inner = struct({"name": "a", "data_type": inner})
    return inner


LIES: list[Any] = [
    struct(),
    {"name": "struct"},
    {"name": "struct", "configuration": {"fields": {"a": "int8"}}},
    struct("a"),
    struct(["a"]),
    struct({"name": "a"}),
    struct({"name": "", "data_type": "int8"}),
    struct({"name": 1, "data_type": "int8"}),
    struct({"name": "a", "data_type": "int8"}, {"name": "a", "data_type": "int8"}),
    struct({"name": "a", "data_type": "string"}),
    struct({"name": "a", "data_type": "nothing"}),
    struct(*({"name": str(i), "data_type": "r536870912"} for i in range(3))),
    nested(40),
    nested(200),
    {"name": "raw_bytes", "configuration": {"length_bytes": 0}},
    {"name": "raw_bytes", "configuration": {"length_bytes": 2**40}},
    {"name": "raw_bytes", "configuration": {"length_bytes": "2"}},
    {"name": "raw_bytes", "configuration": {"length_bytes": True}},
    {"name": "raw_bytes"},
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 6}},
    {"name": "numpy.datetime64", "configuration": {"unit": "parsec"}},
    {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 2**40}},
    {"name": "numpy.datetime64", "configuration": {"unit": "s]", "scale_factor": 1}},
    "r" + "8" * 4000,
    "r0",
    "r12",
]


@pytest.mark.parametrize("said", LIES, ids=[str(number) for number in range(len(LIES))])
def test_data_types_that_lie_are_refused(said: Any) -> None:
    with pytest.raises((MetadataError, UnsupportedError)):
        parse_data_type(said)


@pytest.mark.parametrize(
    "fill", [None, 0, [], {"x": "a", "n": 1}, {"x": 1, "n": 2**40}, "AA==", "no base64", {"x": []}]
)
def test_fill_values_of_records_are_checked(fill: Any) -> None:
    said = struct({"name": "x", "data_type": "float32"}, {"name": "n", "data_type": "int16"})
    with pytest.raises(MetadataError, match="fill value"):
        parse_data_type(said).parse_fill(fill)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(["int8", "struct"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "data_type", "fields", "configuration", "length_bytes"]), inner)
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_no_other_errors_come_from_data_types_than_those_of_zvcore(said: Any, fill: Any) -> None:
    for json_type in (said, struct({"name": "a", "data_type": said}), {"name": "raw_bytes", "configuration": said}):
        try:
            parse_data_type(json_type).parse_fill(fill)
        except ZvcoreError:
            continue


PLAIN = ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64", *INTEGERS, *FLOATS]
PLAIN_TYPES = st.sampled_from(PLAIN) | st.builds(
    lambda name, length: {"name": name, "configuration": {"length_bytes": 4 * length}},
    st.sampled_from(["raw_bytes", "null_terminated_bytes", "fixed_length_utf32"]),
    st.integers(1, 3),
)
DATA_TYPES = st.recursive(
    PLAIN_TYPES,
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(
        lambda types: struct(*({"name": f"f{i}", "data_type": one} for i, one in enumerate(types)))
    ),
    max_leaves=6,
)


def items_of(said: Any, raw: bytes) -> Any:
    """Items of this type out of any bytes, whose bits all mean something."""
    dtype = parse_data_type(said).dtype
    if "fixed_length_utf32" in json.dumps(said) or "bool" in json.dumps(said):
        raw = bytes(len(raw))
    return np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype)


@given(st.data())
def test_what_is_written_is_read_bit_by_bit(data: Any) -> None:
    said = data.draw(DATA_TYPES)
    values = items_of(said, data.draw(st.binary(min_size=200, max_size=400)))
    endian = data.draw(st.sampled_from(["little", "big"]))
    shards = data.draw(st.sampled_from([None, (4,)]))
    store = MemoryStore()
    array = zvcore.create(
        store, format="zarr3", shape=values.shape, dtype=said, chunks=(2,), shards=shards, endian=endian,
        codec=data.draw(st.sampled_from([None, "gzip"])),
    )  # fmt: skip
    array[...] = values
    assert zvcore.open(store)[...].tobytes() == values.tobytes()
    assert array.dtype == values.dtype
    assert data_type_of(array.dtype).dtype == values.dtype
    item = values[:1]
    data_type = parse_data_type(said)
    written = json.loads(json.dumps(data_type.write_fill(item[0])))
    assert data_type.write_fill(data_type.parse_fill(written)) == written


def test_raw_bytes_are_written_under_the_name_that_others_read(tmp_path: Path) -> None:
    values = np.array([b"abc", b"d\0f", b"ghi"], "S3").view("V3")
    array = zvcore.create(tmp_path, format="zarr3", shape=(3,), dtype="V3", chunks=(2,), fill_value=np.void(b"xyz"))
    array[...] = values
    assert document(tmp_path)["data_type"] == {"name": "raw_bytes", "configuration": {"length_bytes": 3}}
    assert (zarr.open_array(tmp_path)[...] == values).all()
    changed(tmp_path, data_type="r24", fill_value=[1, 2, 3])
    assert (zvcore.open(tmp_path)[...] == values).all()


@pytest.mark.parametrize(
    "dtype",
    [
        "M8[ns]", "m8[15s]", "M8[D]", "S3", "U4", "V2",
        pytest.param([("a", "u1"), ("b", "u1")], marks=KNOWS_STRUCT, id="record"),
    ],
)  # fmt: skip
def test_numpys_types_are_spelled_as_zarr_python_spells_them(tmp_path: Path, dtype: Any) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(3,), dtype=dtype, chunks=(2,))
    zarr.create_array(tmp_path / "b", shape=(3,), dtype=dtype, chunks=(2,))
    assert document(tmp_path / "a")["data_type"] == document(tmp_path / "b")["data_type"]


@pytest.mark.parametrize("name", ["complex_bfloat16", "complex_float16", "complex_float8_e4m3"])
def test_complex_numbers_that_numpy_has_not_are_refused_in_words(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{name}.*numpy has complex numbers of 32 and 64 bits only"):
        parse_data_type(name)


@pytest.mark.parametrize("name", ["complex_float32", "complex_float64"])
def test_other_names_of_complex_numbers_are_read(tmp_path: Path, name: str) -> None:
    dtype = parse_data_type(name).dtype
    array = zvcore.create(tmp_path, format="zarr3", shape=(3,), dtype=name, chunks=(2,))
    array[...] = np.array([1, 2j, 3 + 4j], dtype)
    plain = {"complex_float32": "complex64", "complex_float64": "complex128"}[name]
    changed(tmp_path, data_type=plain)
    assert zarr.open_array(tmp_path)[...].tolist() == [1, 2j, 3 + 4j]


# --- numbers that numpy does not have


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("shards", [None, (32,)])
def test_all_bit_patterns_of_small_numbers(tmp_path: Path, name: str, shards: Any) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.arange(256, dtype=f"u{dtype.itemsize}").view(dtype)
    array = zvcore.create(tmp_path, format="zarr3", shape=(256,), dtype=dtype, chunks=(8,), shards=shards)
    array[...] = values
    assert document(tmp_path)["data_type"] == name
    again = zvcore.open(tmp_path)
    assert again.dtype == dtype
    assert again[...].tobytes() == values.tobytes()
    assert again[5:200:3].tobytes() == values[5:200:3].tobytes()
    assert zvcore.verify(tmp_path).ok
    if name in TENSORSTORE:
        theirs = opened(tmp_path)
        numbers = theirs.read().result()
        assert np.array_equal(numbers.astype("f4"), values.astype("f4"), equal_nan=True)


@pytest.mark.parametrize("name", sorted(TENSORSTORE))
@pytest.mark.parametrize("fill", [0, 1])
def test_small_numbers_that_tensorstore_writes(tmp_path: Path, name: str, fill: int) -> None:
    spec = {
        "driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path)}, "metadata": {
            "shape": [10], "data_type": name, "fill_value": fill,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        },
    }  # fmt: skip
    theirs = tensorstore.open(spec, create=True).result()
    numbers = np.array([1, 0, 1, 1, 0]).astype(getattr(ml_dtypes, name))
    theirs[:5] = numbers
    ours = zvcore.open(tmp_path, mode="r+")
    assert np.array_equal(ours[:5].astype("f4"), numbers.astype("f4"), equal_nan=True)
    if name != "float8_e8m0fnu":  # of which tensorstore reads another fill value than it was given
        assert ours[...].astype("f4").tolist() == theirs.read().result().astype("f4").tolist()
    ours[5:8] = numbers[:3]
    assert theirs[5:8].read().result().tobytes() == numbers[:3].tobytes()


def test_bfloat16_in_both_byte_orders(tmp_path: Path) -> None:
    values = np.arange(10).astype(ml_dtypes.bfloat16)
    for endian in ("little", "big"):
        path = tmp_path / endian
        zvcore.create(
            path, format="zarr3", shape=(10,), dtype="bfloat16", chunks=(4,), codec=None, endian=endian, fill_value=3
        )[:9] = values[:9]
        expected = [*range(9), 3]
        assert zvcore.open(path)[...].astype("i4").tolist() == expected
        assert opened(path).read().result().astype("i4").tolist() == expected
    assert (tmp_path / "big/c/0").read_bytes()[:4] == bytes([0, 0, 0x3F, 0x80])


@pytest.mark.parametrize(
    ("name", "fill"),
    [
        ("int4", 8), ("int4", -9), ("uint2", 4), ("uint4", -1), ("int2", 0.5), ("float4_e2m1fn", "NaN"),
        ("float6_e3m2fn", "Infinity"), ("float8_e4m3fn", "Infinity"), ("float8_e4m3fn", 1e30), ("bfloat16", "0x7f"),
        ("float8_e8m0fnu", -1),
    ],
)  # fmt: skip
def test_fill_values_that_small_numbers_have_not(name: str, fill: Any) -> None:
    with pytest.raises(MetadataError, match="fill value"):
        parse_data_type(name).parse_fill(fill)


@pytest.mark.parametrize(
    ("name", "fill"), [("bfloat16", "NaN"), ("bfloat16", "0x7fc1"), ("float8_e4m3", "-Infinity"), ("int4", -8)]
)
def test_fill_values_of_small_numbers(name: str, fill: Any) -> None:
    data_type = parse_data_type(name)
    assert data_type.write_fill(data_type.parse_fill(fill)) == fill


def test_without_ml_dtypes_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnsupportedError, match=r"ml_dtypes: pip install 'zvcore\[ml\]'"):
        parse_data_type("bfloat16")
    assert parse_data_type("float32").dtype == "f4"
