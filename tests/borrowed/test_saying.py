"""What arrays of other libraries say of themselves goes along into new arrays and conversions, or is told as lost."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import LostMetadataWarning, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("zarr2", "zarr3", "n5", "precomputed")


def of_xarray(**more: Any) -> Any:
    xarray = pytest.importorskip("xarray")
    coords = {
        "x": ("x", 100 + 4.0 * np.arange(5), {"units": "nm"}),
        "y": ("y", np.float32(8) * np.arange(6), {"units": "nm"}),
        "z": ("z", 0.4 + 0.04 * np.arange(7), {"units": "um"}), **more,
    }  # fmt: skip
    return xarray.DataArray(np.arange(210, dtype="u1").reshape(5, 6, 7), coords, ("x", "y", "z"))


def opened(path: Path, format: str) -> Any:
    found = zvcore.open(path)
    if format == "precomputed":
        return found[0]
    return found if hasattr(found, "shape") else found[next(iter(found))]


def axes_of(array: Any) -> list[tuple[Any, ...]]:
    """(name, size and place in nanometers) of the first three axes."""
    found = []
    for axis in zvcore.formats()[array.format].places(array)[0][:3]:
        factor = {"nm": 1, "nanometer": 1, "um": 1000, "micrometer": 1000}[axis.unit]
        found.append((axis.name, round(axis.scale * factor, 3), round(axis.offset * factor, 3)))
    return found


PLACES = [("x", 4, 100), ("y", 8, 0), ("z", 40, 400)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_new_array_has_the_names_sizes_and_places_of_its_values(tmp_path: Path, format: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zvcore.create(tmp_path / "a", format=format, data=of_xarray())
    array = opened(tmp_path / "a", format)
    assert axes_of(array) == PLACES
    assert np.array_equal(array[...].reshape(5, 6, 7), of_xarray().values)


@pytest.mark.parametrize("format", FORMATS)
def test_a_conversion_has_the_names_sizes_and_places_of_its_values(tmp_path: Path, format: str) -> None:
    given = of_xarray().transpose("z", "y", "x")
    report = zvcore.convert(given, tmp_path / "a", format=format)
    assert report.ok and not report.losses
    array = opened(tmp_path / "a", format)
    assert sorted(axes_of(array)) == PLACES


def test_attributes_go_along_and_those_that_are_given_stay(tmp_path: Path) -> None:
    given = of_xarray().assign_attrs(by="us", n=np.int64(3))
    made = zvcore.create(tmp_path / "a", format="zarr3", data=given, attrs={"by": "me"})
    assert made.attrs["by"] == "me" and made.attrs["n"] == 3


@pytest.mark.parametrize(
    ("coordinate", "what"),
    [
        ({"y": ("y", [1.0, 2, 4, 8, 16, 32], {"units": "nm"})}, "the coordinate 'y'"),
        ({"y": ("y", np.arange(6.0)[::-1])}, "the coordinate 'y'"),
        ({"y": ("y", list("abcdef"))}, "the coordinate 'y'"),
        ({"y": ("y", [0, np.inf, np.nan, 1, 2, 3])}, "the coordinate 'y'"),
        ({"y": ("y", np.array("2026-01-01", "M8[ns]") + np.arange(6))}, "the coordinate 'y'"),
        ({"depth": (("x", "y"), np.ones((5, 6)))}, "the coordinate 'depth'"),
    ],
    ids=["not even", "falling", "texts", "not finite", "dates", "of two axes"],
)
def test_coordinates_that_are_no_sizes_are_told(tmp_path: Path, coordinate: dict[str, Any], what: str) -> None:
    given = of_xarray(**coordinate)
    with pytest.warns(LostMetadataWarning, match=what):
        zvcore.create(tmp_path / "a", format="zarr3", data=given)
    report = zvcore.convert(given, tmp_path / "b", format="zarr3")
    assert any(what in loss.what for loss in report.losses)
    assert zvcore.open(tmp_path / "b").dimension_names == ("x", "y", "z")


def test_a_unit_of_an_axis_without_sizes_is_told(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    given = xarray.DataArray(np.ones(3, "u1"), {"t": ("t", [1.0, 5, 6], {"units": "s"})}, ("t",))
    report = zvcore.convert(given, tmp_path / "a", format="zarr3")
    assert any("the unit 's'" in loss.what for loss in report.losses)
    with pytest.warns(LostMetadataWarning, match="the unit 's' of the axis 't'"):
        zvcore.create(tmp_path / "b", format="zarr3", data=given)


@pytest.mark.parametrize("format", ["n5", "zarr2"])
def test_names_of_axes_that_stand_beside_others_without_are_told(tmp_path: Path, format: str) -> None:
    source = zvcore.create(tmp_path / "a", format="zarr3", data=np.ones((2, 3, 4)), dimension_names=("p", None, "q"))
    report = zvcore.convert(source, tmp_path / "b", format=format)
    told = [loss.what for loss in report.losses]
    assert len(told) == 2
    assert all(any(f"the name of the axis {name!r}" in what for what in told) for name in ("p", "q"))
    with pytest.raises(UnsupportedError, match="the name of the axis 'p'"):
        zvcore.convert(source, tmp_path / "c", format=format, strict=True)


def test_what_a_volume_cannot_say_is_told_when_it_is_made(tmp_path: Path) -> None:
    given = of_xarray().transpose("z", "y", "x").assign_attrs(by="us")
    with pytest.warns(LostMetadataWarning, match=r"the attribute 'by' .*the axis 'z' is called 'x'"):
        zvcore.create(tmp_path / "a", format="precomputed", data=given)
    # Sizes stay with the values.
    assert zvcore.open(tmp_path / "a")[0].resolution == (40, 8, 4)


def test_a_place_between_two_voxels_of_a_volume_is_told(tmp_path: Path) -> None:
    given = of_xarray(x=("x", 101 + 4.0 * np.arange(5), {"units": "nm"}))
    with pytest.warns(LostMetadataWarning, match="the place 101"):
        zvcore.create(tmp_path / "a", format="precomputed", data=given)


def test_what_the_caller_says_of_places_goes_before_what_the_source_says(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        volume = zvcore.create(tmp_path / "a", format="precomputed", data=of_xarray(), resolution=(1, 2, 3))
        array = zvcore.create(tmp_path / "b", format="zarr3", data=of_xarray(), dimension_names=["a", "b", None])
    assert volume.resolution == (1, 2, 3)
    assert array.dimension_names == ("a", "b", None)
    assert [axis.scale for axis in zvcore.formats()["zarr3"].read_axes(array)] == [4, 8, 0.04]


def test_names_without_sizes_go_to_n5_too(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    given = xarray.DataArray(np.ones((2, 3), "u1"), dims=("time", "depth"))
    zvcore.create(tmp_path / "a", format="n5", data=given)
    assert zvcore.open(tmp_path / "a").attrs["axes"] == ["time", "depth"]
    zvcore.convert(given, tmp_path / "b", format="n5")
    assert zvcore.open(tmp_path / "b").attrs["axes"] == ["depth", "time"]


def test_arrays_of_zvcore_keep_what_they_say_too(tmp_path: Path) -> None:
    first = zvcore.create(tmp_path / "a", format="zarr3", data=of_xarray().assign_attrs(by="us"))
    for format in ("zarr3", "n5", "zarr2"):
        zvcore.create(tmp_path / format, format=format, data=first)
        array = zvcore.open(tmp_path / format)
        assert axes_of(array) == PLACES and array.attrs["by"] == "us"


def test_dimension_names_and_attributes_of_zarr_python_go_along(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    given = zarr.create_array(tmp_path / "z", shape=(4, 5), chunks=(2, 5), dtype="u1", dimension_names=["a", "b"])
    given[...], given.attrs["by"] = 7, "us"
    made = zvcore.create(tmp_path / "a", format="zarr3", data=given)
    assert made.dimension_names == ("a", "b") and made.attrs["by"] == "us" and made[3, 4] == 7


def test_labels_and_units_of_tensorstore_go_along(tmp_path: Path) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    given = tensorstore.open(
        {"driver": "n5", "kvstore": {"driver": "memory"}}, create=True, dtype="uint8",
        schema=tensorstore.Schema(
            shape=(5, 6), dtype="uint8", domain=tensorstore.IndexDomain(shape=(5, 6), labels=["u", "v"]),
            dimension_units=["4 nm", "2 s"],
        ),
    ).result()  # fmt: skip
    made = zvcore.create(tmp_path / "a", format="zarr3", data=given)
    axes = zvcore.formats()["zarr3"].read_axes(made)
    assert [(one.name, one.scale, one.unit) for one in axes] == [("u", 4, "nanometer"), ("v", 2, "second")]
