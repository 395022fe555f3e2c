"""Power that fails at any moment of any kind of write: what a disk may then hold is read as the old or the new.

The calls to the system of each kind are recorded, and every state is made that a file system may leave of them
(`powercut/`): ZVCORE_FAULT_CUTS says how many of each kind, 0 means all.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.faults.peers import by_tensorstore, by_zarr_python, needs_peers
from tests.faults.powercut.disk import Disk
from tests.faults.powercut.kinds import KINDS, folder_of
from tests.faults.powercut.recording import Call, record, record_run
from tests.faults.powercut.trials import cuts, moments, try_kind
from zvcore.errors import UnsupportedError
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    seen = disk.live().files
    missed = sorted(name for name in seen.keys() | found.keys() if seen.get(name) != found.get(name))
    assert not missed, "the recorder has missed something"
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


def found_broken(calls: Recorded, name: str, folder: Path, read: Callable[[Path], Any]) -> list[str]:
    """What another program says that finds neither the old nor the new, wherever the writer died; without our notes."""
    said = []
    for number, (disk, written, begun) in enumerate(moments(calls, name, ordered=True)):
        path = folder / str(number)
        path.mkdir()
        disk.live(folder_of(name)).build(path)
        for lock in path.rglob(".*.zvlock"):
            lock.unlink()
        try:
            odd = {*np.unique(read(path)).tolist()} - {1, written, begun}
            said += [f"{number}: {odd}"] if odd else []
        except Exception as error:  # each program has its own
            said.append(f"{number}: {error}")
        shutil.rmtree(path)
    return said


SHORT = [f"zarr shards, append, {how}" for how in ("raw", "zstd", "pages", "no checksum")]
LONG = [f"zarr shards, append, long index{how}" for how in ("", ", no checksum")]


@needs_peers
@pytest.mark.parametrize("read", [by_zarr_python, by_tensorstore])
@pytest.mark.parametrize("name", SHORT)
def test_an_append_that_is_killed_is_whole_for_every_program(
    durable: Recorded, tmp_path: Path, name: str, read: Callable[[Path], Any]
) -> None:
    """Whatever writer dies after whatever page: what others find is the old or the new, without any note of ours."""
    assert not found_broken(durable, name, tmp_path, read)
    for number, (disk, written, begun) in enumerate(moments(durable, name, ordered=True)):
        path = tmp_path / f"ours {number}"
        disk.live(folder_of(name)).build(path)
        assert set(KINDS[name].check(path)) <= {written, begun}


def writes_of_an_append(calls: Recorded, name: str) -> list[int]:
    """Which calls the first append consists of: a copy of the old index, chunks, and the new index."""
    begin = next(number for number, call in enumerate(calls) if call.data == f"begin {name}\n".encode())
    end = next(number for number in range(begin, len(calls)) if calls[number].data == b"written 2\n")
    wrote = [number for number in range(begin, end) if calls[number].kind == "w"]
    return [number for number in wrote if calls[number].inode == calls[wrote[-1]].inode]


@needs_peers
@pytest.mark.parametrize("read", [by_zarr_python, by_tensorstore])
@pytest.mark.parametrize("order", ["no copy", "copy last", "new index first"])
@pytest.mark.parametrize("name", SHORT)
def test_another_order_of_the_same_writes_is_seen_by_other_programs(
    durable: Recorded, tmp_path: Path, name: str, order: str, read: Callable[[Path], Any]
) -> None:
    """If this finds nothing, the test above proves nothing."""
    copy, chunks, index = writes_of_an_append(durable, name)
    calls = Recorded(durable)
    if order == "no copy":
        calls[copy] = replace(durable[copy], data=b"")
    elif order == "copy last":
        calls[copy], calls[chunks] = durable[chunks], durable[copy]
    else:
        calls[copy], calls[index] = durable[index], durable[copy]
    assert found_broken(calls, name, tmp_path, read)


@needs_peers
@pytest.mark.parametrize("read", [by_zarr_python, by_tensorstore])
@pytest.mark.parametrize("name", LONG)
def test_a_longer_index_is_whole_for_us_alone(
    durable: Recorded, tmp_path: Path, name: str, read: Callable[[Path], Any]
) -> None:
    """What docs/guarantees.md says of an index of more than a page; where this ends, the page is to be changed."""
    assert found_broken(durable, name, tmp_path, read)
    for number, (disk, written, begun) in enumerate(moments(durable, name, ordered=True)):
        path = tmp_path / f"ours {number}"
        disk.live(folder_of(name)).build(path)
        assert set(KINDS[name].check(path)) <= {written, begun}


@pytest.mark.parametrize("checksum", [False, True])
def test_an_append_to_an_index_at_the_start_is_refused(tmp_path: Path, checksum: bool) -> None:
    """It would be overwritten where it lies, which other programs could see in part."""
    bytes_ = {"name": "bytes", "configuration": {"endian": "little"}}
    made = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(64,), dtype="u2", chunks=(8,), shards=(64,), codec=None,
        index_location="start", index_codecs=[bytes_, *(["crc32c"] if checksum else [])],
    )  # fmt: skip
    made[...] = 1
    before = (tmp_path / "a/c/0").read_bytes()
    with pytest.raises(UnsupportedError, match="needs the index at the end"):
        zvcore.open(tmp_path / "a", mode="r+", write_mode="append")[:8] = 2
    assert (tmp_path / "a/c/0").read_bytes() == before
    assert [path.name for path in (tmp_path / "a/c").iterdir()] == ["0"]


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
