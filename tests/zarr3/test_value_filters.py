"""`cast_value`, `scale_offset` and `reshape`: as their documents say, and as zarr-python and cast-value-rs do it."""

from __future__ import annotations

import bisect
import json
import math
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.codecs import from_zarr3
from zvcore.errors import CorruptDataError, MetadataError, UnfitValueError, UnsupportedError, ZvcoreError
from zvcore.stores import MemoryStore
from zvcore.zarr3.dtypes import parse_data_type

if TYPE_CHECKING:
    from pathlib import Path

cast_value_rs = pytest.importorskip("cast_value_rs")
theirs = pytest.importorskip("zarr.codecs.cast_value", reason="zarr-python 3.1 has none of them")

ROUNDINGS = ("nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away")
NUMPYS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
OTHERS = (
    "int2",
    "uint2",
    "int4",
    "uint4",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float6_e2m3fn",
    "float8_e8m0fnu",
)


def cast(**configuration: Any) -> Any:
    return {"name": "cast_value", "configuration": configuration}


def scale(**configuration: Any) -> Any:
    return {"name": "scale_offset", "configuration": configuration}


def interesting(dtype: str) -> Any:
    bits = st.integers(0, 2 ** (8 * np.dtype(dtype).itemsize) - 1)
    raw = bits.map(lambda n: np.array(n, f"u{np.dtype(dtype).itemsize}").view(dtype)[()])
    if dtype.startswith("float"):
        near = [-0.0, 0.5, 1.5, -2.5, 126.5, 127.5, -128.5, 255.5, 65519.0, 65520.0, 2.0**31, 2.0**53, 2.0**63, 2.0**64]
        with np.errstate(over="ignore"):
            return raw | st.sampled_from([np.dtype(dtype).type(n) for n in near])
    info = np.iinfo(dtype)
    near = [
        n for n in (0, 7, 8, -8, 127, 128, 255, 2**24 + 1, 2**53 + 1, 2**63 - 1, 2**64 - 1) if info.min <= n <= info.max
    ]
    return raw | st.sampled_from([np.dtype(dtype).type(n) for n in [*near, info.min, info.max]])


@given(st.data())
def test_numbers_are_cast_as_zarr_python_casts_them(data: Any) -> None:
    source, target = data.draw(st.sampled_from(NUMPYS)), data.draw(st.sampled_from(NUMPYS))
    values = np.array(data.draw(st.lists(interesting(source), min_size=1, max_size=4)), source)
    rounding = data.draw(st.sampled_from(ROUNDINGS))
    out_of_range = data.draw(st.sampled_from([None, "clamp", *(["wrap"] if "int" in target else [])]))
    try:
        expected = cast_value_rs.cast_array(
            values, target_dtype=np.dtype(target), rounding_mode=rounding, out_of_range_mode=out_of_range,
            scalar_map_entries=None,
        )  # fmt: skip
    except ValueError:
        expected = None
    codec = from_zarr3(cast(data_type=target, rounding=rounding, out_of_range=out_of_range))
    if expected is None:
        with pytest.raises(UnsupportedError):
            codec.encode_array(values)
        return
    try:
        found = codec.encode_array(values)
    except UnfitValueError:
        # What theirs stores in silence, neither reads.
        with pytest.raises(ValueError, match=r"."):
            cast_value_rs.cast_array(
                expected, target_dtype=np.dtype(source), rounding_mode=rounding, out_of_range_mode=out_of_range,
                scalar_map_entries=None,
            )  # fmt: skip
        return
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan="float" in target)
    if "float" in target:
        assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


@cache
def numbers_of(name: str) -> list[Fraction]:
    """All finite ones, in ascending order."""
    dtype = parse_data_type(name).dtype
    with np.errstate(all="ignore"):
        numbers = np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype).astype("f8")
    return sorted({Fraction(n) for n in numbers[np.isfinite(numbers)].tolist()})


