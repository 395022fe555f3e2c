"""What a conversion leaves that did not end: it never looks sound. One that is refused leaves nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from threading import Thread

import numpy as np
import pytest

import zvcore
from tests.convert.interrupting import MEMORY, killed, source
from tests.processes import PATIENCE
from zvcore.commands import cli
from zvcore.converting.note import KEY, unfinished_around, unfinished_at
from zvcore.errors import ConflictError, MetadataError, UnfinishedConversionWarning, UnsupportedError
from zvcore.serving import make_server
from zvcore.stores import MemoryStore, open_store

DESTINATIONS = {
    "zarr3": {"format": "zarr3", "chunks": [16, 16, 16]},
    "shards": {"format": "zarr3", "shards": [32, 32, 32], "levels": 1},
    "n5": {"format": "n5", "chunks": [24, 24, 24]},
    "n5 pyramid": {"format": "n5", "chunks": [24, 24, 24], "levels": 1},
    "precomputed": {"format": "precomputed", "chunks": [16, 16, 16]},
    "precomputed shards": {"format": "precomputed", "chunks": [16, 16, 16], "shards": [32, 32, 32], "levels": 1},
}
every_destination = pytest.mark.parametrize("options", DESTINATIONS.values(), ids=DESTINATIONS)


class Stop(Exception):
    pass


def after(units):
    def tell(done, total):
        if done >= units:
            raise Stop("enough")

    return tell


def interrupted(tmp_path, options, units=3):
    """A conversion that fails after some units, here."""
    src, dst = tmp_path / "src", tmp_path / "dst"
    if not src.exists():
        source(src)
    with pytest.raises(Stop):
        zvcore.convert(src, dst, **options, memory=MEMORY, threads=1, progress=after(units))
    return dst


def opened(path, **options):
    with pytest.warns(UnfinishedConversionWarning) as caught:
        found = zvcore.open(path, **options)
    [warning] = caught
    assert warning.filename == __file__
    return found, str(warning.message)


def counted(dst):
    """What the note says: (units done, of how many)."""
    document = json.loads((dst / KEY).read_text())
    done = sum(stop - first for spans in document["done"].values() for first, stop in spans)
    return done, sum(step["count"] for step in document["units"].values())


@every_destination
def test_a_killed_conversion_is_unfinished_everywhere(options, tmp_path, capfd):
    source(tmp_path / "src")
    dst = tmp_path / "dst"
    killed(tmp_path / "src", dst, options, 2)
    done, units = counted(dst)
    assert done < units
    text = f"an unfinished conversion: {done} of {units} units"
    report = zvcore.verify(dst)
    assert (report.status, report.ok, bool(report)) == ("unfinished", False, False)
    assert {problem.status for problem in report.problems} == {"unfinished"}
    assert report.problems[0].where == KEY and text in report.problems[0].what
    assert sum(int(problem.what.split()[0]) for problem in report.problems[1:]) == units - done
    assert report.to_json()["status"] == "unfinished" and not report.to_json()["ok"]
    assert zvcore.verify(dst, fast=True).status == "unfinished"
    assert text in opened(dst)[1]
    assert text in opened(dst, format=options["format"])[1]
    assert zvcore.inspect(dst)["unfinished"]["units"] == units
    # On the command line.
    assert cli.main(["verify", str(dst)]) == 1
    told = capfd.readouterr().out
    assert text in told and "NOT sound, unfinished: " in told and "not the key" not in told
    assert cli.main(["verify", "--json", str(dst)]) == 1
    assert json.loads(capfd.readouterr().out)["status"] == "unfinished"
    for arguments in (["info"], ["info", "--json"], ["tree"], ["tree", "--json"]):
        assert cli.main([*arguments, str(dst)]) == 1
        assert text in capfd.readouterr().out
    for arguments in (["ls"], ["ls", "-l"], ["ls", "--json"]):
        assert cli.main([*arguments, str(dst)]) == 1
        assert text in capfd.readouterr().err
    # And when all is done, nothing of this.
    zvcore.convert(tmp_path / "src", dst, **options, memory=MEMORY)
    assert zvcore.verify(dst).status == "sound"
    zvcore.open(dst)
    assert "unfinished" not in zvcore.inspect(dst)
    assert [cli.main([command, str(dst)]) for command in ("info", "tree", "ls")] == [0, 0, 0]


@pytest.mark.parametrize("place", ["dst", "."], ids=["the destination", "a folder around it"])
@pytest.mark.parametrize("command", [["compact"], ["compact", "--json"]], ids=" ".join)
def test_what_is_done_to_an_unfinished_conversion_says_so_and_ends_as_verify_does(command, place, tmp_path, capfd):
    interrupted(tmp_path, DESTINATIONS["shards"])
    if place == ".":
        (tmp_path / "src").rename(tmp_path / "dst" / "src")
        (tmp_path / "dst").rename(tmp_path / "other")
        group = zvcore.open(tmp_path / "dst", "w", format="zarr3")
        group.create_array("sound", shape=(4,), dtype="u1", chunks=(4,), shards=(4,))[...] = 1
        (tmp_path / "other").rename(tmp_path / "dst" / "within")
    capfd.readouterr()
    assert cli.main([*command, str(tmp_path / "dst")]) == 1
    told = capfd.readouterr()
    assert "an unfinished conversion: 3 of " in told.err and "unfinished" not in told.out


def test_measuring_an_unfinished_conversion_says_so(tmp_path, capfd):
    dst = interrupted(tmp_path, DESTINATIONS["zarr3"])
    assert cli.main(["bench", "--alone", "--seconds", "0.01", str(dst)]) == 1
    assert capfd.readouterr().err.count("an unfinished conversion: 3 of ") == 1


@pytest.mark.parametrize("kind", ["zarr3", "n5 pyramid", "precomputed"])
def test_the_server_says_so(kind, tmp_path):
    dst = interrupted(tmp_path, DESTINATIONS[kind])
    text = "an unfinished conversion: {} of {} units".format(*counted(dst))
    with make_server(tmp_path, "127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            page, listed = (
                urllib.request.urlopen(f"{server.url.rstrip('/')}/{path}", timeout=PATIENCE).read().decode()
                for path in ("", ".zvcore/datasets.json")
            )
        finally:
            server.shutdown()
            thread.join()
    found = {one["path"]: one["unfinished"] for one in json.loads(listed)["datasets"]}
    assert found.pop("src") is None and set(found.values()) == {text}
    assert page.count(text) == len(found) and "enough" not in page


@every_destination
def test_a_failed_conversion_is_unfinished_and_says_why(options, tmp_path):
    dst = interrupted(tmp_path, options)
    report = zvcore.verify(dst)
    assert report.status == "unfinished"
    assert "units, failed: Stop: enough" in report.problems[0].what
    # The next run does not inherit that.
    killed(tmp_path / "src", dst, options, 4)
    assert "failed" not in str(unfinished_at(open_store(dst)))


def test_what_is_missing_is_a_problem_of_its_array(tmp_path):
    dst = interrupted(tmp_path, {"format": "precomputed", "chunks": [16, 16, 16]})
    done, units = counted(dst)
    [scale] = zvcore.inspect(dst)["scales"]
    told = {problem.where: problem.what for problem in zvcore.verify(dst).problems}
    assert told[scale["key"]] == f"{units - done} of {units} units are missing, and read as the fill value"


@pytest.mark.parametrize("kind", ["shards", "n5 pyramid", "precomputed shards"])
def test_a_part_of_an_unfinished_conversion_is_not_sound(kind, tmp_path):
    dst = interrupted(tmp_path, DESTINATIONS[kind], 1)
    parts = [path for path in sorted(dst.iterdir()) if path.is_dir()]
    files = [path for part in parts for path in sorted(part.rglob("*")) if path.suffix in ("", ".shard")]
    files = [path for path in files if path.is_file()]
    for path in [*parts, files[0]]:
        report = zvcore.verify(path)
        assert report.status == "unfinished", path
        # A volume's parts are looked at from the volume, and named from there.
        assert {str(dst / KEY), KEY} & {problem.where for problem in report.problems}
    (tmp_path / "elsewhere").symlink_to(parts[0])
    # (A scale that is reached so has no info around it, which is damage besides.)
    assert "unfinished" in {problem.status for problem in zvcore.verify(tmp_path / "elsewhere").problems}


def test_what_has_an_unfinished_conversion_in_it_is_not_sound(tmp_path, capfd):
    outer = zvcore.open(tmp_path / "outer", "w", format="zarr3")
    outer.create_array("good", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    source(tmp_path / "src")
    with pytest.raises(Stop):
        zvcore.convert(
            tmp_path / "src", tmp_path / "outer" / "deep", format="zarr3", memory=MEMORY, progress=after(1), threads=1
        )
    report = zvcore.verify(tmp_path / "outer")
    assert report.status == "unfinished" and f"deep/{KEY}" in {problem.where for problem in report.problems}
    assert zvcore.verify(tmp_path / "outer" / "good").ok
    with pytest.raises(UnsupportedError, match="unfinished"):
        zvcore.repair(tmp_path / "outer", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    capfd.readouterr()
    for command in ("tree", "ls"):
        assert cli.main([command, str(tmp_path / "outer")]) == 1
        [line] = [line for line in capfd.readouterr().out.splitlines() if "deep" in line]
        assert "an unfinished conversion" in line
    for arguments in (["ls", "-l"], ["info"]):
        assert cli.main([*arguments, str(tmp_path / "outer")]) == 1
        assert "array, unfinished" in capfd.readouterr().out


def test_damage_outweighs_that_something_is_missing(tmp_path):
    dst = interrupted(tmp_path, {"format": "zarr3", "shards": [32, 32, 32]})
    shard = next(path for path in sorted((dst / "c").rglob("*")) if path.is_file())
    shard.write_bytes(shard.read_bytes()[:-3])
    report = zvcore.verify(dst)
    assert report.status == "damaged"
    assert {problem.status for problem in report.problems} == {"damaged", "unfinished"}


def test_killed_before_there_was_anything_to_open(tmp_path):
    dst = interrupted(tmp_path, DESTINATIONS["zarr3"])
    (dst / "zarr.json").unlink()
    for look in (zvcore.open, zvcore.inspect):
        with pytest.raises(UnsupportedError, match="an unfinished conversion: "):
            look(dst)
    assert "unfinished" in {problem.status for problem in zvcore.verify(dst).problems}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 2}', '{"version": 1, "done": {"0": [[3, 2]]}}',
     '{"version": 1, "done": {}, "units": {"0:": 3}}', '{"version": 1, "done": {}, "units": [1]}',
     '{"version": 1, "done": {}, "units": {"0:": {"count": -1, "arrays": []}}}', "[" * 100_000],
    ids=range(9),
)  # fmt: skip
def test_a_note_that_cannot_be_read_is_one_all_the_same(text, tmp_path):
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    (tmp_path / "a" / KEY).write_text(text)
    report = zvcore.verify(tmp_path / "a")
    assert report.status == "unfinished" and "cannot be read" in report.problems[0].what
    assert "cannot be read" in opened(tmp_path / "a")[1]


def test_notes_of_former_versions_do_not_say_how_much_there_is_to_do(tmp_path):
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    (tmp_path / "a" / KEY).write_text('{"version": 1, "mark": "x", "task": {}, "done": {"0:": [[0, 2], [5, 6]]}}')
    assert str(unfinished_around(tmp_path / "a")) == "an unfinished conversion: 3 of ? units"


def test_values_are_not_shown_without_a_word(tmp_path, capfd):
    dst = interrupted(tmp_path, DESTINATIONS["zarr3"])
    for arguments in (["cat", str(dst), "0:2,0,0"], ["-q", "get", str(dst), "0:2,0,0", "-o", str(tmp_path / "a.npy")]):
        assert cli.main(arguments) == 0
        assert "an unfinished conversion" in capfd.readouterr().err


def test_an_unfinished_conversion_is_not_repaired(tmp_path):
    dst = interrupted(tmp_path, DESTINATIONS["zarr3"])
    for out in (None, tmp_path / "copy"):
        with pytest.raises(UnsupportedError, match="an unfinished conversion"):
            zvcore.repair(dst, out)
    assert not (tmp_path / "copy").exists()


def test_in_memory(tmp_path):
    source(tmp_path / "src")
    store = MemoryStore()
    with pytest.raises(Stop):
        zvcore.convert(tmp_path / "src", store, format="n5", levels=1, memory=MEMORY, progress=after(2), threads=1)
    assert zvcore.verify(store).status == "unfinished"
    opened(store)
    # What lies in it, too.
    inside = store.child("s0")
    with pytest.warns(UnfinishedConversionWarning, match=f"^{store.root}: an unfinished conversion"):
        zvcore.open(inside)
    assert zvcore.verify(inside).status == "unfinished"
    assert [one.root for one in store.child("a/b").child("c").above()] == [
        f"{store.root}{p}" for p in ("/a/b", "/a", "")
    ]


@pytest.mark.parametrize("units", [{"": {}}, {"": {"count": "many", "arrays": []}}, {"a": 5}, 7, [1]])
def test_a_note_that_does_not_say_how_many_units_there_are_is_refused(tmp_path, units):
    dst = interrupted(tmp_path, DESTINATIONS["zarr3"])
    note = json.loads((dst / KEY).read_text())
    (dst / KEY).write_text(json.dumps(note | {"units": units}))
    with pytest.raises(MetadataError, match="journal of a conversion is damaged"):
        zvcore.convert(tmp_path / "src", dst, **DESTINATIONS["zarr3"], memory=MEMORY)


# --- refused: nothing is written

REFUSALS = {
    "an unknown codec": {"codec": "nonsense"},
    "an unknown option": {"nonsense": 1},
    "chunks of another rank": {"chunks": (8,)},
    "a type that cannot be": {"dtype": "M8[s]"},
}


@pytest.mark.parametrize("format", ["zarr3", "n5", "precomputed"])
@pytest.mark.parametrize("options", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("levels", [0, 1])
def test_a_refused_conversion_leaves_nothing(format, options, levels, tmp_path, capfd):
    source(tmp_path / "src", (20, 20, 20))
    (tmp_path / "empty").mkdir()
    zvcore.create(tmp_path / "old", format="n5", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    given = {**options, "format": format, "levels": levels, "overwrite": True}
    for name in ("new", "above/new", "empty", "old"):
        with pytest.raises((zvcore.errors.ZvcoreError, TypeError, ValueError)):
            zvcore.convert(tmp_path / "src", tmp_path / name, **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "old", "src"]
    assert not any((tmp_path / "empty").iterdir())
    # Nor is what was to be replaced gone.
    assert zvcore.open(tmp_path / "old")[...].tolist() == [7] * 4
    assert cli.main([
        "convert", str(tmp_path / "src"), str(tmp_path / "new"), "--format", format, "--codec", "nonsense"
    ]) == 2  # fmt: skip
    assert not (tmp_path / "new").exists()


def test_what_lies_within_the_destination_is_not_taken_over(tmp_path):
    """Neither at once nor by the same command again."""
    source(tmp_path / "src", (20, 20, 20))
    zvcore.create(tmp_path / "dst" / "0", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    for _ in range(2):
        with pytest.raises(ConflictError, match="already"):
            zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", levels=1)
    assert [path.name for path in (tmp_path / "dst").iterdir()] == ["0"]
    assert zvcore.verify(tmp_path / "dst" / "0").ok


def test_refused_levels_leave_the_pyramid_sound(tmp_path, monkeypatch):
    source(tmp_path / "src", (32, 32, 32))
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", levels=1)
    before = sorted(tmp_path.rglob("*"))
    zvcore.create(tmp_path / "dst" / "2", format="n5", shape=(4,), dtype="u1", chunks=(2,))
    (tmp_path / "dst" / "2" / "zarr.json").write_text("{}")
    with pytest.raises(zvcore.errors.ZvcoreError):
        zvcore.downsample(tmp_path / "dst")
    assert not (tmp_path / "dst" / KEY).exists()
    assert set(before) <= set(tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", ["shards", "n5 pyramid", "precomputed shards"])
def test_levels_that_are_being_added_are_unfinished(kind, tmp_path):
    source(tmp_path / "src")
    dst = tmp_path / "dst"
    zvcore.convert(tmp_path / "src", dst, **DESTINATIONS[kind])
    with pytest.raises(Stop):
        zvcore.downsample(dst, memory=MEMORY, threads=1, progress=after(0))
    assert zvcore.verify(dst).status == "unfinished"
    zvcore.downsample(dst, memory=MEMORY)
    assert zvcore.verify(dst).ok


CLEARING = """
import os, signal, sys
import zvcore
from zvcore.stores import LocalStore

