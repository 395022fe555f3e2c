"""Power that fails at any moment of any kind of write: what a disk may then hold is read as the old or the new.

The calls to the system of each kind are recorded, and every state is made that a file system may leave of them
(`powercut/`): ZVCORE_FAULT_CUTS says how many of each kind, 0 means all.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.faults.powercut.disk import Disk
from tests.faults.powercut.kinds import KINDS, folder_of
from tests.faults.powercut.recording import Call, record, record_run
from tests.faults.powercut.trials import cuts, moments, try_kind
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

needs_peers = pytest.mark.skipif(find_spec("zarr") is None or find_spec("tensorstore") is None, reason="no peers")
CUTS = int(os.environ.get("ZVCORE_FAULT_CUTS", "20"))
# Of those that chance chooses, for each moment.
CHANCES = 20


class Recorded(list[Call]):
    def __repr__(self) -> str:
        return f"<{len(self)} calls>"


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """All kinds of writes, one after the other, as they are done with `fsync=True`."""
    folder = tmp_path_factory.mktemp("durable") / "recorded"
    calls = record(folder, list(KINDS), "fsync")
    disk = Disk(ordered=False)
    for call in calls:
        disk.take(call)
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert disk.live().files == found, "the recorder has missed something"
    shutil.rmtree(folder)
    return Recorded(calls)


@pytest.mark.parametrize("ordered", [False, True], ids=["no order", "as ext4"])
@pytest.mark.parametrize("name", KINDS)
def test_with_fsync_a_power_cut_leaves_the_old_or_the_new(durable: Recorded, name: str, ordered: bool) -> None:
    for chances in (0, CHANCES):
        outcome = try_kind(name, cuts(durable, name, ordered, chances, most=CUTS))
        assert set(outcome.counts) == {"sound"}, outcome


# Whole units that are replaced, and attributes.
REPLACING = [
    "zarr chunks, raw", "zarr shards, raw", "n5 blocks, raw", "zarr chunks, zstd", "zarr shards, zstd",
    "n5 blocks, zstd", "precomputed chunks", "precomputed shards", "zarr attributes", "n5 attributes",
]  # fmt: skip


@pytest.fixture(scope="module")
def replaced(disk_folder: Path) -> dict[str, Recorded]:
    """The same writes without syncs, by each way to replace a file."""
    folder = disk_folder / "replaced"
    folder.mkdir()
    return {one: Recorded(record(folder / one, REPLACING, one)) for one in ("none", "late", "rename")}


@pytest.mark.parametrize("name", REPLACING)
def test_with_rename_ext4_leaves_the_old_or_the_new(replaced: dict[str, Recorded], name: str) -> None:
    """Perhaps an older one than what was written last, but whole."""
    for chances in (0, CHANCES):
        outcome = try_kind(name, cuts(replaced["rename"], name, True, chances, most=CUTS))
        assert set(outcome.counts) <= {"sound", "gone"}, outcome


@pytest.mark.parametrize("name", REPLACING)
def test_with_none_ext4_leaves_the_old_the_new_or_an_error(replaced: dict[str, Recorded], name: str) -> None:
    """A file of values may be short: that is told, and never read as other values. Documents are whole."""
    told = 0
    for chances in (0, CHANCES):
        outcome = try_kind(name, cuts(replaced["none"], name, True, chances, most=CUTS))
        assert set(outcome.counts) <= {"sound", "gone", "told"}, outcome
        told += outcome.counts["told"]
    assert bool(told) == ("attributes" not in name), "an exchange writes nothing out, a rename does"


@pytest.mark.parametrize("name", REPLACING)
def test_with_late_ext4_leaves_what_can_be_put_back(replaced: dict[str, Recorded], name: str) -> None:
    """Until then a file of values may be short, which is told; afterwards all are the old or the new."""
    kept: list[str] = []
    for chances in (0, CHANCES):
        states = [*cuts(replaced["late"], name, True, chances, most=CUTS)]
        assert set(try_kind(name, states).counts) <= {"sound", "gone", "told"}
        outcome = try_kind(name, states, first=lambda path: kept.extend(LocalStore(path).put_back()))
        assert set(outcome.counts) <= {"sound", "gone"}, outcome
    # How many of the states that were tried need it depends on when the writer's thread came to its turn.
    assert not kept or "attributes" not in name, "what is renamed is not cut short"


@needs_peers
@pytest.mark.parametrize("how", ["raw", "zstd", "pages"])
def test_an_append_that_is_killed_is_whole_for_every_program(durable: Recorded, tmp_path: Path, how: str) -> None:
    """Whatever writer dies after whatever page: what others find is the old or the new, without any note of ours."""
    import tensorstore
    import zarr

    name = f"zarr shards, append, {how}"
    for number, (disk, written, begun) in enumerate(moments(durable, name, ordered=True)):
        path = tmp_path / str(number)
        path.mkdir()
        disk.live(folder_of(name)).build(path)
        for lock in path.rglob(".*.zvlock"):
            lock.unlink()
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
        for values in (zarr.open_array(path, mode="r")[...], tensorstore.open(spec).result()[...].read().result()):
            assert {*np.unique(values).tolist()} <= {1, written, begun}
        assert set(KINDS[name].check(path)) <= {written, begun}
        shutil.rmtree(path)


@pytest.mark.parametrize("way", ["option", "environment", "neither"])
def test_commands_write_durably_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    source = zvcore.create(tmp_path / "a.n5", format="n5", shape=(4, 4), dtype="u1", chunks=(4, 4))
    source[...] = 1
    (tmp_path / "b").mkdir()
    monkeypatch.setenv("ZVCORE_FSYNC", "1" if way == "environment" else "0")
    more = ["--fsync"] if way == "option" else []
    command = ["convert", "-q", str(tmp_path / "a.n5"), str(tmp_path / "b/c.zarr"), "--format", "zarr3", *more]
    calls = record_run(tmp_path / "b", ["-m", "zvcore", *command])
    synced = {call.inode for call in calls if call.kind == "s"}
    wanted = {os.stat(path).st_ino for path in [tmp_path / "b", *(tmp_path / "b").rglob("*")]}
    assert wanted <= synced if way != "neither" else not synced
    # Not in this process, for good.
    assert os.environ["ZVCORE_FSYNC"] == ("1" if way == "environment" else "0")


FRONTS = {
    "create": "zvcore.create(path, format='zarr3', shape=(4,), dtype='u1', chunks=(2,), **fsync)[...] = 1",
    "open": "g = zvcore.open(path, 'w', format='n5', **fsync)\ng.create_dataset('a', shape=(4,), dtype='u1')[...] = 1",
    "convert": "zvcore.convert(source, path, format='zarr3', **fsync)",
    "downsample": "zvcore.downsample(image, path, levels=1, **fsync)",
    "levels": "zvcore.downsample(image, levels=1, **fsync)",
    "repair": "zvcore.repair(source, path, **fsync)",
    "manifest": "zvcore.make_manifest(source, **fsync)",
    "migrate": "zvcore.migrate(old, format='zarr3', **fsync)",
}


@pytest.mark.parametrize("front", FRONTS)
def test_fsync_means_the_same_in_each_function(tmp_path: Path, front: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZVCORE_FSYNC", raising=False)
    source, image, old = (tmp_path / name for name in ("b.n5", "i.zarr", "o.zarr"))
    zvcore.create(source, format="n5", shape=(4, 4), dtype="u1", chunks=(4, 4))[...] = 1
    zvcore.create(old, format="zarr2", shape=(4,), dtype="u1", chunks=(4,))[...] = 1
    zvcore.convert(source, image, format="zarr3", ome=True)
    names = f"path, source, image, old = {[str(tmp_path / 'new'), str(source), str(image), str(old)]}"
    for asked, durable in (({"fsync": True}, True), ({"fsync": False}, False)):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        # Where it is refused, the environment would have it.
        setting = "" if durable else "import os; os.environ['ZVCORE_FSYNC'] = '1'"
        calls = record_run(tmp_path, ["-c", f"import zvcore\n{setting}\n{names}\nfsync = {asked}\n{FRONTS[front]}"])
        synced = {call.inode for call in calls if call.kind == "s"}
        new = {path.stat().st_ino for path in tmp_path.rglob("*") if path not in before}
        assert (new <= synced and new) if durable else not synced
        for path in [*tmp_path.glob("new"), *source.glob(".zvcore-manifest*"), *tmp_path.glob("o.zarr/zarr.json")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if front == "levels":
            shutil.rmtree(image)
            zvcore.convert(source, image, format="zarr3", ome=True)


def test_folders_that_a_lock_makes_are_durable(tmp_path: Path) -> None:
    script = (
        "import sys; from zvcore.stores import LocalStore\nwith LocalStore(sys.argv[1], fsync=True).lock('b/c/d'): pass"
    )
    calls = record_run(tmp_path, ["-c", script, str(tmp_path / "a")])
    synced = [call.inode for call in calls if call.kind == "s"]
    assert synced == [os.stat(folder).st_ino for folder in (tmp_path, tmp_path / "a", tmp_path / "a/b")]