@given(st.data())
def test_numbers_of_ml_dtypes_are_rounded_by_the_same_rules(data: Any) -> None:
    """The definition: of all numbers that the type has, the one that the rule names."""
    target = data.draw(st.sampled_from(OTHERS))
    source = data.draw(st.sampled_from(["float64", "float32", "int16", "int64"]))
    rounding = data.draw(st.sampled_from(ROUNDINGS))
    value = data.draw(interesting(source) | st.floats(-40, 40, width=16).map(np.dtype(source).type))
    codec = from_zarr3(cast(data_type=target, rounding=rounding, out_of_range="clamp"))
    try:
        found = float(codec.encode_array(np.array([value], source))[0])
    except UnsupportedError as error:
        told = str(error)
        assert not np.isfinite(float(value)) or ("int" in source and "could not be read" in told)
        return
    grid = numbers_of(target)
    if not np.isfinite(float(value)) or not np.isfinite(found):
        assert np.isnan(float(value)) == np.isnan(found)
        assert np.isnan(found) or abs(Fraction(float(value)) if np.isfinite(float(value)) else grid[-1]) >= grid[-1]
        return
    exact = Fraction(int(value) if "int" in source else float(value))
    if not grid[0] <= exact <= grid[-1]:
        assert Fraction(found) == (grid[0] if exact < grid[0] else grid[-1])
        return
    below, above = grid[bisect.bisect_right(grid, exact) - 1], grid[bisect.bisect_left(grid, exact)]
    if rounding == "towards-positive":
        assert found == above
    elif rounding == "towards-negative":
        assert found == below
    elif rounding == "towards-zero":
        assert found == (below if exact >= 0 else above)
    elif exact - below != above - exact:
        assert found == (below if exact - below < above - exact else above)
    elif rounding == "nearest-away":
        assert found == (above if exact >= 0 else below)
    else:
        assert found in (below, above)


