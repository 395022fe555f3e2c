"""Copies of folders that are killed, find no room, or meet others' files: where the system itself copies."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

import zvcore
from tests.faults.support import run
from tests.processes import start, told
from zvcore.stores import LocalStore
from zvcore.stores.file_copies import same_part
from zvcore.stores.files import OpenFile
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from pathlib import Path

COPYING = """
import sys, zvcore
zvcore.copy  # loaded
print("ready", flush=True)
report = zvcore.copy(sys.argv[1], sys.argv[2])
print("done", flush=True)
"""
LARGE = 9 << 20  # more than is copied in one step


def make(folder: Path, count: int) -> dict[str, bytes]:
    chance = random.Random(3)
    wanted = {f"{number % 7}/{number}": chance.randbytes(chance.randrange(30_000)) for number in range(count)}
    wanted |= {"0/large": chance.randbytes(1 << 20) * (LARGE >> 20), "0/empty": b""}
    for name, data in wanted.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return wanted


def files(folder: Path) -> dict[str, bytes]:
    settle()
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_copy_that_was_killed_has_whole_files_and_goes_on(tmp_path: Path) -> None:
    wanted = make(tmp_path / "a", 2000)
    chance, some = random.Random(5), 0
    for number in range(int(os.environ.get("ZVCORE_FAULT_KILLS", "2")) * 4):
        target = tmp_path / f"b{number}"
        process = start(COPYING, tmp_path / "a", target)
        assert told(process) == "ready"
        while not (target / "1").exists():
            time.sleep(0.001)
        time.sleep(0.02 * chance.random())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = {name: data for name, data in files(target).items() if not name.endswith(".zvtmp")}
        assert found == {name: wanted[name] for name in found}
        some += 0 < len(found) < len(wanted)
        report = zvcore.copy(tmp_path / "a", target)
        assert report.ok and report.counts.get("objects the same", 0) == len(found)
        assert {name: data for name, data in files(target).items() if not name.endswith(".zvtmp")} == wanted
    assert some, "it was never killed in the middle"


NO_ROOM = """
import resource, signal, sys, zvcore
zvcore.copy  # loaded
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
report = zvcore.copy(sys.argv[1], sys.argv[2])
print(*sorted(one.where for one in report.problems if one.fatal))
"""


def test_files_for_which_there_is_no_room_are_told_of_and_leave_nothing(tmp_path: Path) -> None:
    """A limit on the size of files fails a write half way, as a full disk does."""
    wanted = make(tmp_path / "a", 60)
    said = run(NO_ROOM, tmp_path / "a", tmp_path / "b").split()
    assert said == sorted(name for name, data in wanted.items() if len(data) > 20_000)
    assert files(tmp_path / "b") == {name: data for name, data in wanted.items() if len(data) <= 20_000}


@pytest.mark.parametrize("function", [zvcore.copy, zvcore.sync])
def test_what_is_there_is_left_or_replaced_whole(tmp_path: Path, function) -> None:
    wanted = make(tmp_path / "a", 40)
    assert function(tmp_path / "a", tmp_path / "b").ok
    (tmp_path / "b/1/1").write_bytes(wanted["1/1"][:-1])
    (tmp_path / "b/0/large").write_bytes(wanted["0/large"][:-1] + b"!")
    (tmp_path / "elsewhere").write_bytes(b"precious")
    for link, leads in (("2/2", "elsewhere"), ("3/3", "nowhere")):
        (tmp_path / "b" / link).unlink()
        (tmp_path / "b" / link).symlink_to(tmp_path / leads)
    os.mkfifo(tmp_path / "b/new")
    (tmp_path / "a/new").write_bytes(b"new")
    report = function(tmp_path / "a", tmp_path / "b")
    if function is zvcore.sync:
        assert report.ok
        assert files(tmp_path / "b") == wanted | {"new": b"new"}
        assert not any(path.is_symlink() for path in (tmp_path / "b").rglob("*"))
    else:
        # A pipe is no object, and a link to nothing none either.
        assert {one.where for one in report.problems if one.fatal} == {"1/1", "0/large", "2/2"}
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()


def test_what_is_only_read_is_not_written(tmp_path: Path) -> None:
    make(tmp_path / "a", 20)
    (tmp_path / "b").mkdir()
    report = zvcore.copy(tmp_path / "a", LocalStore(tmp_path / "b", read_only=True))
    assert not report.ok and all("read" in one.what for one in report.problems if one.fatal)
    assert not files(tmp_path / "b")


def test_stores_that_are_derived_write_themselves(tmp_path: Path) -> None:
    class Turned(LocalStore):
        def put_data(self, key: str, data) -> None:
            super().put_data(key, bytes(data)[::-1])

    wanted = make(tmp_path / "a", 20)
    del wanted["0/large"]
    (tmp_path / "a/0/large").unlink()
    assert zvcore.copy(tmp_path / "a", Turned(tmp_path / "b")).ok
    assert files(tmp_path / "b") == {name: data[::-1] for name, data in wanted.items()}


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="no file is known here whose reading fails")
def test_what_cannot_be_read_is_not_taken_for_something_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    one, unread = OpenFile(os.fsencode(tmp_path / "a")), OpenFile(b"/proc/self/mem")
    assert same_part(one, one, 0, 100)
    assert not same_part(one, one, 0, 101)
    for pair in ((one, unread), (unread, one)):
        with pytest.raises(OSError, match=r"Input/output error: '/proc/self/mem'"):
            same_part(*pair, 0, 100)
