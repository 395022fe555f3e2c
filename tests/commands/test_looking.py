"""`info`, `ls`, `tree`, `cat`, `get`: what a person sees, what a program gets, on stdout and nothing else there."""

from __future__ import annotations

import io
import itertools
import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
import zvcore.zvf as zvf
from zvcore.commands import cli, ls, terminal
from zvcore.converting.note import KEY as NOTE
from zvcore.precomputed import ShardingSpec, Skeleton, write_skeletons
from zvcore.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (20, 12, 8)
VALUES = np.arange(np.prod(SHAPE), dtype="<u2").reshape(SHAPE)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    root = zvcore.open(folder / "group.zarr", "w", format="zarr3")
    root.attrs["colour"] = "green"
    root.create_array("plain", shape=SHAPE, dtype="u2", chunks=(8, 8, 8))[...] = VALUES
    shards = root.create_group("deep").create_array(
        "shards", shape=SHAPE, dtype="u2", chunks=(4, 4, 8), shards=(8, 8, 8)
    )
    shards[...] = VALUES
    zvcore.create(folder / "a.n5", format="n5", shape=SHAPE, dtype="u2", chunks=(8, 8, 8))[...] = VALUES
    volume = zvcore.create(
        folder / "volume", format="precomputed", shape=SHAPE, dtype="u2", chunks=(8, 8, 8), key="8_8_8",
        sharding="advise",
    )  # fmt: skip
    volume[...] = VALUES[..., None]
    bones = {7: Skeleton(np.zeros((2, 3), "f4"), np.array([[0, 1]]))}
    write_skeletons(folder / "bones", bones, sharding=ShardingSpec(0, "identity", 0, 0))
    zvf.write_polylines(folder / "lines.zv", [np.zeros((3, 3), "f4"), np.ones((2, 3), "f4")], chunk_shape=(5, 5, 5))
    return folder


