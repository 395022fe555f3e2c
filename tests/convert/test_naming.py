"""The name of a destination says which format it shall have: of a file, and of a folder where there is a convention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import ConflictError

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


@pytest.mark.parametrize("name", ["out", "out.unknown", "folder.d/out", "in.zarr/out"])
def test_a_name_that_does_not_tell_is_an_error(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    array = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(4,), dtype="u1")
    array[...] = 1
    for work in (zvcore.convert, zvcore.plan):
        with pytest.raises(TypeError, match="does not tell which format"):
            work(tmp_path / "a.zarr", tmp_path / name)
    assert main(["convert", str(tmp_path / "a.zarr"), str(tmp_path / name)]) == 2
    assert "--format" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("out.zarr", "zarr3"), ("OUT.OME.ZARR", "zarr3"), ("out.ome.zarr/", "zarr3"), ("out.zarr.zip", "zarr3"),
        ("out.ozx", "zarr3"), ("out.n5", "n5"), ("out.precomputed", "precomputed"),
    ],
)  # fmt: skip
def test_the_name_of_a_folder_says_it_whatever_the_source_is(tmp_path: Path, name: str, format: str) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(60, dtype="u2").reshape(3, 4, 5)
    for one in range(3):
        tifffile.imwrite(tmp_path / f"{one}.tif", values[one])
    zvcore.create(tmp_path / "old", format="zarr2", shape=values.shape, dtype="u2")[...] = values
    for source in ("old", "*.tif"):
        to = f"{tmp_path}/of {source[:1]}-{name}"
        assert main(["convert", "-q", str(tmp_path / source), to]) == 0
        assert zvcore.open(to).format == format
    assert zvcore.plan(values, tmp_path / "planned.zarr").format == "zarr3"


def test_a_format_that_was_named_goes_before_the_name(tmp_path: Path) -> None:
    zvcore.convert(np.zeros((4, 4), "u1"), tmp_path / "a.zarr", format="zarr2")
    assert zvcore.open(tmp_path / "a.zarr").format == "zarr2"


def test_points_and_lines_are_written_as_a_folders_name_says(tmp_path: Path) -> None:
    table = str(points(tmp_path))
    for name, kind in (("p.precomputed", "annotations"), ("p.zarrvectors", "vectors"), ("p.zvf", "vectors")):
        assert main(["convert", "-q", table, str(tmp_path / name)]) == 0
        assert zvcore.open(tmp_path / name).kind == kind


def test_a_table_is_a_source_on_the_command_line_and_has_no_region(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, to = str(points(tmp_path)), str(tmp_path / "out.zarrvectors")
    assert main(["convert", table, to, "--region", "0:1"]) == 2
    assert "a table has none" in capsys.readouterr().err
    assert main(["convert", "--dry-run", table, to]) == 0
    assert "all points" in capsys.readouterr().out
    assert not (tmp_path / "out.zarrvectors").exists()


@pytest.mark.parametrize("name", ["out.zarr", "out.n5"])
def test_what_is_no_array_says_what_it_can_become(tmp_path: Path, name: str) -> None:
    lines = [np.arange(12, dtype="f4").reshape(4, 3)]
    zvcore.zvf.write_polylines(tmp_path / "lines", lines, chunk_shape=(20.0,) * 3)
    with pytest.raises(zvcore.errors.UnsupportedError, match=r"lines: vectors: .*one of tck, trk, trx"):
        zvcore.convert(tmp_path / "lines", tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("format", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("place", ["b", "deep/er/b"])
def test_what_lies_in_a_container_has_its_format_unless_its_name_says_another(
    tmp_path: Path, format: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1")[...] = 1
    zvcore.open(tmp_path / "into", "w", format=format)
    command = ["convert", str(tmp_path / "a"), str(tmp_path / "into" / place)]
    why = f"format {format}, as that of {tmp_path / 'into'}, in which it lies"
    assert main([*command, "--dry-run"]) == 0
    assert f"note: {why}" in capsys.readouterr().out and not (tmp_path / "into" / place).exists()
    assert main(command) == 0
    assert f"{command[-1]}: {why}" in capsys.readouterr().err
    assert zvcore.open(tmp_path / "into" / place).format == format
    zvcore.convert(tmp_path / "a", tmp_path / "into" / "c")
    assert zvcore.open(tmp_path / "into" / "c").format == format
    assert zvcore.plan(tmp_path / "a", tmp_path / "into" / "c.n5").format == "n5"


def test_what_lies_in_a_volume_is_one_too(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "v", format="precomputed", shape=(4, 4, 4), dtype="u1")
    plan = zvcore.plan(np.zeros((4, 4, 4), "u1"), tmp_path / "v" / "w")
    assert plan.format == "precomputed" and "in which it lies" in str(plan)


def test_what_lies_in_two_formats_or_in_what_holds_no_arrays_names_them(tmp_path: Path) -> None:
    zvcore.open(tmp_path / "both", "w", format="zarr3")
    zvcore.open(tmp_path / "other", "w", format="n5")
    (tmp_path / "other" / "attributes.json").rename(tmp_path / "both" / "attributes.json")
    with pytest.raises(TypeError, match=r"nor does .*/both, in which it lies and which is .*N5 and .*: name one"):
        zvcore.convert(np.zeros((4, 4), "u1"), tmp_path / "both" / "in")
    zvcore.zvf.write_points(tmp_path / "points", np.zeros((3, 3), "f4"), chunk_shape=(20.0,) * 3)
    with pytest.raises(TypeError, match=r"nor does .*/points, in which it lies and which is Zarr Vectors: name one"):
        zvcore.convert(np.zeros((4, 4), "u1"), tmp_path / "points" / "in")


@pytest.mark.parametrize("format", ["n5", "zarr2", "zarr3"])
def test_nothing_is_put_among_the_chunks_of_an_array_unasked(tmp_path: Path, format: str) -> None:
    zvcore.create(tmp_path / "a", format=format, shape=(4, 4), dtype="u1")[...] = 1
    for name in ("c", "c/0", "other"):
        with pytest.raises(TypeError, match=r"lies in .*/a, an array, which holds nothing else"):
            zvcore.convert(np.zeros((4, 4), "u1"), tmp_path / "a" / name)


@pytest.mark.parametrize("of", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize(("name", "format"), [("c", "zarr3"), ("0/0", "n5"), ("in.n5", None), ("a.tif", None)])
def test_nothing_is_put_among_the_chunks_of_an_array(tmp_path: Path, of: str, name: str, format: str | None) -> None:
    zvcore.create(tmp_path / "a", format=of, shape=(4, 4), dtype="u1", chunks=(2, 2))[...] = 1
    before = sorted(tmp_path.rglob("*"))
    for convert in (zvcore.plan, zvcore.convert):
        with pytest.raises(ConflictError, match="this lies among the chunks of an array"):
            convert(np.zeros((4, 4), "u1"), tmp_path / "a" / name, format=format)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["a.mrc", "a.h5"])
def test_a_name_of_what_is_only_read_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(zvcore.errors.UnsupportedError, match="read here, and not written"):
        zvcore.convert(np.zeros((4, 4), "u1"), tmp_path / name)
