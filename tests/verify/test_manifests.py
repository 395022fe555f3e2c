"""A manifest has a checksum of every object: what is gone, changed or extra since is told, here and in every copy."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.care import manifest
from zvcore.care.manifest import MANIFEST
from zvcore.commands import cli
from zvcore.errors import UnsupportedError
from zvcore.report import What
from zvcore.stores import MemoryStore


@pytest.fixture
def source(tmp_path):
    made = zvcore.create(tmp_path / "src", format="n5", shape=(40, 40, 40), dtype="u1", chunks=(16, 16, 16))
    made[...] = np.random.default_rng(0).integers(1, 250, made.shape)
    return tmp_path / "src"


DESTINATIONS = {
    "array": ({"format": "zarr3"}, "c/0/0/1"),
    "pyramid": ({"format": "zarr3", "levels": 1, "shards": (32, 32, 32)}, "0/c/0/0/1"),
    "n5": ({"format": "n5", "levels": 1}, "s0/0/0/1"),
    "volume": ({"format": "precomputed"}, "1_1_1/0-16_0-16_0-16"),
}
every_destination = pytest.mark.parametrize(("options", "chunk"), DESTINATIONS.values(), ids=DESTINATIONS)


def told(path, **options):
    return {(problem.kind, problem.where) for problem in zvcore.verify(path, **options).problems if problem.fatal}


@every_destination
def test_what_has_changed_since_is_reported_of_any_copy(options, chunk, source, tmp_path):
    dst, copy = tmp_path / "dst", tmp_path / "copy"
    assert zvcore.convert(source, dst, **options, manifest=True).ok
    assert zvcore.verify(dst).problems == []
    shutil.copytree(dst, copy)
    shutil.rmtree(dst)
    report = zvcore.verify(copy)
    assert report.problems == [] and report.counts["objects of the manifest"] > 1
    (copy / "extra").write_bytes(b"x")
    assert (What.EXTRA, "extra") in told(copy)
    (copy / "extra").unlink()
    chunk = chunk if (copy / chunk).exists() else f"{chunk}.gz"
    data = (copy / chunk).read_bytes()
    (copy / chunk).unlink()
    report = zvcore.verify(copy)
    assert [problem.where for problem in report.problems if problem.kind is What.GONE] == [chunk]
    assert report.status == "damaged"
    # Other bytes that are whole themselves.
    twin = next(
        path for path in (copy / chunk).parent.parent.parent.rglob("*") if path.is_file() and path.stat().st_size > 99
    )
    (copy / chunk).write_bytes(twin.read_bytes())
    report = zvcore.verify(copy)
    assert [problem.where for problem in report.problems if problem.kind is What.CHANGED] == [chunk]
    (copy / chunk).write_bytes(data)
    assert zvcore.verify(copy).problems == []


def test_a_manifest_is_json_that_any_program_reads(source, tmp_path):
    zvcore.convert(source, tmp_path / "dst", format="zarr3", manifest=True)
    head, *entries, last = map(json.loads, (tmp_path / "dst" / MANIFEST).read_text().splitlines())
    assert head == {"zvcore_manifest": 1, "algorithm": "sha256"}
    files = {str(path.relative_to(tmp_path / "dst")): path for path in (tmp_path / "dst").rglob("*") if path.is_file()}
    data = {name: path.read_bytes() for name, path in files.items() if not path.name.startswith(".zvcore-")}
    assert last == {"objects": len(data), "bytes": sum(map(len, data.values()))}
    assert [entry["key"] for entry in entries] == sorted(data)
    for entry in entries:
        there = data[entry["key"]]
        assert entry["size"] == len(there) and entry["sha256"] == hashlib.sha256(there).hexdigest()


def test_one_bit_is_enough_except_for_a_fast_look(source, tmp_path):
    zvcore.convert(source, tmp_path / "dst", format="zarr3", codec="raw", manifest=True)
    path = tmp_path / "dst" / "c" / "1" / "1" / "1"
    data = bytearray(path.read_bytes())
    data[77] ^= 1
    path.write_bytes(data)
    assert told(tmp_path / "dst") == {(What.CHANGED, "c/1/1/1")}
    assert told(tmp_path / "dst", fast=True) == set()
    path.write_bytes(data[:-1])
    assert (What.CHANGED, "c/1/1/1") in told(tmp_path / "dst", fast=True)


def test_a_part_is_compared_with_the_manifest_of_the_whole(source, tmp_path):
    dst = tmp_path / "dst"
    zvcore.convert(source, dst, format="zarr3", levels=1, manifest=True)
    (dst / "0" / "c" / "0" / "0" / "0").unlink()
    assert told(dst / "0") == {(What.GONE, "c/0/0/0")}
    assert told(dst / "1") == set() and zvcore.verify(dst / "1").counts["objects of the manifest"] > 1
    (dst / "1" / "c" / "0" / "0" / "9").write_bytes(b"")
    assert (What.EXTRA, "c/0/0/9") in told(dst / "1")


def test_made_for_what_is_there_already(source, tmp_path, capfd):
    assert cli.main(["manifest", str(source), "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["objects"] == 28 and said["bytes"] > 0
    assert zvcore.verify(source).problems == []
    zvcore.open(source, "r+")[0, 0, 0] = 0
    assert cli.main(["verify", str(source)]) == 1
    assert "0/0/0: the object has other bytes than the manifest says" in capfd.readouterr().out.replace(
        "another size", "other bytes"
    )
    zvcore.make_manifest(source)
    assert zvcore.verify(source).problems == []
    assert cli.main(["manifest", str(tmp_path / "nothing")]) != 0


def test_on_the_command_line(source, tmp_path):
    command = ["convert", str(source), str(tmp_path / "dst"), "--format", "zarr3"]
    assert cli.main(command) == 0 and not (tmp_path / "dst" / MANIFEST).exists()
    # What is finished already gets it too.
    assert cli.main([*command, "--manifest"]) == 0 and (tmp_path / "dst" / MANIFEST).exists()
    assert cli.main(["verify", str(tmp_path / "dst")]) == 0


@pytest.mark.parametrize("remote", [False, True])
def test_in_any_store(remote, source, monkeypatch):
    monkeypatch.setattr(manifest, "_PIECE", 100)
    store = MemoryStore()
    store.remote = remote
    zvcore.convert(source, store, format="zarr3", manifest=True)
    assert zvcore.verify(store).problems == []
    store.delete("c/0/0/0")
    store.put("c/1/1/1", b"123")
    assert {(What.GONE, "c/0/0/0"), (What.CHANGED, "c/1/1/1")} <= told(store)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines[:3], *lines[4:]],
        lambda lines: [*lines, lines[1]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [lines[0], *lines[2:3], *lines[2:]],
        lambda lines: ['{"zvcore_manifest": 2, "algorithm": "md5"}', *lines[1:]],
        lambda lines: [*lines[:2], "{", *lines[3:]],
        lambda lines: [*lines[:2], "[" * 100_000, *lines[3:]],
        lambda lines: [*lines[:2], '{"key": 3, "size": 1, "sha256": "x"}', *lines[3:]],
        lambda lines: [*lines[:2], "\0" * (3 << 20)],
        lambda lines: [],
    ],
    ids=range(11),
)
def test_a_manifest_that_is_not_whole_is_a_problem_itself(change, source):
    zvcore.make_manifest(source)
    path = source / MANIFEST
    lines = path.read_text().splitlines()
    path.write_text("".join(line + "\n" for line in change(lines)))
    report = zvcore.verify(source)
    assert (What.DOCUMENT, MANIFEST) in {(problem.kind, problem.where) for problem in report.problems}
    path.write_text("\n".join(lines)[:-5])
    assert (What.DOCUMENT, MANIFEST) in told(source)


def test_a_conversion_that_adds_leaves_a_manifest_of_all(source, tmp_path):
    zvcore.open(tmp_path / "c", "w", format="zarr3")
    zvcore.convert(source, tmp_path / "c" / "one", format="zarr3")
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    group.create_dataset("two", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    zvcore.convert(tmp_path / "g", tmp_path / "c", format="zarr3", manifest=True)
    assert "one/zarr.json" in (tmp_path / "c" / MANIFEST).read_text()
    assert zvcore.verify(tmp_path / "c").problems == []


MANY = """
import resource, sys
import zvcore
from zvcore.care.manifest import check_manifest, write_manifest
from zvcore.report import Report
from zvcore.stores import MemoryStore

