"""Other implementations read what zvcore writes as Zarr v2, and the other way round: values are equal bit for bit."""

from __future__ import annotations

import itertools
import json
import warnings
from typing import TYPE_CHECKING, Any

import numcodecs
import numpy as np
import pytest
import tensorstore
import z5py
import zarr
import zarrs  # noqa: F401  registers its pipeline

import zvcore
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

# Chunks do not divide the shape, and one of them is left out.
SHAPE, CHUNKS = (9, 10, 7), (4, 4, 4)
DTYPES = (
    "|b1", "|i1", "|u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">u4", "<i8", ">u8", "<f2", "<f4", ">f4", "<f8", ">f8",
    "<c8", ">c16", "|S5", "<U3", ">U3", "<M8[ns]", ">M8[us]", "<m8[10s]",
)  # fmt: skip
COMPRESSORS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "zlib": {"id": "zlib", "level": 1},
    "gzip": {"id": "gzip", "level": 5},
    "bz2": {"id": "bz2", "level": 1},
    "lzma": {"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None},
    "lzma-alone": {"id": "lzma", "format": 2, "check": -1, "preset": 1, "filters": None},
    "lz4": {"id": "lz4", "acceleration": 1},
    "zstd": {"id": "zstd", "level": 0},
    "zstd-fast": {"id": "zstd", "level": -5},
    "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "blosc-auto": {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": -1, "blocksize": 0},
    "blosc-bits": {"id": "blosc", "cname": "zlib", "clevel": 1, "shuffle": 2, "blocksize": 0},
}
FILTERS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "delta": ("<u2", [{"id": "delta", "dtype": "<u2", "astype": "<u2"}]),
    "delta-wider": ("<u2", [{"id": "delta", "dtype": "<u2", "astype": "<i4"}]),
    "delta-big": (">i4", [{"id": "delta", "dtype": ">i4", "astype": ">i4"}]),
    "delta-other-order": (">i4", [{"id": "delta", "dtype": ">i4", "astype": "<i4"}]),
    "shuffle": ("<u4", [{"id": "shuffle", "elementsize": 4}]),
    "fixedscaleoffset": (
        "<f8", [{"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "<i4"}]
    ),
    "quantize": ("<f8", [{"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}]),
    "bitround": ("<f4", [{"id": "bitround", "keepbits": 9}]),
    "packbits": ("|b1", [{"id": "packbits"}]),
    "astype": ("<u2", [{"id": "astype", "encode_dtype": "<i4", "decode_dtype": "<u2"}]),
    "crc32": ("<u2", [{"id": "crc32"}]),
    "adler32": ("<u2", [{"id": "adler32"}]),
    "fletcher32": ("<u2", [{"id": "fletcher32"}]),
    "crc32c": ("<u2", [{"id": "crc32c"}]),
    "two": ("<u2", [{"id": "delta", "dtype": "<u2", "astype": "<u2"}, {"id": "shuffle", "elementsize": 2}]),
    "bytes-before": ("<u2", [{"id": "shuffle", "elementsize": 2}, {"id": "delta", "dtype": "|u1", "astype": "|u1"}]),
}  # fmt: skip


def sample(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Values that differ; the first chunk is left at the fill value."""
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    numbers = rng.integers(1, 100, shape)
    match kind.kind:
        case "S" | "U":
            values = np.char.mod("é%d" if kind.kind == "U" else "a%d", numbers).astype(kind)
        case "M" | "m":
            values = numbers.astype("i8").view(kind.newbyteorder("=")).astype(kind)
        case "c":
            values = (numbers + 1j * numbers[::-1]).astype(kind)
        case "f":
            values = (numbers / 4).astype(kind)
        case _:
            values = numbers.astype(kind)
    values[: CHUNKS[0], : CHUNKS[1], : CHUNKS[2]] = np.zeros((), kind)
    return values


def zarr_python(path: Path, values: np.ndarray, **options: Any) -> None:
    options = {"chunks": CHUNKS[: values.ndim], "compressors": None, "filters": None, "fill_value": 0, **options}
    if values.dtype.kind in "SU":
        options["fill_value"] = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(store=str(path), shape=values.shape, dtype=values.dtype, zarr_format=2, **options)
        array[...] = values


def read_by_zarr_python(path: Path) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_array(str(path), mode="r", zarr_format=2)[...]


def alike(found: Any, expected: np.ndarray) -> bool:
    native = expected.astype(expected.dtype.newbyteorder("="))
    found = np.asarray(found)
    return found.shape == native.shape and found.astype(native.dtype).tobytes() == native.tobytes()


@pytest.mark.parametrize(("order", "separator"), list(itertools.product("CF", "./")))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_data_type_passes_both_ways_with_zarr_python(
    tmp_path: Path, dtype: str, order: str, separator: str
) -> None:
    values = sample(dtype)
    keys = {"name": "v2", "separator": separator}
    zarr_python(tmp_path / "theirs", values, order=order, chunk_key_encoding=keys)
    theirs = zvcore.open(tmp_path / "theirs")
    assert theirs.dtype == values.dtype.newbyteorder("=") and theirs.order == order
    assert alike(theirs[...], values)
    assert alike(theirs[3:8, 2:9:3, 1], values[3:8, 2:9:3, 1])
    assert zvcore.verify(tmp_path / "theirs").ok

    ours = zvcore.create(
        tmp_path / "ours", format="zarr2", shape=SHAPE, dtype=dtype, chunks=CHUNKS, order=order,
        dimension_separator=separator,
    )  # fmt: skip
    ours[...] = values
    assert alike(read_by_zarr_python(tmp_path / "ours"), values)
    assert json.loads((tmp_path / "ours" / ".zarray").read_text())["dtype"] == np.dtype(dtype).str
    stored = {str(path.relative_to(tmp_path / "theirs")) for path in (tmp_path / "theirs").rglob("*")}
    mine = {str(path.relative_to(tmp_path / "ours")) for path in (tmp_path / "ours").rglob("*")}
    assert mine - {".zattrs"} == stored - {".zattrs"}


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("dtype", ["|u1", "<u2", ">f8"])
def test_every_compressor_passes_both_ways_with_zarr_python(tmp_path: Path, name: str, dtype: str) -> None:
    values, config = sample(dtype), COMPRESSORS[name]
    zarr_python(tmp_path / "theirs", values, compressors=None if config is None else numcodecs.get_codec(config))
    assert json.loads((tmp_path / "theirs" / ".zarray").read_text())["compressor"] == config
    theirs = zvcore.open(tmp_path / "theirs", "r+")
    assert alike(theirs[...], values)
    # A part of a chunk of theirs is changed by ours.
    values[5, 5, 5] = values[8, 8, 6]
    theirs[5, 5, 5] = values[5, 5, 5]
    assert alike(read_by_zarr_python(tmp_path / "theirs"), values)

    ours = zvcore.create(
        tmp_path / "ours", format="zarr2", shape=SHAPE, dtype=dtype, chunks=CHUNKS, codec=config
    )  # fmt: skip
    ours[...] = values
    assert json.loads((tmp_path / "ours" / ".zarray").read_text())["compressor"] == config
    assert alike(read_by_zarr_python(tmp_path / "ours"), values)


@pytest.mark.parametrize(
    ("name", "order"),
    # With order "F", zarr-python writes other values of bitround; see test_filters.
    [(name, order) for name in FILTERS for order in "CF" if (name, order) != ("bitround", "F")],
)
@pytest.mark.parametrize("compressor", ["none", "zstd", "blosc"])
def test_every_filter_passes_both_ways_with_zarr_python(tmp_path: Path, name: str, order: str, compressor: str) -> None:
    (dtype, filters), config = FILTERS[name], COMPRESSORS[compressor]
    values = sample(dtype)
    made = [numcodecs.get_codec(one) for one in filters]
    zarr_python(
        tmp_path / "theirs", values, filters=made, order=order,
        compressors=None if config is None else numcodecs.get_codec(config),
    )  # fmt: skip
    expected = read_by_zarr_python(tmp_path / "theirs")
    assert alike(zvcore.open(tmp_path / "theirs")[...], expected)
    assert zvcore.verify(tmp_path / "theirs").ok

    ours = zvcore.create(
        tmp_path / "ours", format="zarr2", shape=SHAPE, dtype=dtype, chunks=CHUNKS, order=order, filters=filters,
        codec=config,
    )  # fmt: skip
    ours[...] = values
    assert alike(read_by_zarr_python(tmp_path / "ours"), expected)
    if compressor == "none":
        for path in (tmp_path / "theirs").glob("[0-9]*"):
            assert path.read_bytes() == (tmp_path / "ours" / path.name).read_bytes()


@pytest.mark.parametrize(("shape", "chunks"), [((), ()), ((7,), (3,)), ((3, 4), (10, 10)), ((0, 4), (2, 2))])
@pytest.mark.parametrize("order", "CF")
def test_arrays_of_few_axes_and_chunks_larger_than_them_pass_both_ways(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], order: str
) -> None:
    values = np.arange(1, 1 + int(np.prod(shape)), dtype="<u2").reshape(shape)
    zarr_python(tmp_path / "theirs", values, chunks=chunks, order=order)
    assert alike(zvcore.open(tmp_path / "theirs")[...], values)
    ours = zvcore.create(
        tmp_path / "ours", format="zarr2", shape=shape, dtype="<u2", chunks=chunks, order=order
    )  # fmt: skip
    ours[...] = values
    assert alike(read_by_zarr_python(tmp_path / "ours"), values)


@pytest.mark.parametrize("dtype", ["vlen-utf8", "vlen-bytes"])
@pytest.mark.parametrize("order", "CF")
def test_items_of_any_length_pass_both_ways(tmp_path: Path, dtype: str, order: str) -> None:
    texts = np.array([["a", "", "hé"], ["longer than that", "x", "日本"]], object)
    values = texts if dtype == "vlen-utf8" else np.vectorize(lambda text: text.encode(), otypes=[object])(texts)
    kind: Any = str if dtype == "vlen-utf8" else zarr.dtype.VariableLengthBytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(
            store=str(tmp_path / "theirs"), shape=(2, 3), chunks=(2, 2), dtype=kind, zarr_format=2, order=order
        )
        array[...] = values
    theirs = zvcore.open(tmp_path / "theirs", "r+")
    assert theirs[...].tolist() == values.tolist()
    values[0, 1] = values[1, 2]
    theirs[0, 1] = values[1, 2]
    assert read_by_zarr_python(tmp_path / "theirs").tolist() == values.tolist()

    made: Any = str if dtype == "vlen-utf8" else bytes
    ours = zvcore.create(
        tmp_path / "ours", format="zarr2", shape=(2, 3), dtype=made, chunks=(2, 2), order=order
    )  # fmt: skip
    ours[...] = values
    assert read_by_zarr_python(tmp_path / "ours").tolist() == values.tolist()
    assert zvcore.verify(tmp_path / "ours").ok


@pytest.mark.parametrize("compressor", ["none", "zlib", "gzip", "bz2", "zstd", "blosc"])
@pytest.mark.parametrize(("order", "separator"), [("C", "."), ("F", "/")])
@pytest.mark.parametrize("dtype", ["|b1", "|u1", "<u2", ">i4", "<f4", ">f8", "<c8"])
def test_arrays_pass_both_ways_with_tensorstore(
    tmp_path: Path, dtype: str, order: str, separator: str, compressor: str
) -> None:
    values, config = sample(dtype), COMPRESSORS[compressor]
    metadata = {
        "shape": list(SHAPE), "chunks": list(CHUNKS), "dtype": dtype, "compressor": config, "order": order,
        "fill_value": None, "filters": None, "zarr_format": 2, "dimension_separator": separator,
    }  # fmt: skip
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path / 'theirs'}/"}
    theirs = tensorstore.open({**spec, "metadata": metadata}, create=True).result()
    theirs.write(values.astype(values.dtype.newbyteorder("="))).result()
    assert alike(zvcore.open(tmp_path / "theirs")[...], values)

    ours = zvcore.create(
        tmp_path / "ours", format="zarr2", shape=SHAPE, dtype=dtype, chunks=CHUNKS, order=order, codec=config,
        dimension_separator=separator,
    )  # fmt: skip
    ours[...] = values
    again = tensorstore.open({"driver": "zarr", "kvstore": f"file://{tmp_path / 'ours'}/"}).result()
    assert alike(again.read().result(), values)


def by_zarrs(path: Path) -> Any:
    """An array in zarrs' pipeline, of which it leaves nothing to zarr-python."""
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        warnings.filterwarnings("error", message="Array is unsupported by ZarrsCodecPipeline")
        return zarr.open_array(str(path), mode="r+", zarr_format=2)


ZARRS_DTYPES = ("|b1", "|u1", "<u2", "<i4", "<f4", "<f8", "<c8")
ZARRS_COMPRESSORS = ("none", "zlib", "gzip", "bz2", "zstd", "zstd-fast", "blosc", "blosc-bits")


# Its binding takes neither big-endian items nor memory in Fortran order.
@pytest.mark.parametrize(
    ("dtype", "compressor", "filters"),
    [
        *((dtype, compressor, None) for dtype in ZARRS_DTYPES for compressor in ZARRS_COMPRESSORS),
        *((*FILTERS[name][:1], compressor, FILTERS[name][1]) for name in ("shuffle", "fixedscaleoffset")
          for compressor in ("none", "zstd")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("separator", "./")
def test_arrays_pass_both_ways_with_zarrs(
    tmp_path: Path, dtype: str, separator: str, compressor: str, filters: list[dict[str, Any]] | None
) -> None:
    # No filter loses anything of whole numbers.
    values = sample(dtype) if filters is None else sample(dtype).round()
    array = zvcore.create(
        tmp_path, format="zarr2", shape=SHAPE, dtype=dtype, chunks=CHUNKS, codec=COMPRESSORS[compressor],
        filters=filters, dimension_separator=separator,
    )  # fmt: skip
    array[...] = values
    theirs = by_zarrs(tmp_path)
    assert alike(theirs[...], values)
    values[2:8, 1:] = values[2:8, 1:][:, ::-1]
    theirs[2:8, 1:] = values[2:8, 1:]
    assert alike(zvcore.open(tmp_path)[...], values)
    assert zvcore.verify(tmp_path).ok


@pytest.mark.parametrize("compressor", ["raw", "zlib", "bzip2", "blosc", "zstd"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32", "float64"])
def test_arrays_pass_both_ways_with_z5(tmp_path: Path, dtype: str, compressor: str) -> None:
    values = sample(dtype)
    with z5py.File(str(tmp_path / "theirs.zr"), "w", use_zarr_format=True) as file:
        file.create_dataset("data", data=values, chunks=CHUNKS, compression=compressor)
    assert alike(zvcore.open(tmp_path / "theirs.zr" / "data")[...], values)
    assert alike(zvcore.open(tmp_path / "theirs.zr")["data"][...], values)

    codec = {"raw": None, "bzip2": "bz2"}.get(compressor, compressor)
    with zvcore_group(tmp_path / "ours.zr") as group:
        group.create_array("data", shape=SHAPE, dtype=dtype, chunks=CHUNKS, codec=codec)[...] = values
    with z5py.File(str(tmp_path / "ours.zr"), "r", use_zarr_format=True) as file:
        assert alike(file["data"][...], values)


class zvcore_group:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Any:
        return zvcore.open(self.path, "w", format="zarr2")

    def __exit__(self, *_: object) -> None:
        pass


SMALL = {
    "bfloat16": (1.5, 1.5), "float8_e4m3fn": (float("nan"), "NaN"), "float8_e4m3fnuz": (0.5, 0.5),
    "float8_e4m3b11fnuz": (0.5, 0.5), "float8_e5m2": (float("inf"), "Infinity"), "float8_e5m2fnuz": (2, 2.0),
    "float8_e3m4": (-1, -1.0), "float4_e2m1fn": (0.5, "AQ=="), "int4": (-3, -3),
    "int2": (1, 1), "float8_e8m0fnu": (float("nan"), "NaN"),
}  # fmt: skip


def same_numbers(found: Any, expected: np.ndarray) -> bool:
    # The upper bits of a byte that holds fewer than eight mean nothing.
    return np.array_equal(np.asarray(found).astype("f8"), expected.astype("f8"), equal_nan=True)


@pytest.mark.parametrize("name", SMALL)
def test_small_numbers_pass_both_ways_with_tensorstore(tmp_path: Path, name: str) -> None:
    pytest.importorskip("ml_dtypes")
    fill, told = SMALL[name]
    spec = {"driver": "zarr", "metadata": {"chunks": [4, 4]}}
    theirs = tensorstore.open(
        {**spec, "kvstore": f"file://{tmp_path}/theirs/"}, dtype=getattr(tensorstore, name), shape=[6, 9],
        create=True, fill_value=fill,
    ).result()  # fmt: skip
    dtype = theirs.dtype.numpy_dtype
    values = (
        np.random.default_rng(0)
        .choice(np.array([1, 2, 0.5] if "int" not in name else [1, 0, -1]), (6, 9))
        .astype(dtype)
    )
    theirs[:4].write(values[:4]).result()
    values[4:] = np.asarray(fill).astype(dtype)
    found = zvcore.open(tmp_path / "theirs")
    assert found.dtype == dtype and same_numbers(found[...], values)
    assert zvcore.verify(tmp_path / "theirs").ok

    ours = zvcore.create(tmp_path / "ours", format="zarr2", shape=(6, 9), dtype=name, chunks=(4, 4), fill_value=fill)
    ours[:4] = values[:4]
    document = json.loads((tmp_path / "ours" / ".zarray").read_text())
    assert document["dtype"] == name and document["fill_value"] == told
    assert document["fill_value"] == json.loads((tmp_path / "theirs" / ".zarray").read_text())["fill_value"]
    again = tensorstore.open({**spec, "kvstore": f"file://{tmp_path}/ours/"}, open=True).result().read().result()
    assert same_numbers(again, values)
    report = zvcore.convert(tmp_path / "theirs", tmp_path / "new", format="zarr3", verify=True)
    assert report.encoded == 0 and same_numbers(zvcore.open(tmp_path / "new")[...], values)


def test_small_numbers_that_nobody_has_in_version_2_are_refused(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for wanted in (
        {"dtype": ml_dtypes.float6_e2m3fn},
        {"dtype": "bfloat16", "endian": "big"},
    ):
        with pytest.raises(UnsupportedError, match="Zarr v2 has no data type"):
            zvcore.create(tmp_path / "a", format="zarr2", shape=(4,), **wanted)


@pytest.mark.parametrize("fill", [None, 5.877471754111438e-39])
def test_exponents_with_the_fill_value_that_all_read_alike_pass_both_ways(tmp_path: Path, fill: float | None) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    spec = {"driver": "zarr", "metadata": {"chunks": [4]}}
    there = {**spec, "kvstore": f"file://{tmp_path}/theirs/"}
    given = None if fill is None else np.float32(fill).astype(ml_dtypes.float8_e8m0fnu)
    theirs = tensorstore.open(
        there, dtype=tensorstore.float8_e8m0fnu, shape=[9], create=True, fill_value=given
    ).result()  # fmt: skip
    values = np.array([0.25, 1, 2, 4], "f4").astype(theirs.dtype.numpy_dtype)
    theirs[:4].write(values).result()
    expected = theirs.read().result()
    assert zvcore.open(tmp_path / "theirs")[...].tobytes() == expected.tobytes()
    zvcore.create(tmp_path / "ours", format="zarr2", shape=(9,), dtype="float8_e8m0fnu", chunks=(4,), fill_value=given)[
        :4
    ] = values
    again = tensorstore.open({**spec, "kvstore": f"file://{tmp_path}/ours/"}, open=True).result()
    assert again.read().result().tobytes() == expected.tobytes()


def test_a_fill_value_of_exponents_that_programs_read_differently_is_refused_by_name(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensorstore.open(
        {"driver": "zarr", "kvstore": f"file://{tmp_path}/theirs/"}, dtype=tensorstore.float8_e8m0fnu, shape=[9],
        create=True, fill_value=np.float32(1).astype(ml_dtypes.float8_e8m0fnu),
    ).result()  # fmt: skip
    assert json.loads((tmp_path / "theirs" / ".zarray").read_text())["fill_value"] == 2.0**64
    with pytest.raises(UnsupportedError, match="fill value of float8_e8m0fnu"):
        zvcore.open(tmp_path / "theirs")
    with pytest.raises(UnsupportedError, match="null, 0 or NaN"):
        zvcore.create(tmp_path / "a", format="zarr2", shape=(4,), dtype="float8_e8m0fnu", fill_value=1)
    assert not (tmp_path / "a").exists()
