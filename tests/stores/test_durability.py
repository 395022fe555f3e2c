"""How a file takes the place of an older one: by an exchange, by a rename, or by a rename that waits for the disk."""

from __future__ import annotations

import os
import pickle
import subprocess
import sysconfig
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.faults.powercut.recording import Call, record_run
from zvcore import commands
from zvcore.stores import LocalStore, MemoryStore
from zvcore.stores.durability import DURABILITIES

if TYPE_CHECKING:
    from pathlib import Path

# Writes the same objects of an array twice, in a way that is told, after the first version was begun.
TWICE = """
import sys
import numpy as np
import zvcore
path, durability, way = sys.argv[1:]
if way in ("put", "writer"):
    store = zvcore.stores.LocalStore(path, durability=durability)
    for value in (b"old", b"new"):
        if way == "put":
            store.put("a/b", value)
        else:
            with store.writer("a/b") as writer:
                writer.write_at(0, value)
else:
    shards = {"shards": (8, 8)} if way == "shards" else {}
    array = zvcore.create(
        path, format="zarr3", shape=(8, 8), dtype="u1", chunks=(4, 4), codec=None, durability=durability, **shards
    )
    for value in (1, 2):
        array[...] = value
"""
WAYS = ["put", "writer", "chunks", "shards"]


@pytest.fixture(autouse=True)
def _nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZVCORE_FSYNC", raising=False)
    monkeypatch.delenv("ZVCORE_DURABILITY", raising=False)


def written_twice(folder: Path, durability: str, way: str) -> list[Call]:
    """What happened to the objects, not to locks and documents."""
    folder.mkdir(exist_ok=True)
    calls = record_run(folder, ["-c", TWICE, str(folder / "store"), durability, way])
    left = [name for _, _, names in os.walk(folder) for name in names if name.endswith((".zvtmp", ".zvlock"))]
    assert not left
    read = LocalStore(folder / "store")
    if way in ("put", "writer"):
        assert read.get("a/b") == b"new"
    else:
        assert (zvcore.open(folder / "store")[...] == 2).all()
    names = ("zvlock", "zarr.json")
    return [call for call in calls if not call.first.endswith(names) and not call.second.endswith(names)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("durability", DURABILITIES)
def test_old_files_are_replaced_in_the_way_that_was_asked_for(disk_path: Path, durability: str, way: str) -> None:
    calls = written_twice(disk_path / "folder", durability, way)
    kinds = [call.kind for call in calls]
    objects = 4 if way == "chunks" else 1
    # Documents come by `put`: a dataset is not lost for speed.
    exchanged = objects if durability in ("none", "late") and way != "put" else 0
    assert kinds.count("x") == exchanged
    assert kinds.count("u") == exchanged
    # New files are renamed, whatever is asked for: they replace nothing. Old ones that are kept have a name for that.
    assert kinds.count("r") == 2 * objects - (exchanged if durability == "none" else 0)
    assert ("s" in kinds) == (durability == "fsync" or (durability == "late" and way != "put"))
    if durability == "late" and exchanged:
        # An old version goes after the new one is on the disk.
        assert kinds.index("s") < kinds.index("u")


@pytest.mark.parametrize("durability", ["none", "late"])
@pytest.mark.parametrize("way", WAYS)
def test_without_an_exchange_files_are_renamed(
    tmp_path: Path, disk_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, durability: str
) -> None:
    source = tmp_path / "old.c"
    source.write_text(
        "#include <errno.h>\nint renameat2(int a, const char *b, int c, const char *d, unsigned e)"
        " { errno = EINVAL; return -1; }"
    )
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", tmp_path / "old.so", source], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "old.so"))
    kinds = [call.kind for call in written_twice(disk_path / "folder", durability, way)]
    objects = 4 if way == "chunks" else 1
    renamed = kinds.count("r") - 2 * objects
    # It is tried until it is known, by each thread.
    assert 1 <= renamed <= objects if durability == "late" and way != "put" else renamed == 0
    assert "x" not in kinds


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_folder_in_the_place_of_an_object_stays(tmp_path: Path, durability: str) -> None:
    store = LocalStore(tmp_path, durability=durability)
    store.put("a/b/c", b"inside")
    with pytest.raises(IsADirectoryError):
        store.put("a/b", b"outside")
    assert store.get("a/b/c") == b"inside"
    assert os.listdir(tmp_path / "a") == ["b"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path, durability: str) -> None:
    (tmp_path / "there").write_bytes(b"there")
    store = LocalStore(tmp_path / "store", durability=durability)
    store.make_folder()
    (tmp_path / "store/a").symlink_to(tmp_path / "there")
    store.put("a", b"new")
    assert not (tmp_path / "store/a").is_symlink()
    assert (tmp_path / "there").read_bytes() == b"there"
    assert os.listdir(tmp_path / "store") == ["a"]


def test_commands_know_the_same_names() -> None:
    assert commands.DURABILITIES == DURABILITIES


def test_arguments_come_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LocalStore(tmp_path).durability == "late"
    monkeypatch.setenv("ZVCORE_DURABILITY", "none")
    assert LocalStore(tmp_path).durability == "none"
    assert LocalStore(tmp_path, fsync=False).durability == "late"
    monkeypatch.setenv("ZVCORE_FSYNC", "1")
    assert LocalStore(tmp_path).durability == "fsync"
    assert LocalStore(tmp_path, durability="none").durability == "none"
    assert not LocalStore(tmp_path, durability="none").fsync
    assert LocalStore(tmp_path, fsync=True, durability="fsync").fsync


def test_what_is_no_durability_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'none', 'late', 'rename', 'fsync', not 'sometimes'"):
        LocalStore(tmp_path, durability="sometimes")
    with pytest.raises(ValueError, match="contradict"):
        LocalStore(tmp_path, fsync=True, durability="none")
    with pytest.raises(ValueError, match="for stores in folders"):
        zvcore.open(MemoryStore(), durability="none")
    monkeypatch.setenv("ZVCORE_DURABILITY", "sometimes")
    with pytest.raises(ValueError, match="ZVCORE_DURABILITY is one of none, late, rename, fsync"):
        LocalStore(tmp_path)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_stores_that_are_made_from_a_store_write_as_it_does(tmp_path: Path, durability: str) -> None:
    store = LocalStore(tmp_path, durability=durability)
    assert store.child("a").durability == durability
    assert pickle.loads(pickle.dumps(store)) == store
    assert LocalStore(tmp_path).durable(None, durability) == store
    array = zvcore.create(store, format="n5", shape=(4,), dtype="u1", chunks=(2,))
    assert array.store.durability == durability
    assert zvcore.open(tmp_path, durability=durability).store.durability == durability
    assert zvcore.open(tmp_path, "r+", durability=durability).store.durability == durability


@pytest.mark.parametrize("durability", DURABILITIES)
def test_conversions_write_as_they_are_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    array = zvcore.create(tmp_path / "a.n5", format="n5", shape=(4, 4), dtype="u1", chunks=(2, 2))
    array[...] = 1
    made = []
    original = LocalStore.put

    def put(store: LocalStore, key: str, data: bytes) -> None:
        made.append(store.durability)
        original(store, key, data)

    monkeypatch.setattr(LocalStore, "put", put)
    zvcore.convert(tmp_path / "a.n5", tmp_path / "b.zarr", format="zarr3", durability=durability)
    assert made
    assert set(made) == {durability}
    assert np.array_equal(zvcore.open(tmp_path / "b.zarr")[...], array[...])
