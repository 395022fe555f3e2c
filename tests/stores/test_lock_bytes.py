"""Locks in one folder are bytes of one file, which all who may write there may lock, and the last removes."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from tests.processes import PATIENCE, finish, start, tell, told
from zvcore.errors import ConflictError
from zvcore.stores import LocalStore
from zvcore.stores.lock_files import ARE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

LOCK = "..zvlock"
# As `struct flock` lies in the memory of a 64-bit Linux.
FLOCK = struct.Struct("@hhqqi4x")

bytes_only = pytest.mark.skipif(not ARE_BYTES, reason="here each object has a lock file of its own")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def is_locked(path: Path, byte: int) -> bool:
    file = os.open(path, os.O_RDWR)
    try:
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked)
    finally:
        os.close(file)
    return FLOCK.unpack(found)[0] != fcntl.F_UNLCK


def byte_of(name: bytes) -> int:
    """What all versions and builds must agree on: FNV-1a of the name of the note."""
    found = 0xCBF29CE484222325
    for one in b"." + name + b".zvlock":
        found = (found ^ one) * 0x100000001B3 % 2**64
    return 1 + (found >> 2)


@bytes_only
def test_each_object_has_the_byte_that_its_name_says(store: LocalStore, tmp_path: Path) -> None:
    names = [b"0", b"1", b"zarr.json"]
    with store.lock_all(["a/0", "a/zarr.json"]):
        assert [is_locked(tmp_path / "a" / LOCK, byte_of(name)) for name in names] == [True, False, True]
    assert os.listdir(tmp_path / "a") == []


def test_objects_of_a_folder_do_not_wait_for_each_other(store: LocalStore, tmp_path: Path) -> None:
    holder = start(
        """
        import sys
        from zvcore.stores import LocalStore
        with LocalStore(sys.argv[1]).lock_all(["a/0", "a/1", "b"]):
            print("locked", flush=True)
            sys.stdin.readline()
        """,
        store.root,
    )
    assert told(holder) == "locked"
    with store.lock_all(["a/2", "a/3"]), store.lock("a/4", timeout=0):
        for key in ("a/0", "a/1", "b"):
            with pytest.raises(ConflictError), store.lock(key, timeout=0):
                pass
    # Who leaves first leaves the file to who is still at it.
    assert os.listdir(tmp_path / "a")
    tell(holder)
    finish(holder)
    assert os.listdir(tmp_path / "a") == []
    with store.lock("a/0", timeout=0):
        pass


def test_the_last_of_many_removes_the_file(store: LocalStore, tmp_path: Path) -> None:
    """All leave at once, again and again, and others come: none keeps the file for ever, or takes another's away."""
    held: set[int] = set()
    wrong: list[int] = []
    together = threading.Barrier(4)

    def work(number: int) -> None:
        for turn in range(200):
            if turn % 10 == 0:
                together.wait(PATIENCE)
                if os.listdir(tmp_path / "a"):
                    wrong.append(turn)
                together.wait(PATIENCE)
            with store.lock(f"a/{(number + turn) % 2}"):
                if (number + turn) % 2 in held:
                    wrong.append(turn)
                held.add((number + turn) % 2)
                held.discard((number + turn) % 2)

    (tmp_path / "a").mkdir()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not wrong
    assert os.listdir(tmp_path / "a") == []


@bytes_only
@pytest.mark.parametrize("mode", [0o755, 0o775, 0o2770, 0o777])
def test_whoever_may_write_into_the_folder_may_lock_in_it(store: LocalStore, tmp_path: Path, mode: int) -> None:
    """Not only who came first: they change other chunks."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(mode)
    before = os.umask(0o077)
    try:
        with store.lock("a/0"):
            made = os.stat(tmp_path / "a" / LOCK)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.st_mode) == mode & 0o666
    assert made.st_uid == os.stat(tmp_path / "a").st_uid


@bytes_only
def test_root_gives_the_file_to_the_owner_of_the_folder(store: LocalStore, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    (tmp_path / "a").mkdir()
    os.chown(tmp_path / "a", 12345, 12346)
    with store.lock("a/0"):
        made = os.stat(tmp_path / "a" / LOCK)
        assert (made.st_uid, made.st_gid) == (12345, 12346)


@bytes_only
@pytest.mark.parametrize("what", ["a link", "a folder", "a pipe"])
def test_whatever_lies_where_the_lock_file_should_be(store: LocalStore, tmp_path: Path, what: str) -> None:
    (tmp_path / "a").mkdir()
    place, other = tmp_path / "a" / LOCK, tmp_path / "other"
    other.write_bytes(b"mine")
    if what == "a pipe":
        # Nobody reads or writes it: it does as well as a file.
        os.mkfifo(place)
        with store.lock("a/0", timeout=0):
            assert is_locked(place, byte_of(b"0"))
        return
    if what == "a link":
        place.symlink_to(other)
    else:
        place.mkdir()
    with pytest.raises(OSError, match=r"zvlock"), store.lock("a/0"):
        pass
    assert other.read_bytes() == b"mine"


def test_locks_that_are_files_of_their_own(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where bytes cannot be locked: everything else is the same."""
    script = """
        import os, sys, threading
        from zvcore.stores import LocalStore
        from zvcore.stores.lock_files import ARE_BYTES
        assert not ARE_BYTES
        store, keys = LocalStore(sys.argv[1]), ["a/0", "a/1", "b/0"]
        sys.stdin.readline()
        def work():
            for turn in range(60):
                some = keys[turn % 3 :] or keys
                with store.edit_all(some) as edits:
                    beside = [name for name in os.listdir(os.path.join(store.root, "b")) if "zvlock" in name]
                    assert beside == [".0.zvlock"]
                    for edit in edits.values():
                        edit.put(b"%d" % (int(edit.get() or 0) + 1))
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    os.makedirs(os.path.join(store.root, "b"))
    monkeypatch.setenv("ZVCORE_LOCKS", "flock")
    processes = [start(script, store.root) for _ in range(3)]
    for process in processes:
        tell(process)
    for process in processes:
        finish(process)
    assert [store.get(key) for key in ("a/0", "a/1", "b/0")] == [b"120", b"240", b"360"]
    assert sorted(store.list()) == ["a/0", "a/1", "b/0"]
    assert not [name for _, _, names in os.walk(store.root) for name in names if "zvlock" in name]
