"""Conversions into files that are written as a whole: OME-TIFF, NIfTI and .npy, as their libraries and we read them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.converting.whole import whole_image
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.format import get_format

if TYPE_CHECKING:
    from pathlib import Path

tifffile = pytest.importorskip("tifffile")
nibabel = pytest.importorskip("nibabel")

VALUES = np.random.default_rng(4).integers(0, 4000, (2, 5, 300, 290)).astype("u2")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An OME-Zarr of three levels with axes c, z, y, x, sizes and channels."""
    zvcore.convert(
        VALUES, tmp_path / "image.zarr", format="zarr3", ome=True, axes="czyx", voxel_size=(1.5, 0.2, 0.25), unit="um",
        channels=["DAPI", "GFP"], levels=2, factors=(1, 1, 2, 2), chunks=(1, 2, 128, 128),
    )  # fmt: skip
    return tmp_path / "image.zarr"


def test_an_image_becomes_a_pyramid_in_tiles(image: Path, tmp_path: Path) -> None:
    report = zvcore.convert(image, tmp_path / "a.ome.tif", format="tiff", compression="zlib")
    assert report.ok and not report.losses
    assert report.bytes_out == (tmp_path / "a.ome.tif").stat().st_size
    assert report.values == sum(level.nbytes for level in zvcore.open(image).values())
    assert "of values in" in str(report)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        (series,) = file.series
        assert file.is_ome and series.axes == "CZYX" and len(series.levels) == 3
        assert np.array_equal(series.asarray(), VALUES)
        assert series.keyframe.tile == (256, 256) and series.keyframe.compression.name == "ADOBE_DEFLATE"
        text = file.ome_metadata
    assert 'PhysicalSizeX="0.25"' in text and 'Name="GFP"' in text and 'PhysicalSizeZ="1.5"' in text
    ours = zvcore.open(tmp_path / "a.ome.tif")
    theirs = zvcore.open(image)
    there = zvcore.formats()["zarr3"].read_image(theirs)
    assert there is not None
    levels = there.levels
    assert len(levels) == len(list(ours)) == 3
    for number, level in enumerate(levels):
        assert np.array_equal(ours[str(number)][...], level.array[...])
    # And back, with sizes and channels.
    zvcore.convert(tmp_path / "a.ome.tif", tmp_path / "back", format="zarr3", verify=True)
    back = zvcore.formats()["zarr3"].read_image(zvcore.open(tmp_path / "back"))
    assert back is not None
    assert [axis.scale for axis in back.levels[1].axes[1:]] == [1.5, 0.4, 0.5]
    assert [one["label"] for one in back.words["omero"]["channels"]] == ["DAPI", "GFP"]


def test_levels_with_fewer_planes_are_told(tmp_path: Path) -> None:
    zvcore.convert(VALUES, tmp_path / "a.zarr", format="zarr3", axes="czyx", levels=1, factors=(1, 2, 2, 2), ome=True)
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "a.tif", format="tiff")
    assert ["level 1" in loss.what for loss in report.losses] == [True]
    assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), VALUES)


def test_large_files_are_bigtiff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.tiff.writing._CLASSIC", 1000)
    zvcore.convert(VALUES, tmp_path / "a.tif", format="tiff")
    assert (tmp_path / "a.tif").read_bytes()[:4] == b"II+\0"
    assert np.array_equal(zvcore.open(tmp_path / "a.tif")[...], VALUES)


@pytest.mark.parametrize("slab", [1, 1 << 25])
def test_little_memory_is_enough(image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slab: int) -> None:
    for module in ("zvcore.images.slabs", "zvcore.tiff.writing"):
        monkeypatch.setattr(f"{module}.SLAB", slab)
    for name, format in (("a.tif", "tiff"), ("a.npy", "npy"), ("a.nii", "nifti")):
        zvcore.convert(image, tmp_path / name, format=format)
    assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), VALUES)
    assert np.array_equal(np.load(tmp_path / "a.npy"), VALUES)
    found = np.asarray(nibabel.load(tmp_path / "a.nii").dataobj)
    assert np.array_equal(found[:, :, :, 0].T, VALUES)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_sizes_become_an_affine(image: Path, tmp_path: Path, name: str) -> None:
    report = zvcore.convert(image, tmp_path / name, format="nifti")
    told = " ".join(loss.what for loss in report.losses)
    assert "coarser levels" in told and "channels" in told
    found = nibabel.load(tmp_path / name)
    assert found.shape == (290, 300, 5, 1, 2) and found.get_data_dtype() == np.dtype("u2")
    assert np.allclose(found.affine, np.diag([0.00025, 0.0002, 0.0015, 1]))
    assert found.header.get_xyzt_units()[0] == "mm"
    assert np.array_equal(np.asarray(found.dataobj)[:, :, :, 0].T, VALUES)
    ours = zvcore.open(tmp_path / name)
    assert np.array_equal(ours[...], np.asarray(found.dataobj))


