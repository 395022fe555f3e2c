"""What a folder is listed as, by stores of files: the rules of `LocalStore`, and of `ConfinedStore` beside it."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

import zvcore
from tests.signals import with_a_signal
from zvcore.errors import InvalidKeyError
from zvcore.stores import LocalStore
from zvcore.stores.confined import ConfinedStore, Confinement
from zvcore.stores.listing import Listing

if TYPE_CHECKING:
    from pathlib import Path


def open_below(folder: Path) -> int:
    """How many descriptors of this folder and of what lies in it are open: others come and go, on other threads."""
    gc.collect()
    below = {identity(os.lstat(folder))}
    for above, folders, names in os.walk(folder):
        below.update(identity(os.lstat(os.path.join(above, name))) for name in (*folders, *names))
    count = 0
    for descriptor in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        with contextlib.suppress(OSError):
            count += identity(os.fstat(int(descriptor))) in below
    return count


def identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def confined(folder: Path) -> ConfinedStore:
    return ConfinedStore(Confinement(folder))


def stores(folder: Path) -> tuple[LocalStore, ConfinedStore]:
    return LocalStore(folder), confined(folder)


def as_python_lists(folder: Path) -> list[str]:
    """All that may be a key, by Python's own walk."""
    found = []
    for above, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            key = os.path.relpath(os.path.join(above, name), os.fsencode(folder))
            found.append(key.decode("utf-8", "surrogateescape"))
    return sorted(found)


HOSTILE = [
    b"a\nb", b"\xff\xfe", b"\xed\xa0\x80", "\U0001f600".encode(), "e\u0301".encode(), b"-", b" ", b"\x01", b"~",
    b"\x7f", "\uffff".encode(), b"0", b"00", b"zarr.json", b".zarray", b"..a", b"...", b"%2e%2e", b"\xc0\xae",
    b"n" * 255,
]  # fmt: skip


@pytest.mark.parametrize("head", [b"", b"plain", b"new\nline", b"\xff", "\u00e4".encode()])
def test_names_of_all_kinds_are_listed_in_order(tmp_path: Path, head: bytes) -> None:
    top = os.path.join(os.fsencode(tmp_path), head) if head else os.fsencode(tmp_path)
    for name in HOSTILE:
        os.makedirs(os.path.join(top, b"in", name))
        for path in (os.path.join(top, name), os.path.join(top, b"in", name, name)):
            with open(path, "wb") as file:
                file.write(name)
    expected = as_python_lists(tmp_path)
    assert len(expected) == 2 * len(HOSTILE)
    for store in stores(tmp_path):
        assert list(store.list()) == expected
        assert [bytes(store.get(key) or b"") for key in expected] == [
            key.rpartition("/")[2].encode("utf-8", "surrogateescape") for key in expected
        ]
        folder = head.decode("utf-8", "surrogateescape")
        names = sorted(name.decode("utf-8", "surrogateescape") for name in HOSTILE)
        assert store.list_dir(folder) == (["in"], names)
        assert store.list_dir(f"{folder}/in" if folder else "in") == (names, [])


def test_a_folder_of_more_names_than_are_read_at_once(tmp_path: Path) -> None:
    names = [f"{number:05}" + "x" * (number % 200) for number in range(3000)]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "00000.below").mkdir()
    (tmp_path / "00000.below" / "one").touch()
    for store in stores(tmp_path):
        assert store.list_dir() == (["00000.below"], names)
        assert list(store.list()) == sorted([*names, "00000.below/one"])


def test_keys_come_in_order_also_where_names_of_folders_and_files_begin_alike(tmp_path: Path) -> None:
    for key in ("a", "a-", "a.b", "a0", "b/0", "b-", "b0", "b/1/2", "b/1-"):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).touch()
    for store in stores(tmp_path):
        assert list(store.list()) == ["a", "a-", "a.b", "a0", "b-", "b/0", "b/1-", "b/1/2", "b0"]


def test_what_is_no_file_and_no_folder_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        # By a short way: an address has no room for long ones.
        listener.bind(f"/proc/self/fd/{here}/socket" if os.path.isdir("/proc/self/fd") else str(tmp_path / "socket"))
    finally:
        os.close(here)
        listener.close()
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "to-pipe").symlink_to("pipe")
    for name in (".0.zvtmp", ".0.zvlock", "back\\slash", "seen"):
        (tmp_path / name).touch()
    for store in stores(tmp_path):
        assert list(store.list()) == ["seen"]
        assert store.list_dir() == ([], ["seen"])
        assert store.list_dir("pipe") == store.list_dir("seen") == store.list_dir("missing") == ([], [])
        assert list(store.list("pipe")) == list(store.list("seen")) == list(store.list("missing")) == []


def test_links_count_as_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").touch()
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "to-one").symlink_to("folder/one")
    (tmp_path / "folder" / "up").symlink_to("..")
    for store in stores(tmp_path):
        assert store.list_dir() == (["folder", "to-folder"], ["to-one"])
        assert list(store.list()) == ["folder/one", "to-folder/one", "to-one"]


