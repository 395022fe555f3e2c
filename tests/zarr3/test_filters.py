"""Array-to-array codecs of numcodecs, as zarr-python writes them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs as znumcodecs

import zvcore
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError

pytestmark = [
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3"),
    pytest.mark.filterwarnings("ignore:.*is not currently part in the Zarr format 3"),
]

FILTERS = {
    "delta": ("u2", lambda: [znumcodecs.Delta(dtype="<u2")]),
    "fixedscaleoffset": ("f4", lambda: [znumcodecs.FixedScaleOffset(offset=10, scale=2, dtype="<f4", astype="<i2")]),
    "quantize": ("f4", lambda: [znumcodecs.Quantize(digits=2, dtype="<f4")]),
    "astype and delta": (
        "u4",
        lambda: [znumcodecs.AsType(encode_dtype="<u2", decode_dtype="<u4"), znumcodecs.Delta(dtype="<u2")],
    ),
    "packbits": ("bool", lambda: [znumcodecs.PackBits()]),
}


def filtered(path, name, shards=None, endian="little"):
    dtype, filters = FILTERS[name]
    array = zarr.create_array(
        path, shape=(10, 10), chunks=(4, 4), shards=shards, dtype=dtype, filters=filters(),
        serializer=zarr.codecs.BytesCodec(endian=endian), compressors=zarr.codecs.GzipCodec(level=1), fill_value=0,
    )  # fmt: skip
    values = (np.arange(100).reshape(10, 10) % (2 if dtype == "bool" else 50)).astype(dtype)
    array[...] = values
    return array, values


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("shards", [None, (8, 8)])
def test_both_ways_with_zarr_python(tmp_path, name, shards):
    theirs, values = filtered(tmp_path, name, shards)
    expected = theirs[...]
    ours = zvcore.open(tmp_path, mode="r+")
    assert (ours[...] == expected).all()
    assert (ours[3:9:2, 7] == expected[3:9:2, 7]).all()
    ours[...] = 0
    assert (theirs[...] == 0).all()
    ours[2:7, 3:9] = values[2:7, 3:9]
    assert (theirs[2:7, 3:9] == expected[2:7, 3:9]).all()
    assert (theirs[7:] == 0).all()


@pytest.mark.parametrize("name", FILTERS)
def test_big_endian_after_filters(tmp_path, name):
    """zarr-python writes these, but does not read back what it wrote: it takes the stored order for its own."""
    expected = filtered(tmp_path / "little", name)[0][...]
    filtered(tmp_path / "big", name, endian="big")
    ours = zvcore.open(tmp_path / "big", mode="r+")
    assert (ours[...] == expected).all()
    before = (tmp_path / "big/c/1/1").read_bytes()
    ours[4:8, 4:8] = expected[4:8, 4:8] * 0 + 1
    ours[4:8, 4:8] = expected[4:8, 4:8]
    assert ours.codec.decode((tmp_path / "big/c/1/1").read_bytes()) == ours.codec.decode(before)


@pytest.mark.parametrize("name", FILTERS)
def test_chunks_of_a_wrong_size_are_refused(tmp_path, name):
    filtered(tmp_path, name)
    array = zvcore.open(tmp_path, mode="r+")
    raw = array.codec.decode(array.read_encoded((0, 0)))
    for broken in (raw[:-1], raw + b"\0", b""):
        array.write_encoded((0, 0), array.codec.encode(broken))
        with pytest.raises(CorruptDataError, match="c/0/0"):
            array[...]


def test_parameters_that_numcodecs_refuses(tmp_path):
    filtered(tmp_path, "delta")
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["codecs"][0]["configuration"] = {"dtype": "no type"}
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(zvcore.errors.ZvcoreError):
        zvcore.open(tmp_path)[...]


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def with_codecs(path, codecs):
    """An array of zvcore's whose document then names these codecs."""
    zvcore.create(path, format="zarr3", shape=(4,), dtype="u2", chunks=(2,), codec=None)[...] = 1
    document = json.loads((path / "zarr.json").read_text())
    document["codecs"] = codecs
    (path / "zarr.json").write_text(json.dumps(document))
    return path


def in_shards(codecs, index_codecs=(BYTES,)):
    configuration = {"chunk_shape": [1], "codecs": codecs, "index_codecs": list(index_codecs)}
    return [{"name": "sharding_indexed", "configuration": configuration}]