@pytest.mark.parametrize("through", ["zarr3", "n5"])
def test_the_affine_of_a_nifti_comes_back(tmp_path: Path, through: str) -> None:
    affine = np.array([[-2, 0.1, 0, 90], [0.1, 2, 0, -126], [0, 0, 2.5, -72], [0, 0, 0, 1]])
    values = VALUES[0, :, :20, :30].T.astype("i2")
    given = nibabel.Nifti1Image(values, affine)
    given.header.set_xyzt_units("mm", "sec")
    given.set_sform(affine, code=2)
    given.set_qform(affine, code=1)
    given.header["descrip"] = b"made by a test"
    given.to_filename(tmp_path / "a.nii.gz")
    zvcore.convert(tmp_path / "a.nii.gz", tmp_path / "there", format=through)
    zvcore.convert(tmp_path / "there", tmp_path / "b.nii.gz", format="nifti")
    there, back = nibabel.load(tmp_path / "a.nii.gz"), nibabel.load(tmp_path / "b.nii.gz")
    assert np.array_equal(there.affine, back.affine) and there.get_data_dtype() == back.get_data_dtype()
    assert np.array_equal(np.asarray(there.dataobj), np.asarray(back.dataobj))
    for member in ("sform_code", "qform_code", "descrip"):
        assert there.header[member] == back.header[member]


@pytest.mark.parametrize("shape", [(7,), (6, 7), (4, 5, 6, 7)])
def test_arrays_of_any_rank(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape).astype("f4")
    zvcore.convert(values, tmp_path / "a.npy", format="npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), values)
    zvcore.convert(values, tmp_path / "a.nii", format="nifti")
    assert np.array_equal(np.asarray(nibabel.load(tmp_path / "a.nii").dataobj).T.reshape(shape), values)
    if len(shape) > 1:
        zvcore.convert(values, tmp_path / "a.tif", format="tiff")
        assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), values)
    else:
        with pytest.raises(UnsupportedError, match="two axes"):
            zvcore.convert(values, tmp_path / "a.tif", format="tiff")
        assert not (tmp_path / "a.tif").exists()


def test_volumes_of_neuroglancer_keep_their_planes(tmp_path: Path) -> None:
    volume = zvcore.create(
        tmp_path / "volume", format="precomputed", shape=(20, 30, 5), dtype="u2", chunks=(8, 8, 8),
        resolution=(4, 4, 40), voxel_offset=(10, 0, 5),
    )  # fmt: skip
    values = VALUES[0, :, :30, :20].T
    volume[...] = values[..., None]
    zvcore.convert(tmp_path / "volume", tmp_path / "a.tif", format="tiff")
    assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), values.T)
    zvcore.convert(tmp_path / "volume", tmp_path / "a.nii", format="nifti")
    found = nibabel.load(tmp_path / "a.nii")
    assert np.array_equal(np.asarray(found.dataobj), values)
    assert np.allclose(found.affine[:3, 3], [40e-6, 0, 200e-6])


