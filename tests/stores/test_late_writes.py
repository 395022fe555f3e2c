"""`durability="late"`: old versions stay until the new ones are on the disk, and come back if those were cut short."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zvcore
from zvcore.stores import LocalStore, late_writes, writing
from zvcore.stores.kept_versions import Kept, kept_version


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    """One whose writes wait until somebody settles them: no thread does."""
    monkeypatch.setattr(writing, "start", lambda: None)
    return LocalStore(tmp_path / "store", durability="late")


def write(store: LocalStore, key: str, *versions: bytes) -> None:
    for data in versions:
        with store.writer(key) as writer:
            writer.write_at(0, data)


def kept(store: LocalStore) -> list[Path]:
    return sorted(path for path in Path(store.root).rglob(".*~*.zvtmp"))


def cut(path: Path, size: int) -> None:
    """What a power cut does to a file whose bytes were not on the disk."""
    times = os.stat(path)
    os.truncate(path, size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_an_old_version_stays_until_the_new_one_is_on_the_disk(store: LocalStore) -> None:
    write(store, "a/b", b"old", b"newer")
    (old,) = kept(store)
    assert old.read_bytes() == b"old"
    assert kept_version(os.fsencode(old.name)) == Kept(b"b", os.stat(Path(store.root, "a/b")).st_mtime_ns, 5)
    assert [*store.list()] == ["a/b"]
    store.close()
    assert not kept(store)
    assert store.get("a/b") == b"newer"


@pytest.mark.parametrize("size", [0, 4])
def test_a_file_that_was_cut_short_gets_its_old_version_back(store: LocalStore, size: int) -> None:
    write(store, "a/b", b"old", b"newer")
    cut(Path(store.root, "a/b"), size)
    assert len(store.get("a/b") or b"") == size
    after = LocalStore(store.root)
    assert after.put_back() == ["a/b"]
    assert after.get("a/b") == b"old"
    assert os.listdir(Path(store.root, "a")) == ["b"]
    assert after.put_back() == []


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_of_several_versions_the_last_that_is_whole_comes_back(store: LocalStore, lost: int) -> None:
    versions = [b"first", b"second", b"third", b"fourth"]
    write(store, "a", *versions)
    assert sorted(path.read_bytes() for path in kept(store)) == sorted(versions[:3])
    cut(Path(store.root, "a"), 1)
    for data in versions[4 - lost : 3]:
        (path,) = (path for path in kept(store) if path.read_bytes() == data)
        cut(path, 1)
    assert LocalStore(store.root).put_back() == ["a"]
    assert store.get("a") == versions[3 - lost]
    assert not kept(store)


def test_what_others_have_written_since_stays(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    path = Path(store.root, "a")
    path.write_bytes(b"th")
    os.utime(path, ns=(5, 5))
    assert LocalStore(store.root).put_back() == []
    assert path.read_bytes() == b"th"
    assert not kept(store)


@pytest.mark.parametrize("way", ["put_back", "clean"])
def test_what_is_whole_or_gone_stays_so(store: LocalStore, way: str) -> None:
    write(store, "a", b"old", b"newer")
    write(store, "b", b"old", b"newer")
    os.unlink(Path(store.root, "b"))
    assert len(kept(store)) == 2
    assert getattr(LocalStore(store.root), way)() == ([] if way == "put_back" else 2)
    assert [(key, store.get(key)) for key in store.list()] == [("a", b"newer")]
    assert os.listdir(store.root) == ["a"]


def test_clean_puts_back_as_well(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    cut(Path(store.root, "a"), 0)
    LocalStore(store.root).clean()
    assert store.get("a") == b"old"


@pytest.mark.parametrize(
    "name", [".~1~1.zvtmp", ".a~1.zvtmp", ".a~x~1.zvtmp", "a~1~1.zvtmp", ".a~1~11111111111111111.zvtmp"]
)
def test_other_names_are_no_old_versions(name: str) -> None:
    assert kept_version(name.encode()) is None


def test_names_that_would_be_too_long_are_renamed_over(store: LocalStore) -> None:
    name = "n" * 250
    write(store, name, b"old", b"new")
    assert store.get(name) == b"new"
    assert os.listdir(store.root) == [name]


def test_changes_in_place_begin_with_what_is_on_the_disk(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    store.append("a", b"!", 5)
    assert not kept(store)
    write(store, "a", b"other")
    store.patch("a", 0, b"O")
    assert not kept(store)
    assert store.get("a") == b"Other"


def test_no_more_than_some_megabytes_wait(store: LocalStore) -> None:
    data = bytes(1 << 20)
    for key in range(3):
        write(store, f"{key}", data, *[data[:-1]] * 25)
    # 75 MiB were replaced; a writer that finds 64 MiB waiting has them brought to the disk.
    assert 0 < len(kept(store)) <= 64


def test_a_child_leaves_to_its_parent_what_that_has_written(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    child = os.fork()
    if child == 0:
        late_writes.settle()
        os._exit(len(kept(store)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    late_writes.settle()
    assert not kept(store)


def test_a_child_has_a_thread_of_its_own(tmp_path: Path) -> None:
    program = """
import os, sys, time
from zvcore.stores import LocalStore, late_writes
store = LocalStore(sys.argv[1], durability="late")
def write(key):
    for data in (b"old", b"new"):
        with store.writer(key) as writer:
            writer.write_at(0, data)
write("parent")
late_writes.settle()
child = os.fork()
if child == 0:
    write("child")
    while len(os.listdir(sys.argv[1])) > 2:
        time.sleep(0.001)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, tmp_path], check=True, timeout=300)
    assert sorted(os.listdir(tmp_path)) == ["child", "parent"]


def test_a_killed_writer_leaves_old_versions_that_the_next_removes(tmp_path: Path) -> None:
    program = """
import os, sys
import zvcore
options = {"shape": (64, 64), "dtype": "u1", "chunks": (8, 8), "codec": None, "durability": "late"}
array = zvcore.create(sys.argv[1], format="n5", **options)
for value in range(1, 6):
    array[...] = value
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "a"
    done = subprocess.run([sys.executable, "-c", program, path], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert LocalStore(path).put_back() == []
    assert (zvcore.open(path)[...] == 5).all()
    assert not [name for _, _, names in os.walk(path) for name in names if name.endswith(".zvtmp")]


@pytest.mark.parametrize("shards", [None, (8, 8)])
def test_repair_puts_back_before_it_gives_anything_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: tuple[int, int] | None
) -> None:
    program = """
import os, sys
import zvcore
from zvcore.stores import late_writes
late_writes.settle()
shards = {} if sys.argv[2] == "None" else {"shards": (8, 8)}
array = zvcore.create(sys.argv[1], format="zarr3", shape=(8, 8), dtype="u2", chunks=(4, 4), codec=None, **shards)
array[...] = 1
late_writes._thread = "none"  # nobody works on what waits
zvcore.open(sys.argv[1], "r+", durability="late")[...] = 2
os._exit(0)
"""
    path = tmp_path / "a"
    subprocess.run([sys.executable, "-c", program, path, str(shards)], check=True, timeout=300)
    old = [*path.rglob(".*~*.zvtmp")]
    assert len(old) == (1 if shards else 4)
    for object in (path / "c").rglob("[0-9]"):
        if object.is_file():
            cut(object, 3)
    assert not zvcore.verify(path).ok
    report = zvcore.repair(path)
    assert report.counts["old versions put back"] == len(old)
    assert not report.losses
    assert np.array_equal(zvcore.open(path)[...], np.ones((8, 8), "u2"))
    assert zvcore.verify(path).ok
    assert not [*path.rglob("*.bak")]
