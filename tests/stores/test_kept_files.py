"""What `LocalStore` keeps open, and what it holds while it changes objects: descriptors, locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError
from zvcore.stores import LocalStore, files, lock_files, open_files
from zvcore.stores.open_files import HandlePool


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "root")


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_replaced_and_removed_objects_are_seen_at_once(store: LocalStore) -> None:
    store.put("x", b"0123456789")
    assert store.get("x", 2, 3) == b"234"
    Path(store.root, "y").write_bytes(b"abcdefghij")
    os.replace(os.path.join(store.root, "y"), os.path.join(store.root, "x"))
    assert store.get("x", 2, 3) == b"cde"
    assert store.get_ranges("x", [(0, 1)]) == [b"a"]
    os.unlink(os.path.join(store.root, "x"))
    assert store.get("x", 2, 3) is None
    assert store.get_ranges("x", [(0, 1)]) is None
    Path(store.root, "x").write_bytes(b"A")
    assert store.get("x", 0, 3) == b"A"
    Path(store.root, "x").write_bytes(b"AB")  # in place
    assert store.get("x", 0, 3) == b"AB"
    os.truncate(os.path.join(store.root, "x"), 1)
    assert store.get("x", -5) == b"A"


def test_ten_thousand_objects_do_not_use_up_descriptors(store: LocalStore) -> None:
    os.makedirs(store.root)
    for i in range(10_000):
        os.close(os.open(os.path.join(store.root, str(i)), os.O_CREAT | os.O_WRONLY))
    before = open_descriptors() - len(open_files.pool)
    for i in range(10_000):
        assert store.get(str(i), 0, 5) == b""
        store.get(str(i))
    assert len(open_files.pool) <= open_files.pool.limit
    assert open_descriptors() - before <= open_files.pool.limit
    store.close()
    assert open_descriptors() <= before
    assert store.get("5", 0, 1) == b""
    store.delete_prefix("")
    assert open_descriptors() <= before


def test_errors_leak_no_descriptors(store: LocalStore) -> None:
    store.put("x", b"0123456789")
    stamp = store.stamp("x")
    store.put("x", b"0123456789")
    before = open_descriptors() - len(open_files.pool)
    for _ in range(50):
        with pytest.raises(ConflictError):
            store.get("x", 1, 2, stamp=stamp)
        with pytest.raises(ConflictError):
            store.put_if_unchanged("x", b"", stamp)
        with pytest.raises(ConflictError):
            store.append("x", b"z", 3)
        with pytest.raises(NotFoundError):
            store.patch("y", 0, b"z")
        with pytest.raises(TypeError):
            store.put("x", [b"", "text"])  # type: ignore[list-item]
        assert store.get("y", 1, 2) is None
    assert open_descriptors() - len(open_files.pool) == before


def test_pool_is_bounded_and_drops_the_oldest(tmp_path: Path) -> None:
    paths = []
    for i in range(5):
        (tmp_path / str(i)).write_bytes(b"%d" % i)
        paths.append(os.fsencode(tmp_path / str(i)))
    pool = HandlePool(3)
    before = open_descriptors()
    for path in paths[:3]:
        pool.open(path)
    assert pool.find(paths[0]) is not None
    in_use = pool.find(paths[1])
    assert in_use is not None
    assert pool.find(paths[0]) is not None
    assert pool.find(paths[2]) is not None
    pool.open(paths[3])
    pool.open(paths[4])
    assert [pool.find(path) is not None for path in paths] == [False, False, True, True, True]
    assert in_use.read(0) == b"1"  # a reader keeps it
    assert open_descriptors() == before + 4
    del in_use
    assert open_descriptors() == before + 3
    pool.clear()
    assert open_descriptors() == before
    nothing = HandlePool(0)
    assert nothing.open(paths[0]).read(0) == b"0"
    assert len(nothing) == 0
    assert open_descriptors() == before


def test_files_that_the_server_has_forgotten_are_opened_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On network file systems a file that another machine removed answers ESTALE, though its path still looks fine."""

    class Stale:
        path = os.fsencode(os.path.join(store.root, "x"))

        def is_current(self) -> bool:
            return True

        def size(self) -> int:
            raise OSError(errno.ESTALE, "stale")

        def read_if_current(self, start: int, length: int | None) -> bytes:
            raise OSError(errno.ESTALE, "stale")

    store.put("x", b"0123")
    for read, expected in ((lambda: store.get("x", 1, 2), b"12"), (lambda: store.get_ranges("x", [(1, 2)]), [b"12"])):
        monkeypatch.setitem(open_files.pool._kept, Stale.path, Stale())
        assert read() == expected
        assert not isinstance(open_files.pool.find(Stale.path), Stale)


