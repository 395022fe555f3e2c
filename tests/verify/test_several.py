"""A folder of several datasets is verified as all of them; a group that has lost its document is not sound."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import InvalidKeyError, UnsupportedError
from zvcore.report import Report
from zvcore.stores import LocalStore
from zvcore.stores.lock_names import too_long

VALUES = np.arange(8 * 8, dtype="u2").reshape(8, 8)


def made(path, **options):
    array = zvcore.create(path, **{"format": "zarr3", "shape": (8, 8), "dtype": "u2", "chunks": (4, 4), **options})
    array[...] = VALUES
    return path


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "all"
    made(folder / "a.zarr")
    made(folder / "b.n5", format="n5")
    np.save(folder / "c.npy", VALUES)
    made(folder / "bare")
    (folder / "notes").mkdir()
    (folder / "notes" / "x.txt").write_text("nothing of ours")
    (folder / "list.csv").write_text("1,2")
    return folder


def broken(path):
    path.write_bytes(path.read_bytes()[:-3])


def test_all_are_looked_at(folder, capsys):
    report = zvcore.verify(folder)
    assert report.ok and not report.problems
    assert report.datasets == dict.fromkeys(["a.zarr", "b.n5", "bare", "c.npy"], "sound")
    alone = Report()
    for name in report.datasets:
        alone.extend(zvcore.verify(folder / name))
    assert report.counts == alone.counts
    assert cli.main(["verify", str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:4] == [f"{name}: sound" for name in report.datasets] and said[4].startswith(f"{folder}: sound (")


def test_one_that_is_damaged_makes_all_of_it_damaged_and_is_named(folder, capsys):
    broken(folder / "b.n5" / "1" / "0")
    assert cli.main(["verify", "--json", str(folder)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["status"] == "damaged" and [one["where"] for one in answer["problems"]] == ["b.n5/1/0"]
    assert answer["datasets"] == {"a.zarr": "sound", "b.n5": "NOT sound, damaged", "bare": "sound", "c.npy": "sound"}


def test_what_cannot_be_read_is_not_damage_here_either(folder):
    document = json.loads((folder / "a.zarr" / "zarr.json").read_text())
    document["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "nobody-has-it"}]
    (folder / "a.zarr" / "zarr.json").write_text(json.dumps(document))
    assert zvcore.verify(folder).status == "unsupported"
    assert cli.main(["verify", str(folder)]) == 3


def test_folders_of_several_in_it_are_looked_at_too(folder):
    made(folder / "more" / "d.zarr")
    broken(made(folder / "more" / "e.zarr") / "c" / "0" / "0")
    report = zvcore.verify(folder)
    assert [one.where for one in report.problems] == ["more/e.zarr/c/0/0"]
    assert report.datasets["more/d.zarr"] == "sound" != report.datasets["more/e.zarr"]


def test_a_folder_that_is_no_dataset_is_asked_for_each_document_once_and_none_is_read(folder, monkeypatch):
    """There may be a hundred thousand."""
    for number in range(20):
        (folder / f"part{number}").mkdir()
    asked = []
    size, get = LocalStore.size, LocalStore.get
    monkeypatch.setattr(LocalStore, "size", lambda self, key: (asked.append((self.root, key)), size(self, key))[1])
    monkeypatch.setattr(
        LocalStore, "get", lambda self, key, *a, **k: (read.append(self.root), get(self, key, *a, **k))[1]
    )
    read = []
    assert zvcore.verify(folder).datasets.keys() == {"a.zarr", "b.n5", "bare", "c.npy"}
    for number in range(20):
        place = str(folder / f"part{number}")
        keys = [key for root, key in asked if root == place]
        assert len(keys) == len({*keys}) > 0 and place not in read


def test_a_folder_with_paths_too_long_to_be_listed_is_not_passed_over(folder, monkeypatch):
    listed = LocalStore.list_dir

    def list_dir(self, prefix=""):
        if self.root.endswith("notes"):
            raise too_long(b"/long" * 1000)
        return listed(self, prefix)

    monkeypatch.setattr(LocalStore, "list_dir", list_dir)
    with pytest.raises(InvalidKeyError, match="the path is longer"):
        zvcore.verify(folder)


def test_a_link_back_is_not_followed(folder):
    (folder / "again").symlink_to(folder)
    assert zvcore.verify(folder).datasets.keys() == {"a.zarr", "b.n5", "bare", "c.npy"}


@pytest.mark.parametrize("text", [None, "{"], ids=["gone", "broken"])
def test_a_dataset_without_its_document_is_not_passed_over(text, folder):
    made(folder / "f.zarr")
    document = folder / "f.zarr" / "zarr.json"
    document.unlink() if text is None else document.write_text(text)
    report = zvcore.verify(folder)
    assert report.status == "damaged" and report.datasets["f.zarr"] == "NOT sound, damaged"
    assert {one.where.partition("/")[0] for one in report.problems} == {"f.zarr"}


@pytest.mark.parametrize("name", ["lost", "lost.zarr"])
def test_a_group_that_has_lost_its_document_is_not_sound(name, tmp_path):
    group = zvcore.open(tmp_path / "here" / name, "w", format="zarr3")
    for member in ("x", "y.z1" if name == "lost.zarr" else "y"):
        group.create_array(member, shape=(8, 8), dtype="u2", chunks=(4, 4))[...] = VALUES
    (tmp_path / "here" / name / "zarr.json").unlink()
    for place in (tmp_path / "here" / name, tmp_path / "here"):
        report = zvcore.verify(place)
        assert report.status == "damaged" and cli.main(["verify", str(place)]) == 1
        assert any("verify each of them: x" in one.what for one in report.problems)


def test_an_unfinished_one_is_unfinished(folder):
    (folder / "a.zarr" / ".zvcore-convert.json").write_text('{"version": 1, "done": {}, "units": {}}')
    report = zvcore.verify(folder)
    assert report.status == "unfinished" and report.datasets["a.zarr"] == "NOT sound, unfinished"


def test_a_part_of_each_is_looked_at(folder):
    parts = [zvcore.verify(folder, part=(number, 3)) for number in (1, 2, 3)]
    for what, number in zvcore.verify(folder).counts.items():
        if not what.endswith("not stored"):
            assert sum(one.counts.get(what, 0) for one in parts) == number, what


def test_a_file_that_is_damaged_is_reported_by_one_part(folder):
    broken(folder / "c.npy")
    parts = [zvcore.verify(folder / "c.npy", part=(number, 3)) for number in (1, 2, 3)]
    assert [problem for one in parts for problem in one.problems] == zvcore.verify(folder / "c.npy").problems != []


def test_folders_of_several_in_memory(tmp_path):
    for name in ("a.zarr", "b.zarr"):
        made(f"memory://several-{tmp_path.name}/{name}")
    report = zvcore.verify(f"memory://several-{tmp_path.name}")
    assert report.ok and report.datasets.keys() == {"a.zarr", "b.zarr"}


def test_a_group_that_needs_no_document_is_sound_without_one(tmp_path):
    """tensorstore writes datasets of N5, and no attributes of the container around them."""
    made(tmp_path / "c.n5" / "x", format="n5")
    made(tmp_path / "c.n5" / "y", format="n5")
    (tmp_path / "c.n5" / "attributes.json").unlink(missing_ok=True)
    report = zvcore.verify(tmp_path / "c.n5")
    assert report.ok and report.counts["datasets"] == 2
    assert [one.what for one in report.problems] == [
        "an N5 group without attributes: it can be opened with format='n5'"
    ]
    broken(tmp_path / "c.n5" / "y" / "1" / "0")
    assert [one.where for one in zvcore.verify(tmp_path / "c.n5").problems if one.fatal] == ["y/1/0"]
    (tmp_path / "c.n5" / "x" / "attributes.json").write_text("{")
    assert zvcore.verify(tmp_path / "c.n5").status == "damaged"


def test_what_cannot_even_be_opened_is_not_passed_over_and_stops_nothing(folder):
    (folder / "cut.zip").write_bytes(b"PK\3\4" + bytes(50))
    (folder / "loop").mkdir()
    (folder / "loop/zarr.json").symlink_to("zarr.json")
    report = zvcore.verify(folder)
    assert not report.ok
    damaged = {name for name, verdict in report.datasets.items() if verdict != "sound"}
    assert damaged == {problem.where.partition("/")[0] for problem in report.problems} == {"cut.zip", "loop"}
    assert len(report.datasets) == 6


@pytest.mark.parametrize("verb", ["repair", "compact"])
def test_what_is_done_to_one_at_a_time_names_each(verb, folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match=r"by itself: a\.zarr, b\.n5, bare, c\.npy") as caught:
        getattr(zvcore, verb)(folder)
    assert caught.value.key == str(folder)
    assert cli.main([verb, str(folder)]) == 2
    said = capsys.readouterr().err
    assert "a folder of several datasets" in said
    commands = [line.strip() for line in said.splitlines() if line.strip().startswith(f"zvcore {verb} ")]
    assert commands == [f"zvcore {verb} {folder}/{name}" for name in ("a.zarr", "b.n5", "bare", "c.npy")]
    if verb == "repair":
        assert cli.main([verb, str(folder), "-o", "a copy"]) == 2
        assert f"zvcore repair {folder}/a.zarr -o 'a copy/a.zarr'" in capsys.readouterr().err
        assert not (tmp_path / "a copy").exists()
    (folder / "a.zarr" / "zarr.json").unlink()
    with pytest.raises(UnsupportedError, match="no format that zvcore knows"):
        getattr(zvcore, verb)(folder / "a.zarr")
