"""From Zarr v2 to v3 and back: stored chunks are taken over as they are, into shards too, and nothing else is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr

import zvcore
from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.exchange.stored import mask_value

if TYPE_CHECKING:
    from pathlib import Path

SHAPE, CHUNKS, SHARDS = (20, 18, 15), (8, 8, 8), (16, 16, 16)
DELTA = [{"id": "delta", "dtype": "<u2"}]
# (data type, order, codec, filters): all of these chunks are the same bytes in v3.
SAME: dict[str, tuple[str, str, Any, Any]] = {
    "raw": ("<u2", "C", None, None),
    "gzip": ("<u2", "C", "gzip", None),
    "zstd": ("<i4", "C", {"id": "zstd", "level": -3}, None),
    "blosc": ("<u2", "C", {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": -1, "blocksize": 0}, None),
    "blosc of bytes": ("|u1", "C", {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0}, None),
    "big-endian": (">u2", "C", "blosc", None),
    "order F": ("<f4", "F", "zstd", None),
    "big-endian order F": (">f8", "F", "gzip", None),
    "booleans": ("|b1", "C", "zstd", None),
    "complex": ("<c8", "C", "zstd", None),
}
# Those that tensorstore does not read.
FEW: dict[str, tuple[str, str, Any, Any]] = {
    "zlib": ("<u2", "C", "zlib", None),
    "bz2": ("<u2", "C", "bz2", None),
    "lz4": ("<u2", "C", "lz4", None),
    "lzma": ("<u2", "C", "lzma", None),
    "delta": ("<u2", "C", "zstd", DELTA),
    "delta order F": ("<u2", "F", "zstd", DELTA),
    "shuffle": ("<u4", "C", "zlib", [{"id": "shuffle", "elementsize": 4}]),
    "packbits": ("|b1", "C", "zlib", [{"id": "packbits"}]),
    "checksum": ("<u2", "C", None, [{"id": "adler32"}]),
}


def made(path: Path, case: tuple[str, str, Any, Any], **options: Any) -> np.ndarray:
    dtype, order, codec, filters = case
    values = np.random.default_rng(0).integers(0, 100, SHAPE).astype(dtype)
    values[:8, :8, :8] = 0
    array = zvcore.create(
        path, format="zarr2", shape=SHAPE, dtype=dtype, chunks=CHUNKS, order=order, codec=codec, filters=filters,
        **options,
    )  # fmt: skip
    array[...] = values
    return values


@pytest.mark.parametrize("name", [*SAME, *FEW])
@pytest.mark.parametrize("shards", [None, SHARDS])
def test_chunks_are_taken_over_as_they_are_stored(tmp_path: Path, name: str, shards: Any) -> None:
    values = made(tmp_path / "a", {**SAME, **FEW}[name])
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", shards=shards, verify=True)
    assert report.encoded == 0 and report.copied == 17 and report.empty == 1
    assert not report.losses
    before, after = zvcore.open(tmp_path / "a"), zvcore.open(tmp_path / "b")
    assert after.shards == shards
    for position in np.ndindex(3, 3, 2):
        assert after.read_encoded(position) == before.read_encoded(position)
    # adler32 is no codec of zarr-python's v3.
    assert (np.asarray(zarr.open_array(str(tmp_path / "b"), mode="r")[...]) == values).all()
    if name in SAME:
        spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path / 'b'}/"}
        assert (tensorstore.open(spec).result().read().result() == values).all()
    report = zvcore.convert(tmp_path / "b", tmp_path / "c", format="zarr2", verify=True)
    assert report.encoded == 0 and not report.losses
    again = json.loads((tmp_path / "c" / ".zarray").read_text())
    said = json.loads((tmp_path / "a" / ".zarray").read_text())
    assert {**again, "compressor": 0, "filters": 0} == {
        **said, "dimension_separator": "/", "compressor": 0, "filters": 0
    }  # fmt: skip


@pytest.mark.parametrize("codec", [None, "blosc", "zstd"])
@pytest.mark.parametrize("order", "CF")
def test_texts_of_any_length_go_along_as_they_are_stored(tmp_path: Path, order: str, codec: str | None) -> None:
    texts = np.array([["a", "", "hé"], ["longer than that", "x", "日本"]], object)
    array = zvcore.create(
        tmp_path / "a", format="zarr2", shape=(2, 3), dtype=str, chunks=(2, 2), order=order, codec=codec
    )
    array[...] = texts
    there = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", shards=(2, 4), verify=True)
    assert np.asarray(zarr.open_array(str(tmp_path / "b"), mode="r")[...]).tolist() == texts.tolist()
    back = zvcore.convert(tmp_path / "b", tmp_path / "c", format="zarr2", verify=True)
    assert zvcore.open(tmp_path / "c")[...].tolist() == texts.tolist()
    assert (there.copied, there.encoded, back.copied, back.encoded) == (2, 0, 2, 0)


def test_byte_strings_of_any_length_go_along_as_they_are_stored(tmp_path: Path) -> None:
    items = np.array([b"a", b"", b"\0\1", b"longer than that"], object)
    zvcore.create(tmp_path / "a", format="zarr2", shape=(4,), dtype=bytes, chunks=(3,))[...] = items
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", verify=True)
    assert (report.copied, report.encoded) == (2, 0)
    assert zarr.open_array(str(tmp_path / "b"), mode="r")[...].tolist() == items.tolist()


def test_texts_of_a_region_that_cuts_chunks_are_encoded_again(tmp_path: Path) -> None:
    texts = np.array([f"text {n}" for n in range(20)], object)
    zvcore.create(tmp_path / "a", format="zarr2", shape=(20,), dtype=str, chunks=(8,))[...] = texts
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", region=np.s_[8:12], verify=True)
    assert report.copied == 0 and zvcore.open(tmp_path / "b")[...].tolist() == texts[8:12].tolist()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "filtering",
    [
        {"id": "astype", "encode_dtype": ">i8", "decode_dtype": "<i2"},
        {"id": "delta", "dtype": "<i2", "astype": ">f8"},
        {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<i2", "astype": ">i4"},
    ],
    ids=lambda filtering: filtering["id"],
)
def test_what_filters_store_as_big_endian_items_stays_the_same_values(
    tmp_path: Path, filtering: dict[str, Any], order: Any
) -> None:
    values = (np.arange(30).reshape(6, 5) - 7).astype("<i2")
    source = zvcore.create(
        tmp_path / "a", format="zarr2", shape=(6, 5), dtype="<i2", chunks=(4, 2), filters=[filtering], order=order
    )
    source[...] = values
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3")
    assert (zvcore.open(tmp_path / "b")[...] == values).all()
    assert ">" not in (tmp_path / "b" / "zarr.json").read_text()
    zvcore.convert(tmp_path / "b", tmp_path / "c", format="zarr2")
    assert (zvcore.open(tmp_path / "c")[...] == values).all()


def test_big_endian_items_after_a_filter_are_encoded_again(tmp_path: Path) -> None:
    values = made(tmp_path / "a", (">u2", "C", "zstd", [{"id": "delta", "dtype": ">u2"}]))
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", verify=True)
    assert report.copied == 0 and report.encoded == 17
    assert (np.asarray(zarr.open_array(str(tmp_path / "b"), mode="r")[...]) == values).all()


@pytest.mark.parametrize("name", ["raw", "gzip", "zstd", "blosc"])
def test_a_chunk_that_was_cut_is_not_taken_over(tmp_path: Path, name: str) -> None:
    made(tmp_path / "a", {**SAME, **FEW}[name])
    chunk = tmp_path / "a" / "1.1.1"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(CorruptDataError) as raised:
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", shards=SHARDS)
    assert raised.value.key == "1.1.1"


def test_the_plan_says_who_does_not_read_what_is_made(tmp_path: Path) -> None:
    made(tmp_path / "a", FEW["zlib"])
    plan = zvcore.plan(tmp_path / "a", tmp_path / "b", format="zarr3")
    assert plan.arrays[0].how == "verbatim"
    assert "numcodecs.zlib" in str(plan) and "tensorstore" in str(plan) and "--codec" in str(plan)
    plan = zvcore.plan(tmp_path / "a", tmp_path / "b", format="zarr3", codec="zstd")
    assert plan.arrays[0].how == "recode" and not plan.notes


def test_no_fill_value_is_a_loss_and_nothing_else_is(tmp_path: Path) -> None:
    made(tmp_path / "a", SAME["zstd"], fill_value=None)
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3")
    assert [str(loss) for loss in report.losses] == [
        "the fill value null: what is missing has no value, and reads as 0 in Zarr v3"
    ]
    with pytest.raises(UnsupportedError, match="null"):
        zvcore.convert(tmp_path / "a", tmp_path / "c", format="zarr3", strict=True)
    report = zvcore.convert(tmp_path / "a", tmp_path / "d", format="zarr2")
    assert not report.losses
    assert json.loads((tmp_path / "d" / ".zarray").read_text())["fill_value"] is None


@pytest.mark.parametrize(("source", "target"), [("zarr2", "zarr3"), ("zarr3", "zarr2")])
def test_a_fill_value_with_nan_in_a_field_is_no_loss(source: str, target: str, tmp_path: Path) -> None:
    dtype = [("a", "<i4"), ("b", "<f8"), ("c", [("when", "<M8[s]")])]
    fill = np.array([(1, np.nan, (np.datetime64("NaT", "s"),))], dtype)[0]
    zvcore.create(tmp_path / "src", format=source, shape=(4,), dtype=dtype, chunks=(2,), fill_value=fill)
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format=target, strict=True)
    assert not report.losses and repr(zvcore.open(tmp_path / "dst")[0]) == repr(fill)


def test_what_xarray_takes_for_missing_in_v3_is_missing_in_v2(tmp_path: Path) -> None:
    values = np.array([[1, -999, 3, 4]], "i2")
    said: dict[str, tuple[str, Any, Any]] = {
        "whole": ("i2", -999, -999), "real": ("f4", mask_value(np.float32(-999)), -999), "much": ("u1", 256, 0),
    }  # fmt: skip
    group = zvcore.open(tmp_path / "src", "w", format="zarr3")
    for name, (dtype, missing, _) in said.items():
        array = group.create_dataset(
            name, shape=(2, 4), dtype=dtype, chunks=(1, 4), dimension_names=["y", "x"], attrs={"_FillValue": missing}
        )
        array[:1] = values.astype(dtype)
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr2", strict=True)
    for name, (_, _, fill) in said.items():
        made = zvcore.open(tmp_path / "dst")[name]
        # What was not stored reads as it did.
        assert made.fill_value == fill and np.array_equal(made[...], group[name][...]), name


def test_groups_attributes_and_names_of_axes_go_along(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "a", "w", format="zarr2")
    group.attrs["title"] = "ü"
    inner = group.create_group("deep", {"n": 1})
    inner.create_array(
        "t", shape=(5, 4), dtype="f4", fill_value=np.nan, dimension_names=["y", "x"], attrs={"units": "K"}
    )[...] = 3
    group.create_array("plain", shape=(5,), dtype="i4", fill_value=-1)[...] = 2
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3")
    assert not report.losses
    theirs = zarr.open_group(str(tmp_path / "b"), mode="r")
    assert dict(theirs.attrs) == {"title": "ü"} and dict(theirs["deep"].attrs) == {"n": 1}
    # xarray takes the fill value of v2 for what is missing; in v3 it has to be told.
    assert dict(theirs["deep/t"].attrs) == {"units": "K", "_FillValue": "AAAAAAAA+H8="}
    assert theirs["deep/t"].metadata.dimension_names == ("y", "x")
    assert dict(theirs["plain"].attrs) == {} and theirs["plain"].metadata.dimension_names is None
    zvcore.convert(tmp_path / "b", tmp_path / "c", format="zarr2")
    back = zarr.open_group(str(tmp_path / "c"), mode="r", zarr_format=2)
    assert back["deep/t"].attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]


OME: dict[str, Any] = {
    "multiscales": [
        {
            "version": "0.4",
            "name": "cells",
            "axes": [
                {"name": "c", "type": "channel"},
                {"name": "y", "type": "space", "unit": "micrometer"},
                {"name": "x", "type": "space", "unit": "micrometer"},
            ],
            "datasets": [
                {
                    "path": f"s/{i}",
                    "coordinateTransformations": [{"type": "scale", "scale": [1.0, 2**i / 2, 2**i / 2]}],
                }
                for i in range(2)
            ],
            "type": "mean",
        }
    ],
    "omero": {"version": "0.4", "channels": [{"color": "FF0000", "label": "red", "window": {"start": 0, "end": 9}}]},
}


def image(path: Path) -> None:
    group = zvcore.open(path, "w", format="zarr2")
    for i in range(2):
        array = group.create_array(
            f"s/{i}", shape=(2, 32 >> i, 32 >> i), dtype=">u2", chunks=(1, 8, 8), codec="blosc", dimension_separator="/"
        )
        array[...] = np.arange(array.size).reshape(array.shape)
    group.attrs.update(OME)


def test_an_image_of_ome_zarr_is_one_in_both_versions(tmp_path: Path) -> None:
    image(tmp_path / "a")
    found = zvcore.formats()["zarr2"].read_image(zvcore.open(tmp_path / "a"))
    assert found is not None and found.name == "cells" and [level.path for level in found.levels] == ["s/0", "s/1"]
    assert [(axis.name, axis.scale) for axis in found.levels[1].axes] == [("c", 1.0), ("y", 1.0), ("x", 1.0)]
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", shards=(1, 16, 16), verify=True)
    assert not report.losses and report.encoded == 0 and report.copied == 40
    ome = json.loads((tmp_path / "b" / "zarr.json").read_text())["attributes"]["ome"]
    assert ome["version"] == "0.5" and "version" not in ome["multiscales"][0] and ome["omero"] == {
        "channels": OME["omero"]["channels"]
    }  # fmt: skip
    document = json.loads((tmp_path / "b" / "s" / "0" / "zarr.json").read_text())
    assert document["dimension_names"] == ["c", "y", "x"]
    report = zvcore.convert(tmp_path / "b", tmp_path / "c", format="zarr2", verify=True)
    assert not report.losses and report.encoded == 0
    attributes = json.loads((tmp_path / "c" / ".zattrs").read_text())
    assert attributes["multiscales"][0]["version"] == "0.4" and attributes["omero"]["version"] == "0.4"
    assert attributes["multiscales"][0]["axes"] == OME["multiscales"][0]["axes"]
    assert json.loads((tmp_path / "c" / "s" / "0" / ".zarray").read_text())["dimension_separator"] == "/"
    assert zvcore.verify(tmp_path / "c").ok


@pytest.mark.parametrize("format", ["n5", "precomputed", "zarr2"])
def test_an_image_goes_to_every_format_and_back(tmp_path: Path, format: str) -> None:
    image(tmp_path / "a")
    zvcore.convert(tmp_path / "a", tmp_path / "b", format=format, verify=True)
    zvcore.convert(tmp_path / "b", tmp_path / "c", format="zarr2", verify=True)
    found = zvcore.formats()["zarr2"].read_image(zvcore.open(tmp_path / "c"))
    assert found is not None and len(found.levels) == 2
    units = {"micrometer": 1000, "nanometer": 1}
    sizes = {axis.name: axis.scale * units[axis.unit] for axis in found.axes if axis.name in ("x", "y")}
    assert sizes == {"y": 500, "x": 500}
    assert sorted(np.unique(found.arrays[0][...]).tolist()) == list(range(2048))


def test_verify_tells_of_levels_that_are_not_there(tmp_path: Path) -> None:
    image(tmp_path)
    assert zvcore.verify(tmp_path).ok
    (tmp_path / "s" / "1" / ".zarray").unlink()
    report = zvcore.verify(tmp_path)
    assert not report.ok and "multiscales names the level 's/1'" in str(report)


@pytest.mark.parametrize("dtype", ["i4", "u1", "bool", "f4"])
def test_zeros_are_values_to_xarray_in_v2_where_they_are_in_v3(tmp_path: Path, dtype: str) -> None:
    xarray = pytest.importorskip("xarray")
    values = np.array([0, 1, 1, 0], dtype)
    group = zvcore.open(tmp_path / "v3", "w", format="zarr3")
    group.create_array("v", shape=(4,), dtype=dtype, chunks=(2,), dimension_names=["x"])[:3] = values[:3]
    assert not zvcore.convert(tmp_path / "v3", tmp_path / "v2", format="zarr2").losses
    for name in ("v3", "v2"):
        read = xarray.open_zarr(tmp_path / name, consolidated=False)["v"]
        assert read.dtype == values.dtype and np.array_equal(read.values, values), name


def test_a_large_array_stays_sparse_and_a_note_says_what_xarray_makes_of_it(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "v3", format="zarr3", shape=(5000,), dtype="u1", chunks=(1,), shards=(1000,), dimension_names=["x"]
    )
    array[7] = 1
    plan = zvcore.plan(tmp_path / "v3", tmp_path / "v2", format="zarr2")
    assert ["missing to xarray" in str(one) for one in plan.notes] == [True]
    report = zvcore.convert(tmp_path / "v3", tmp_path / "v2", format="zarr2")
    assert report.notes == plan.notes and f"note: {plan.notes[0]}" in str(report)
    assert report.to_json()["notes"] == [plan.notes[0].to_json()]
    assert json.loads((tmp_path / "v2" / ".zarray").read_text())["fill_value"] == 0
    assert len([one for one in (tmp_path / "v2").iterdir() if one.name.isdigit()]) == 1


def test_black_voxels_of_images_are_not_missing_in_v3(tmp_path: Path) -> None:
    image(tmp_path / "v2")
    for name in ("0", "1"):
        (tmp_path / "v2" / "s" / name / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["z", "y", "x"]}')
    zvcore.convert(tmp_path / "v2", tmp_path / "v3", format="zarr3")
    documents = [json.loads(one.read_text()) for one in (tmp_path / "v3").rglob("zarr.json")]
    arrays = [one for one in documents if one["node_type"] == "array"]
    assert arrays and not any("_FillValue" in one["attributes"] for one in arrays)