class Many(MemoryStore):
    def list(self, prefix=""):
        return (f"c/{n:09}" for n in range(int(sys.argv[1])))
    def get(self, key, start=0, length=None, **_):
        return super().get(key, start, length) if key.startswith(".") else (b"x" if not start else b"")

store = Many()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert write_manifest(store, 2)[0] == int(sys.argv[1])
report = Report()
check_manifest(store, report)
assert report.ok and report.counts["objects of the manifest"] == int(sys.argv[1])
stored = len(store.get(".zvcore-manifest.jsonl")) >> 10
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before - 3 * stored)
"""


def test_memory_does_not_grow_with_the_number_of_objects():
    """But for the manifest itself, which this store keeps in memory."""
    answer = subprocess.run(
        [sys.executable, "-c", MANY, "100000"], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert int(answer.stdout) < 48 << 10


@pytest.mark.usefixtures("third_party")
def test_the_manifest_of_a_single_file_lies_beside_it(tmp_path):
    zvcore.create(tmp_path / "a.raster", format="raster", shape=(4, 4), dtype="u1")[...] = 3
    (tmp_path / "other").write_bytes(b"of no concern")
    assert zvcore.make_manifest(tmp_path / "a.raster")[0] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [".zvcore-manifest.jsonl.a.raster", "a.raster", "other"]
    check_file(tmp_path / "a.raster")


@pytest.mark.usefixtures("third_party")
def test_the_manifest_of_a_folder_tells_of_a_single_file_in_it(tmp_path):
    (tmp_path / "b").mkdir()
    zvcore.create(tmp_path / "b/a.raster", format="raster", shape=(4, 4), dtype="u1")[...] = 3
    (tmp_path / "other").write_bytes(b"of no concern")
    assert zvcore.make_manifest(tmp_path)[0] == 2
    check_file(tmp_path / "b/a.raster")


def check_file(path):
    report = zvcore.verify(path)
    assert report.ok and report.counts["objects of the manifest"] == 1
    zvcore.open(path, "r+").attrs["content"] = "changed"
    assert [problem.where for problem in zvcore.verify(path).problems] == [path.name]


def test_an_unfinished_conversion_gets_no_manifest(source, tmp_path):
    """It would say of any copy without the note that nothing is missing."""
    dst = tmp_path / "dst"

    def stop(done, total):
        if done:
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        zvcore.convert(source, dst, format="zarr3", chunks=(8, 8, 8), memory=1 << 14, threads=1, progress=stop)
    with pytest.raises(UnsupportedError, match="nothing can be certified"):
        zvcore.make_manifest(dst)
    with pytest.raises(UnsupportedError, match="nothing can be certified"):
        zvcore.make_manifest(tmp_path)
    assert not (dst / MANIFEST).exists() and not (tmp_path / MANIFEST).exists()
    assert cli.main(["manifest", str(dst)]) == 1
    zvcore.convert(source, dst, format="zarr3", chunks=(8, 8, 8), memory=1 << 14, threads=1)
    assert zvcore.make_manifest(dst)[0] > 1
    assert zvcore.verify(dst).ok


def test_repair_takes_neither_the_manifest_nor_our_notes_for_odd_files(source, tmp_path):
    zvcore.convert(source, tmp_path / "dst", format="zarr3", manifest=True)
    assert zvcore.repair(tmp_path / "dst").problems == []
    assert zvcore.verify(tmp_path / "dst").ok