original = LocalStore.delete_prefix

def delete_prefix(self, prefix):
    original(self, prefix)
    os.kill(os.getpid(), signal.SIGKILL)

LocalStore.delete_prefix = delete_prefix
zvcore.convert(sys.argv[1], sys.argv[2], format="zarr3", levels=1, overwrite=True)
"""


def test_killed_while_what_was_there_is_removed(tmp_path):
    """Half of the old does not pass for sound, and is not taken for what this conversion made."""
    values = source(tmp_path / "src", (40, 40, 40))
    dst = tmp_path / "dst"
    zvcore.convert(tmp_path / "src", dst, format="zarr3", levels=2, chunks=(8, 8, 8))
    answer = subprocess.run(
        [sys.executable, "-c", CLEARING, str(tmp_path / "src"), str(dst)],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert answer.returncode == -signal.SIGKILL, answer.stderr
    assert zvcore.verify(dst).status != "sound"
    with pytest.raises(ConflictError, match="overwrite"):
        zvcore.convert(tmp_path / "src", dst, format="zarr3", levels=1)
    zvcore.convert(tmp_path / "src", dst, format="zarr3", levels=1, overwrite=True)
    found = zvcore.open(dst)
    assert sorted(found) == ["0", "1"] and found["0"].chunks == (16, 16, 16)
    assert np.array_equal(found["0"][...], values) and zvcore.verify(dst).ok


def test_a_conversion_that_was_not_begun_is_no_failed_one(tmp_path, monkeypatch):
    """When the place cannot be written at all, there is no word of a journal."""
    source(tmp_path / "src", (20, 20, 20))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((OSError, UnsupportedError)):
        zvcore.convert(tmp_path / "src", tmp_path / "file" / "dst", format="zarr3")
    assert (tmp_path / "file").read_bytes() == b""


def test_looking_at_what_is_finished_costs_one_question(tmp_path, monkeypatch):
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))
    asked = []
    store = open_store(tmp_path / "a")
    for name in ("get", "size", "exists", "stamp", "snapshot"):
        original = getattr(type(store), name)
        monkeypatch.setattr(
            type(store), name, lambda self, key, *a, _o=original, **k: (asked.append(key), _o(self, key, *a, **k))[1]
        )
    zvcore.open(tmp_path / "a")
    assert asked.count(KEY) == 1


def test_a_broken_chunk_of_the_source(tmp_path, capfd):
    source(tmp_path / "src")
    chunk = tmp_path / "src" / "3" / "2" / "1"
    chunk.write_bytes(chunk.read_bytes()[:60])
    assert cli.main(["convert", str(tmp_path / "src"), str(tmp_path / "dst"), "--format", "zarr3", "--codec", "zstd"])
    capfd.readouterr()
    assert cli.main(["verify", str(tmp_path / "dst")]) == 1
    assert "failed: CorruptDataError: 3/2/1" in capfd.readouterr().out


def test_a_folder_of_several_datasets_is_listed_with_those_that_are_unfinished(tmp_path, capsys):
    dst = interrupted(tmp_path, DESTINATIONS["zarr3"])
    said = str(unfinished_at(open_store(dst)))
    capsys.readouterr()
    assert cli.main(["ls", str(tmp_path)]) == 1
    assert sorted(capsys.readouterr().out.splitlines()) == sorted([f"{dst.name}: {said}", "src"])
    assert cli.main(["ls", "--json", str(tmp_path)]) == 1
    listed = capsys.readouterr()
    assert json.loads(listed.out) == sorted([dst.name, "src"]) and listed.err == f"{dst.name}: {said}\n"
    for arguments in (["ls", "-l"], ["tree"]):
        assert cli.main([*arguments, str(tmp_path)]) == 1
        assert "unfinished" in capsys.readouterr().out


@pytest.mark.parametrize(
    "members",
    [{"units": [1]}, {"units": 3}, {"done": [1]}, {"done": 3}, {"units": {"0:": 3}}, {"parts": "2"}, {"parts": 0}],
    ids=str,
)
@pytest.mark.parametrize("place", ["whole", "part"])
def test_notes_of_parts_that_lie_are_notes_all_the_same(members, place, tmp_path):
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))
    array[...] = 1
    unit = {"0:": {"count": 3, "arrays": []}}
    whole = {"version": 1, "mark": "a" * 8, "parts": 2, "units": unit, "done": {}}
    part = {"mark": "a" * 8, "units": unit, "done": {"0:": [[0, 1]]}}
    (tmp_path / "a" / ".zvcore-convert.parts").mkdir()
    (tmp_path / "a" / KEY).write_text(json.dumps({**whole, **(members if place == "whole" else {})}))
    note = tmp_path / "a" / ".zvcore-convert.parts" / f"{'a' * 8}-1-of-2.json"
    for told in ({**part, **(members if place == "part" else {})}, {**part, "units": {}}):
        note.write_text(json.dumps(told))
        assert "an unfinished conversion" in opened(tmp_path / "a")[1]
        assert zvcore.verify(tmp_path / "a").status == "unfinished"