def said(capfd: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    assert cli.main([str(argument) for argument in arguments]) == status
    told = capfd.readouterr()
    assert told.err == ""
    return told.out


def facts(text: str) -> dict[str, str]:
    """The lines before the first empty one."""
    lines = text.split("\n\n")[0].splitlines()
    column = len(lines[0]) - len(lines[0].partition(" ")[2].lstrip())
    assert all(line[column - 1] == " " and line[column] != " " for line in lines), "the columns line up"
    return {line[:column].strip(): line[column:] for line in lines}


def test_info_of_an_array(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = facts(said(capfd, "info", data / "group.zarr" / "deep" / "shards"))
    assert found["format"] == "zarr3 array"
    assert found["shape"] == "20 12 8"
    assert found["chunks"] == "4 4 8"
    assert found["shards"] == "8 8 8"
    assert "zstd" in found["codecs"]
    assert found["on disk"].endswith("in 6 files")
    stored = json.loads(said(capfd, "info", "--json", data / "group.zarr" / "deep" / "shards"))
    assert stored["stored_bytes"] == sum(
        f.stat().st_size for f in (data / "group.zarr/deep/shards/c").rglob("*") if f.is_file()
    )
    assert float(found["ratio"]) == pytest.approx(VALUES.nbytes / stored["stored_bytes"], abs=0.01)


@pytest.mark.parametrize("name", ["group.zarr", "a.n5", "volume", "bones", "lines.zv", "volume/8_8_8"])
def test_info_of_everything(data: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = said(capfd, "info", data / name)
    assert "format" in facts(text)
    assert json.loads(said(capfd, "info", "--json", data / name))["format"] in text
    assert '"' in said(capfd, "info", "--attributes", data / "group.zarr")


def test_info_tells_the_levels_of_an_image(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = zvcore.open(tmp_path / "g", "w", format="zarr3")
    for name in ("s0", "s1"):
        root.create_array(name, shape=(4, 4), dtype="u1")[...] = 1
    levels = [
        {"path": name, "coordinateTransformations": [{"type": "scale", "scale": [40.0, size]}]}
        for name, size in (("s0", 8.0), ("s1", 16.0))
    ]
    axes = [{"name": "z", "type": "space", "unit": "nanometer"}, {"name": "x", "type": "space"}]
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    text = said(capfd, "info", tmp_path / "g")
    [head, *rows] = text.split("\n\n")[-1].splitlines()
    assert head.split() == ["level", "axes", "resolution", "offset", "units"]
    assert rows[1].split()[:5] == ["s1", "z", "x", "40.0", "16.0"]
    assert "nanometer" in rows[0]
    root.attrs["ome"] = {"multiscales": [{"datasets": 5}]}
    assert "resolution" not in said(capfd, "info", tmp_path / "g")


def test_info_of_a_folder_of_several_says_what_lies_there(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = said(capfd, "info", data)
    assert facts(text)["format"] == "a folder of several data sets"
    rows = {line.split()[0]: line.split() for line in text.split("\n\n")[1].splitlines()}
    assert rows.keys() == {"name", "a.n5", "bones", "group.zarr", "lines.zv", "volume"}
    assert rows["a.n5"][1:5] == ["array", "20", "12", "8"] and rows["group.zarr"][1] == "group"
    told = json.loads(said(capfd, "info", "--json", data))
    assert told["kind"] == "folder" and told["members"]["a.n5"]["shape"] == list(SHAPE)


def test_info_of_a_folder_in_which_nothing_is_known_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.txt").write_text("nothing of ours")
    assert cli.main(["info", str(tmp_path)]) == 1
    assert "no format that zvcore knows" in capfd.readouterr().err


@pytest.mark.parametrize("shard", ["group.zarr/deep/shards/c/0/0/0", "volume/8_8_8/0.shard"])
def test_info_draws_a_shard(data: Path, shard: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = said(capfd, "info", data / shard)
    found = json.loads(said(capfd, "info", "--json", data / shard))
    assert found["kind"] == "shard"
    assert found["live"] + found["dead"] + found["index"] == found["size"] == (data / shard).stat().st_size
    pieces = found["map"]
    assert pieces[0][0] == 0 and pieces[-1][1] == found["size"]
    assert all(a[1] == b[0] for a, b in itertools.pairwise(pieces))
    drawing, legend = text.split("\n\n")[1].rsplit("\n", 2)[:2]
    assert set(drawing) - {"\n"} <= {"█", "▒", "·"}
    assert "live" in legend and "dead" in legend and "index" in legend
    shares = drawing.count("▒") / len(drawing.replace("\n", ""))
    assert shares == pytest.approx(found["index"] / found["size"], abs=0.05)


def test_a_map_shows_what_most_of_each_sign_is() -> None:
    signs = {"live": "#", "dead": ".", "index": "="}
    assert terminal.bar([(0, 50, "live"), (50, 75, "dead"), (75, 100, "index")], 8, signs) == "####..=="
    assert terminal.bar([(0, 3, "live")], 100, signs) == "###"
    assert terminal.bar([], 10, signs) == ""


def test_drawings_for_terminals_that_know_few_signs(
    data: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert cli.main(["info", str(data / "volume/8_8_8/0.shard")]) == 0
    assert cli.main(["tree", str(data / "group.zarr")]) == 0


def test_ls(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert said(capfd, "ls", data / "group.zarr").split() == ["deep", "plain"]
    assert said(capfd, "ls", data / "volume").split() == ["8_8_8"]
    assert said(capfd, "ls", data / "lines.zv").split() == ["0"]
    assert said(capfd, "ls", data / "a.n5") == ""
    head, *rows = said(capfd, "ls", "-l", data / "group.zarr").splitlines()
    assert head.split()[0] == "name"
    assert [row.split()[:2] for row in rows] == [["deep", "group"], ["plain", "array"]]
    assert json.loads(said(capfd, "ls", "--json", data / "group.zarr")) == ["deep", "plain"]


def test_ls_tells_what_lies_in_a_folder_of_several_as_info_does(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    shutil.copytree(data, here)
    (here / "notes").mkdir()
    (here / "notes/a.txt").write_text("nothing")
    table = said(capfd, "ls", "-l", here).splitlines()
    assert said(capfd, "info", here).splitlines()[-len(table) :] == table
    rows = {row.split()[0]: row.split()[1:] for row in table}
    assert rows["notes"] == ["folder", *"-----"]
    assert rows["a.n5"][:5] == ["array", "20", "12", "8", "uint16"]
    (here / "a.n5/attributes.json").write_text("{")
    assert "broken" in said(capfd, "ls", "-l", here, status=1)
    assert "a.n5" in said(capfd, "ls", here).split()


def test_the_tree_of_a_folder_of_several_datasets(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (data / "notes").mkdir()
    (data / "notes/a.txt").write_text("nothing")
    (data / "damaged.zarr").mkdir()
    (data / "damaged.zarr/zarr.json").write_text("{")
    lines = said(capfd, "tree", data, status=1).splitlines()
    assert lines[0].endswith("folder")
    assert any("group.zarr  zarr3 group" in line for line in lines) and any("8_8_8" in line for line in lines)
    assert any(line.endswith("notes  folder") for line in lines)
    assert any("damaged.zarr  broken: " in line for line in lines)
    found = json.loads(said(capfd, "tree", "--json", data, status=1))
    assert found["kind"] == "folder" and found["members"]["group.zarr"]["kind"] == "group"


@pytest.mark.parametrize("command", [("info",), ("tree",), ("ls", "-l")])
def test_what_cannot_be_described_in_a_group_is_said_by_the_exit_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    group.create_array("sound", shape=(4,), dtype="u1")
    group.create_array("damaged", shape=(4,), dtype="u1")
    assert "damaged" in said(capfd, *command, tmp_path / "g")
    (tmp_path / "g/damaged/zarr.json").write_text("{")
    told = said(capfd, *command, tmp_path / "g", status=1)
    assert "sound" in told and "broken" in told


@pytest.mark.parametrize("command", [("info",), ("tree",), ("ls", "-l")])
def test_what_is_unsupported_in_a_group_is_told_and_nothing_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    group.create_array("other", shape=(4,), dtype="u1")
    document = tmp_path / "g/other/zarr.json"
    document.write_text(document.read_text().replace('"uint8"', '"of_another_program"'))
    assert "unsupported" in said(capfd, *command, tmp_path / "g")


def test_tree(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = said(capfd, "tree", data / "group.zarr").splitlines()
    assert lines[1].startswith("├── deep  ") and lines[2].startswith("│   └── shards  ")
    assert "uint16 (20, 12, 8)" in lines[2]
    assert "8_8_8" in said(capfd, "tree", data / "volume")
    assert json.loads(said(capfd, "tree", "--json", data / "group.zarr"))["members"].keys() == {"deep", "plain"}


def test_names_from_a_store_do_not_steer_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = zvcore.open(tmp_path / "g", "w", format="zarr3")
    root.create_group("a\x1b[2Jb")
    for command in (["ls"], ["ls", "-l"], ["tree"], ["info"]):
        assert "\x1b" not in said(capfd, *command, tmp_path / "g")


def test_cat(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = data / "group.zarr" / "plain"
    rows = [[int(word) for word in line.split()] for line in said(capfd, "cat", path, "1:3,0:2").splitlines()]
    assert rows == VALUES[1:3, 0:2].reshape(-1, 8).tolist()
    assert json.loads(said(capfd, "cat", "--json", path, "::-7,3")) == VALUES[::-7, 3].tolist()
    assert said(capfd, "cat", path, "0,0,5").split() == ["5"]
    assert len(said(capfd, "cat", path).splitlines()) == 20 * 12
    assert json.loads(said(capfd, "cat", data / "group.zarr")) == {"colour": "green"}
    assert len(said(capfd, "cat", data / "volume" / "8_8_8", "0,0").split()) == 8


def test_cat_raw(data: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["cat", "--raw", str(data / "a.n5"), "2:5"]) == 0
    assert capfdbinary.readouterr().out == VALUES[2:5].tobytes()


@pytest.mark.parametrize("region", [None, "3:17:4,:,2", "::-3", "..., 4:", "5,6", "7,8,1"])
@pytest.mark.parametrize("slab", [1, 1 << 20])
def test_get_writes_what_indexing_gives(
    data: Path, tmp_path: Path, region: str | None, slab: int, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("zvcore.images.slabs.SLAB", slab)
    arguments = [] if region is None else [region]
    assert said(capfd, "get", data / "group.zarr/plain", *arguments, "-o", tmp_path / "x.npy") == ""
    wanted = VALUES if region is None else eval(f"VALUES[{region}]")
    found = np.load(tmp_path / "x.npy")
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)
    said(capfd, "get", data / "group.zarr/plain", *arguments, "-o", tmp_path / "x.raw")
    assert (tmp_path / "x.raw").read_bytes() == wanted.tobytes()


def test_get_chunks_and_values(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said(capfd, "get", data / "group.zarr/plain", "--chunk", "0,1,0", "-o", tmp_path / "chunk")
    assert (tmp_path / "chunk").read_bytes() == (data / "group.zarr/plain/c/0/1/0").read_bytes()
    said(capfd, "get", data / "bones", "--id", 7, "-o", tmp_path / "bone")
    assert Skeleton.from_bytes((tmp_path / "bone").read_bytes(), []).edges.tolist() == [[0, 1]]


WRONG = [
    ["cat", "DATA/group.zarr/plain", "1:2:3:4"],
    ["cat", "DATA/group.zarr/plain", "a"],
    ["cat", "DATA/group.zarr/plain", "0,0,0,0"],
    ["cat", "DATA/group.zarr", "0"],
    ["get", "DATA/a.n5", "0", "--chunk", "0,0,0", "-o", "-"],
    ["get", "DATA/a.n5", "--chunk", "9,9,9", "-o", "-"],
    ["get", "DATA/a.n5", "--id", "9", "-o", "-"],
    ["get", "DATA/bones", "--id", "x", "-o", "-"],
    ["get", "DATA/volume", "--id", "0", "-o", "-"],
    ["cat", "DATA/a.n5", "20"],
    ["cat", "DATA/a.n5", "...,-9"],
    ["cat", "DATA/a.n5", "0,::0"],
    ["get", "DATA/a.n5", "-21", "-o", "-"],
    ["get", "DATA/a.n5"],
    ["info", "DATA/nowhere"],
    ["ls", "DATA/nowhere"],
    ["tree", "DATA/nowhere"],
    ["verify", "DATA/nowhere"],
    ["verify", "--format", "bmp", "DATA/a.n5"],
    ["repair", "DATA/nowhere"],
    ["compact", "DATA/nowhere"],
]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_command_lines(arguments: list[str], data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = [argument.replace("DATA", str(data)) for argument in arguments]
    try:
        status = cli.main(given)
    except SystemExit as leaving:
        status = leaving.code
    told = capfd.readouterr()
    assert status == 2
    assert told.out == ""
    assert "zvcore" in told.err


def test_ids_of_a_volume_belong_to_a_scale(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["get", str(data / "volume"), "--id", "0", "-o", "-"]) == 2
    assert f"say which scale: {data / 'volume'}/8_8_8" in capfd.readouterr().err


def test_what_is_not_stored_is_status_1(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["get", str(data / "bones"), "--id", "99", "-o", "-"]) == 1
    assert "NotFoundError" in capfd.readouterr().err


def test_repair_says_what_is_lost(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    zvcore.create(path, format="zarr3", shape=SHAPE, dtype="u2", chunks=(8, 8, 8), codec="gzip")[...] = VALUES
    (path / "c/0/0/0").write_bytes(b"broken")
    assert cli.main(["repair", str(path), "--out", str(tmp_path / "b")]) == 0
    told = capfd.readouterr()
    assert told.out.startswith("lost: c/0/0/0: (0, 0, 0)")
    assert "found: c/0/0/0" in told.err
    assert cli.main(["repair", "--json", str(path)]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["sound"] is True
    assert answer["losses"][0]["chunk"] == [0, 0, 0]
    assert (path / "c/0/0/0.bak").read_bytes() == b"broken"
    (path / "zarr.json").write_text("{")
    assert cli.main(["repair", str(path)]) == 1
    assert "remains: zarr.json" in capfd.readouterr().out


def test_verify_of_a_folder_of_several_datasets_says_which(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["verify", str(data)])
    said_of_it = capfd.readouterr().out.splitlines()
    assert "group.zarr: sound" in said_of_it and "volume: sound" in said_of_it
    assert status == int((data / "damaged.zarr").exists())


def test_ls_of_a_place_in_an_object_store_marks_unfinished_conversions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "memory://unfinished-among-others"
    for name in ("a.zarr", "b.zarr", "c.zarr"):
        zvcore.create(f"{place}/{name}", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    open_store(f"{place}/b.zarr", "r+").put(NOTE, b"{")
    assert cli.main(["ls", place]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[::2] == ["a.zarr", "c.zarr"]
    assert "b.zarr: an unfinished conversion" in shown.out
    monkeypatch.setattr(ls, "_MOST_ASKED", 1)
    assert cli.main(["ls", place]) == 0
    assert "only the first 1 were asked" in capsys.readouterr().err


def test_info_of_a_folder_with_nothing_but_a_cut_archive_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros((40, 50)))
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(data[: len(data) // 2])
    assert cli.main(["info", str(tmp_path)]) == 1
    assert "a.npz  broken" in capfd.readouterr().out
    # That nothing of it can be repaired is an answer, too.
    (tmp_path / "a.zip").write_bytes(b"PK\3\4 and no end")
    assert cli.main(["repair", str(tmp_path / "a.zip"), "-o", str(tmp_path / "b.zip")]) == 1
    assert capfd.readouterr().out.startswith(f"remains: {tmp_path}/a.zip: this is no zip archive")


def test_places_that_make_no_sense_are_wrong_usage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.zeros(5))
    zvcore.create(tmp_path / "b", format="zarr3", data=np.zeros(5), chunks=(2,))
    here, file = str(tmp_path / "b"), str(tmp_path / "a.npy")
    for command in (
        ["repair", here, "-o", here], ["repair", file, "-o", str(tmp_path / "c")], ["cp", here, here],
        ["cp", here, f"{here}/c"], ["sync", file, file], ["get", here, "-o", str(tmp_path / "d.npy"), "--lod", "1"],
        ["downsample", here, "--levels", "0"],
    ):  # fmt: skip
        assert cli.main(command) == 2, command
        assert "Error" not in capfd.readouterr().err
