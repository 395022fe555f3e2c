"""References to a file of which Zarr cannot express everything: what that is, is named, or left out and told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.commands import cli
from zvcore.errors import LostMetadataWarning, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.report import Problem

SHOWN = [".zgroup", "g/.zgroup", "g/y/.zarray", "g/y/.zattrs", "g/y/0", "x/.zarray", "x/.zattrs", "x/0"]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two datasets of numbers, one of strings, and one of records."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(6)
        file["g/s"] = np.array(["a", "bc"], dtype=h5py.string_dtype())
        file["g/r"] = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])
        file["g/y"] = np.arange(4.0)
    return tmp_path / "a.h5"


def test_all_that_cannot_be_shown_is_named(mixed: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"2 of the things here cannot be shown as Zarr.*g/[sr]: .*; g/[sr]: "):
        zvcore.references(mixed)
    with pytest.raises(UnsupportedError, match="2 of the things"):
        zvcore.write_references(mixed, mixed.with_name("r.json"))
    assert [path.name for path in mixed.parent.iterdir()] == ["a.h5"]


def test_it_is_left_out_and_told(mixed: Path) -> None:
    losses: list[Problem] = []
    found = zvcore.references(mixed, skip_unsupported=True, losses=losses)
    assert sorted(found["refs"]) == sorted(SHOWN)
    assert sorted(loss.where for loss in losses) == ["g/r", "g/s"]
    assert all(loss.what.startswith("it cannot be shown as Zarr: ") for loss in losses)


def test_nothing_is_left_if_nothing_can_be_shown(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s"] = np.array(["a"], dtype=h5py.string_dtype())
    with pytest.raises(UnsupportedError, match="no array here that can be shown as Zarr"):
        zvcore.references(tmp_path / "a.h5", skip_unsupported=True)


@pytest.mark.parametrize("name", ["r.json", "r.parquet", "-"])
def test_the_command_names_it_and_goes_on(
    mixed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(mixed.parent)
    assert cli.main(["refs", "a.h5", "-o", name]) == 1
    assert "(--skip-unsupported leaves them out)" in capsys.readouterr().err
    assert not (mixed.parent / name).exists()
    assert cli.main(["refs", "a.h5", "-o", name, "--skip-unsupported"]) == 3
    told = capsys.readouterr()
    assert [line.split(": ")[1] for line in told.err.splitlines() if line.startswith("lost: ")] in (
        ["g/s", "g/r"], ["g/r", "g/s"],
    )  # fmt: skip
    assert (name == "-" and json.loads(told.out)["version"] == 1) or (mixed.parent / name).exists()


def test_an_array_with_a_chunk_that_others_cannot_read_is_left_out_as_a_whole(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "g", "w", format="n5")
    for name, length in (("whole", 8), ("cut", 7)):
        group.create_dataset(name, shape=(length,), dtype="u1", chunks=(4,), codec=None)[...] = 1
    losses: list[Problem] = []
    found = zvcore.references(tmp_path / "g", skip_unsupported=True, losses=losses)
    assert [loss.where for loss in losses] == ["cut"]
    assert {key.partition("/")[0] for key in found["refs"]} == {".zgroup", "whole"}
    losses.clear()
    assert "cut/1" in zvcore.references(tmp_path / "g", inline=True, skip_unsupported=True, losses=losses)["refs"]
    assert not losses


def test_what_is_no_array_at_all_is_refused_by_its_place(tmp_path: Path) -> None:
    zvf.write_points(tmp_path / "v", np.ones((3, 3), "f4"), chunk_shape=(4, 4, 4))
    with pytest.raises(UnsupportedError, match="only arrays and groups") as caught:
        zvcore.references(tmp_path / "v", skip_unsupported=True)
    assert caught.value.key == str(tmp_path / "v")


def test_names_of_what_is_left_out_do_not_speak_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as file:
        file["x"] = np.arange(6)
        file["\x1b[31m\nzvcore: all is well"] = np.array(["a"], dtype=h5py.string_dtype())
    assert cli.main(["refs", "a.h5", "-o", "r.json", "--skip-unsupported"]) == 3
    [lost] = [line for line in capsys.readouterr().err.split("\n") if "all is well" in line]
    assert lost.startswith("lost: ") and lost.isprintable()


@pytest.fixture
def untold(tmp_path):
    path = tmp_path / "untold.h5"
    with h5py.File(path, "w") as file:
        file.attrs["raw"] = np.void(b"\xff\xfe")
        file["link"] = h5py.SoftLink("/values")
        values = file.create_dataset("values", data=np.arange(12, dtype="i4").reshape(3, 4))
        values.attrs["raw"] = np.void(b"\xff\xfe")
        values.attrs["told"] = "yes"
    return path


def test_attributes_that_references_cannot_carry_are_told(untold):
    losses: list[Problem] = []
    found = zvcore.references(untold, losses=losses)
    assert json.loads(found["refs"]["values/.zattrs"])["told"] == "yes"
    told = sorted((loss.where, loss.what) for loss in losses)
    assert [where for where, _ in told] == ["", "", "values"]
    assert any("link" in what for where, what in told if not where)
    assert ("", "the attribute 'raw' is not known, and is not carried") in told
    assert ("values", "the attribute 'raw' is not known, and is not carried") in told
    losses.clear()
    zvcore.references(f"{untold}:/values", losses=losses)
    assert len(losses) == 1


def test_without_a_list_a_warning_names_them(untold, tmp_path):
    with pytest.warns(LostMetadataWarning, match="'raw'"):
        zvcore.references(untold)
    with pytest.warns(LostMetadataWarning, match="'raw'"):
        zvcore.write_references(f"{untold}:/values", tmp_path / "refs.json")


def test_the_command_tells_them_and_succeeds(untold, tmp_path, capfd):
    assert cli.main(["refs", str(untold), "-o", str(tmp_path / "refs.json")]) == 0
    assert "lost: values: the attribute 'raw'" in capfd.readouterr().err


def test_sizes_of_voxels_that_no_attribute_says_are_told(tmp_path):
    zvcore.create(
        tmp_path / "v", format="precomputed", shape=(8, 8, 8), chunks=(8, 8, 8), dtype="u1", resolution=(4, 4, 40)
    )
    losses: list[Problem] = []
    zvcore.references(tmp_path / "v", losses=losses)
    told = [loss.where for loss in losses if "sizes and places of voxels" in loss.what]
    assert told == ["4_4_40"]
