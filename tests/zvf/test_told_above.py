"""Groups with consolidated metadata tell of the Zarr Vectors stores in them, and of what writers change there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
import zvcore.zvf as zvf
from zvcore.errors import OutdatedMetadataWarning
from zvcore.stores import open_store
from zvcore.zarr3.consolidating import consolidate

if TYPE_CHECKING:
    from pathlib import Path

LINES = [np.linspace(0, 9, 30, dtype="f4").reshape(10, 3) + n for n in range(4)]


def told_and_said(group: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the group tells of its members, and what these say themselves; without what is told in them in turn."""
    told = json.loads((group / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
    said = {
        str(path.parent.relative_to(group)): json.loads(path.read_text())
        for path in group.rglob("zarr.json")
        # What is still being made is no member, and moves while we look.
        if path.parent != group and ".zvstage" not in path.parts
    }
    for document in (*told.values(), *said.values()):
        document.pop("consolidated_metadata", None)
    return told, said


def consolidated(path: Path) -> None:
    consolidate(open_store(path, "r+"))


@pytest.mark.parametrize("within", [False, True], ids=["the groups above", "and the store itself"])
def test_what_writers_change_is_told(tmp_path: Path, within: bool) -> None:
    group, path = tmp_path / "g", tmp_path / "g" / "sub" / "lines"
    zvcore.open(group, "w", format="zarr3").create_group("sub").create_array("beside", shape=(2,), dtype="u1")
    consolidated(group)
    groups = [group, path] if within else [group]

    def check() -> None:
        for one in groups:
            told, said = told_and_said(one)
            assert told == said and any(name.endswith("vertices") for name in told)
        report = zvcore.verify(path)
        assert report.ok and not report.problems, report

    zvf.write_polylines(path, LINES[:2], chunk_shape=(4, 4, 4))
    if within:
        consolidated(path)
    check()
    zvf.write_polylines(path, LINES[2:], append=True)
    check()
    zvf.shard_store(path, shard_shape=2)
    check()
    zvf.write_coarser_level(path, every=2)
    check()
    assert "sub/lines/1" in told_and_said(group)[0]
    zvf.unshard_store(path)
    check()


def test_what_a_repair_changes_is_told(tmp_path: Path) -> None:
    group, path = tmp_path / "g", tmp_path / "g" / "lines"
    zvcore.open(group, "w", format="zarr3")
    zvf.write_polylines(path, LINES, chunk_shape=(4, 4, 4))
    consolidated(group)
    broken = next(one for one in (path / "0" / "vertices" / "c").rglob("*") if one.is_file())
    broken.write_bytes(b"nothing of ours")
    assert zvcore.repair(path).losses
    told, said = told_and_said(group)
    assert told == said


@pytest.mark.parametrize("mentioned", ["null", "in attributes", "of another kind"])
def test_a_store_that_tells_of_no_members_tells_of_none_after_writing(tmp_path: Path, mentioned: str) -> None:
    path = tmp_path / "lines"
    zvf.write_polylines(path, LINES[:2], chunk_shape=(4, 4, 4))
    document = json.loads((path / "zarr.json").read_text())
    if mentioned == "in attributes":
        document["attributes"]["note"] = "consolidated_metadata"
        document["attributes"]["consolidated_metadata"] = 1
    else:
        kind = {"kind": "elsewhere", "must_understand": False}
        document["consolidated_metadata"] = None if mentioned == "null" else kind
    before = document.get("consolidated_metadata")
    (path / "zarr.json").write_text(json.dumps(document))
    zvf.write_polylines(path, LINES[2:], append=True)
    assert json.loads((path / "zarr.json").read_text()).get("consolidated_metadata") == before
    assert len(zvf.open(path).level(0).require_objects().ids) == len(LINES)


def test_what_cannot_be_told_is_a_warning_once_lines_are_written(tmp_path: Path) -> None:
    """An error would have them written once more by whoever tries again."""
    path = tmp_path / "lines"
    zvf.write_polylines(path, LINES[:2], chunk_shape=(4, 4, 4))
    consolidated(path)
    (path / "broken").mkdir()
    (path / "broken" / "zarr.json").write_text("{")
    with pytest.warns(OutdatedMetadataWarning, match="tells of what lies in it, and is out of date"):
        zvf.write_polylines(path, LINES[2:], append=True)
    assert len(zvf.open(path).level(0).require_objects().ids) == len(LINES)


def test_arrays_that_were_packed_before_an_error_are_told_as_they_are(tmp_path: Path) -> None:
    group, path = tmp_path / "g", tmp_path / "g" / "lines"
    zvcore.open(group, "w", format="zarr3")
    zvf.write_polylines(path, LINES, chunk_shape=(4, 4, 4))
    consolidated(group)
    before, _ = told_and_said(group)

    def stop(done: int, total: int) -> None:
        if told_and_said(group)[1] != before:
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        zvf.shard_store(path, shard_shape=2, progress=stop)
    told, said = told_and_said(group)
    assert told == said != before
