"""The name of a single file says which format it shall have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def points(folder: Path) -> Any:
    path = folder / "points.csv"
    path.write_text("x,y,z\n1,2,3\n4,5,6\n")
    return path


def test_a_table_is_made_where_the_name_says_so(tmp_path: Path) -> None:
    zvcore.convert(points(tmp_path), tmp_path / "store", format="zvf")
    zvcore.convert(tmp_path / "store", tmp_path / "back.csv")
    assert (tmp_path / "back.csv").read_text().splitlines()[0] == "id,x,y,z"
    assert main(["convert", "-q", str(tmp_path / "store"), str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "back.csv").read_bytes()


def test_lines_are_written_as_the_name_says(tmp_path: Path) -> None:
    pytest.importorskip("nibabel")
    lines = [np.arange(12, dtype="f4").reshape(4, 3)]
    zvcore.zvf.write_polylines(tmp_path / "lines", lines, chunk_shape=(20.0,) * 3)
    zvcore.convert(tmp_path / "lines", tmp_path / "lines.TCK")
    assert zvcore.open(tmp_path / "lines.TCK").format == "tck"
    assert str(zvcore.plan(tmp_path / "lines", tmp_path / "planned.trk")).startswith(str(tmp_path / "planned.trk"))
    assert not (tmp_path / "planned.trk").exists()


@pytest.mark.parametrize("name", ["out.zarr", "out", "out.unknown", "folder.d/out"])
def test_a_name_that_does_not_tell_is_an_error(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    array = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(4,), dtype="u1")
    array[...] = 1
    for work in (zvcore.convert, zvcore.plan):
        with pytest.raises(TypeError, match="does not tell which format"):
            work(tmp_path / "a.zarr", tmp_path / name)
    assert main(["convert", str(tmp_path / "a.zarr"), str(tmp_path / name)]) == 2
    assert "--format" in capsys.readouterr().err
    assert not (tmp_path / name).exists()