def test_what_cannot_be_asked_for_is_refused(image: Path, tmp_path: Path) -> None:
    wrong: list[tuple[str, str, dict[str, Any], type[Exception]]] = [
        ("a.tif", "tiff", {"chunks": (1, 1, 1, 1)}, UnsupportedError), ("a.tif", "tiff", {"level": 3}, TypeError),
        ("a.tif", "tiff", {"compression": "jpeg"}, ValueError), ("a.npz", "npy", {}, ValueError),
        ("a.npy", "npy", {"x": 1}, TypeError), ("folder", "tiff", {}, ValueError),
    ]  # fmt: skip
    for name, format, options, error in wrong:
        with pytest.raises(error):
            zvcore.convert(image, tmp_path / name, format=format, **options)
        assert not (tmp_path / name).exists()
    (tmp_path / "a.npy").write_bytes(b"mine")
    with pytest.raises(ConflictError):
        zvcore.convert(image, tmp_path / "a.npy", format="npy")
    assert (tmp_path / "a.npy").read_bytes() == b"mine"
    assert zvcore.convert(image, tmp_path / "a.npy", format="npy", overwrite=True).ok
    group = zvcore.open(tmp_path / "group", "w", format="zarr3")
    group.create_dataset("a", shape=(3, 3), dtype="u1", chunks=(3, 3))
    with pytest.raises(UnsupportedError, match="name one"):
        zvcore.convert(tmp_path / "group", tmp_path / "b.npy", format="npy")


def test_the_command_line_writes_them(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-q", str(image), str(tmp_path / "a.ome.tif"), "--format", "tiff"]) == 0
    assert main(["convert", str(image), str(tmp_path / "b.nii.gz"), "--format", "nifti", "--dry-run"]) == 0
    assert not (tmp_path / "b.nii.gz").exists()
    assert main(["get", f"{image}/0", "1,2:4", "-o", str(tmp_path / "part.nii.gz")]) == 0
    assert np.array_equal(np.asarray(nibabel.load(tmp_path / "part.nii.gz").dataobj).T, VALUES[1, 2:4])
    assert main(["get", f"{image}/0", "1,2:4", "-o", str(tmp_path / "part.tif")]) == 0
    assert np.array_equal(tifffile.imread(tmp_path / "part.tif"), VALUES[1, 2:4])
    assert np.array_equal(tifffile.imread(tmp_path / "a.ome.tif"), VALUES)


def test_they_are_written_into_other_places_than_folders(image: Path) -> None:
    zvcore.convert(image, "memory://whole-files/a.ome.tif", format="tiff")
    assert np.array_equal(zvcore.open("memory://whole-files/a.ome.tif")["0"][...], VALUES)


def placed(folder: Path, names: tuple[str, str, str], **transform: Any) -> Any:
    said = {"axes": list(names), "scale": [3, 2, 2], "translate": [0, 0, 0], "units": ["micrometer"] * 3, **transform}
    array = zvcore.create(
        folder / "a.zarr", format="zarr3", shape=(4, 8, 9), dtype="u1", dimension_names=names, attrs={"transform": said}
    )
    array[...] = np.arange(4 * 8 * 9, dtype="u1").reshape(4, 8, 9)
    return array


def test_voxels_of_a_region_with_steps_are_as_large_as_the_steps(tmp_path: Path) -> None:
    placed(tmp_path, ("z", "y", "x"), translate=[0, 10, 0])
    for name in ("part.tif", "part.nii"):
        assert main(["get", str(tmp_path / "a.zarr"), "0:4,2::2,1:7:3", "-o", str(tmp_path / name)]) == 0
    axes = zvcore.formats()["tiff"].read_axes(zvcore.open(tmp_path / "part.tif"))
    assert [axis.scale for axis in axes] == [3, 4, 6]
    found = nibabel.load(tmp_path / "part.nii")
    assert np.allclose(found.header.get_zooms(), [0.006, 0.004, 0.003])
    assert np.allclose(found.affine[:3, 3], [0.002, 0.014, 0])


def test_what_a_tiff_does_not_say_of_axes_is_told(tmp_path: Path) -> None:
    placed(tmp_path, ("cell", "y", "x"), translate=[0, 5, 0])
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "a.tif", format="tiff")
    told = " ".join(loss.what for loss in report.losses)
    assert "the name 'cell' of an axis" in told and "the place 5 of the first voxel along the axis 'y'" in told
    assert "the size 3 um of the voxels along the axis 'cell'" in told
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.ome_metadata is None  # a cell is no channel


