"""What a filter of numcodecs would store as another value is refused, whoever runs it and wherever it stands."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import UnfitValueError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr"),
    pytest.mark.filterwarnings("ignore:The codec"),
]
FORMATS = ["zarr2", "zarr3", "zarr3 shards"]
CAST = {"encode_dtype": "|u1", "decode_dtype": "<i4"}
SCALED = {"astype": "|u1", "dtype": "<f8", "scale": 10, "offset": 0}


def made(path: Path, format: str, dtype: str, *filters: tuple[str, dict[str, Any]], **options: Any) -> Any:
    said: list[Any] = [{"id": name, **config} for name, config in filters]
    if format != "zarr2":
        said = [{"name": f"numcodecs.{name}", "configuration": config} for name, config in filters]
    if "shards" in format:
        options["shards"] = (8,)
    return zvcore.create(path, format=format.split()[0], shape=(8,), dtype=dtype, chunks=(4,), filters=said, **options)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("dtype", "name", "config", "bad", "told"),
    [
        ("i4", "astype", CAST, 300, "the value 300 does not fit into uint8"),
        ("i4", "astype", CAST, -1, "the value -1 does not fit into uint8"),
        ("f8", "astype", {"encode_dtype": "<i8", "decode_dtype": "<f8"}, np.nan, "the value nan does not fit"),
        ("f8", "astype", {"encode_dtype": "<i8", "decode_dtype": "<f8"}, 2.0**63, "does not fit into int64"),
        ("f8", "astype", {"encode_dtype": "<f4", "decode_dtype": "<f8"}, 1e300, "does not fit into float32"),
        ("u8", "astype", {"encode_dtype": "<i8", "decode_dtype": "<u8"}, 2**63, "does not fit into int64"),
        ("i4", "astype", {"encode_dtype": "|b1", "decode_dtype": "<i4"}, 2, "the value 2 does not fit into bool"),
        ("f8", "fixedscaleoffset", SCALED, 30, "the value 30.0, which is 300.0 with scale and offset, does not fit"),
        ("f8", "fixedscaleoffset", SCALED, np.nan, "the value nan, .* does not fit into uint8"),
        ("f8", "fixedscaleoffset", {**SCALED, "astype": "<f4"}, 1e39, "does not fit into float32"),
        ("f8", "quantize", {"digits": 2, "dtype": "<f8", "astype": "<f4"}, 1e39, "does not fit into float32"),
    ],
)  # fmt: skip
def test_values_that_the_type_does_not_hold(
    tmp_path: Path, format: str, dtype: str, name: str, config: dict[str, Any], bad: Any, told: str
) -> None:
    if name == "quantize" and format != "zarr2":
        pytest.skip("zarr-python does not read what it stores as another type")
    array = made(tmp_path / "a", format, dtype, (name, config))
    values = np.ones(8, dtype)
    array[...] = values
    for writes in (array, pickle.loads(pickle.dumps(array))):
        for region, value in ((..., np.where(np.arange(8) == 5, bad, values).astype(dtype)), (5, bad)):
            with pytest.raises(UnfitValueError, match=told):
                writes[region] = value
        with pytest.raises(UnfitValueError, match=told), writes.shard_writer() as writer:
            writer[...] = np.full(8, bad, dtype)
    np.testing.assert_array_equal(array[...], values)


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_held_is_stored(tmp_path: Path, format: str) -> None:
    array = made(tmp_path / "a", format, "f8", ("astype", {"encode_dtype": "<f4", "decode_dtype": "<f8"}))
    values = np.array([0, -0.5, np.nan, np.inf, -np.inf, 3e38, -3e38, 7], "f8")
    array[...] = values
    np.testing.assert_array_equal(array[...], values.astype("f4"))
    array = made(tmp_path / "b", format, "f8", ("fixedscaleoffset", SCALED))
    array[...] = values = np.array([0, 25.5, 25.54, 0.1, 1, 2, 3, 4])
    np.testing.assert_allclose(array[...], values, atol=0.05)


@pytest.mark.parametrize("format", FORMATS)
def test_behind_another_filter(tmp_path: Path, format: str) -> None:
    array = made(tmp_path / "a", format, "i4", ("delta", {"dtype": "<i4"}), ("astype", {**CAST, "encode_dtype": "|i1"}))
    array[...] = np.arange(0, 800, 100)[:8] % 400 // 4
    with pytest.raises(UnfitValueError, match="the value 200 does not fit into int8"):
        array[:4] = [1, 2, 202, 203]
    np.testing.assert_array_equal(array[:4], [0, 25, 50, 75])


@pytest.mark.parametrize("format", FORMATS)
def test_the_rest_of_a_chunk_is_not_changed_by_a_fill_value_that_does_not_fit(tmp_path: Path, format: str) -> None:
    array = made(tmp_path / "a", format, "f8", ("fixedscaleoffset", SCALED), fill_value=np.nan)
    with pytest.raises(UnfitValueError, match="only a part is written, and the fill value does not fit") as caught:
        array[4] = 1
    assert caught.value.chunk == (1,)
    assert np.isnan(array[...]).all()
    array[4:] = 1
    array[5] = 2  # nothing of this chunk is the fill value any longer
    np.testing.assert_array_equal(array[...], [np.nan] * 4 + [1, 2, 1, 1])


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_what_reaches_over_the_end_may_be_a_fill_value_that_does_not_fit(tmp_path: Path, format: str) -> None:
    array = made(tmp_path / "a", format, "f8", ("fixedscaleoffset", SCALED), fill_value=np.nan)
    array.resize((6,))
    array[...] = 3
    np.testing.assert_array_equal(array[...], [3] * 6)


def test_conversions(tmp_path: Path) -> None:
    source = zvcore.create(tmp_path / "a", format="zarr2", data=np.array([1, 2, 300, 4], "i4"), chunks=(2,))
    with pytest.raises(UnfitValueError, match="the value 300 does not fit into uint8"):
        zvcore.convert(source, tmp_path / "b", format="zarr2", codec=[{"id": "astype", **CAST}, "zstd"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_within_zarr_python(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    numcodecs = pytest.importorskip("numcodecs")
    made = zarr.create_array(tmp_path / "a", shape=(8,), chunks=(4,), dtype="i4", zarr_format=2,
                             filters=[numcodecs.AsType("|u1", "<i4")])  # fmt: skip
    assert made.shape == (8,)
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        array = zarr.open_array(tmp_path / "a")
        with pytest.raises(UnfitValueError, match="the value 300 does not fit into uint8"):
            array[...] = np.full(8, 300, "i4")


@pytest.mark.parametrize(
    ("name", "stored", "values", "told"),
    [
        ("astype", "uint8", np.array([1, 300]), "the value 300 does not fit into uint8"),
        ("astype", "uint64", np.array([-1]), "the value -1 does not fit into uint64"),
        ("fixedscaleoffset", "uint8", np.array([1.0, 300.0]), "the value 300.0, which is 300.0 with scale and offset,"),
        ("fixedscaleoffset", "int64", np.array([np.nan]), "the value nan, .* does not fit into int64"),
        ("quantize", "float32", np.array([1e300]), "the value 1e\\+300 does not fit into float32"),
    ],
)
def test_a_codec_that_is_used_by_itself_refuses_them_too(
    name: str, stored: str, values: np.ndarray[Any, Any], told: str
) -> None:
    codec = zvcore.codecs.get(name, dtype=str(values.dtype), astype=stored)
    for data in (values, values.tobytes()):
        with pytest.raises(UnfitValueError, match=told):
            codec.encode(data)
    assert codec.encode(np.ones(1, values.dtype)) == np.ones(1, stored).tobytes()
    with pytest.raises(zvcore.errors.ZvcoreError, match="whole number of items"):
        codec.encode(bytes(9))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("dtype", "name", "config", "values", "told"),
    [
        ("f8", "delta", {"dtype": "<f8", "astype": "<u4"}, [2.5, -1.5], "the difference of -1.5 .* uint32"),
        ("f8", "delta", {"dtype": "<f8", "astype": "|i1"}, [1.0, 300.0], "the difference of 300.0 .* int8"),
        ("f8", "delta", {"dtype": "<f8", "astype": "<i8"}, [1.0, 2.0**63 + 2048], "the difference of 9.2.* int64"),
        ("i4", "delta", {"dtype": "<i4", "astype": "<u8"}, [1, -1], "the difference of -1 .* uint64"),
        ("u8", "delta", {"dtype": "<u8", "astype": "<f8"}, [2**53 + 1, 0], "the difference of 9.*93 .* float64"),
        ("i8", "astype", {"encode_dtype": "<f8", "decode_dtype": "<i8"}, [0, 2**63 - 1], "9.*807 does not fit"),
        ("u4", "astype", {"encode_dtype": "<f4", "decode_dtype": "<u4"}, [0, 2**32 - 1], "4294967295 does not fit"),
        ("u1", "fixedscaleoffset", {"dtype": "|u1", "astype": "<u2", "scale": 10, "offset": 0}, [1, 200],
         "the value 200 of uint8, with scale and offset, would come back as 2[01]"),
        ("u1", "fixedscaleoffset", {"dtype": "|u1", "astype": "<u2", "scale": 1, "offset": -5}, [1, 2],
         "scale and offset are no numbers of uint8"),
    ],
)  # fmt: skip
def test_values_that_would_come_back_as_others(
    tmp_path: Path, format: str, dtype: str, name: str, config: dict[str, Any], values: list[Any], told: str
) -> None:
    array = made(tmp_path / "a", format, dtype, (name, config))
    with pytest.raises(UnfitValueError, match=told):
        array[...] = np.array(values * 4, dtype)
    assert not array[...].any()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("dtype", "name", "config", "values"),
    [
        ("f8", "delta", {"dtype": "<f8", "astype": "<i4"}, [3.0, -1.0, 2.0**31 - 2, 0.0]),
        ("i4", "delta", {"dtype": "<i4", "astype": "<u8"}, [0, 5, 5, 2**31 - 1]),
        ("i8", "delta", {"dtype": "<i8", "astype": "<f8"}, [-(2**53), 0, 2**53, 0]),
        ("i8", "astype", {"encode_dtype": "<f8", "decode_dtype": "<i8"}, [-(2**63), 2**63 - 1024, 5, 0]),
        ("u1", "fixedscaleoffset", {"dtype": "|u1", "astype": "|u1", "scale": 1, "offset": 100}, [100, 255, 101, 200]),
    ],
)
def test_integers_that_come_back_are_stored(
    tmp_path: Path, format: str, dtype: str, name: str, config: dict[str, Any], values: list[Any]
) -> None:
    array = made(tmp_path / "a", format, dtype, (name, config), fill_value=values[0])
    array[...] = np.array(values * 2, dtype)
    assert zvcore.open(tmp_path / "a")[...].tolist() == values * 2
