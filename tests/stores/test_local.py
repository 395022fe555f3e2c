"""What `LocalStore` promises about files, folders, links and their replacement."""

from __future__ import annotations

import errno
import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.processes import PATIENCE
from zvcore.errors import ConflictError, NotFoundError
from zvcore.stores import LocalStore, file_writes, files
from zvcore.stores.lock_names import lock_file, lock_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "root")


# --- where objects lie


def test_objects_are_plain_files(store: LocalStore) -> None:
    store.put("a/b", b"x")
    assert Path(store.root, "a", "b").read_bytes() == b"x"
    Path(store.root, "c").write_bytes(b"y")
    assert store.get("c") == b"y"
    assert store.local_root == os.fsencode(store.root)
    assert store.child("a").local_root == os.fsencode(os.path.join(store.root, "a"))


def test_nothing_is_made_before_the_first_write(store: LocalStore) -> None:
    assert store.get("x") is None
    assert list(store.list()) == []
    assert store.list_dir() == ([], [])
    assert store.delete_prefix("") == 0
    assert store.clean() == 0
    assert not os.path.exists(store.root)


def test_files_follow_the_umask(store: LocalStore) -> None:
    before = os.umask(0o027)
    try:
        store.put("x", b"")
    finally:
        os.umask(before)
    assert os.stat(os.path.join(store.root, "x")).st_mode & 0o777 == 0o640


def test_relative_roots_stay_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("here")
    store.put("x", b"1")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    assert store.get("x") == b"1"
    assert store.root == str(tmp_path / "here")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, a current directory stays or has a name")
def test_a_current_directory_that_is_gone_is_named_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError, match=r"current directory has been removed.*'x\.zarr'"):
        LocalStore("x.zarr")
    assert LocalStore(tmp_path).root == str(tmp_path)


def test_dots_in_a_root_mean_what_the_file_system_means(tmp_path: Path) -> None:
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inner")
    assert LocalStore(tmp_path / "link" / "..").root == str(tmp_path / "far")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_roots_that_are_none(path: str) -> None:
    with pytest.raises(ValueError, match="names no folder"):
        LocalStore(path)


def test_pickle_and_equality(store: LocalStore) -> None:
    store.put("x", b"1")
    for one in (store, LocalStore(store.root, read_only=True), LocalStore(store.root, fsync=True), store.child("a")):
        other = pickle.loads(pickle.dumps(one))
        assert other == one
        assert hash(other) == hash(one)
        assert (other.root, other.read_only, other.fsync) == (one.root, one.read_only, one.fsync)
    assert store != LocalStore(store.root, read_only=True)
    assert store != store.child("a")
    assert store != 5


def test_a_folder_or_a_file_in_the_way(store: LocalStore) -> None:
    store.put("a/b", b"x")
    assert store.get("a") is None
    assert store.get("a", 1, 1) is None
    assert store.size("a") is None
    assert store.get_ranges("a", [(0, 1)]) is None
    assert store.get("a/b/c") is None
    assert store.stamp("a/b/c") is None
    assert not store.delete("a")
    assert not store.delete("a/b/c")
    with pytest.raises(OSError) as caught:
        store.put("a", b"x")
    assert caught.value.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST)
    with pytest.raises(NotADirectoryError):
        store.put("a/b/c", b"x")
    assert sorted(os.listdir(store.root)) == ["a"]
    assert os.listdir(os.path.join(store.root, "a")) == ["b"]
    for change in (store.patch, lambda key, at, data: store.append(key, data, at)):
        with pytest.raises((NotFoundError, IsADirectoryError)):
            change("a", 0, b"")


def test_names_longer_than_any(store: LocalStore) -> None:
    store.put("x", b"")
    for key in ("n" * 300, "/".join(["d" * 200] * 40)):
        assert store.get(key) is None
        assert store.get(key, 1, 1) is None
        assert store.stamp(key) is None
        with pytest.raises(OSError) as caught:
            store.put(key, b"x")
        assert caught.value.errno == errno.ENAMETOOLONG
    longest = "n" * 255
    store.put(longest, b"x")
    with store.lock(longest):
        store.put_if_unchanged(longest, b"y", store.stamp(longest))
    assert store.get(longest) == b"y"
    assert list(store.list()) == [longest, "x"]