def test_steps_of_time_go_to_tiff_and_back(tmp_path: Path) -> None:
    placed(tmp_path, ("t", "y", "x"), units=["second", "micrometer", "micrometer"])
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "a.ome.tif", format="tiff")
    assert not report.losses
    axes = zvcore.formats()["tiff"].read_axes(zvcore.open(tmp_path / "a.ome.tif"))
    assert (axes[0].name, axes[0].scale, axes[0].unit) == ("t", 3, "second")


def test_an_axis_that_runs_backwards_is_told(tmp_path: Path) -> None:
    placed(tmp_path, ("z", "y", "x"))
    whole = whole_image(zvcore.open(tmp_path / "a.zarr"), (slice(None, None, -1), 3, slice(None)))
    assert whole.losses == ["that the axis 'z' runs backwards has no place in such a file"]
    assert whole.sizes[0][0] == 3 and whole.offsets[0] == 9


def test_types_that_numpy_has_no_name_for_are_told(tmp_path: Path) -> None:
    source = zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="bfloat16", chunks=(4,))
    source[...] = 1.5
    (loss,) = zvcore.convert(tmp_path / "a", tmp_path / "a.npy").losses
    assert "bfloat16" in loss.what
    assert np.array_equal(np.load(tmp_path / "a.npy").view(source.dtype), source[...])


@pytest.mark.parametrize("dtype", ["string", "variable_length_bytes"])
@pytest.mark.parametrize("name", ["a.npy", "a.nii", "a.tif"])
def test_values_of_any_length_are_refused(tmp_path: Path, dtype: str, name: str) -> None:
    """What numpy holds of them are addresses in memory: those were written."""
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4, 3), dtype=dtype, chunks=(4, 3))
    with pytest.raises(UnsupportedError, match="of any length"):
        zvcore.convert(tmp_path / "a", tmp_path / name)
    assert not (tmp_path / name).exists()


def volume(path: Path, **attrs: Any) -> Path:
    made = zvcore.create(path, format="zarr3", shape=(3, 4, 5), dtype="u1", chunks=(3, 4, 5))
    made[...] = 1
    made.attrs.update(attrs)
    return path


EYE = np.eye(4).tolist()


@pytest.mark.parametrize(
    "affine",
    ["none", [[1e300, 0, 0, 0], *EYE[1:]], [[0, 0, 0, 0], *EYE[1:]], [[10**400, 0, 0, 0], *EYE[1:]], EYE[:3]],
)
def test_an_affine_that_a_nifti_cannot_hold_is_told(tmp_path: Path, affine: Any) -> None:
    path = volume(tmp_path / "a", affine=affine, qform_code=1, sform_code=1)
    (loss,) = zvcore.convert(path, tmp_path / "a.nii").losses
    assert "'affine'" in loss.what
    assert np.isfinite(nibabel.load(tmp_path / "a.nii").affine).all()


def test_what_a_file_of_a_region_does_not_say_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    affine = [[0, 2, 0, 5], [2, 0, 0, 5], [0, 0, 2, 5], [0, 0, 0, 1]]
    path = volume(tmp_path / "a", affine=affine)
    assert main(["get", str(path), ":,:,:", "-o", str(tmp_path / "all.nii")]) == 0
    assert "lost" not in capsys.readouterr().err
    assert np.array_equal(nibabel.load(tmp_path / "all.nii").affine, affine)
    assert main(["get", str(path), "1:,:,:", "-o", str(tmp_path / "part.nii")]) == 0
    assert "lost: the attribute 'affine'" in capsys.readouterr().err


