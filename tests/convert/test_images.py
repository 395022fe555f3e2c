"""What images say of themselves: it goes through every format and back, and the caller may say it."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError
from zvcore.images.axes import plain

FORMATS = ("zarr3", "zarr2", "n5", "precomputed")
VALUES = np.random.default_rng(1).integers(0, 4000, (2, 6, 16, 16)).astype("u2")
OMERO = {"channels": [{"label": name, "color": "00FF00"} for name in ("DAPI", "GFP")], "rdefs": {"model": "color"}}
LABEL = {"colors": [{"label-value": 1, "rgba": [1, 2, 3, 4]}], "properties": [{"label-value": 1, "class": "cell"}]}


def ome(path, words, values=VALUES, names=("s0",), **entry):
    group = zvcore.open(path, "w", format="zarr3")
    axes = [{"name": "z", "type": "space", "unit": "micrometer"}, {"name": "y", "type": "space", "unit": "micrometer"}]
    axes = [{"name": "c", "type": "channel"}, *axes, {"name": "x", "type": "space", "unit": "micrometer"}]
    datasets = []
    for i, name in enumerate(names):
        level = values[..., :: 2**i, :: 2**i]
        made = group.create_dataset(
            name, shape=level.shape, dtype=level.dtype, chunks=(1, 4, 8, 8)[-level.ndim :],
            dimension_names=[axis["name"] for axis in axes[-level.ndim :]],
        )  # fmt: skip
        made[...] = level
        scale = [1, 2, 0.5 * 2**i, 0.5 * 2**i][-level.ndim :]
        datasets.append({"path": name, "coordinateTransformations": [{"type": "scale", "scale": scale}]})
    entry = {"axes": axes[-values.ndim :], "datasets": datasets, **entry}
    group.attrs.update({"ome": {"version": "0.5", "multiscales": [entry], **words}})
    return group


def said(path):
    return zvcore.open(path).attrs["ome"]


# --- through every format and back


@pytest.mark.parametrize("middle", ["zarr3", "zarr2", "n5"])
def test_channels_names_and_labels_go_there_and_back(middle, tmp_path):
    # What version 0.4 has no word for is an attribute like any other there.
    strange = {} if middle == "zarr2" else {"strange": [1, {"a": None}]}
    words = {"omero": OMERO, "image-label": LABEL, **strange}
    ome(tmp_path / "src", words, name="fly", type="gaussian", metadata={"sigma": 2})
    zvcore.convert(tmp_path / "src", tmp_path / "mid", format=middle, strict=True)
    zvcore.convert(tmp_path / "mid", tmp_path / "dst", format="zarr3", strict=True)
    before, after = said(tmp_path / "src"), said(tmp_path / "dst")
    assert after.pop("image-label") == {"version": "0.5", **before.pop("image-label")}
    for one in (before, after):
        del one["multiscales"][0]["datasets"]
    assert after == before


@pytest.mark.parametrize(("first", "second"), [*itertools.product(FORMATS, repeat=2)])
@pytest.mark.parametrize("kind", ["segmentation", "image"])
@pytest.mark.parametrize("dtype", ["u2", "u4"])
def test_a_segmentation_stays_one_and_an_image_too(first, second, kind, dtype, tmp_path):
    made = zvcore.create(
        tmp_path / "0", format="precomputed", shape=(4, 4, 4), dtype=dtype, chunks=(4, 4, 4), type=kind
    )  # fmt: skip
    made[...] = 7
    for i, format in enumerate((first, second, "precomputed")):
        zvcore.convert(tmp_path / str(i), tmp_path / str(i + 1), format=format)
    assert zvcore.open(tmp_path / "3").type == kind


def test_levels_of_the_most_frequent_values_are_those_of_a_segmentation(tmp_path):
    ome(tmp_path / "src", {}, VALUES[0], type="mode")
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed")
    assert zvcore.open(tmp_path / "dst").type == "segmentation"


@pytest.mark.parametrize("names", ["yx", "cyx", "tyx", "czyx", "tczyx", "zyxc", "xyz"])
def test_axes_without_units_keep_their_names_in_n5(names, tmp_path):
    shape = tuple(range(2, 2 + len(names)))
    types = {"t": "time", "c": "channel"}
    axes = [{"name": name, "type": types.get(name, "space")} for name in names]
    scale = [1 if name == "c" else 2 + i for i, name in enumerate(names)]
    dataset = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}
    group = zvcore.open(tmp_path / "src", "w", format="zarr2")
    group.create_dataset("0", shape=shape, dtype="u1", chunks=shape, codec=None, dimension_names=list(names))[...] = 1
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": [dataset]}]
    zvcore.convert(tmp_path / "src", tmp_path / "mid", format="n5", strict=True)
    zvcore.convert(tmp_path / "mid", tmp_path / "dst", format="zarr2", strict=True)
    [image] = zvcore.open(tmp_path / "dst").attrs["multiscales"]
    assert image["axes"] == axes and zvcore.open(tmp_path / "dst")["s0"].shape == shape
    assert image["datasets"][0]["coordinateTransformations"][0]["scale"] == scale


def test_a_part_of_the_channels_has_their_words(tmp_path):
    ome(tmp_path / "src", {"omero": OMERO})
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", region=np.s_[1, :, :8])
    assert said(tmp_path / "dst")["omero"]["channels"] == OMERO["channels"][1:]


# --- levels anywhere, and a choice among images


@pytest.mark.parametrize("format", FORMATS)
def test_levels_lie_in_any_path(format, tmp_path):
    ome(tmp_path / "src", {}, VALUES[0], ("scale0/image", "scale1/image"))
    zvcore.open(tmp_path / "src", "r+")["scale0"].attrs["of"] = "ngff-zarr"
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format=format, verify=True)
    assert report.verified
    lost = [loss.what for loss in report.losses if "of a group" in loss.what]
    assert len(lost) == (format == "precomputed")
    made = zvcore.open(tmp_path / "dst")
    if format in ("zarr3", "zarr2"):
        assert made["scale0"].attrs["of"] == "ngff-zarr" and made["scale1/image"].shape == (6, 8, 8)


@pytest.fixture
def with_labels(tmp_path):
    ome(tmp_path / "src", {"omero": {"channels": [{"label": "a"}]}}, VALUES[0])
    group = zvcore.open(tmp_path / "src", "r+")
    group.create_group("labels", attrs={"ome": {"version": "0.5", "labels": ["nuclei"]}})
    ome(tmp_path / "src/labels/nuclei", {"image-label": LABEL}, VALUES[1])
    return tmp_path / "src"


def test_one_image_among_several_is_chosen_by_its_path(with_labels, tmp_path):
    with pytest.raises(UnsupportedError, match="image="):
        zvcore.convert(with_labels, tmp_path / "dst", format="precomputed")
    zvcore.convert(with_labels, tmp_path / "dst", format="precomputed", image="")
    volume = zvcore.open(tmp_path / "dst")
    assert volume.type == "image" and np.array_equal(volume[0][..., 0].T, VALUES[0])
    command = ["convert", str(with_labels), str(tmp_path / "nuclei"), "--format", "precomputed", "-q"]
    assert cli.main([*command, "--image", "labels/nuclei", "--region", "0:2,:,:"]) == 0
    volume = zvcore.open(tmp_path / "nuclei")
    assert volume.type == "segmentation" and np.array_equal(volume[0][..., 0].T, VALUES[1][:2])
    with pytest.raises(NotFoundError, match="labels/nuclei"):
        zvcore.convert(with_labels, tmp_path / "other", format="precomputed", image="labels/cells")


# --- what the caller says


def test_an_array_alone_becomes_an_image_with_what_the_caller_says(tmp_path):
    array = zvcore.create(tmp_path / "src", format="zarr3", shape=VALUES.shape, dtype="u2", chunks=(1, 4, 8, 8))
    array[...] = VALUES
    command = [
        "convert", str(tmp_path / "src"), str(tmp_path / "dst"), "--format", "zarr3", "-q", "--ome", "0.5",
        "--voxel-size", "0.5,0.1,0.1um", "--axes", "czyx", "--channels", "DAPI:0000ff,GFP", "--name", "fly",
        "--levels", "1",
    ]  # fmt: skip
    assert cli.main(command) == 0
    ome = said(tmp_path / "dst")
    (entry,) = ome["multiscales"]
    assert entry["name"] == "fly"
    assert entry["axes"] == [
        {"name": "c", "type": "channel"}, *({"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"),
    ]  # fmt: skip
    scales = [one["coordinateTransformations"][0]["scale"] for one in entry["datasets"]]
    assert scales == [[1, 0.5, 0.1, 0.1], [1, 0.5, 0.2, 0.2]], "what is flat is made less so first"
    assert [one["label"] for one in ome["omero"]["channels"]] == ["DAPI", "GFP"]
    assert [one["color"] for one in ome["omero"]["channels"]] == ["0000FF", "00FF00"]
    for channel, values in zip(ome["omero"]["channels"], VALUES, strict=True):
        window = channel["window"]
        assert (window["min"], window["max"]) == (0, 65535)
        assert (window["start"], window["end"]) == tuple(np.percentile(values, (0.1, 99.9)))
    group = zvcore.open(tmp_path / "dst")
    assert all(level.dimension_names == ("c", "z", "y", "x") for level in group.values())


@pytest.mark.parametrize("format", FORMATS)
def test_sizes_are_given_from_the_slowest_axis_on_whatever_the_formats(format, tmp_path):
    array = zvcore.create(tmp_path / "src", format="n5", shape=(16, 12, 8), dtype="u1", chunks=(8, 8, 8))
    array[...] = 3
    options = {"voxel_size": (40, 4, 5), "unit": "nm"}
    zvcore.convert(
        tmp_path / "src", tmp_path / "mid", format=format, ome=None if format == "precomputed" else True, **options
    )
    zvcore.convert(tmp_path / "mid", tmp_path / "dst", format="precomputed")
    assert zvcore.open(tmp_path / "dst")[0].resolution == (5, 4, 40)


def test_what_is_said_of_an_image_must_fit_it(tmp_path):
    zvcore.create(tmp_path / "src", format="zarr3", shape=(4, 4), dtype="u1")[...] = 1
    for wrong in (
        {"axes": "zyx"}, {"axes": "yy"}, {"voxel_size": "1,2,3,4,5"}, {"voxel_size": "0,1"}, {"voxel_size": "many"},
        {"channels": "a,b"}, {"ome": "0.4"},
    ):  # fmt: skip
        with pytest.raises((ValueError, UnsupportedError)):
            zvcore.plan(tmp_path / "src", tmp_path / "dst", format="zarr3", **wrong)
    assert not (tmp_path / "dst").exists()


# --- checked by others


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize("target", ["zarr3", "zarr2"])
def test_ome_zarr_models_accepts_every_image_that_we_make(source, target, levels, tmp_path):
    models = pytest.importorskip("ome_zarr_models")
    zarr = pytest.importorskip("zarr")
    if source == "zarr3":
        ome(tmp_path / "0", {}, VALUES[0])
    else:
        made = zvcore.create(tmp_path / "0", format=source, shape=(16, 16, 6), dtype="u2", chunks=(8, 8, 4))
        made[...] = 3
    options = {"ome": True, "channels": "one", "axes": "zyx", "voxel_size": "2,1,1um"}
    zvcore.convert(tmp_path / "0", tmp_path / "1", format=target, levels=levels, **options)
    found = models.open_ome_zarr(zarr.open_group(tmp_path / "1", mode="r"))
    assert type(found).__name__ == "Image"


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_ome_zarr_models_accepts_levels_of_an_array_whose_axes_nobody_has_named(rank, tmp_path):
    models = pytest.importorskip("ome_zarr_models")
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "0", data=np.ones((8,) * rank, "u2"), chunks=(4,) * rank)
    zvcore.convert(tmp_path / "0", tmp_path / "1", format="zarr3", levels=1)
    found = models.open_ome_zarr(zarr.open_group(tmp_path / "1", mode="r"))
    assert type(found).__name__ == "Image"
    levels = zvcore.open(tmp_path / "1").values()
    assert {level.dimension_names for level in levels} == {("t", "c", "z", "y", "x")[-rank:]}


def test_ome_zarr_models_accepts_labels(tmp_path):
    models = pytest.importorskip("ome_zarr_models")
    zarr = pytest.importorskip("zarr")
    made = zvcore.create(
        tmp_path / "0", format="precomputed", shape=(8, 8, 8), dtype="u8", chunks=(8, 8, 8), type="segmentation"
    )
    made[...] = 3
    zvcore.convert(tmp_path / "0", tmp_path / "1", format="zarr3", levels=1)
    found = models.open_ome_zarr(zarr.open_group(tmp_path / "1", mode="r"))
    assert type(found).__name__ == "ImageLabel"
    document = json.loads((tmp_path / "1/zarr.json").read_text())
    assert document["attributes"]["ome"]["multiscales"][0]["type"] == "mode"


def test_sizes_without_a_unit_are_told_where_they_become_nanometers(tmp_path):
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(4, 4, 4), dtype="u1", dimension_names=["z", "y", "x"])
    array[...] = 1
    for size, told in (("30,8,8", True), ("1,1,1", False), ("30,8,8nm", False)):
        report = zvcore.convert(
            tmp_path / "a", tmp_path / "b", format="precomputed", voxel_size=size, axes="zyx", overwrite=True
        )
        assert any("taken for nanometers" in loss.what for loss in report.losses) is told, size


def test_sizes_without_a_unit_in_n5_are_told_as_well(tmp_path):
    group = zvcore.open(tmp_path / "src", "w", format="n5")
    size = {"pixelResolution": {"dimensions": [0.1, 0.1, 0.5], "unit": "pixel"}, "downsamplingFactors": [1, 1, 1]}
    group.create_dataset("s0", shape=(2, 2, 2), dtype="u1", chunks=(2, 2, 2), attrs=size)[...] = 1
    plan = zvcore.plan(tmp_path / "src", tmp_path / "dst", format="precomputed")
    assert any("taken for nanometers" in str(loss) for loss in plan.losses)


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("unit", ["meter", "kilometer"])
def test_sizes_and_places_are_as_exact_in_large_units_as_in_small_ones(unit, format, tmp_path):
    scale, place = [4.5e-9, 2.25e-10, 1 / 3], [1.5e-9, -1e-10, 1e-7 / 3]
    said = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": place}]
    axes = [{"name": name, "type": "space", "unit": unit} for name in "zyx"]
    group = zvcore.open(tmp_path / "src", "w", format="zarr3")
    group.create_dataset("s0", shape=(2, 2, 2), dtype="u1", chunks=(2, 2, 2))[...] = 1
    datasets = [{"path": "s0", "coordinateTransformations": said}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    zvcore.convert(tmp_path / "src", tmp_path / "mid", format=format, strict=True)
    zvcore.convert(tmp_path / "mid", tmp_path / "dst", format="zarr3", strict=True)
    [image] = zvcore.open(tmp_path / "dst").attrs["ome"]["multiscales"]
    assert image["axes"] == axes and image["datasets"] == datasets


def test_what_arithmetic_adds_to_sizes_and_places_is_not_written():
    assert plain(0.1 + 0.2) == 0.3 and plain(3.0000000000000004) == 3
    assert plain(0.1 + 0.2 - 0.3, 0.1) == 0 and plain(-2.7e-17, 0.1) == 0
    for number in (4.5e-9, 2.25e-10, 1 / 3, 333.3333333333333, 0.32499998807907104, -1e-30, 1e300):
        assert plain(number) == number


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_an_image_of_an_early_version_has_its_five_axes(tmp_path, version):
    """As the public archives have them: before 0.3 the axes, and before 0.4 the sizes went without saying."""
    group = zvcore.open(tmp_path / "a", "w", format="zarr2")
    for number, pixels in enumerate((64, 32)):
        array = group.create_array(
            str(number), shape=(1, 2, 4, pixels, pixels), dtype="u2", chunks=(1, 1, 2, 32, 32),
            dimension_separator="." if version == "0.1" else "/",
        )  # fmt: skip
        array[...] = number + 1
    axes = {"axes": ["t", "c", "z", "y", "x"]} if version == "0.3" else {}
    group.attrs["multiscales"] = [{"version": version, **axes, "datasets": [{"path": "0"}, {"path": "1"}]}]
    assert not zvcore.verify(tmp_path / "a").problems
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", voxel_size="1,1,2,0.5,0.5um", verify=True)
    assert report.ok and report.encoded == 0
    [entry] = zvcore.open(tmp_path / "b").attrs["ome"]["multiscales"]
    assert [(one["name"], one.get("type")) for one in entry["axes"]] == [
        ("t", "time"), ("c", "channel"), ("z", "space"), ("y", "space"), ("x", "space")
    ]  # fmt: skip
    assert [one["coordinateTransformations"][0]["scale"] for one in entry["datasets"]] == [
        [1, 1, 2, 0.5, 0.5], [1, 1, 2, 1, 1]
    ]  # fmt: skip
    assert zvcore.open(tmp_path / "b" / "0").dimension_names == ("t", "c", "z", "y", "x")
    assert not zvcore.verify(tmp_path / "b").problems
    zvcore.convert(tmp_path / "a", tmp_path / "c", format="zarr3")
    [entry] = zvcore.open(tmp_path / "c").attrs["ome"]["multiscales"]
    assert [one["coordinateTransformations"][0]["scale"][-3:] for one in entry["datasets"]] == [[1, 1, 1], [1, 2, 2]]


def test_an_image_that_names_no_axes_and_has_not_five_is_refused(tmp_path):
    group = zvcore.open(tmp_path / "a", "w", format="zarr2")
    group.create_array("0", shape=(4, 4, 4), dtype="u2")
    group.attrs["multiscales"] = [{"version": "0.2", "datasets": [{"path": "0"}]}]
    with pytest.raises(MetadataError, match="another number of axes"):
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3")