def test_what_is_no_file_is_no_object(store: LocalStore) -> None:
    store.put("x", b"1")
    os.mkfifo(os.path.join(store.root, "pipe"))
    os.symlink("/dev/zero", os.path.join(store.root, "zero"))
    os.symlink("nowhere", os.path.join(store.root, "dangling"))
    for key in ("pipe", "zero", "dangling"):
        assert store.get(key) is None
        assert store.get(key, 0, 5) is None
        assert store.stamp(key) is None
        with pytest.raises((NotFoundError, OSError)):
            store.append(key, b"x", 0)
    assert list(store.list()) == ["x"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems only take Unicode names")
def test_names_that_are_not_unicode(store: LocalStore) -> None:
    os.makedirs(os.path.join(os.fsencode(store.root), b"d\xff"))
    Path(os.fsdecode(os.path.join(os.fsencode(store.root), b"d\xff", b"\xfe.x"))).write_bytes(b"1")
    (key,) = store.list()
    assert store.get(key) == b"1"
    assert store.child(key.partition("/")[0]).list_dir() == ([], [key.partition("/")[2]])
    store.put(key, b"2")
    assert store.get(key, 0, 5) == b"2"
    assert store.delete(key)


def test_names_that_cannot_be_keys_are_not_listed(store: LocalStore) -> None:
    store.put("x", b"1")
    Path(store.root, "back\\slash").write_bytes(b"")
    Path(store.root, ".0123.zvtmp").write_bytes(b"")
    Path(store.root, ".x.zvlock").write_bytes(b"")
    assert store.list_dir() == ([], ["x"])
    assert list(store.list()) == ["x"]
    assert store.delete_prefix("") == 1
    assert os.listdir(store.root) == []


# --- links


def test_links_of_the_user_are_followed(store: LocalStore, tmp_path: Path) -> None:
    outside = LocalStore(tmp_path / "outside")
    outside.put("d/one", b"1")
    outside.put("two", b"2")
    os.makedirs(store.root)
    os.symlink(tmp_path / "outside" / "d", os.path.join(store.root, "folder"))
    os.symlink(tmp_path / "outside" / "two", os.path.join(store.root, "file"))
    assert list(store.list()) == ["file", "folder/one"]
    assert store.get("folder/one") == b"1"
    assert store.get("file", 0, 9) == b"2"
    first = store.stamp("file")
    outside.put("two", b"22")
    assert store.stamp("file") != first
    assert store.get("file", 0, 9) == b"22"
    store.put("folder/new", b"3")
    assert outside.get("d/new") == b"3"


def test_a_write_replaces_a_link_and_deleting_spares_its_target(store: LocalStore, tmp_path: Path) -> None:
    outside = LocalStore(tmp_path / "outside")
    outside.put("d/one", b"1")
    outside.put("two", b"2")
    os.makedirs(os.path.join(store.root, "sub"))
    os.symlink(tmp_path / "outside" / "d", os.path.join(store.root, "sub", "folder"))
    os.symlink(tmp_path / "outside" / "two", os.path.join(store.root, "file"))
    store.put("file", b"new")
    assert store.get("file") == b"new"
    os.symlink(tmp_path / "outside" / "two", os.path.join(store.root, "again"))
    assert store.delete("again")
    assert store.delete_prefix("sub/folder") == 1  # the link
    assert store.list_dir("sub") == ([], [])
    os.symlink(tmp_path / "outside" / "d", os.path.join(store.root, "sub", "folder"))
    assert store.delete_prefix("sub") == 1
    assert store.delete_prefix("") == 1
    assert sorted(outside.list()) == ["d/one", "two"]


def test_links_in_circles(store: LocalStore) -> None:
    store.put("a/x", b"")
    store.put("b/y", b"")
    os.symlink("..", os.path.join(store.root, "a", "up"))
    os.symlink(os.path.join(store.root, "b"), os.path.join(store.root, "a", "to-b"))
    os.symlink(os.path.join(store.root, "a"), os.path.join(store.root, "b", "to-a"))
    os.symlink("self", os.path.join(store.root, "self"))
    keys = list(store.list())
    assert {"a/x", "b/y", "a/to-b/y", "b/to-a/x"} <= set(keys)
    assert len(keys) < 20
    with pytest.raises(OSError) as caught:
        store.get("self")
    assert caught.value.errno == errno.ELOOP


def test_a_root_that_is_a_link_is_emptied_not_removed(tmp_path: Path) -> None:
    LocalStore(tmp_path / "real").put("a/b", b"x")
    os.symlink(tmp_path / "real", tmp_path / "link")
    store = LocalStore(tmp_path / "link")
    assert store.delete_prefix("") == 1
    assert os.path.islink(tmp_path / "link")
    assert os.listdir(tmp_path / "real") == []


# --- replacement


def test_nothing_is_left_over(store: LocalStore) -> None:
    for i in range(20):
        store.put("d/x", b"%d" % i)
        store.put_if_unchanged("d/x", b"-", store.stamp("d/x"))
        store.put_if_unchanged(f"d/new{i}", b"-", None)
        with pytest.raises(ConflictError):
            store.put_if_unchanged(f"d/new{i}", b"-", None)
    assert sorted(os.listdir(os.path.join(store.root, "d"))) == sorted(["x", *(f"new{i}" for i in range(20))])


def test_two_versions_of_one_moment_have_two_stamps(store: LocalStore) -> None:
    """An inode number comes back at once, and the kernel's clock stands still for milliseconds."""
    stamps = []
    for i in range(300):
        store.put("x", b"%03d" % i)
        stamps.append(store.stamp("x"))
    assert len(set(stamps)) == 300


def test_changes_by_others_are_seen(store: LocalStore) -> None:
    path = Path(store.root, "x")
    store.put("x", b"aaaa")
    seen = {store.stamp("x")}
    # Same size, same inode, and a modification time set back to what it was.
    times = os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns
    time.sleep(0.02)
    with path.open("r+b") as file:
        file.write(b"bbbb")
    os.utime(path, ns=times)
    seen.add(store.stamp("x"))
    assert store.get("x", 0, 4) == b"bbbb"
    # A copy that looks like the old one in everything that can be forged.
    other = path.with_name("y")
    other.write_bytes(b"cccc")
    os.utime(other, ns=times)
    os.replace(other, path)
    seen.add(store.stamp("x"))
    assert store.get("x", 0, 4) == b"cccc"
    # A clock that was set back years.
    path.write_bytes(b"dddd")
    os.utime(path, ns=(0, 0))
    seen.add(store.stamp("x"))
    assert len(seen) == 4


def test_a_stamp_settles(store: LocalStore) -> None:
    store.put("x", b"1")
    stamp = store.stamp("x")
    assert stamp is not None
    deadline = time.monotonic() + PATIENCE
    while not store.settled(stamp):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert store.stamp("x") == stamp
    # From here on, whatever is written, even without our care for the times, the stamp shows it.
    Path(store.root, "x").write_bytes(b"2")
    assert store.stamp("x") != stamp


def asked_at_once(ask: Callable[[int], bool], most: int, within: int = 1 << 62) -> bool:
    """What the answer is when no more than so many nanoseconds pass between looking at the clock and the answer, and
    both lie in one such period: a process that stands still in between asks something else.
    """
    while True:
        now = time.time_ns()
        found = ask(now)
        after = time.time_ns()
        if after - now < most and after // within == now // within:
            return found


@pytest.mark.parametrize(
    ("modified", "changed", "expected"),
    [
        (-10.0, -10.0, True),
        (0.0, 0.5, False),  # ahead of the clock by less than a clock is off
        (0.0, 3600.0, True),  # a clock that was wrong: nothing to wait for
    ],
)
def test_when_stamps_settle(store: LocalStore, modified: float, changed: float, expected: bool) -> None:
    def ask(now: int) -> bool:
        words = [1, 2, 3, (now | 1) + int(modified * 1e9), (now | 1) + int(changed * 1e9)]
        return store.settled(b"".join(word.to_bytes(8, sys.byteorder) for word in words))

    assert asked_at_once(ask, 200_000_000) is expected


def test_whole_seconds_take_longer_to_settle() -> None:
    second = 10**9
    for ago, expected in ((1, False), (5, True)):

        def ask(now: int, ago: int = ago) -> bool:
            then = (now // second - ago) * second
            return files.settled(b"".join(word.to_bytes(8, sys.byteorder) for word in (1, 2, 3, then, then)))

        assert asked_at_once(ask, second // 4, within=second) is expected


@pytest.mark.parametrize("stamp", [b"", b"x" * 39, b"x" * 41])
def test_what_is_no_stamp(stamp: bytes) -> None:
    for use in (files.settled, files.stamp_size):
        with pytest.raises(ValueError, match="not a stamp"):
            use(stamp)


def test_create_without_hard_links(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = file_writes.replace

    def replace(path: bytes, parts: tuple[object, ...], sync: bool, exclusive: bool) -> None:
        if exclusive:
            raise OSError(errno.EOPNOTSUPP, "no links here")
        real(path, parts, sync, exclusive)

    monkeypatch.setattr(file_writes, "replace", replace)
    store.put_if_unchanged("x", b"1", None)
    assert store.get("x") == b"1"
    with pytest.raises(ConflictError):
        store.put_if_unchanged("x", b"2", None)


def test_create_beside_someone_who_takes_no_lock(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("x", b"theirs")
    monkeypatch.setattr(LocalStore, "stamp", lambda self, key: None)  # they came after we looked
    with pytest.raises(ConflictError, match="exists already"):
        store.put_if_unchanged("x", b"ours", None)
    assert store.get("x") == b"theirs"
    assert os.listdir(store.root) == ["x"]


def test_a_folder_that_goes_away_while_writing(store: LocalStore) -> None:
    stop = threading.Event()

    def remove() -> None:
        while not stop.is_set():
            store.delete_prefix("a")

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        for _ in range(200):
            store.put("a/b/c", b"x")
    finally:
        stop.set()
        thread.join()


def test_huge_parts_are_written_whole(store: LocalStore) -> None:
    # More parts than one call takes, of sizes that end nowhere in particular.
    parts = [bytes([i % 251]) * (i * 7 % 400) for i in range(3000)]
    store.put("x", parts)
    assert store.get("x") == b"".join(parts)
    store.append("x", parts, at=sum(map(len, parts)))
    assert store.get("x") == b"".join(parts) * 2


def test_parts_that_are_larger_than_one_call_writes_are_written_whole(store: LocalStore) -> None:
    parts = [np.random.default_rng(size).bytes(size) for size in (3 << 20, 5, (1 << 20) + 1, 1 << 20, 0, 700_001)]
    store.put("x", parts)
    assert store.get("x") == b"".join(parts)


def test_durable_writes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "not" / "yet", fsync=True)
    store.put("a/b/c", b"0")
    store.put("a/b/c", [b"01", b"23"])
    store.append("a/b/c", b"45", at=4)
    store.patch("a/b/c", 1, b"xx")
    store.put_if_unchanged("a/b/d", b"new", None)
    store.put_if_unchanged("a/b/d", b"newer", store.stamp("a/b/d"))
    assert [(key, store.get(key)) for key in store.list()] == [("a/b/c", b"0xx345"), ("a/b/d", b"newer")]
    with pytest.raises(NotADirectoryError):
        store.put("a/b/c/d", b"")
    assert store.child("a").fsync


@pytest.mark.parametrize("asked", ["clean", "put_back", "damaged"])
def test_a_folder_that_cannot_be_listed_is_no_empty_one(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Root may list any folder, so it is the system that is asked to refuse."""
    store.put("closed/a", b"1")
    plainly = os.scandir

    def refuse(path: Any) -> Any:
        if os.fsdecode(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return plainly(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="closed"):
        list(getattr(store, asked)() or ())


def test_clean(store: LocalStore) -> None:
    store.put("a/x", b"1")
    young = Path(store.root, "a", ".00aa.zvtmp")
    old = Path(store.root, ".00bb.zvtmp")
    lock = Path(os.fsdecode(lock_file(lock_path(os.path.join(os.fsencode(store.root), b"a", b"x")))))
    for path in (young, old, lock):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    with store.lock("a/x"):
        assert store.clean() == 1
        assert young.exists()
        assert lock.exists()
    lock.write_bytes(b"")
    assert store.clean(older_than=0) == 2
    assert not any(path.exists() for path in (young, old, lock))
    assert list(store.list()) == ["a/x"]