def test_the_intent_of_a_nifti_comes_back(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(np.ones((3, 4, 5), "u1"), np.eye(4))
    image.header.set_intent("estimate", (), "mine")
    nibabel.save(image, tmp_path / "a.nii")
    zvcore.convert(tmp_path / "a.nii", tmp_path / "a", format="zarr3")
    assert not zvcore.convert(tmp_path / "a", tmp_path / "b.nii").losses
    assert nibabel.load(tmp_path / "b.nii").header.get_intent() == ("estimate", (), "mine")
    for odd in ("mine", ["no such", "x"], ["estimate", 5], ["t test", "x"]):
        (loss,) = zvcore.convert(volume(tmp_path / "odd", intent=odd), tmp_path / "c.nii", overwrite=True).losses
        assert "intent" in loss.what
        shutil.rmtree(tmp_path / "odd")


@pytest.mark.parametrize("name", ["half \ud800", "bell \x07", "no text \ufffe", "two\nlines"])
def test_a_name_that_xml_cannot_hold_does_not_stop_a_tiff_and_is_told(tmp_path: Path, name: str) -> None:
    words = {
        "axes": [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"], "name": name,
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 2, 3]}]}],
    }  # fmt: skip
    document = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"ome": {"version": "0.5", "multiscales": [words]}},
    }
    volume(tmp_path / "a" / "0")
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(document))
    (loss,) = zvcore.convert(tmp_path / "a", tmp_path / "a.tif").losses
    assert loss.what.startswith("the name")
    assert zvcore.open(tmp_path / "a.tif").shape == (3, 4, 5)
    axes = get_format("tiff").read_image(zvcore.open(tmp_path / "a.tif")).axes
    assert [axis.scale for axis in axes] == [1, 2, 3]


@pytest.mark.parametrize("attrs", [{"nothing": None}, {"channel_names": None}])
def test_an_attribute_that_is_null_is_told_of_a_tiff(tmp_path: Path, attrs: dict[str, Any]) -> None:
    (loss,) = zvcore.convert(volume(tmp_path / "a", **attrs), tmp_path / "a.tif").losses
    assert next(iter(attrs)) in loss.what


@pytest.mark.parametrize(
    "attrs", [{"descrip": 5}, {"descrip": "a" * 80}, {"descrip": "\u20ac"}, {"intent": ["estimate", "a" * 17]}]
)
def test_words_that_a_nifti_would_cut_are_told(tmp_path: Path, attrs: dict[str, Any]) -> None:
    (loss,) = zvcore.convert(volume(tmp_path / "a", **attrs), tmp_path / "a.nii").losses
    assert next(iter(attrs)) in loss.what
    fits = {"descrip": "\xb5" * 79, "intent": ["estimate", "a" * 16]}
    assert not zvcore.convert(volume(tmp_path / "b", **fits), tmp_path / "b.nii").losses


def test_what_an_ome_tiff_says_goes_around_without_a_loss(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(2 * 8 * 8, dtype="uint8").reshape(2, 8, 8)
    tifffile.imwrite(
        tmp_path / "in.ome.tif", values, ome=True, photometric="minisblack",
        metadata={"axes": "CYX", "Name": "embryo", "Channel": {"Name": ["DAPI", "GFP"]}, "PhysicalSizeX": 0.5},
    )  # fmt: skip
    zvcore.convert(tmp_path / "in.ome.tif", tmp_path / "a.zarr", format="zarr3")
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "out.ome.tif")
    assert not [loss for loss in report.losses if "name" in loss.what]
    before, after = (zvcore.open(tmp_path / name) for name in ("in.ome.tif", "out.ome.tif"))
    assert dict(after.attrs) == dict(before.attrs)
    assert before.attrs["channel_names"] == ["DAPI", "GFP"]


def unitless(folder: Path) -> Path:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(folder / "s.zarr", mode="w", zarr_format=3)
    array = group.create_array("0", shape=(4, 5, 6), dtype="uint8", chunks=(4, 5, 6))
    array[...] = 7
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    levels = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [3.0, 2.0, 2.0]}]}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    return folder / "s.zarr"


def test_sizes_without_a_unit_go_where_they_have_a_place_and_are_told_elsewhere(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    source = unitless(tmp_path)
    report = zvcore.convert(source, tmp_path / "a.nii")
    header = nibabel.load(tmp_path / "a.nii").header
    assert header.get_zooms() == (2, 2, 3)
    assert header.get_xyzt_units()[0] == "unknown"
    assert not [loss for loss in report.losses if "size" in loss.what]
    # OME would take them for micrometers.
    told = [loss.what for loss in zvcore.convert(source, tmp_path / "a.ome.tif").losses]
    assert any("the size 3 of the voxels along the axis 'z'" in what for what in told)
    assert all(axis.unit is None for axis in zvcore.open(tmp_path / "a.ome.tif").at.spans)
    told = [loss.what for loss in zvcore.convert(source, tmp_path / "a.npy").losses]
    assert any("sizes" in what for what in told)
