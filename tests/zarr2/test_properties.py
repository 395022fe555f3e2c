"""What holds for every array of Zarr v2: what is written is read back, by zarr-python too; no document crashes."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.errors import ZvcoreError

DTYPES = ("|b1", "|u1", "<u2", ">i4", "<i8", ">f4", "<f8", "<c8", "|S3", "<U2", "<M8[s]")
CODECS: tuple[Any, ...] = (
    None, {"id": "zlib", "level": 1}, {"id": "zstd", "level": 1}, {"id": "lz4", "acceleration": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 1, "shuffle": -1, "blocksize": 0},
)  # fmt: skip
FILTERS: tuple[Any, ...] = (
    [],
    [{"id": "adler32"}],
    [{"id": "shuffle", "elementsize": 1}],
    [{"id": "delta", "dtype": "|u1"}],
)


@st.composite
def arrays(draw: Any) -> tuple[dict[str, Any], np.ndarray]:
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    order = draw(st.sampled_from("CF"))
    filters = draw(st.sampled_from(FILTERS))
    if filters and filters[0]["id"] == "delta" and (order == "F" or dtype.itemsize > 1 or not shape):
        filters = []
    options = {
        "shape": shape, "dtype": dtype, "chunks": tuple(draw(st.integers(1, 5)) for _ in shape), "order": order,
        "codec": draw(st.sampled_from(CODECS)), "filters": filters,
        "dimension_separator": draw(st.sampled_from("./")),
    }  # fmt: skip
    raw = draw(st.binary(min_size=1, max_size=64)) * 4096
    count = int(np.prod(shape))
    numbers = np.frombuffer(raw, "u1", count).reshape(shape)
    if dtype.kind in "SU":
        return options, np.char.mod("%x", numbers).astype(dtype)
    return options, (numbers % 2 if dtype.kind == "b" else numbers.astype("i8")).astype(dtype)


@given(arrays(), st.data())
def test_what_is_written_is_read_back_by_us_and_by_zarr_python(made: Any, data: Any) -> None:
    options, values = made
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zvcore.create(folder, format="zarr2", **options)
        array[...] = values
        if values.size:
            place = tuple(data.draw(st.integers(0, n - 1)) for n in values.shape)
            values = np.array(values)
            values[place] = values.flat[0]
            array[place] = values.flat[0]
        assert (zvcore.open(folder)[...] == values).all()
        assert (np.asarray(zarr.open_array(folder, mode="r", zarr_format=2)[...]) == values).all()
        assert zvcore.verify(folder).ok


GOOD = {
    "zarr_format": 2, "shape": [6, 5], "chunks": [4, 3], "dtype": "<u2", "compressor": {"id": "zlib", "level": 1},
    "fill_value": 0, "order": "C", "filters": None, "dimension_separator": ".",
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6)
    | st.sampled_from(["<u2", "|O", "|S3", "vlen-utf8", "pickle", "zlib", "delta", "id", "C", "/"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.just("id"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.sampled_from(sorted(GOOD)), JSON)
def test_a_document_with_any_member_is_opened_or_refused(member: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".zarray").write_text(json.dumps({**GOOD, member: value}))
        Path(folder, "0.0").write_bytes(b"x")
        try:
            array = zvcore.open(folder)
            array[tuple(slice(0, 1) for _ in array.shape)]
        except ZvcoreError:
            pass
        assert zvcore.verify(folder) is not None