def test_a_file_that_is_cut_off_while_it_is_read(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shrinking:
        path = os.fsencode(os.path.join(store.root, "x"))

        def is_current(self) -> bool:
            return True

        def size(self) -> int:
            return 10

        def read(self, start: int, length: int | None, whole: int) -> bytes:
            return b"0123456789"[start : min(start + (length or 0), 6)]

    monkeypatch.setitem(open_files.pool._kept, Shrinking.path, Shrinking())
    assert store.get_ranges("x", [(0, 6)]) == [b"012345"]
    with pytest.raises(CorruptDataError) as caught:
        store.get_ranges("x", [(5, 2)])
    assert (caught.value.key, caught.value.offset) == ("x", 5)


def test_file_systems_without_locks(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(descriptor: int, wait: bool) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    store.put("x", b"1")
    monkeypatch.setattr(lock_files, "take", lambda *_: 0)
    monkeypatch.setattr(lock_files, "enter", enter)
    with pytest.raises(UnsupportedError, match=r"x: the file system of .* has no file locks"), store.lock("x"):
        pass
    assert os.listdir(store.root) == ["x"]
    before = open_descriptors()
    with pytest.raises(UnsupportedError), store.lock("x", timeout=1):
        pass
    assert open_descriptors() == before


def test_a_folder_removed_under_a_lock(store: LocalStore) -> None:
    store.put("d/x", b"1")
    before = open_descriptors()
    with store.lock("d/x"):
        assert store.delete_prefix("d") == 1
        with store.lock("d/y"):
            store.put("d/y", b"2")
    with store.lock("d/x", timeout=0):
        pass
    assert list(store.list()) == ["d/y"]
    assert os.listdir(os.path.join(store.root, "d")) == ["y"]
    assert open_descriptors() == before


def test_under_a_lock_nothing_comes_from_a_kept_file(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may show an old version through what is open or known; a lock means to see the newest."""
    store.put("x", b"0123")
    stamp = store.stamp("x")
    store.get("x", 0, 1)

    def fail(*args: object) -> None:
        raise AssertionError("looked at something kept")

    with store.lock("y"):
        monkeypatch.setattr(open_files.pool, "find", fail)
        monkeypatch.setattr(files, "stamp", fail)
        assert store.get("x", 1, 2, stamp=stamp) == b"12"
        assert store.get_ranges("x", [(1, 2)], stamp=stamp) == [b"12"]
        assert store.stamp("x") == stamp
        assert store.stamp("nothing") is None


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "٣"])
def test_setting_of_the_pool(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ZVCORE_OPEN_FILES", text)
    with pytest.raises(ValueError, match="ZVCORE_OPEN_FILES"):
        open_files.default_limit()
    monkeypatch.setenv("ZVCORE_OPEN_FILES", "0")
    assert open_files.default_limit() == 0
    monkeypatch.setenv("ZVCORE_OPEN_FILES", "")
    assert 0 < open_files.default_limit() <= 256


def test_objects_larger_than_what_one_call_moves(store: LocalStore) -> None:
    """A sparse file, so that nothing but the middle is real."""
    os.makedirs(store.root)
    with open(os.path.join(store.root, "x"), "wb") as file:
        file.truncate(5 * 2**30)
        file.seek(3 * 2**30)
        file.write(b"here")
    assert store.size("x") == 5 * 2**30
    assert store.get("x", 3 * 2**30, 4) == b"here"
    ranges = store.get_ranges("x", [(3 * 2**30 + 1, 2), (5 * 2**30 - 1, 1)])
    assert ranges == [b"er", b"\0"]
    store.patch("x", 4 * 2**30, b"there")
    store.append("x", b"end", at=5 * 2**30)
    assert store.get("x", -4) == b"\0end"
    assert store.get("x", 4 * 2**30, 5) == b"there"