@pytest.mark.parametrize("rounding", ["nearest-even", "towards-zero", "towards-positive"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_become_the_floats_that_the_rounding_asks_for(dtype: str, rounding: str) -> None:
    info = np.iinfo(dtype)
    near = [(1 << bit) + step for bit in range(info.bits + 1) for step in (-3, -1, 0, 1, 3)]
    values = np.array([one for one in (*near, *(-one for one in near)) if info.min <= one <= info.max], dtype)
    codec: Any = from_zarr3(cast(data_type=dtype, rounding=rounding))
    for target in ("f4", "f8"):
        bits = np.finfo(target).nmant + 1
        for value, found in zip(
            values.tolist(), codec.decode_array(values, np.dtype(target), values.shape), strict=True
        ):
            unit = Fraction(2) ** max(0, abs(value).bit_length() - bits)
            exact = Fraction(value) / unit
            whole = {"nearest-even": round, "towards-zero": math.trunc, "towards-positive": math.ceil}[rounding](exact)
            assert Fraction(float(found)) == whole * unit, (value, target)


def test_numbers_wrap_modulo_what_there_are() -> None:
    for target, values, expected in (
        ("int16", [32768, 32769, -32769], [-32768, -32767, 32767]),
        ("int4", [8, 9, -9, 16, -8], [-8, -7, 7, 0, -8]),
        ("uint2", [4, 5, -1, 3], [0, 1, 3, 3]),
    ):
        codec = from_zarr3(cast(data_type=target, out_of_range="wrap"))
        for source in ("int64", "float64", "float32"):
            assert codec.encode_array(np.array(values, source)).astype("i8").tolist() == expected


MAPS = {"encode": [["NaN", 0], ["+Infinity", 255], [7.5, 70], [7.5, 71]], "decode": [[0, "NaN"], [255, "Infinity"]]}


def test_numbers_that_are_mapped_come_before_all_rules() -> None:
    codec = from_zarr3(cast(data_type="uint8", scalar_map=MAPS))
    values = np.array([np.nan, np.inf, 7.5, 8.5, 3])
    stored = codec.encode_array(values)
    assert stored.tolist() == [0, 255, 70, 8, 3]
    assert np.array_equal(codec.decode_array(stored, values.dtype, (5,)), [np.nan, np.inf, 70, 8, 3], equal_nan=True)
    with pytest.raises(UnsupportedError, match="-inf"):
        codec.encode_array(np.array([-np.inf]))


FILTERS: dict[str, tuple[str, Any, list[Any]]] = {
    "cast": ("float32", -1, [cast(data_type="int16")]),
    "clamp": ("int32", 0, [cast(data_type="uint8", out_of_range="clamp", rounding="towards-zero")]),
    "scale": ("int16", 4, [scale(offset=4, scale=2)]),
    "scaled floats": ("float64", 10.0, [scale(offset=10, scale=0.5)]),
    "both": ("uint16", 1000, [scale(offset=1000), cast(data_type="uint8")]),
    "NaN": (
        "float64", "NaN", [
            scale(offset=-10, scale=2),
            cast(data_type="uint8", scalar_map={"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}),
        ]
    ),
    "nothing": ("int8", 0, [{"name": "scale_offset"}]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("shards", [None, (8, 8)])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_both_ways_with_zarr_python(tmp_path: Path, name: str, shards: Any, endian: str) -> None:
    dtype, fill, filters = FILTERS[name]
    if name == "both" and shards is not None:
        pytest.skip("zarr-python pads chunks at the end of shards with another value than the fill value")
    base = {"scaled floats": 10, "both": 1000}.get(name, 0)
    values = (np.arange(100).reshape(10, 10) * 2 % 101 + base).astype(dtype)
    made = [zarr.codecs.CastValue if one["name"] == "cast_value" else zarr.codecs.ScaleOffset for one in filters]
    array = zarr.create_array(
        tmp_path / "a", shape=(10, 10), chunks=(4, 4), shards=shards, dtype=dtype, fill_value=float(fill),
        filters=[cls.from_dict(one) for cls, one in zip(made, filters, strict=True)],
        serializer=zarr.codecs.BytesCodec(endian=endian),
    )  # fmt: skip
    array[:7] = values[:7]
    ours = zvcore.open(tmp_path / "a", mode="r+")
    expected = zvcore.open(tmp_path / "a")[...]
    if endian == "little" or "cast_value" not in [one["name"] for one in filters]:
        assert np.array_equal(expected, array[...], equal_nan=array.dtype.kind == "f")
    ours[7:] = values[7:]
    again = zvcore.create(
        tmp_path / "b", format="zarr3", shape=(10, 10), chunks=(4, 4), shards=shards, dtype=dtype,
        fill_value=float(fill), filters=filters, endian=endian,
    )  # fmt: skip
    again[...] = values
    found = zarr.open_array(tmp_path / "b")[...]
    assert np.array_equal(again[...], values)
    assert np.array_equal(found, values)
    assert zvcore.verify(tmp_path / "b").ok
    documents = [json.loads((tmp_path / one / "zarr.json").read_text()) for one in "ab"]
    inner = [one["codecs"][0]["configuration"]["codecs"] if shards else one["codecs"] for one in documents]
    assert inner[0][: len(filters)] == inner[1][: len(filters)]


def test_the_pipeline_of_zarr_python_runs_them(tmp_path: Path) -> None:
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        array = zarr.create_array(
            tmp_path, shape=(10,), chunks=(4,), dtype="float32", filters=[zarr.codecs.CastValue(data_type="int16")]
        )
        assert zvcore.zarr3.explain(array)["native"]
        array[...] = np.arange(10) + 0.25
        assert array[...].tolist() == [*range(10)]


@given(st.data())
def test_integers_are_scaled_exactly_or_refused(data: Any) -> None:
    dtype = data.draw(st.sampled_from(("int8", "uint8", "int64", "uint64", "int4", "uint2")))
    limits = parse_data_type(dtype)
    least, most = zvcore.codecs.small_numbers.limits_of(limits.dtype)
    number = st.integers(least, most)
    offset, factor = data.draw(number), data.draw(number.filter(bool))
    values = data.draw(st.lists(number, min_size=1, max_size=4))
    codec = from_zarr3(scale(offset=offset, scale=factor))
    exact = [(value - offset) * factor for value in values]
    array = np.array(values, "O").astype(limits.dtype)
    if all(least <= one <= most for one in exact):
        stored = codec.encode_array(array)
        assert [int(one) for one in stored] == exact
        assert [int(one) for one in codec.decode_array(stored, limits.dtype, stored.shape)] == values
    else:
        with pytest.raises(UnfitValueError, match="fit"):
            codec.encode_array(array)


def test_stored_integers_that_nothing_is_scaled_to_are_damage(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path, format="zarr3", shape=(4,), chunks=(4,), dtype="int8", filters=[scale(scale=4)], codec=None
    )
    array[...] = 1
    (tmp_path / "c/0").write_bytes(bytes([4, 4, 5, 4]))
    with pytest.raises(CorruptDataError, match=r"c/0.*multiples"):
        array[...]
    array = zvcore.create(
        tmp_path / "b", format="zarr3", shape=(4,), chunks=(4,), dtype="int8", filters=[cast(data_type="int16")],
        codec=None,
    )  # fmt: skip
    array[...] = 1
    (tmp_path / "b/c/0").write_bytes(np.array([1, 300, 1, 1], "<i2").tobytes())
    with pytest.raises(CorruptDataError, match=r"c/0.*300"):
        array[...]


BAD: list[tuple[str, Any, Any]] = [
    ("float32", 0, cast()),
    ("float32", 0, cast(data_type="complex64")),
    ("float32", 0, cast(data_type={"name": "int8"})),
    ("float32", 0, cast(data_type="int8", rounding="up")),
    ("float32", 0, cast(data_type="int8", rounding=[])),
    ("float32", 0, cast(data_type="int8", out_of_range="ignore")),
    ("float32", 0, cast(data_type="float16", out_of_range="wrap")),
    ("float32", 0, cast(data_type="int8", scalar_map=[])),
    ("float32", 0, cast(data_type="int8", scalar_map={"both": []})),
    ("float32", 0, cast(data_type="int8", scalar_map={"encode": [["NaN"]]})),
    ("float32", 0, cast(data_type="int8", scalar_map={"encode": [["NaN", 300]]})),
    ("float32", 0, cast(data_type="int8", scalar_map={"encode": [["Nothing", 3]]})),
    ("float32", 0, cast(data_type="int8", surprise=1)),
    ("bool", False, cast(data_type="int8")),
    ("complex64", [0, 0], scale(offset=1)),
    ("float32", 0, scale(offset=[])),
    ("float32", 0, scale(scale=0)),
    ("float32", 0, scale(scale="0x00000000")),
    ("int8", 0, scale(offset=0.5)),
    ("int8", 0, scale(offset=300)),
    ("int8", 0, scale(surprise=1)),
    # The fill value does not come back.
    ("float32", 0.5, cast(data_type="int8")),
    ("float32", "NaN", cast(data_type="int8")),
    ("int16", 300, cast(data_type="int8", out_of_range="clamp")),
    ("uint8", 0, scale(offset=1)),
    ("int8", 0, {"name": "reshape"}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": 4}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [0]}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [-1, -1]}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [[1], [0]]}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [[0, 1, 2]]}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [5]}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [2, [1], 2]}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [-1] + [10**18] * 60}}),
    ("int8", 0, {"name": "reshape", "configuration": {"shape": [1] * 100}}),
]


@pytest.mark.parametrize(("dtype", "fill", "codec"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_configurations_that_are_refused(dtype: str, fill: Any, codec: Any) -> None:
    """When the array is opened, or its first chunk is read."""
    store = MemoryStore()
    zvcore.create(store, format="zarr3", shape=(4, 4), chunks=(2, 2), dtype=dtype, codec=None)[...] = 1
    document = json.loads(bytes(store.get("zarr.json")))
    document.update(codecs=[codec, *document["codecs"]], fill_value=fill)
    store.put("zarr.json", json.dumps(document).encode())
    with pytest.raises((MetadataError, UnsupportedError)):
        zvcore.open(store)[...]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["int8", "NaN"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["encode", "decode"]), inner),
    max_leaves=6,
)


@given(
    st.sampled_from(["cast_value", "scale_offset", "reshape"]),
    st.dictionaries(
        st.sampled_from(["data_type", "rounding", "out_of_range", "scalar_map", "offset", "scale", "shape"]), JSON
    ),
    st.booleans(),
)
def test_no_other_errors_come_from_configurations(name: str, configuration: Any, plain: bool) -> None:
    if plain and name == "cast_value":
        configuration = {"scalar_map": configuration.get("scalar_map"), "data_type": "int8"}
    try:
        codec = from_zarr3({"name": name, "configuration": configuration})
        dtype, shape = codec.encoded_form(np.dtype("f4"), (2, 2))
        stored = codec.encode_array(np.ones((2, 2), "f4"))
        assert (stored.dtype, stored.shape) == (dtype, shape)
        codec.decode_array(stored, np.dtype("f4"), (2, 2))
        assert from_zarr3(json.loads(json.dumps(codec.to_zarr3()))).to_zarr3() == codec.to_zarr3()
    except ZvcoreError:
        pass


@pytest.mark.parametrize("shape", [[[0, 1], [2]], [6, -1], [[0], 3, -1], [-1], [[0, 1, 2]], [1, [0, 1], [2], 1]])
def test_reshaped_chunks_are_the_same_items(tmp_path: Path, shape: Any) -> None:
    values = np.arange(5 * 6 * 7, dtype="u2").reshape(5, 6, 7)
    array = zvcore.create(
        tmp_path, format="zarr3", shape=values.shape, chunks=(2, 3, 4), dtype="u2", codec=None,
        filters=[{"name": "reshape", "configuration": {"shape": shape}}],
    )  # fmt: skip
    array[...] = values
    assert (zvcore.open(tmp_path)[...] == values).all()
    assert (tmp_path / "c/0/0/0").read_bytes() == values[:2, :3, :4].tobytes()


def test_axes_may_be_transposed_after_other_filters(tmp_path: Path) -> None:
    values = np.arange(100, dtype="f4").reshape(10, 10)
    order = {"name": "transpose", "configuration": {"order": [1, 0]}}
    array = zvcore.create(
        tmp_path, format="zarr3", shape=(10, 10), chunks=(4, 5), dtype="f4", codec=None,
        filters=[order, cast(data_type="int16"), order],
    )  # fmt: skip
    array[...] = values
    assert (zarr.open_array(tmp_path)[...] == values).all()
    assert (zvcore.open(tmp_path)[...] == values).all()


def test_filters_inside_shards_that_are_transposed(tmp_path: Path) -> None:
    values = np.arange(12 * 10, dtype="f4").reshape(12, 10)
    array = zvcore.create(
        tmp_path, format="zarr3", shape=(12, 10), chunks=(2, 5), shards=(4, 10), dtype="f4", codec=None,
        filters=[cast(data_type="int16")],
    )  # fmt: skip
    document = json.loads((tmp_path / "zarr.json").read_text())
    sharding = document["codecs"][0]
    sharding["configuration"]["chunk_shape"] = [5, 2]
    document["codecs"] = [{"name": "transpose", "configuration": {"order": [1, 0]}}, sharding]
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    array = zvcore.open(tmp_path, mode="r+")
    array[...] = values
    assert (zvcore.open(tmp_path)[...] == values).all()


def test_conversions_carry_them_within_version_3_and_values_elsewhere(tmp_path: Path) -> None:
    values = np.arange(100, dtype="f4").reshape(10, 10)
    zvcore.create(
        tmp_path / "a", format="zarr3", shape=(10, 10), chunks=(4, 5), dtype="f4",
        filters=[scale(offset=1), cast(data_type="int16")],
    )[...] = values  # fmt: skip
    for format in ("zarr3", "zarr2", "n5"):
        zvcore.convert(tmp_path / "a", tmp_path / format, format=format, verify=True)
        found = zvcore.open(tmp_path / format)[...]
        assert (found == (values.T if format == "n5" else values)).all()
    codecs = json.loads((tmp_path / "zarr3/zarr.json").read_text())["codecs"]
    assert [one["name"] for one in codecs][:2] == ["scale_offset", "cast_value"]


@given(st.data())
def test_the_engine_scales_floats_as_numpy_does(data: Any) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(["float32", "float64"])))
    values = np.array(data.draw(st.lists(interesting(dtype.name), min_size=1, max_size=20)), dtype)
    number = st.floats(-1e6, 1e6, width=32)
    codec = from_zarr3(scale(offset=data.draw(number), scale=data.draw(number.filter(bool))))
    native = codec.as_bytes(dtype)
    assert native is not None and native.native and native.encoded_size(values.nbytes) == values.nbytes
    encoded = codec.encode_array(values)
    assert same_numbers(np.frombuffer(native.encode(values), dtype), encoded)
    assert same_numbers(np.frombuffer(native.decode(values), dtype), codec.decode_array(values, dtype, values.shape))


def same_numbers(some: Any, others: Any) -> bool:
    """With the same zeros; a NaN is a NaN."""
    return np.array_equal(some, others, equal_nan=True) and bool(
        ((np.signbit(some) == np.signbit(others)) | np.isnan(some)).all()
    )


@pytest.mark.parametrize(
    ("dtype", "configuration"),
    [
        ("float16", {"scale": 2}), ("int32", {"scale": 2}), (">f4", {"scale": 2}), ("float32", {"scale": "Infinity"}),
        ("float64", {"offset": "NaN"}),
    ],
)  # fmt: skip
def test_what_numpy_alone_scales_is_left_to_it(dtype: str, configuration: Any) -> None:
    assert from_zarr3(scale(**configuration)).as_bytes(np.dtype(dtype)) is None


@pytest.mark.parametrize(
    ("dtype", "item", "configuration"),
    [
        ("i4", 2**31 - 1, {"data_type": "float32"}),
        ("u8", 2**64 - 1, {"data_type": "float64"}),
        ("i8", -(2**63), {"data_type": "float16", "out_of_range": "clamp"}),
        ("u2", 65535, {"data_type": "float16", "out_of_range": "clamp"}),
    ],
)
def test_integers_that_no_reader_could_cast_back_are_refused(
    tmp_path: Path, dtype: str, item: int, configuration: dict[str, Any]
) -> None:
    made = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(4,), dtype=dtype, chunks=(4,), filters=[cast(**configuration)]
    )
    with pytest.raises(UnfitValueError, match=rf"{item} would be stored as .*, and could not be read"):
        made[...] = np.array([0, 1, item, 2], dtype)
    assert not made[...].any()
    back = cast(**configuration, scalar_map={"decode": [["Infinity", 3], [float(item), 3]]})
    if item != -(2**63):
        mapped = zvcore.create(tmp_path / "b", format="zarr3", shape=(4,), dtype=dtype, chunks=(4,), filters=[back])
        mapped[...] = np.array([0, 1, item, 2], dtype)
        assert mapped[...].tolist() == [0, 1, 3, 2]
