"""`array.at`: coordinates of what an array shows, in voxels and in units, the same in all formats."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import zvcore

SHAPE = (64, 48, 20)
OFFSET = (1000, 2000, -7)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    """The same image in every format, with two levels."""
    root = tmp_path_factory.mktemp("volumes")
    volume = zvcore.create(
        root / "precomputed", format="precomputed", shape=SHAPE, dtype="uint16", chunks=(16, 16, 16),
        resolution=(10, 10, 40), voxel_offset=OFFSET,
    )  # fmt: skip
    volume[...] = np.random.default_rng(0).integers(0, 60000, (*SHAPE, 1)).astype("uint16")
    zvcore.downsample(root / "precomputed", levels=1, method="mode", factors=(2, 2, 1))
    for target in ("zarr3", "n5"):
        zvcore.convert(root / "precomputed", root / target, format=target)
    return root


def finest(volumes, fmt):
    opened = zvcore.open(volumes / fmt)
    return next(iter(opened.children().values()))


def turned(values, fmt):
    """As [x, y, z]."""
    return values[..., 0] if fmt == "precomputed" else values.T if fmt == "zarr3" else values


def key(fmt, x, y, z):
    return (z, y, x) if fmt == "zarr3" else (x, y, z)


@pytest.mark.parametrize("fmt", ["precomputed", "zarr3", "n5"])
def test_the_same_coordinates_are_the_same_voxels_in_every_format(volumes, fmt):
    array = finest(volumes, fmt)
    values = finest(volumes, "precomputed")[..., 0]
    bounds = array.at.bounds
    assert (bounds[:3] if fmt != "zarr3" else bounds[::-1]) == ((1000, 1064), (2000, 2048), (-7, 13))
    wanted = values[30:40, 5:20, 7:12]
    in_voxels = key(fmt, slice(1030, 1040), slice(2005, 2020), slice(0, 5))
    assert np.array_equal(turned(array.at[in_voxels], fmt), wanted)
    for x, y, z in (
        ("10300:10400nm", "20.05um:20.2um", "0:200nm"),
        (("10.3", 10.4, "um"), (20050, 20200, "nm"), "0nm:0.2um"),
        (slice("10300nm", "10400nm"), slice("20050 nm", "20200 nm"), slice("0nm", "200nm")),
        ("1030:1040", "2005:2020", "0:5"),
    ):
        assert np.array_equal(turned(array.at[key(fmt, x, y, z)], fmt), wanted)
    text = ",".join(key(fmt, "10300:10400nm", "2005:2020", "0:0.2um"))
    assert np.array_equal(turned(array.at[text], fmt), wanted)


@pytest.mark.parametrize("fmt", ["precomputed", "zarr3", "n5"])
def test_a_place_in_units_is_the_voxel_that_it_lies_in(volumes, fmt):
    array = finest(volumes, fmt)
    for place, index in (("10300nm", 30), ("10309.9nm", 30), ("10.31um", 31), (("10310", "nm"), 31)):
        region = array.at.region(key(fmt, place, ..., slice(None))[: 3 if fmt == "zarr3" else 2])
        assert region[2 if fmt == "zarr3" else 0] == index


@pytest.mark.parametrize("fmt", ["precomputed", "zarr3", "n5"])
def test_coarser_levels_lie_where_the_finer_voxels_do_that_they_are_made_of(volumes, fmt):
    levels = list(zvcore.open(volumes / fmt).children().values())
    assert levels[1].shape != levels[0].shape
    x = 2 if fmt == "zarr3" else 0
    here = key(fmt, "10300:10400nm", slice(None), slice(None))
    assert levels[0].at.region(here)[x] == slice(30, 40)
    assert levels[1].at.region(here)[x] == slice(15, 20)
    assert levels[1].at.bounds[x] == (500, 532)
    with pytest.raises(
        IndexError, match=r"10310:10400nm begins or ends within a voxel, which has 20 nm.*10300:10400 nm"
    ):
        levels[1].at[key(fmt, "10310:10400nm", slice(None), slice(None))]


@pytest.mark.parametrize("fmt", ["zarr3", "n5"])
def test_a_level_that_is_opened_alone_knows_its_image(volumes, fmt):
    opened = zvcore.open(volumes / fmt)
    for name, level in opened.children().items():
        alone = zvcore.open(volumes / fmt / name)
        assert alone.at.spans == level.at.spans
        assert pickle.loads(pickle.dumps(level)).at.spans == level.at.spans


def test_levels_below_an_outer_group_know_their_image(volumes, tmp_path):
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {"ome": 5}}')
    zvcore.convert(volumes / "zarr3", tmp_path / "outer" / "image", format="zarr3")
    expected = zvcore.open(volumes / "zarr3")["1"].at.spans
    assert zvcore.open(tmp_path / "outer")["image/1"].at.spans == expected
    assert zvcore.open(tmp_path / "outer")["image"]["1"].at.spans == expected


def test_nothing_is_rounded_in_silence(volumes):
    array = finest(volumes, "precomputed")
    for bad in (
        "1000.5:1010",
        "1000.5",
        slice(1000.5, 1010),
        1000.5,
        "10305:10400nm",
        "10300:10405nm",
        slice("10305nm", None),
    ):
        with pytest.raises(IndexError):
            array.at[bad]
    assert array.at.touching.region("10305:10395nm,...")[0] == slice(30, 40)
    assert array.at.widened("10305:10395nm,...") == ["x: 10305:10395nm cuts voxels of 10 nm; taken: 10300:10400 nm"]
    assert array.at.widened("10300:10400nm,2000:2010") == []


def test_what_lies_outside_is_an_error_that_says_what_there_is(volumes):
    array = finest(volumes, "precomputed")
    for outside, said in (
        (slice(0, 10), "x: 0:10 does not lie within 1000:1064"),
        (slice(1000, 1065), "1000:1065 does not lie within 1000:1064"),
        (slice(1064, 1070), "does not lie within"),
        (-1, "x: -1 does not lie within 1000:1064"),
        ("0:10nm", "x: 0:10nm does not lie within 10000:10640 nm"),
        ("10640nm", "10640nm does not lie within 10000:10640 nm"),
        ("9999.9nm", "does not lie within"),
        (slice(1010, 1005), "does not lie within"),
    ):
        with pytest.raises(IndexError, match=said):
            array.at[outside]


@pytest.mark.parametrize(
    "wrong",
    ["five", "5:6:7:8", "1::nm", "10 furlongs", "10300:10400s", (1, 2), (None, "nm"), ("a", "nm"), (1, 2, 3), None,
     [1000, 2000], "10300nm:1040", "10300:10400:2nm", "::0", "::-1", (..., ...), (0, 0, 0, 0, 0), "nan", "1e400nm", {}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(volumes, wrong):
    with pytest.raises(IndexError):
        finest(volumes, "precomputed").at[wrong]


def test_values_are_assigned_by_coordinates(tmp_path):
    array = zvcore.create(
        tmp_path / "a", format="n5", shape=(10, 10), dtype="uint8", chunks=(5, 5),
        attrs={"pixelResolution": {"dimensions": [0.5, 0.25], "unit": "um"}},
    )  # fmt: skip
    array.at["1:2um", "500:1000nm"] = 7
    expected = np.zeros((10, 10), "uint8")
    expected[2:4, 2:4] = 7
    assert np.array_equal(array[...], expected)


def test_an_array_that_says_nothing_of_its_voxels_counts_from_zero(tmp_path):
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(10, 10), dtype="uint8", chunks=(5, 5))
    assert array.at.bounds == ((0, 10), (0, 10))
    assert array.at[2:4, 3].shape == (2,)
    with pytest.raises(IndexError, match="does not lie within"):
        array.at[-1]
    with pytest.raises(IndexError, match="nothing says how large a voxel is"):
        array.at["5nm"]


def test_an_offset_that_is_no_whole_number_of_voxels_leaves_only_units(tmp_path):
    array = zvcore.create(
        tmp_path / "a", format="n5", shape=(10,), dtype="uint8", chunks=(5,),
        attrs={"transform": {"axes": ["x"], "scale": [4], "translate": [3], "units": ["nm"]}},
    )  # fmt: skip
    array[...] = np.arange(10)
    with pytest.raises(IndexError, match="not a whole number"):
        array.at[2:4]
    assert array.at["7:15nm"].tolist() == [1, 2]


def test_times_are_places_too(tmp_path):
    root = tmp_path / "movie"
    group = zvcore.open(root, "w", format="zarr3")
    group.create_array("0", shape=(8, 4, 4), dtype="uint8", chunks=(2, 4, 4))
    ome = {
        "version": "0.5",
        "multiscales": [
            {
                "axes": [
                    {"name": "t", "type": "time", "unit": "second"},
                    {"name": "y", "unit": "micrometer"},
                    {"name": "x"},
                ],
                "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.5, 0.1, 0.1]}]}],
            }
        ],
    }
    document = json.loads((root / "zarr.json").read_text())
    (root / "zarr.json").write_text(json.dumps({**document, "attributes": {"ome": ome}}))
    array = zvcore.open(root)["0"]
    assert array.at.region(("1:2s", "0.1:0.3um")) == (slice(2, 4), slice(1, 3), slice(0, 4))
    assert array.at.region("500ms") == (1, slice(0, 4), slice(0, 4))
    with pytest.raises(IndexError, match="not a place along an axis in s"):
        array.at["1nm"]


def test_documents_around_an_array_that_cannot_be_read_do_not_matter(tmp_path):
    zvcore.create(tmp_path / "g" / "a", format="zarr3", shape=(4,), dtype="uint8", chunks=(4,))
    for broken in ("{", '{"attributes": {"ome": {"multiscales": [{"datasets": 5}]}}}', '{"attributes": 5}'):
        (tmp_path / "g" / "zarr.json").write_text(broken)
        assert zvcore.open(tmp_path / "g" / "a").at.bounds == ((0, 4),)


def test_coordinates_show_where_an_array_lies(volumes):
    text = repr(finest(volumes, "precomputed").at)
    assert "x 1000:1064 (10000:10640 nm)" in text and "z -7:13 (-280:520 nm)" in text and "c 0:1" in text
