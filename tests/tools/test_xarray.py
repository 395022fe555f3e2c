"""xarray opens what zvcore opens: lazily, with names of axes, places and chunks."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import zarr

import zvcore
from tests.stores.watched import Watched
from zvcore.errors import UnsupportedError
from zvcore.format import get_format

xarray = pytest.importorskip("xarray")

VALUES = np.arange(20 * 30 * 40, dtype="u2").reshape(20, 30, 40)


@pytest.fixture
def ome(tmp_path):
    """An image of two levels with sizes of voxels."""
    zvcore.create(tmp_path / "plain.zarr", format="zarr3", data=VALUES, chunks=(10, 10, 10))
    zvcore.convert(
        tmp_path / "plain.zarr",
        tmp_path / "x.zarr",
        format="zarr3",
        levels=1,
        voxel_size=(3, 2, 1),
        unit="um",
        axes="zyx",
    )
    return tmp_path / "x.zarr"


def test_its_entry_point_is_found():
    assert "zvcore" in xarray.backends.list_engines()


def test_an_image_has_names_and_places(ome):
    found = xarray.open_dataset(ome, engine="zvcore")
    assert found["data"].dims == ("z", "y", "x")
    assert np.array_equal(found["data"].values, VALUES)
    assert np.array_equal(found["z"].values[:3], [0, 3, 6])
    assert found["z"].attrs["units"] == "micrometer"
    assert found["data"].sel(y=8.0, method="nearest").shape == (20, 40)
    coarse = xarray.open_dataset(ome, engine="zvcore", level=1)
    assert coarse["data"].shape != VALUES.shape
    with pytest.raises(IndexError, match="levels 0 to 1"):
        xarray.open_dataset(ome, engine="zvcore", level=2)


def test_nothing_is_read_before_it_is_asked_for(ome, monkeypatch):
    read = []
    plain = zvcore.Array._read
    monkeypatch.setattr(
        zvcore.Array, "_read", lambda array, what, *more: read.append(what) or plain(array, what, *more)
    )
    found = xarray.open_dataset(ome, engine="zvcore")["data"]
    part = found[2:4].isel(x=[7, 3])
    assert not read
    assert np.array_equal(part.values, VALUES[2:4][..., [7, 3]])
    assert len(read) == 1 and read[0].result_shape != VALUES.shape


@pytest.mark.parametrize(
    "key",
    [
        (3,),
        (slice(None, None, -2), 5),
        (slice(2, 2),),
        ([3, 1, 1], slice(4, 9), -1),
        (2, [0, 29], slice(None)),
        (slice(None), [5], [39, 0, 2]),
        (..., slice(35, None, 2)),
    ],
)
def test_every_kind_of_index(ome, key):
    expected = xarray.Variable(("z", "y", "x"), VALUES)[key]
    found = xarray.open_dataset(ome, engine="zvcore")["data"].variable[key]
    assert found.dims == expected.dims
    assert np.array_equal(found.values, expected.values)


POINTS = np.random.default_rng(4).integers(0, 20, (3, 7))


@pytest.mark.parametrize(
    "places",
    [
        {"z": ("p", POINTS[0]), "y": ("p", POINTS[1]), "x": ("p", POINTS[2])},
        {"z": ("p", POINTS[0] - 20), "x": ("p", POINTS[1])},
        {"y": (("p", "q"), POINTS)},
        {"y": (("p", "q"), POINTS), "x": ("q", POINTS[0]), "z": slice(15, None, -3)},
        {"z": ("p", POINTS[0]), "y": ("q", POINTS[1]), "x": 3},
        {"x": ("x", POINTS[0]), "y": ("x", POINTS[0])},
        {"z": ("p", POINTS[0][:0]), "y": ("p", POINTS[1][:0])},
    ],
)
def test_points_of_every_kind(ome, places):
    places = {dim: one if isinstance(one, int | slice) else xarray.Variable(*one) for dim, one in places.items()}
    expected = xarray.Variable(("z", "y", "x"), VALUES).isel(places)
    found = xarray.open_dataset(ome, engine="zvcore")["data"].variable.isel(places)
    assert found.dims == expected.dims
    assert np.array_equal(found.values, expected.values)


def test_scattered_points_cost_what_they_are(tmp_path, monkeypatch):
    """To take all places between them would be 100 million values of each layer."""
    huge = (2, 1 << 20, 1 << 20)
    zvcore.create(tmp_path / "a", format="zarr3", shape=huge, dtype="u1", chunks=(1, 64, 64))
    array = zvcore.open(tmp_path / "a", mode="r+")
    array[:, 7 << 6, 7 << 6] = 9
    read = []
    plain = zvcore.Array._read
    monkeypatch.setattr(
        zvcore.Array, "_read", lambda array, what, *more: read.append(what) or plain(array, what, *more)
    )
    places = xarray.Variable("p", np.arange(10_000) << 6)
    found = xarray.open_dataset(tmp_path / "a", engine="zvcore")["data"].isel(dim_1=places, dim_2=places).values
    assert found.shape == (2, 10_000)
    assert (np.flatnonzero(found[0]) == [7]).all()
    assert sum(np.prod(one.result_shape) for one in read) == 20_000


def test_chunks_of_dask_are_whole_objects(tmp_path):
    zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=(5, 5, 5), shards=(10, 10, 20))
    found = xarray.open_dataset(tmp_path / "a", engine="zvcore", chunks={})
    assert found["data"].data.chunksize == (10, 10, 20)
    assert int(found["data"].sum()) == VALUES.sum()


@pytest.mark.parametrize("format", ["n5", "precomputed", "zarr2", "zarr3"])
def test_all_formats(tmp_path, format):
    zvcore.create(tmp_path / "a", format=format, data=VALUES, chunks=(10, 10, 10))
    opened = zvcore.open(tmp_path / "a")
    image = get_format(format).read_image(opened)
    found = pickle.loads(pickle.dumps(xarray.open_dataset(tmp_path / "a", engine="zvcore", cache=False)))
    assert np.array_equal(found["data"].values, image.arrays[0][...])


def test_what_xarray_wrote_is_the_same(tmp_path):
    data = xarray.Dataset(
        {"t": (("time", "x"), np.arange(6.0).reshape(3, 2)), "p": (("x",), np.array([4, 5]))},
        coords={"time": np.array(["2020-01-01", "2020-01-02", "2020-01-05"], "M8[ns]"), "x": [10.0, 20.0]},
        attrs={"title": "weather"},
    )
    data.to_zarr(tmp_path / "x.zarr", zarr_format=3, consolidated=False)
    found = xarray.open_dataset(tmp_path / "x.zarr", engine="zvcore")
    assert found.attrs["title"] == "weather"
    assert np.array_equal(found["time"].values, data["time"].values)
    assert np.array_equal(found["t"].sel(x=20.0), data["t"].sel(x=20.0))
    assert list(xarray.open_dataset(tmp_path / "x.zarr", engine="zvcore", drop_variables="p").data_vars) == ["t"]


@pytest.mark.parametrize("decoding", [{"decode_cf": False}, {"decode_times": False}, {"mask_and_scale": False}])
def test_values_are_as_they_are_stored_where_that_is_asked_for(decoding, tmp_path):
    data = xarray.Dataset(
        {"a": (("time",), [1.0, np.nan, 3.0])}, coords={"time": np.array(["2020-01-01", "NaT", "2020-01-05"], "M8[ns]")}
    )
    encoding = {"a": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}}
    data.to_zarr(tmp_path / "x.zarr", encoding=encoding, consolidated=False)
    theirs = xarray.open_dataset(tmp_path / "x.zarr", engine="zarr", consolidated=False, **decoding).load()
    ours = xarray.open_dataset(tmp_path / "x.zarr", engine="zvcore", **decoding).load()
    xarray.testing.assert_identical(ours, theirs)


@pytest.mark.parametrize("version", [2, 3])
def test_what_xarray_takes_for_missing_is_missing(version, tmp_path):
    numbers = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, 6.0]])
    data = xarray.Dataset(dict.fromkeys(("packed", "float", "whole", "plain"), (("y", "x"), numbers)))
    encoding = {
        "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -999},
        "float": {"dtype": "f4", "_FillValue": -999.0},
        "whole": {"dtype": "u1", "_FillValue": 255},
    }
    data.to_zarr(tmp_path / "x.zarr", zarr_format=version, encoding=encoding, consolidated=False)
    theirs = xarray.open_zarr(tmp_path / "x.zarr", consolidated=False).load()
    ours = xarray.open_dataset(tmp_path / "x.zarr", engine="zvcore").load()
    xarray.testing.assert_identical(ours, theirs)
    assert all(np.array_equal(ours[name].values, numbers, equal_nan=True) for name in data)


def test_what_is_black_in_an_image_of_version_2_is_not_missing(tmp_path):
    array = zvcore.create(tmp_path, format="zarr2", shape=(2, 2), dtype="u1", chunks=(2, 2), dimension_names=["y", "x"])
    array[0] = 1
    assert xarray.open_dataset(tmp_path, engine="zvcore")["data"].dtype == "u1"


def test_axes_of_one_name_and_other_lengths_are_told_apart(tmp_path):
    group = zvcore.open(tmp_path / "g", mode="w", format="zarr3")
    for name, length in (("a", 3), ("b", 4)):
        group.create_dataset(name, shape=(length, length), dtype="u1", dimension_names=("x", "x"))
    found = xarray.open_dataset(tmp_path / "g", engine="zvcore")
    assert found["a"].shape == (3, 3) and found["b"].shape == (4, 4)
    assert len(found.sizes) == 4


def test_an_array_that_claims_to_be_huge_costs_nothing(tmp_path):
    zvcore.create(
        tmp_path / "a", format="precomputed", shape=(1 << 40, 4, 4), dtype="u1", chunks=(64, 4, 4), resolution=(1, 1, 1)
    )
    found = xarray.open_dataset(tmp_path / "a", engine="zvcore")
    assert "x" not in found.coords and "y" in found.coords
    assert found["data"][1 << 39, 0, 0, 0] == 0


def test_a_group_of_groups_says_what_to_do(tmp_path):
    group = zvcore.open(tmp_path / "g", mode="w", format="zarr3")
    group.create_group("inner").create_dataset("a", shape=(3,), dtype="u1")
    with pytest.raises(UnsupportedError, match="give group="):
        xarray.open_dataset(tmp_path / "g", engine="zvcore")
    assert xarray.open_dataset(tmp_path / "g", engine="zvcore", group="inner")["a"].shape == (3,)


def test_scalars_that_become_zarr_v2_can_be_opened_and_are_not_missing(tmp_path):
    """Such as the one that says how maps are projected; xarray refused the whole group."""
    made = xarray.Dataset({"ref": ((), 0, {"grid_mapping_name": "utm"}), "height": ((), 0.0), "v": ("x", [1, 2, 3])})
    made.to_zarr(tmp_path / "v3", zarr_format=3, consolidated=False)
    assert not zvcore.convert(tmp_path / "v3", tmp_path / "v2", format="zarr2").losses
    xarray.testing.assert_identical(xarray.open_zarr(tmp_path / "v2", consolidated=False).load(), made)


@pytest.mark.parametrize("version", [2, 3])
def test_zeros_are_not_missing_by_references(version, tmp_path):
    """They were: the first place along an axis, the first time."""
    fsspec = pytest.importorskip("fsspec")
    made = xarray.Dataset({"v": ("x", [0, 1, 2]), "f": ("x", [0.0, np.nan, 1.0])}, {"x": [0, 1, 2]})
    made["packed"] = ("x", [0.0, np.nan, 2.0], {}, {"dtype": "i2", "_FillValue": -1})
    made.to_zarr(tmp_path / "a", zarr_format=version, consolidated=False)
    references = zvcore.references(tmp_path / "a")
    mapper = fsspec.filesystem("reference", fo=references, remote_protocol="file").get_mapper("")
    found = xarray.open_dataset(mapper, engine="zarr", consolidated=False)
    xarray.testing.assert_identical(found.load(), made)


def test_what_is_not_stored_is_still_zero_by_references(tmp_path):
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(6,), dtype="i4", chunks=(3,), dimension_names=["x"])
    array[:3] = [0, 1, 2]
    references = zvcore.references(tmp_path / "a")["refs"]
    (document,) = [json.loads(text) for key, text in references.items() if key.endswith(".zarray")]
    assert document["fill_value"] == 0


def test_places_along_axes_are_asked_for_together(tmp_path):
    names = ("t", "y", "x")
    watched = Watched(zarr.storage.MemoryStore())
    group = zvcore.open(watched, "w", format="zarr3")
    group.create_dataset("a", shape=(4, 5, 6), dtype="float64", dimension_names=names)[...] = 1
    for length, name in enumerate(names, 4):
        axis = group.create_dataset(name, shape=(length,), dtype="int64", dimension_names=(name,))
        axis[...] = np.arange(length) * 10
    watched.forget()
    dataset = xarray.open_dataset(watched, engine="zvcore")
    assert dataset["a"][1].sel(y=20, x=50).shape == ()
    assert dataset["x"].values.tolist() == [0, 10, 20, 30, 40, 50]
    assert watched.keys.count("t/c/0") == watched.keys.count("y/c/0") == watched.keys.count("x/c/0") == 1
    assert watched.beside["t/c/0"] >= {"y/c/0", "x/c/0"}
