"""`zvcore.plan`: what a conversion would do, without doing it."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.commands import cli
from zvcore.errors import ConflictError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.random.default_rng(3).integers(0, 200, (60, 70, 80)).astype("u1")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    array = zvcore.create(
        tmp_path / "src", format="n5", shape=VALUES.shape, dtype="u1", chunks=(16, 16, 16), codec="gzip",
        attrs={"resolution": [4, 4, 40], "units": ["nm", "nm", "nm"], "lab": "ours"},
    )  # fmt: skip
    array[...] = VALUES
    return tmp_path / "src"


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"format": "zarr3"}, ["verbatim"]),
    ({"format": "zarr3", "codec": "zstd"}, ["recode"]),
    ({"format": "zarr3", "codec": "zstd", "memory": 1 << 18}, ["recode"]),
    ({"format": "zarr3", "chunks": (20, 20, 20)}, ["gather"]),
    ({"format": "zarr3", "shards": (32, 32, 32), "memory": 1 << 18}, ["verbatim"]),
    ({"format": "n5", "dtype": "u2"}, ["gather"]),
    ({"format": "precomputed", "levels": 2, "codec": "raw"}, ["gather"] * 3),
    ({"format": "precomputed", "codec": "gzip"}, ["verbatim"]),
    ({"format": "zarr3", "levels": 2, "codec": "zstd", "memory": 1 << 16}, ["gather"] * 3),
    ({"format": "zarr3", "region": np.s_[:16, :, 10], "chunks": (8, 8)}, ["recode"]),
]


@pytest.mark.parametrize(("options", "how"), CASES, ids=lambda one: str(one)[:60])
def test_a_plan_says_what_the_conversion_then_does(options: dict[str, Any], how: list[str], source, tmp_path) -> None:
    plan = zvcore.plan(source, tmp_path / "dst", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["src"], "nothing is made"
    report = zvcore.convert(source, tmp_path / "dst", **options)
    assert plan.units == report.units and plan.memory == report.memory
    assert plan.losses == report.losses
    assert plan.format == options["format"]
    made = zvcore.open(tmp_path / "dst")
    arrays = [made] if isinstance(made, zvcore.Array) else [array for _, array in made.items()]
    assert len(plan.arrays) == len(arrays) == len(how)
    for planned, array in zip(plan.arrays, arrays, strict=True):
        assert planned.shape == array.shape and planned.chunks == array.chunks and planned.shards == array.shards
        assert planned.dtype == str(array.dtype) and planned.bytes == array.nbytes
        assert (tmp_path / "dst" / planned.path).is_dir()
    assert [array.how for array in plan.arrays] == how
    if how == ["verbatim"]:
        assert report.copied
    else:
        assert not report.copied
    assert [array.made_of for array in plan.arrays] == ["source", *(array.path for array in plan.arrays[:-1])]


def test_a_plan_is_read_by_people_and_by_programs(source, tmp_path) -> None:
    plan = zvcore.plan(source, tmp_path / "dst", format="precomputed", levels=1, sharding="advise")
    text = str(plan)
    assert "4_4_40: uint8 60 x 70 x 80 x 1" in text and "8_8_40" in text and "made of 4_4_40" in text
    assert "lost: the attribute 'lab'" in text
    document = json.loads(json.dumps(plan.to_json()))
    assert document["units"] == plan.units and [one["path"] for one in document["arrays"]] == ["4_4_40", "8_8_40"]
    assert document["arrays"][0]["options"]["resolution"] == [4, 4, 40]
    assert [loss["what"] for loss in document["losses"]] == ["the attribute 'lab' has no place in precomputed"]


def test_what_would_be_refused_is_refused_in_a_plan(source, tmp_path) -> None:
    with pytest.raises(UnsupportedError, match="no shards"):
        zvcore.plan(source, tmp_path / "dst", format="n5", shards=(32, 32, 32))
    with pytest.raises(TypeError):
        zvcore.plan(source, tmp_path / "dst", format="n5", nonsense=1)
    zvcore.create(tmp_path / "there", format="n5", shape=(4,), dtype="u1")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConflictError, match="overwrite"):
        zvcore.plan(source, tmp_path / "there", format="n5")
    assert zvcore.plan(source, tmp_path / "there", format="n5", overwrite=True).replaces
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_left_out_of_a_group_is_in_the_plan(tmp_path) -> None:
    group = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    group.create_dataset("good", shape=(4, 4), dtype="u1", chunks=(2, 2))
    group.create_dataset("texts", shape=(2,), dtype="string", chunks=(1,))
    with pytest.raises(UnsupportedError, match="texts"):
        zvcore.plan(tmp_path / "c.n5", tmp_path / "out", format="zarr3")
    plan = zvcore.plan(tmp_path / "c.n5", tmp_path / "out", format="zarr3", skip_unsupported=True)
    assert [array.path for array in plan.arrays] == ["good"]
    assert [loss.where for loss in plan.losses] == ["texts"] and "cannot be converted" in str(plan)


def test_a_dry_run_prints_the_plan(source, tmp_path, capsys) -> None:
    command = ["convert", str(source), str(tmp_path / "dst"), "--format", "zarr3", "--levels", "1", "--dry-run"]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == str(zvcore.plan(source, tmp_path / "dst", format="zarr3", levels=1))
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "zarr3"
    assert not (tmp_path / "dst").exists()


def test_a_plan_is_asked_for_as_the_conversion_is(source, tmp_path) -> None:
    taken = [inspect.signature(front).parameters for front in (zvcore.plan, zvcore.convert)]
    assert taken[0] == taken[1]
    asked = {"format": "zarr3", "chunks": (8, 8, 8), "verify": True, "manifest": True, "durability": "none"}
    plan = zvcore.plan(source, tmp_path / "dst", **asked)
    assert not (tmp_path / "dst").exists()
    report = zvcore.convert(source, tmp_path / "dst", **asked)
    assert report.verified and report.units == plan.units
    with pytest.raises(TypeError, match="format="):
        zvcore.plan(source, tmp_path / "other")


# What is not arrays


def made_points(path: Path) -> None:
    from zvcore.precomputed import write_annotations

    nm = dict.fromkeys("xyz", (1e-9, "m"))
    columns = {"point": np.random.default_rng(0).random((30, 3)), "cell": [[7]] * 30}
    write_annotations(path, "point", columns, dimensions=nm, relationships=["cell"])


def test_a_plan_of_points_and_of_lines_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_points(tmp_path / "a")
    before = sorted(tmp_path.rglob("*"))
    for format, name in (("zvf", "v"), ("csv", "t.csv"), ("precomputed", "b")):
        plan = zvcore.plan(tmp_path / "a", tmp_path / name, format=format)
        assert plan.format == format and plan.destination.endswith(name) and not plan.replaces
        [one] = plan.objects
        assert one.what == "points" and plan.arrays == [] and "points, in one piece" in str(plan)
    assert (
        cli.main(["convert", str(tmp_path / "a"), str(tmp_path / "v"), "--format", "zvf", "--dry-run", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["objects"] == [{"what": "points", "count": None}]
    assert sorted(tmp_path.rglob("*")) == before
    zvf.write_polylines(tmp_path / "l", [np.random.default_rng(0).random((5, 3))] * 4, chunk_shape=(1, 1, 1))
    plan = zvcore.plan(tmp_path / "l", tmp_path / "s", format="precomputed")
    assert [(one.what, one.count) for one in plan.objects] == [("lines", 4)] and not (tmp_path / "s").exists()


def test_what_conversions_in_one_piece_refuse_is_refused_before_anything_is_removed(tmp_path: Path) -> None:
    made_points(tmp_path / "a")
    zvf.write_polylines(tmp_path / "l", [np.random.default_rng(0).random((5, 3))] * 4, chunk_shape=(1, 1, 1))
    for source, format, name in (
        ("a", "zvf", "v"), ("a", "csv", "t.csv"), ("a", "precomputed", "b"), ("l", "precomputed", "s"),
    ):  # fmt: skip
        zvcore.convert(tmp_path / source, tmp_path / name, format=format)
        files = [tmp_path / name] if name.endswith("csv") else sorted(one for one in (tmp_path / name).rglob("*"))
        for do in (zvcore.plan, zvcore.convert):
            with pytest.raises(ConflictError):
                do(tmp_path / source, tmp_path / name, format=format)
            with pytest.raises(TypeError, match="no option 'colour'"):
                do(tmp_path / source, tmp_path / name, format=format, overwrite=True, colour="red")
            with pytest.raises(UnsupportedError, match="take levels"):
                do(tmp_path / source, tmp_path / name, format=format, overwrite=True, levels=2)
        assert all(one.exists() for one in files)
        assert zvcore.plan(tmp_path / source, tmp_path / name, format=format, overwrite=True).replaces


def test_points_are_not_written_where_they_are_read(tmp_path: Path) -> None:
    made_points(tmp_path / "a")
    zvcore.convert(tmp_path / "a", tmp_path / "v", format="zvf")
    with pytest.raises(ConflictError, match="read from"):
        zvcore.convert(tmp_path / "v", tmp_path / "v", format="zvf", overwrite=True)
    assert zvcore.open(tmp_path / "v").level(0).vertex_count == 30


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [("v", {"levels": 2}, 1), ("v", {"codec": "raw"}, 0), ("v", {"sharding": "advise"}, 0), ("v.zip", {}, 0)],
)
def test_packed_files_of_chunks_which_few_programs_look_for_are_noted_once(
    tmp_path: Path, source: Path, name: str, options: dict[str, Any], told: int
) -> None:
    plan = zvcore.plan(source, tmp_path / name, format="precomputed", **options)
    report = zvcore.convert(source, tmp_path / name, format="precomputed", **options)
    assert ["tensorstore" in str(note) for note in report.notes] == [True] * told and plan.notes == report.notes
