"""What a source holds arrives, or it stands in `losses`: for every pair of formats, with sources that hold everything.

Each thing that a source may hold beside its values has a mark of its own, a word that occurs nowhere else. After a
conversion each mark is found in a document or object of the destination, or a loss names the thing that had it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMATS = ("zarr3", "zarr2", "n5", "precomputed")
VALUES = np.random.default_rng(5).integers(0, 250, (8, 12, 16)).astype("u2")

# mark -> words of which one is in the loss that names the thing
Marks = dict[str, str]


def document(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def ome_zarr(path: Path) -> Marks:
    """An image with everything that OME-Zarr has, and with much that it has not."""
    group = zvcore.open(path, "w", format="zarr3")
    for i in range(2):
        shape = tuple(n >> i for n in (1, *VALUES.shape))
        level = group.create_dataset(
            f"s{i}", shape=(1, *shape[1:]), dtype="u2", chunks=(1, 4, 4, 4), fill_value=1717,
            dimension_names=["c", "z", "y", "x"], attrs={f"level{i}": f"mark_level{i}", "transform": "mark_transform"},
        )  # fmt: skip
        level[...] = VALUES[None, :: 2**i, :: 2**i, :: 2**i][:, : shape[1], : shape[2], : shape[3]]
    entry = {
        "name": "mark_name",
        "type": "mark_method",
        "metadata": {"args": "mark_metadata"},
        "@type": "mark_attype",
        "axes": [
            {"name": "c", "type": "channel"},
            {"name": "z", "type": "mark_type", "unit": "micrometer"},
            {"name": "y", "type": "space", "unit": "micrometer", "longName": "mark_longname"},
            {"name": "x", "type": "space", "unit": "micrometer"},
        ],
        "datasets": [
            {"path": f"s{i}", "coordinateTransformations": [{"type": "scale", "scale": [1, 2 << i, 1 << i, 1 << i]}]}
            for i in range(2)
        ],
    }
    entry["datasets"][1]["note"] = "mark_dataset"
    ome = {
        "version": "0.5",
        "multiscales": [entry, {"name": "mark_second", "axes": entry["axes"], "datasets": entry["datasets"][:1]}],
        "omero": {"channels": [{"label": "mark_channel", "color": "00FF00", "window": {"start": 1, "end": 2}}]},
        "image-label": {
            "colors": [{"label-value": 7, "rgba": [1, 2, 3, 4]}],
            "properties": [{"label-value": 7, "class": "mark_property"}],
            "source": {"image": "mark_source"},
        },
        "stranger": "mark_stranger",
    }
    group.attrs.update({"ome": ome, "mine": {"deep": ["mark_attribute"]}})
    document(path / "zarr.json", lambda one: one.update({"extra": {"must_understand": False, "a": "mark_member"}}))
    document(path / "zarr.json", lambda one: one.update(
        {"consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": {
            name: json.loads((path / name / "zarr.json").read_text()) for name in ("s0", "s1")
        }}}
    ))  # fmt: skip
    return {
        "mark_level0": "level0", "mark_level1": "level1", "mark_name": "name", "mark_method": "levels were made",
        "mark_metadata": "metadata", "mark_attype": "@type", "mark_type": "type", "mark_longname": "longName",
        "mark_dataset": "note", "mark_second": "multiscales[1]", "mark_channel": "omero", "mark_property": "properties",
        "mark_source": "source", "mark_stranger": "stranger", "mark_attribute": "mine", "mark_member": "extra",
        "mark_transform": "transform", "1717": "fill value", "rgba": "colors", "consolidated": "consolidated",
    }  # fmt: skip


def old_ome_zarr(path: Path) -> Marks:
    """The same in version 0.4, as far as it has it."""
    group = zvcore.open(path, "w", format="zarr2")
    level = group.create_dataset(
        "0", shape=VALUES.shape, dtype="u2", chunks=(4, 4, 4), fill_value=1717,
        attrs={"level": "mark_level", "_ARRAY_DIMENSIONS": ["z", "y", "x"]},
    )  # fmt: skip
    level[...] = VALUES
    axes = [{"name": name, "type": "space", "unit": "micrometer", "note": "mark_axis"} for name in "zyx"]
    place = [{"type": "scale", "scale": [2, 1, 1]}]
    group.attrs.update({
        "multiscales": [{
            "version": "0.4", "name": "mark_name", "metadata": {"by": "mark_metadata"}, "axes": axes,
            "datasets": [{"path": "0", "coordinateTransformations": place, "note": "mark_dataset"}],
        }],
        "omero": {"version": "0.4", "id": 1, "channels": [{"label": "mark_channel"}]},
        "mine": "mark_attribute",
    })  # fmt: skip
    return {
        "mark_level": "level", "mark_name": "name", "mark_metadata": "metadata", "mark_axis": "note",
        "mark_dataset": "note", "mark_channel": "omero", "mark_attribute": "mine", "1717": "fill value",
    }  # fmt: skip


def n5_image(path: Path) -> Marks:
    group = zvcore.open(path, "w", format="n5")
    for i in range(2):
        place = {
            "axes": ["z", "y", "x"], "scale": [2 << i, 1 << i, 1 << i], "translate": [0, 0, 0],
            "units": ["um", "um", "um"], "odd": f"mark_odd{i}",
        }  # fmt: skip
        level = group.create_dataset(
            f"s{i}", shape=tuple(n >> i for n in VALUES.shape[::-1]), dtype="u2", chunks=(4, 4, 4),
            attrs={"transform": place, f"level{i}": f"mark_level{i}", "scales": "mark_scales"},
        )  # fmt: skip
        level[...] = 5
    entries = [{"path": f"s{i}", "note": f"mark_note{i}"} for i in range(2)]
    group.attrs.update({
        "multiscales": [{"name": "mark_name", "datasets": entries, "metadata": "mark_metadata"}],
        "mine": ["mark_attribute"], "maxId": 77,
    })  # fmt: skip
    return {
        "mark_odd0": "transform.odd", "mark_odd1": "transform.odd", "mark_level0": "level0", "mark_level1": "level1",
        "mark_scales": "scales", "mark_note0": "note", "mark_note1": "note", "mark_name": "name",
        "mark_metadata": "metadata", "mark_attribute": "mine", "maxId": "maxId",
    }  # fmt: skip


def volume(path: Path) -> Marks:
    made = zvcore.create(
        path, format="precomputed", shape=VALUES.shape[::-1], dtype="u2", chunks=(4, 4, 4), resolution=(4, 4, 40),
        type="segmentation", attrs={"locked": "mark_scale"},
    )  # fmt: skip
    made[...] = VALUES.T[..., None]
    document(path / "info", lambda info: info.update({"mine": {"deep": "mark_attribute"}}))
    return {"mark_scale": "locked", "mark_attribute": "mine"}


SOURCES: dict[str, Callable[[Path], Marks]] = {
    "zarr3": ome_zarr,
    "zarr2": old_ome_zarr,
    "n5": n5_image,
    "precomputed": volume,
}


def stored(path: Path) -> str:
    """All that is stored at a place."""
    return "".join(one.read_bytes().decode("latin1") for one in sorted(path.rglob("*")) if one.is_file())


def lost(report: Any) -> list[str]:
    return [f"{loss.where}: {loss.what}" for loss in report.losses]


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", SOURCES)
def test_everything_arrives_or_is_named(source, target, tmp_path):
    marks = SOURCES[source](tmp_path / "src")
    planned = zvcore.plan(tmp_path / "src", tmp_path / "dst", format=target)
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format=target)
    there, told = stored(tmp_path / "dst"), lost(report)
    for mark, words in marks.items():
        assert mark in there or any(words in one for one in told), f"{mark} is lost without a word: {told}"
        assert not (mark in there and any(words in one for one in told if mark in one)), f"{mark} is not lost"
    assert lost(planned) == told
    assert lost(zvcore.convert(tmp_path / "src", tmp_path / "dst", format=target)) == told, "said again of what is done"
    for one in report.losses:
        assert one.what in str(report) and one.what in str(planned)


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", SOURCES)
def test_with_strict_every_loss_is_an_error_before_the_first_byte(source, target, tmp_path):
    SOURCES[source](tmp_path / "src")
    losses = zvcore.plan(tmp_path / "src", tmp_path / "dst", format=target).losses
    for call in (zvcore.plan, zvcore.convert):
        if losses:
            with pytest.raises(UnsupportedError) as caught:
                call(tmp_path / "src", tmp_path / "dst", format=target, strict=True)
            assert all(loss.what in str(caught.value) for loss in losses)
            assert not (tmp_path / "dst").exists()
    if not losses:
        assert zvcore.convert(tmp_path / "src", tmp_path / "dst", format=target, strict=True).ok


@pytest.mark.parametrize("target", ["zarr2", "n5"])
def test_plates_and_wells_go_to_other_formats_and_back(target, tmp_path):
    plate = {
        "version": "0.5", "name": "p", "rows": [{"name": "A"}], "columns": [{"name": "1"}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}],
    }  # fmt: skip
    well = {"version": "0.5", "images": [{"path": "0"}]}
    group = zvcore.open(tmp_path / "src", "w", format="zarr3")
    group.attrs.update({"ome": {"version": "0.5", "plate": plate}, "mine": 1})
    group.create_group("A/1", attrs={"ome": {"version": "0.5", "well": well}})
    ome_zarr(tmp_path / "src/A/1/0")
    zvcore.convert(tmp_path / "src", tmp_path / "mid", format=target)
    zvcore.convert(tmp_path / "mid", tmp_path / "dst", format="zarr3")
    made = zvcore.open(tmp_path / "dst")
    assert made.attrs["ome"] == group.attrs["ome"] and made.attrs["mine"] == 1
    assert made["A/1"].attrs["ome"] == zvcore.open(tmp_path / "src")["A/1"].attrs["ome"]
    assert "omero" in made["A/1/0"].attrs["ome"]
    if target == "zarr2":
        attrs = zvcore.open(tmp_path / "mid").attrs
        assert attrs["plate"] == {**plate, "version": "0.4"} and "ome" not in attrs
        assert zvcore.open(tmp_path / "mid")["A/1/0"].attrs["multiscales"][0]["version"] == "0.4"


def test_what_is_as_simple_as_its_destination_passes_strictly(tmp_path):
    zvcore.create(tmp_path / "src", format="n5", shape=(4, 4), dtype="u1", chunks=(2, 2), attrs={"a": 1})[...] = 1
    for format in ("zarr3", "zarr2", "n5"):
        report = zvcore.convert(tmp_path / "src", tmp_path / format, format=format, strict=True)
        assert report.ok and not report.losses


def test_the_command_refuses_losses_where_it_is_asked_to(tmp_path, capsys):
    ome_zarr(tmp_path / "src")
    command = ["convert", str(tmp_path / "src"), str(tmp_path / "dst"), "--format", "precomputed"]
    assert cli.main([*command, "--strict"]) == 1
    told = capsys.readouterr().err
    assert "omero" in told and "'mine'" in told and not (tmp_path / "dst").exists()
    assert cli.main([*command, "--dry-run"]) == 0
    assert "lost: omero" in capsys.readouterr().out
    assert cli.main(command) == 0


@pytest.mark.parametrize("format", ["n5", "zarr3"])
def test_attributes_of_an_n5_group_that_datasets_have_too_are_carried(tmp_path: Path, format: str) -> None:
    group = zvcore.open(tmp_path / "c.n5", "w", format="n5").create_group("setup")
    group.set_attribute("dataType", "uint16")
    group.create_dataset("d", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    report = zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format=format)
    assert not report.losses
    assert dict(zvcore.open(tmp_path / "out")["setup"].attrs) == {"dataType": "uint16"}


def test_attributes_that_would_make_a_dataset_of_a_group_are_lost_and_told(tmp_path: Path) -> None:
    attrs = {"dimensions": [1], "blockSize": [1], "dataType": "uint8", "compression": {"type": "raw"}, "mine": 1}
    group = zvcore.open(tmp_path / "z.zarr", "w", format="zarr3").create_group("setup", attrs=attrs)
    group.create_array("d", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    report = zvcore.convert(tmp_path / "z.zarr", tmp_path / "out", format="n5")
    assert sorted(str(loss).split("'")[1] for loss in report.losses) == sorted(attrs.keys() - {"mine"})
    made = zvcore.open(tmp_path / "out")["setup"]
    assert dict(made.attrs) == {"mine": 1} and list(made) == ["d"]


def test_strict_refuses_what_a_file_of_an_image_has_no_place_for(tmp_path: Path) -> None:
    pytest.importorskip("nibabel")
    made = zvcore.create(tmp_path / "a", format="zarr3", shape=(2, 3, 4), dtype="u2")
    made.attrs["note"] = "mine"
    with pytest.raises(UnsupportedError, match="'note'"):
        zvcore.convert(tmp_path / "a", tmp_path / "a.nii", format="nifti", strict=True)
    assert not (tmp_path / "a.nii").exists()


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_what_the_documents_of_version_2_say_beside_the_format_is_told(tmp_path: Path, format: str) -> None:
    """NCZarr puts its members into .zarray and .zgroup, where attributes are not."""
    zvcore.open(tmp_path / "a", "w", format="zarr2")
    zvcore.create(tmp_path / "a" / "b", format="zarr2", shape=(4,), dtype="u1", chunks=(2,))
    document(tmp_path / "a" / ".zgroup", lambda said: said.update(_nczarr_group={"dims": {"x": 4}}))
    document(tmp_path / "a" / "b" / ".zarray", lambda said: said.update(_nczarr_array={"dimrefs": ["/x"]}))
    losses = {loss.where: loss.what for loss in zvcore.convert(tmp_path / "a", tmp_path / "c", format=format).losses}
    assert "'_nczarr_group'" in losses[""] and "'_nczarr_array'" in losses["b"]