def test_a_confined_listing_tells_nothing_of_what_lies_outside(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, inside):
        folder.mkdir()
        (folder / "one").touch()
    for name, target in (("folder", outside), ("file", outside / "one"), ("gone", outside / "missing")):
        (inside / name).symlink_to(target)
    # All alike: what lies there decides nothing.
    assert confined(inside).list_dir() == ([], ["file", "folder", "gone", "one"])
    assert list(confined(inside).list()) == ["file", "folder", "gone", "one"]
    with pytest.raises(InvalidKeyError):
        list(confined(inside).list("folder"))
    assert LocalStore(inside).list_dir() == (["folder"], ["file", "one"])


def test_a_folder_that_becomes_a_link_after_it_was_opened_is_still_the_one_that_is_read(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (outside / "secret").touch()
    (inside / "a").mkdir(parents=True)
    (inside / "a" / "one").touch()
    descriptor, _ = Confinement(inside).open([b"a"])
    listing = Listing(b"a", descriptor)
    (inside / "a").rename(inside / "b")
    (inside / "a").symlink_to(outside)
    assert listing.names(False) == ([], ["one"], [])


def test_names_that_are_not_allowed_are_not_listed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "b").touch()
        (tmp_path / name / "c").touch()
    store = ConfinedStore(Confinement(tmp_path), (), lambda name: name != b"b")
    assert store.list_dir() == (["a"], [])
    assert list(store.list()) == ["a/c"]


def test_some_objects_are_those_among_the_first_entries(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    for store in stores(tmp_path):
        assert [len(store.some_objects("", most)) for most in (0, 1, 7, 20, 21, 1000)] == [0, 1, 7, 20, 20, 20]


def test_a_listing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "one").touch()
        (tmp_path / str(number) / "up").symlink_to("..")
    for store in stores(tmp_path):
        before = open_below(tmp_path)
        keys = store.list()
        assert next(keys) == "0/one"
        # Nothing is open while others work with what was found.
        assert open_below(tmp_path) == before
        assert len([*keys]) == 4
        store.list_dir("1")
        store.some_objects("1", 1)
        listing = Listing(os.fsencode(tmp_path))
        assert open_below(tmp_path) == before + 1
        del listing
        assert open_below(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_has_a_longer_path_than_the_system_takes_is_an_error_and_not_left_out(tmp_path: Path, kind: str) -> None:
    zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    folder = os.open(tmp_path / "a.zarr", os.O_RDONLY)
    for _ in range(os.pathconf("/", "PC_PATH_MAX") // 250):
        os.mkdir("d" * 250, dir_fd=folder)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    if kind == "file":
        os.close(os.open("f" * 250, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    else:
        os.mkdir("f" * 250, dir_fd=folder)
    os.close(folder)
    for store in stores(tmp_path / "a.zarr"):
        with pytest.raises(InvalidKeyError, match="the path is longer than the file system can have"):
            list(store.list())
    with pytest.raises(InvalidKeyError, match="the path is longer than the file system can have"):
        zvcore.verify(tmp_path / "a.zarr")
    report = zvcore.verify(tmp_path)
    assert not report.ok
    assert ["the path is longer than the file system can have" in problem.what for problem in report.problems] == [True]


def test_a_folder_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    listing = Listing(os.fsencode(tmp_path))
    assert listing.keys("a/") == ([], ["a/one"])
    with pytest.raises(ValueError, match="has been read"):
        listing.names()


def test_a_folder_that_is_being_read_is_nobody_elses(tmp_path: Path) -> None:
    # More than is read before signals are seen.
    for number in range(1000):
        (tmp_path / f"{number:0200}").touch()
    listing = Listing(os.fsencode(tmp_path))

    def reads_too() -> None:
        with pytest.raises(ValueError, match="has been read"):
            listing.names()

    assert len(with_a_signal(listing.names, reads_too)[1]) == 1000
    assert open_below(tmp_path) == 0


def test_what_cannot_be_opened_as_a_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        Listing(os.fsencode(tmp_path / "file"))
    with pytest.raises(NotADirectoryError):
        # Whoever gives a descriptor is rid of it, whatever happens.
        Listing(b"file", os.open(tmp_path / "file", os.O_RDONLY))
    assert open_below(tmp_path) == 0
    with pytest.raises(FileNotFoundError) as caught:
        Listing(os.fsencode(tmp_path / "missing"))
    assert caught.value.filename == str(tmp_path / "missing")


def test_an_entry_that_cannot_be_looked_at_is_named_by_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "through-a-file").symlink_to("file/below")
    with pytest.raises(NotADirectoryError) as caught:
        LocalStore(tmp_path).list_dir()
    assert caught.value.filename == str(tmp_path / "through-a-file")
    assert caught.value.__class__ is NotADirectoryError


def test_listings_of_several_threads_while_files_come_and_go(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"stays-{number:02}").touch()
    stays = [f"stays-{number:02}" for number in range(50)]
    store = LocalStore(tmp_path)
    wrong: list[object] = []

    def lists() -> None:
        for _ in range(30):
            found = [key for key in store.list() if key.startswith("stays")]
            if found != stays:
                wrong.append(found)

    def changes() -> None:
        for number in range(200):
            (tmp_path / f"goes-{number}").touch()
            (tmp_path / f"goes-{number}").unlink()

    threads = [threading.Thread(target=work) for work in (lists, lists, changes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