@pytest.mark.parametrize(
    "codecs",
    [
        [{"name": "nobody.knows"}, BYTES],
        ["nobody.knows", BYTES],
        [{"name": "nobody.knows", "must_understand": False}, BYTES],
        [{"name": "nobody.knows"}],
        [BYTES, {"name": "nobody.knows"}],
        [{"name": "nobody.knows"}, *in_shards([BYTES])],
        in_shards([{"name": "nobody.knows"}, BYTES]),
        in_shards([BYTES], [{"name": "nobody.knows"}, BYTES]),
    ],
    ids=str,
)
def test_a_codec_that_is_not_installed_is_named_wherever_it_is_used(tmp_path, codecs):
    path = with_codecs(tmp_path, codecs)
    with pytest.raises(CodecNotFoundError, match=r"zarr\.json.*'nobody\.knows'.*installed: .*gzip.*zvcore\.codecs"):
        zvcore.open(path)[...]
    report = zvcore.verify(path)
    assert not report.ok
    assert "nobody.knows" in str(report.problems[0])


def test_codecs_that_cannot_make_bytes_of_an_array_are_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="array-to-bytes codec 'gzip'"):
        zvcore.open(with_codecs(tmp_path / "bytes", [{"name": "gzip", "configuration": {"level": 1}}, BYTES]))[...]
    with pytest.raises(UnsupportedError, match=r"array-to-bytes codec 'numcodecs\.json2'"):
        zvcore.open(with_codecs(tmp_path / "serializer", [{"name": "numcodecs.json2"}]))[...]


@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize(
    ("name", "configuration"),
    [
        ("astype", {"encode_dtype": ">i8", "decode_dtype": "<i2"}),
        ("delta", {"dtype": "<i2", "astype": ">i8"}),
        ("delta", {"dtype": ">i2"}),
        ("fixedscaleoffset", {"offset": 1, "scale": 2, "dtype": ">i2", "astype": ">i4"}),
    ],
)
def test_filters_that_name_big_endian_types_give_back_what_was_written(tmp_path, name, configuration, endian):
    filters = [{"name": f"numcodecs.{name}", "configuration": configuration}]
    array = zvcore.create(
        tmp_path / "a.zarr", format="zarr3", shape=(6, 5), dtype="int16", chunks=(4, 2), filters=filters, endian=endian
    )
    values = (np.arange(30).reshape(6, 5) - 7).astype("int16")
    array[...] = values
    assert (array[...] == values).all()
    array[1:3, 1:] = -values[1:3, 1:]
    assert (array[1:3, 1:] == -values[1:3, 1:]).all() and (array[3:] == values[3:]).all()


@pytest.mark.parametrize("shards", [None, (8, 8)])
@pytest.mark.parametrize("stored", ["<f2", "<f4"])
def test_what_quantize_stores_as_another_type_is_not_written(tmp_path, stored, shards):
    """zarr-python reads the stored items as items of the array's type."""
    quantize = {"name": "numcodecs.quantize", "configuration": {"digits": 3, "dtype": "<f8", "astype": stored}}
    with pytest.raises(UnsupportedError, match="quantize"):
        zvcore.create(
            tmp_path, format="zarr3", shape=(8, 8), dtype="f8", chunks=(4, 4), shards=shards, filters=[quantize]
        )
    assert not (tmp_path / "zarr.json").exists()


def test_what_quantize_stores_as_another_type_in_version_2_is_read_by_all_in_version_3(tmp_path):
    quantize = {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}
    old = zvcore.create(tmp_path / "2", format="zarr2", shape=(8, 8), dtype="f8", chunks=(4, 4), filters=[quantize])
    old[...] = np.linspace(0, 1, 64).reshape(8, 8)
    zvcore.convert(tmp_path / "2", tmp_path / "3", format="zarr3")
    assert (zarr.open_array(tmp_path / "3")[...] == old[...]).all()


def test_a_filter_of_items_of_another_size_is_refused(tmp_path):
    delta = {"name": "numcodecs.delta", "configuration": {"dtype": "<f8"}}
    with pytest.raises(MetadataError, match="another size"):
        zvcore.create(tmp_path, format="zarr3", shape=(8, 8), dtype="f4", chunks=(4, 4), filters=[delta])
