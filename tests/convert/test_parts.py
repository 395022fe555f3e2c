"""One conversion done by several processes that know nothing of each other: every part by name, in any order."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE, finish, start
from zvcore.commands import cli
from zvcore.converting.note import KEY
from zvcore.converting.part_notes import FOLDER
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores import MemoryStore, open_store

if TYPE_CHECKING:
    from pathlib import Path

MEMORY = 1 << 18
OPTIONS: dict[str, Any] = {"format": "zarr3", "chunks": (16, 16, 16), "shards": (32, 32, 32), "memory": MEMORY}
PYRAMID = {**OPTIONS, "levels": 3, "name": "same"}

PART = """
import json, sys
import zvcore
print(zvcore.convert(sys.argv[1], sys.argv[2], part=sys.argv[4], **json.loads(sys.argv[3])).waiting)
"""
DYING = """
import json, os, signal, sys
import zvcore

def tell(done, total):
    if done >= 2:
        os.kill(os.getpid(), signal.SIGKILL)

zvcore.convert(sys.argv[1], sys.argv[2], part=sys.argv[4], progress=tell, **json.loads(sys.argv[3]))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    values = np.random.default_rng(5).integers(1, 250, (128, 96, 100)).astype("uint8")
    array = zvcore.create(tmp_path / "src", format="n5", shape=(100, 96, 128), dtype="uint8", chunks=(16, 16, 16))
    array[...] = values.T
    return tmp_path / "src"


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files with the same bytes, and nothing else."""
    names = [sorted(str(path.relative_to(at)) for path in at.rglob("*")) for at in (one, other)]
    files = [name for name in names[0] if (one / name).is_file()]
    return names[0] == names[1] and filecmp.cmpfiles(one, other, files, shallow=False)[0] == files


def dying(source: Path, to: Path, options: dict[str, Any], part: str) -> None:
    command = [sys.executable, "-c", DYING, str(source), str(to), json.dumps(options), part]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert answer.returncode == -signal.SIGKILL, answer.stderr


@pytest.mark.parametrize("options", [OPTIONS, PYRAMID], ids=["array", "pyramid"])
def test_processes_at_once_make_the_bytes_of_one(source: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    zvcore.convert(source, tmp_path / "one", **options)
    said = json.dumps(options)
    running = [start(PART, source, tmp_path / "parts", said, f"{number}/3") for number in (1, 2, 3)]
    waiting = [finish(process).strip() for process in running]
    assert "None" in waiting
    assert same(tmp_path / "one", tmp_path / "parts")
    assert zvcore.verify(tmp_path / "parts").ok


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_parts_may_end_in_any_order_and_the_last_closes(source: Path, tmp_path: Path, order: tuple[int, ...]) -> None:
    zvcore.convert(source, tmp_path / "one", **PYRAMID)
    reports = [zvcore.convert(source, tmp_path / "parts", part=(number, 3), **PYRAMID) for number in order]
    assert [report.waiting is None for report in reports] == [False, False, True]
    assert all(report.units for report in reports)
    assert same(tmp_path / "one", tmp_path / "parts")
    again = zvcore.convert(source, tmp_path / "parts", part=(2, 3), **PYRAMID)
    assert again.already_finished and same(tmp_path / "one", tmp_path / "parts")


def test_a_part_that_was_killed_is_named_and_can_be_run_again(source: Path, tmp_path: Path) -> None:
    zvcore.convert(source, tmp_path / "one", **OPTIONS)
    to = tmp_path / "parts"
    zvcore.convert(source, to, part="1/4", **OPTIONS)
    dying(source, to, OPTIONS, "2/4")
    report = zvcore.verify(to)
    assert report.status == "unfinished"
    assert "of 4 parts these are missing: 2/4 (begun), 3-4/4" in str(report)
    assert zvcore.inspect(to)["unfinished"]["parts"] == "of 4 parts these are missing: 2/4 (begun), 3-4/4"
    for number in (4, 3):
        zvcore.convert(source, to, part=(number, 4), **OPTIONS)
    with pytest.raises(ConflictError, match=r"of 4 parts these are missing: 2/4 \(begun\)"):
        zvcore.convert(source, to, finish=True, **OPTIONS)
    last = zvcore.convert(source, to, part=(2, 4), **OPTIONS)
    assert last.waiting is None and last.resumed
    assert same(tmp_path / "one", to)


def test_a_part_that_is_run_twice_does_its_work_once(source: Path, tmp_path: Path) -> None:
    first = zvcore.convert(source, tmp_path / "parts", part=(2, 3), **OPTIONS)
    second = zvcore.convert(source, tmp_path / "parts", part=(2, 3), **OPTIONS)
    assert second.resumed == second.units == first.units and not second.bytes_out


def test_why_a_part_failed_is_told(source: Path, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Stop("the disk is full")

    with pytest.raises(Stop):
        zvcore.convert(source, tmp_path / "parts", part=(1, 2), progress=stop, **OPTIONS)
    assert "1/2 (failed: Stop: the disk is full), 2/2" in str(zvcore.verify(tmp_path / "parts"))


def test_when_the_last_part_dies_while_closing_finish_does_it(source: Path, tmp_path: Path) -> None:
    zvcore.convert(source, tmp_path / "one", **PYRAMID)
    to = tmp_path / "parts"
    zvcore.convert(source, to, part=(1, 2), **PYRAMID)
    shutil.copytree(to / FOLDER, tmp_path / "kept")
    note = (to / KEY).read_bytes()
    zvcore.convert(source, to, part=(2, 2), **PYRAMID)
    # As if it had died after its own units: coarser levels are missing.
    shutil.copytree(tmp_path / "kept", to / FOLDER)
    mark = os.listdir(to / FOLDER)[0]
    first = json.loads((to / FOLDER / mark).read_bytes())
    (step,) = (step for step, spans in first["done"].items() if spans)
    count = first["units"][step]["count"]
    second = {**first, "done": {step: [[count // 2, count]]}}
    (to / FOLDER / mark.replace("-1-of", "-2-of")).write_text(json.dumps(second))
    (to / KEY).write_bytes(note)
    shutil.rmtree(to / "3")
    for record in to.rglob(".zvcore-converted.json"):
        record.unlink()
    assert "all 2 parts are done, but not what comes after them" in str(zvcore.verify(to))
    assert cli.main(["convert", str(source), str(to), "--finish", "-q", *command(PYRAMID)]) == 0
    assert same(tmp_path / "one", to)


def command(options: dict[str, Any]) -> list[str]:
    said = [f"--{name}={','.join(map(str, one)) if isinstance(one, tuple) else one}" for name, one in options.items()]
    return [one for one in said if one]


def test_the_same_on_the_command_line(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zvcore.convert(source, tmp_path / "one", **PYRAMID)
    to = str(tmp_path / "parts")
    assert cli.main(["convert", str(source), to, "--part", "1/2", *command(PYRAMID)]) == 0
    assert "part 1/2 is done; of 2 parts these are missing: 2/2" in "".join(capsys.readouterr())
    assert cli.main(["verify", to]) == 1
    assert cli.main(["convert", str(source), to, "--part", "2/2", *command(PYRAMID)]) == 0
    assert "part 2/2 is done; all of it is finished" in "".join(capsys.readouterr())
    assert same(tmp_path / "one", tmp_path / "parts")
    with pytest.raises(SystemExit):
        cli.main(["convert", str(source), to, "--part", "0/2", *command(PYRAMID)])
    assert "parts are counted from 1" in capsys.readouterr().err


def test_without_a_part_all_that_is_missing_is_done(source: Path, tmp_path: Path) -> None:
    zvcore.convert(source, tmp_path / "one", **OPTIONS)
    zvcore.convert(source, tmp_path / "parts", part=(2, 3), **OPTIONS)
    report = zvcore.convert(source, tmp_path / "parts", **OPTIONS)
    assert 0 < report.resumed < report.units
    assert same(tmp_path / "one", tmp_path / "parts")


def test_parts_that_are_asked_otherwise_are_refused(source: Path, tmp_path: Path) -> None:
    to = tmp_path / "parts"
    zvcore.convert(source, to, part=(1, 3), **OPTIONS)
    with pytest.raises(ConflictError, match="was begun in 3 parts"):
        zvcore.convert(source, to, part=(2, 4), **OPTIONS)
    with pytest.raises(ConflictError, match="another conversion"):
        zvcore.convert(source, to, part=(2, 3), **{**OPTIONS, "chunks": (32, 32, 32)})
    with pytest.raises(ConflictError, match="give all of them the same memory"):
        zvcore.convert(source, to, part=(2, 3), **{**OPTIONS, "memory": 64 << 20})
    with pytest.raises(ValueError, match="remove what is there first"):
        zvcore.convert(source, to, part=(2, 3), overwrite=True, **OPTIONS)
    with pytest.raises(ValueError, match="counted from 1"):
        zvcore.convert(source, to, part=(4, 3), **OPTIONS)
    with pytest.raises(UnsupportedError, match="several processes"):
        zvcore.convert(source, tmp_path / "one.zip", part=(1, 3), **OPTIONS)
    with pytest.raises(ConflictError, match="no unfinished conversion"):
        zvcore.convert(source, tmp_path / "nothing", finish=True, **OPTIONS)


def test_more_parts_than_units_are_done_too(source: Path, tmp_path: Path) -> None:
    options = {**OPTIONS, "shards": (128, 96, 112), "memory": 1 << 30}
    zvcore.convert(source, tmp_path / "one", **options)
    reports = [zvcore.convert(source, tmp_path / "parts", part=(number, 5), **options) for number in range(1, 6)]
    assert sum(report.units for report in reports[:-1]) <= 1 and reports[-1].waiting is None
    assert same(tmp_path / "one", tmp_path / "parts")


def test_parts_of_a_sparse_source_share_what_is_stored(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "src", format="zarr3", shape=(1 << 10, 1 << 10, 64), chunks=(8, 8, 8), dtype="u1")
    for place in range(0, 1024, 64):
        array[place, place, :] = 7
    options = {"format": "n5", "chunks": (16, 16, 16), "memory": MEMORY}
    zvcore.convert(tmp_path / "src", tmp_path / "one", **options)
    reports = [zvcore.convert(tmp_path / "src", tmp_path / "parts", part=(k, 3), **options) for k in (3, 2, 1)]
    assert max(report.units for report in reports[:2]) - min(report.units for report in reports[:2]) <= 1
    assert same(tmp_path / "one", tmp_path / "parts")


def test_a_source_that_changes_between_parts_loses_nothing_that_was_there(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "src", format="zarr3", shape=(1 << 10, 1 << 10, 64), chunks=(8, 8, 8), dtype="u1")
    array[512:520, 512:520] = 7
    options = {"format": "n5", "chunks": (16, 16, 16), "memory": MEMORY}
    zvcore.convert(tmp_path / "src", tmp_path / "parts", part=(1, 2), **options)
    array[256:264, 256:264] = 9
    zvcore.convert(tmp_path / "src", tmp_path / "parts", part=(2, 2), **options)
    assert np.array_equal(zvcore.open(tmp_path / "parts")[...].T, array[...])


def test_coarser_levels_in_parts_are_added_once(source: Path, tmp_path: Path) -> None:
    base = {**PYRAMID, "levels": 1}
    for name in ("one", "parts"):
        zvcore.convert(source, tmp_path / name, **base)
    zvcore.downsample(tmp_path / "one", levels=2, memory=MEMORY)
    ways = {"levels": 2, "memory": MEMORY}
    assert zvcore.downsample(tmp_path / "parts", part=(2, 2), **ways).waiting is not None
    assert zvcore.downsample(tmp_path / "parts", part=(1, 2), **ways).waiting is None
    assert zvcore.downsample(tmp_path / "parts", part=(1, 2), **ways).already_finished
    levels = list(zvcore.open(tmp_path / "parts"))
    compared = zvcore.downsample(tmp_path / "parts", part=(1, 2), verify=True, **ways)
    assert compared.already_finished and compared.verified, "it compares the levels that it has made"
    assert list(zvcore.open(tmp_path / "parts")) == levels, "and makes no further ones"
    for record in [*tmp_path.rglob(".zvcore-converted.json")]:
        record.unlink()
    assert same(tmp_path / "one", tmp_path / "parts")


def test_all_of_an_array_is_looked_at_by_its_parts(source: Path, tmp_path: Path) -> None:
    to = tmp_path / "one"
    zvcore.convert(source, to, manifest=True, **OPTIONS)
    whole = zvcore.verify(to)
    parts = [zvcore.verify(to, part=(number, 3)) for number in (1, 2, 3)]
    for what in ("chunks", "shards", "objects of the manifest"):
        assert sum(part.counts.get(what, 0) for part in parts) == whole.counts[what]
        assert all(part.counts.get(what, 0) for part in parts)
    victim = next(path for path in sorted((to / "c").rglob("*")) if path.is_file())
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 255
    victim.write_bytes(data)
    assert sorted(zvcore.verify(to, part=(number, 3)).ok for number in (1, 2, 3)) == [False, True, True]
    assert {cli.main(["verify", str(to), "--part", f"{number}/3", "-q"]) for number in (1, 2, 3)} == {0, 1}


def test_in_memory_threads_are_parts(source: Path) -> None:
    store = MemoryStore()
    for number in (2, 1):
        report = zvcore.convert(source, store, part=(number, 2), **OPTIONS)
    assert report.waiting is None and [*store.list_dir()[1]] == [".zvcore-converted.json", "zarr.json"]


def test_nothing_is_left_of_parts(source: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        zvcore.convert(source, tmp_path / "parts", part=(number, 2), **OPTIONS)
    assert sorted(os.listdir(tmp_path / "parts")) == [".zvcore-converted.json", "c", "zarr.json"]
    assert open_store(str(tmp_path / "parts"), "r").get(KEY) is None


@pytest.mark.parametrize("options", [OPTIONS, PYRAMID], ids=["array", "pyramid"])
def test_the_first_part_may_be_the_last(source: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    zvcore.convert(source, tmp_path / "one", **options)
    assert zvcore.convert(source, tmp_path / "parts", part=(1, 1), **options).waiting is None
    assert same(tmp_path / "one", tmp_path / "parts")
    zvcore.downsample(tmp_path / "parts", part=(1, 1), memory=MEMORY) if "levels" in options else None
    assert zvcore.verify(tmp_path / "parts").ok


class Died(BaseException):
    """What ends a process at once: nothing is noted after it."""


class Bucket(MemoryStore):
    """As an object store is, in which nothing can be locked."""

    can_lock = False


LAST = [{"part": (2, 2)}, {"finish": True}, {}, {"part": (1, 2)}]


@pytest.mark.parametrize("again", LAST, ids=str)
@pytest.mark.parametrize("left", [0, 1, 2])
def test_when_the_last_part_dies_while_it_removes_the_notes_nothing_is_missed(
    source: Path, again: dict[str, Any], left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notes go one after the other: those that are gone already shall not be taken for parts that never came."""
    one, to = MemoryStore(), MemoryStore()
    zvcore.convert(source, one, **OPTIONS)
    zvcore.convert(source, to, part=(1, 2), **OPTIONS)

    def dying(self: MemoryStore, prefix: str) -> int:
        for name in self.list_dir(prefix)[1][left:]:
            self.delete(f"{prefix}/{name}")
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "delete_prefix", dying)
        with pytest.raises(Died):
            zvcore.convert(source, to, part=(2, 2), **OPTIONS)
    assert "all 2 parts are done" in str(zvcore.verify(to))
    written = []
    with monkeypatch.context() as patch:
        patch.setattr(
            MemoryStore, "put", lambda self, key, data, put=MemoryStore.put: (written.append(key), put(self, key, data))
        )
        assert zvcore.convert(source, to, **again, **OPTIONS).waiting is None
    assert not any(key.startswith("c/") for key in written)  # nothing is done again
    assert {key: to.get(key) for key in to.list()} == {key: one.get(key) for key in one.list()}


@pytest.mark.parametrize("again", LAST[:3], ids=str)
def test_without_locks_a_part_that_died_while_closing_closes_when_it_is_run_again(
    source: Path, again: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, to = MemoryStore(), Bucket()
    zvcore.convert(source, one, **OPTIONS)
    zvcore.convert(source, to, part=(1, 2), **OPTIONS)

    def die(*args: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("zvcore.converting.converting.record_finished", die)
        with pytest.raises(Died):
            zvcore.convert(source, to, part=(2, 2), **OPTIONS)
    # Another part cannot know that it has died.
    assert "all 2 parts are done" in zvcore.convert(source, to, part=(1, 2), **OPTIONS).waiting
    assert zvcore.convert(source, to, **again, **OPTIONS).waiting is None
    assert {key: to.get(key) for key in to.list()} == {key: one.get(key) for key in one.list()}
