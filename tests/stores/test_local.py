"""What `LocalStore` promises about files, folders, links and open descriptors."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.processes import PATIENCE
from zvcore.errors import ConflictError, CorruptDataError, InvalidKeyError, NotFoundError, UnsupportedError
from zvcore.stores import LocalStore, MemoryStore, Store, files, handles, open_store, register_scheme
from zvcore.stores.handles import HandlePool


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "root")


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


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
    # From here on, whoever writes what, even without our care for the times, the stamp tells.
    Path(store.root, "x").write_bytes(b"2")
    assert store.stamp("x") != stamp


@pytest.mark.parametrize(
    ("modified", "changed", "expected"),
    [
        (-10.0, -10.0, True),
        (0.0, 0.5, False),  # ahead of the clock by less than a clock is off
        (0.0, 3600.0, True),  # a clock that was wrong: nothing to wait for
    ],
)
def test_when_stamps_settle(store: LocalStore, modified: float, changed: float, expected: bool) -> None:
    now = time.time_ns() | 1
    words = [1, 2, 3, now + int(modified * 1e9), now + int(changed * 1e9)]
    stamp = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
    assert store.settled(stamp) is expected


def test_whole_seconds_take_longer_to_settle() -> None:
    second = 10**9
    for ago, expected in ((1, False), (5, True)):
        then = (time.time_ns() // second - ago) * second
        stamp = b"".join(word.to_bytes(8, sys.byteorder) for word in (1, 2, 3, then, then))
        assert files.settled(stamp) is expected


@pytest.mark.parametrize("stamp", [b"", b"x" * 39, b"x" * 41])
def test_what_is_no_stamp(stamp: bytes) -> None:
    for use in (files.settled, files.stamp_size):
        with pytest.raises(ValueError, match="not a stamp"):
            use(stamp)


def test_create_without_hard_links(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.replace

    def replace(path: bytes, parts: tuple[object, ...], sync: bool, exclusive: bool) -> None:
        if exclusive:
            raise OSError(errno.EOPNOTSUPP, "no links here")
        real(path, parts, sync, exclusive)

    monkeypatch.setattr(files, "replace", replace)
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


def test_clean(store: LocalStore) -> None:
    store.put("a/x", b"1")
    young = Path(store.root, "a", ".00aa.zvtmp")
    old = Path(store.root, ".00bb.zvtmp")
    lock = Path(store.root, "a", ".x.zvlock")
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


# --- kept files


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
    before = open_descriptors() - len(handles.pool)
    for i in range(10_000):
        assert store.get(str(i), 0, 5) == b""
        store.get(str(i))
    assert len(handles.pool) <= handles.pool.limit
    assert open_descriptors() - before <= handles.pool.limit
    store.close()
    assert open_descriptors() <= before
    assert store.get("5", 0, 1) == b""
    store.delete_prefix("")
    assert open_descriptors() <= before


def test_errors_leak_no_descriptors(store: LocalStore) -> None:
    store.put("x", b"0123456789")
    stamp = store.stamp("x")
    store.put("x", b"0123456789")
    before = open_descriptors() - len(handles.pool)
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
    assert open_descriptors() - len(handles.pool) == before


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
    assert in_use.read(0) == b"1"  # whoever reads keeps it
    assert open_descriptors() == before + 4
    del in_use
    assert open_descriptors() == before + 3
    pool.clear()
    assert open_descriptors() == before
    nothing = HandlePool(0)
    assert nothing.open(paths[0]).read(0) == b"0"
    assert len(nothing) == 0
    assert open_descriptors() == before


def test_files_that_the_server_has_forgotten_are_opened_anew(
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
        monkeypatch.setitem(handles.pool._kept, Stale.path, Stale())
        assert read() == expected
        assert not isinstance(handles.pool.find(Stale.path), Stale)


def test_a_file_that_is_cut_off_while_it_is_read(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shrinking:
        path = os.fsencode(os.path.join(store.root, "x"))

        def is_current(self) -> bool:
            return True

        def size(self) -> int:
            return 10

        def read(self, start: int, length: int | None, whole: int) -> bytes:
            return b"0123456789"[start : min(start + (length or 0), 6)]

    monkeypatch.setitem(handles.pool._kept, Shrinking.path, Shrinking())
    assert store.get_ranges("x", [(0, 6)]) == [b"012345"]
    with pytest.raises(CorruptDataError) as caught:
        store.get_ranges("x", [(5, 2)])
    assert (caught.value.key, caught.value.offset) == ("x", 5)


def test_file_systems_without_locks(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    store.put("x", b"1")
    monkeypatch.setattr(fcntl, "flock", flock)
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
        monkeypatch.setattr(handles.pool, "find", fail)
        monkeypatch.setattr(files, "stamp", fail)
        assert store.get("x", 1, 2, stamp=stamp) == b"12"
        assert store.get_ranges("x", [(1, 2)], stamp=stamp) == [b"12"]
        assert store.stamp("x") == stamp
        assert store.stamp("nothing") is None


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "٣"])
def test_setting_of_the_pool(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ZVCORE_OPEN_FILES", text)
    with pytest.raises(ValueError, match="ZVCORE_OPEN_FILES"):
        handles.default_limit()
    monkeypatch.setenv("ZVCORE_OPEN_FILES", "0")
    assert handles.default_limit() == 0
    monkeypatch.setenv("ZVCORE_OPEN_FILES", "")
    assert 0 < handles.default_limit() <= 256


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


# --- opening


def test_open_store_by_path(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=str(tmp_path)):
        open_store(tmp_path / "new")
    with pytest.raises(NotFoundError):
        open_store(str(tmp_path / "new"), "r+")
    store = open_store(tmp_path / "new", "w")
    assert isinstance(store, LocalStore)
    assert not store.read_only
    store.put("x", b"1")
    assert open_store(tmp_path / "new").read_only
    assert not open_store(str(tmp_path / "new"), "r+").read_only
    assert open_store(store) is store
    for mode in ("r", "r+", "w"):
        with pytest.raises(UnsupportedError, match="is a file"):
            open_store(tmp_path / "new" / "x", mode)
    for bad in ("a", "", "rw", None):
        with pytest.raises(ValueError, match="mode is"):
            open_store(tmp_path, bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        open_store(5)  # type: ignore[arg-type]


def test_open_store_by_file_url(tmp_path: Path) -> None:
    (tmp_path / "a b#c?d").mkdir()
    for url in (
        f"file://{tmp_path}/a b#c?d",
        f"file://{tmp_path}/a%20b%23c%3Fd",
        f"FILE://localhost{tmp_path}/a%20b#c?d",
    ):
        store = open_store(url)
        assert isinstance(store, LocalStore)
        assert store.root == str(tmp_path / "a b#c?d")
    for url in ("file://server/share", "file://", "file://x"):
        with pytest.raises(UnsupportedError):
            open_store(url)


def test_open_store_in_memory() -> None:
    with pytest.raises(NotFoundError):
        open_store("memory://open-test")
    store = open_store("memory://open-test/sub/folder", "w")
    store.put("x", b"1")
    assert isinstance(store, MemoryStore)
    assert open_store("memory://open-test").get("sub/folder/x") == b"1"
    assert open_store("memory://open-test/sub").read_only
    with pytest.raises(InvalidKeyError):
        open_store("memory://open-test/../other")
    with pytest.raises(ValueError, match="names no memory"):
        open_store("memory://", "w")
    with pytest.raises(TypeError, match="lives in this process only"):
        pickle.dumps(store)
    assert MemoryStore("open-test").object_id("x") == MemoryStore("open-test").object_id("x")
    assert MemoryStore().object_id("x") != MemoryStore().object_id("x")


def test_open_store_elsewhere() -> None:
    with pytest.raises(UnsupportedError, match=r"nothing.*unheard-of://.*zvcore\[remote\]"):
        open_store("unheard-of://bucket/path")
    with pytest.raises(ValueError, match="storage_options are for object stores"):
        open_store("memory://elsewhere", "w", {"endpoint": "http://localhost"})
    opened = []

    def opener(url: str, mode: str) -> Store:
        opened.append((url, mode))
        return MemoryStore()

    register_scheme("Test+scheme", opener)
    assert isinstance(open_store("test+SCHEME://a/b?c", "r+"), MemoryStore)
    assert opened == [("test+SCHEME://a/b?c", "r+")]
