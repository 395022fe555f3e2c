"""A store that never leaves its folder: links, pipes, and a folder that becomes a link while it is read."""

from __future__ import annotations

import os
import pickle
import threading
from typing import TYPE_CHECKING

import pytest

import zvcore
from zvcore.errors import ConflictError, InvalidKeyError, ReadOnlyError, UnsupportedError
from zvcore.stores import LocalStore
from zvcore.stores.confined import ConfinedStore, Confinement

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b"the secret of somebody else"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/c").write_bytes(b"0123456789")
    (root / "a/d").write_bytes(b"d")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(SECRET)
    return root


@pytest.fixture(params=["by the system", "folder by folder"])
def store(root: Path, request: pytest.FixtureRequest) -> ConfinedStore:
    folder = Confinement(root)
    if request.param == "folder by folder":
        folder._by_system = False
    return ConfinedStore(folder)


def test_it_reads_as_a_local_store_does(root: Path, store: ConfinedStore) -> None:
    local = LocalStore(root, read_only=True)
    for one, other in ((store, local), (store.child("a"), local.child("a"))):
        assert list(one.list()) == list(other.list())
        assert one.list_dir() == other.list_dir()
        for key in [*other.list(), "nothing", "a", "a/d/e", "x/y/z", "n" * 300]:
            assert one.get(key) == other.get(key)
            assert one.get(key, -3) == other.get(key, -3)
            assert one.get(key, 2, 4) == other.get(key, 2, 4)
            assert one.size(key) == other.size(key)
            assert one.stamp(key) == other.stamp(key)
            assert one.exists(key) == other.exists(key)
            assert one.snapshot(key, -2) == other.snapshot(key, -2)
    assert store.get_ranges("a/b/c", [(8, 2), (0, 3)]) == [b"89", b"012"]
    assert list(store.list("a/b")) == ["a/b/c"]
    assert store.local_root is None


def test_it_only_reads(store: ConfinedStore) -> None:
    for write in (
        lambda: store.put("x", b""), lambda: store.delete("a/d"), lambda: store.delete_prefix("a"),
        lambda: store.put_if_unchanged("x", b"", None), lambda: store.writer("x"),
    ):  # fmt: skip
        with pytest.raises(ReadOnlyError):
            write()
    with pytest.raises(UnsupportedError):
        store.lock("a/d")


def test_an_object_that_was_replaced_is_not_the_one_of_the_stamp(root: Path, store: ConfinedStore) -> None:
    stamp = store.stamp("a/d")
    assert store.get("a/d", stamp=stamp) == b"d"
    (root / "a/new").write_bytes(b"e")
    (root / "a/new").replace(root / "a/d")
    for read in (store.get, store.snapshot):
        with pytest.raises(ConflictError):
            read("a/d", stamp=stamp)
    with pytest.raises(ConflictError):
        store.get_ranges("a/d", [(0, 1)], stamp=stamp)


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("l", "../outside/secret"), ("a/l", "../../outside/secret"), ("l", "{outside}/secret"), ("l", "/etc/passwd"),
        ("l", "a/../../outside/secret"), ("l", "a/b/../../../outside/../outside/secret"), ("l", "/proc/self/environ"),
        ("l", "../outside/nothing"), ("l", "/proc/self/cwd"), ("l", "{root}/../outside/secret"), ("l", "{root}x"),
    ],
)  # fmt: skip
def test_a_link_that_leads_out_is_an_error(
    tmp_path: Path, root: Path, store: ConfinedStore, link: str, target: str
) -> None:
    (root / link).symlink_to(target.format(root=root, outside=tmp_path / "outside"))
    for read in (store.get, store.size, store.stamp, store.snapshot, lambda key: store.get_ranges(key, [(0, 1)])):
        with pytest.raises(InvalidKeyError, match="leads out") as caught:
            read(link)
        assert "outside" not in str(caught.value) and "etc" not in str(caught.value)


@pytest.mark.parametrize("target", ["../outside", "{outside}", "..", "/", "a/../.."])
def test_what_lies_behind_a_folder_that_leads_out_is_not_there(
    tmp_path: Path, root: Path, store: ConfinedStore, target: str
) -> None:
    (root / "l").symlink_to(target.format(outside=tmp_path / "outside"))
    (root / "again").symlink_to("l")
    for folder in ("l", "again"):
        for key in (f"{folder}/secret", f"{folder}/outside/secret", f"{folder}/nothing"):
            with pytest.raises(InvalidKeyError):
                store.get(key)
        with pytest.raises(InvalidKeyError):
            store.list_dir(folder)
        with pytest.raises(InvalidKeyError):
            list(store.child(folder).list())
    # It is named, so that nobody takes it for missing, but not entered.
    assert list(store.list()) == ["a/b/c", "a/d", "again", "l"]


@pytest.mark.parametrize(
    "target", ["a/b", "./a/./b", "a/../a/b", "../root/a/b", "{root}/a/b", "{alias}/a/b", "{root}/../root/a//b", "m"]
)
def test_links_within_the_folder_are_followed(tmp_path: Path, root: Path, target: str) -> None:
    (tmp_path / "alias").symlink_to("root")
    (root / "m").symlink_to("a/b")
    (root / "l").symlink_to(target.format(root=root, alias=tmp_path / "alias"))
    (root / "file").symlink_to("l/c")
    store = ConfinedStore(Confinement(tmp_path / "alias"))
    for key in ("l/c", "file"):
        assert store.get(key) == b"0123456789"
        assert store.stamp(key) == store.stamp("a/b/c")
    assert store.list_dir("l") == ([], ["c"])


@pytest.mark.parametrize("names", [[b".."], [b"a", b"..", b"..", b"outside", b"secret"], [b"../outside"], [b"/etc"]])
def test_names_do_not_lead_out(store: ConfinedStore, names: list[bytes]) -> None:
    folder = store._folder
    for reach in (folder.open, folder.look, folder.open_here, folder.look_here):
        with pytest.raises(InvalidKeyError):
            reach(names)


def test_links_that_lead_in_circles_lead_nowhere(root: Path, store: ConfinedStore) -> None:
    (root / "ring").symlink_to("ring")
    (root / "one").symlink_to("two/x")
    (root / "two").symlink_to("one/x")
    (root / "a/up").symlink_to("..")
    for key in ("ring", "one", "ring/x"):
        assert store.get(key) is None
    assert list(store.list()) == ["a/b/c", "a/d"]


def test_links_do_not_make_a_listing_without_end(root: Path, store: ConfinedStore) -> None:
    """Thirty folders, each with two links to the next: 2**30 paths."""
    for number in range(30):
        (root / f"f{number}").mkdir()
        for name in ("left", "right"):
            (root / f"f{number}" / name).symlink_to(f"../f{number + 1}")
    with pytest.raises(UnsupportedError, match="again and again"):
        list(store.list("f0"))


def test_pipes_and_devices_are_not_opened(root: Path, store: ConfinedStore) -> None:
    pipes = [root / "pipe", root / "a/.d.zvlock"]
    for pipe in pipes:
        os.mkfifo(pipe)
    (root / "zero").symlink_to("/dev/zero")
    # Who writes into a pipe waits until somebody opens it to read.
    writers = [threading.Thread(target=lambda pipe=pipe: os.close(os.open(pipe, os.O_WRONLY))) for pipe in pipes]
    for writer in writers:
        writer.start()
    try:
        assert store.get("pipe") is None
        assert store.stamp("pipe") is None
        assert store.unfinished("a/d") is None
        with pytest.raises(InvalidKeyError):
            store.get("zero")
        assert store.list_dir() == (["a"], ["zero"])
        assert all(writer.is_alive() for writer in writers)
    finally:
        for pipe, writer in zip(pipes, writers, strict=True):
            reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            writer.join()
            os.close(reading)


def test_names_that_are_not_allowed_are_not_reached_through_links(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git/config").write_bytes(SECRET)
    (root / "l").symlink_to(".git/config")
    store = ConfinedStore(Confinement(root), allowed=lambda name: not name.startswith(b"."))
    for key in ("l", ".git/config"):
        with pytest.raises(InvalidKeyError, match="may not be read"):
            store.get(key)
    assert list(store.list()) == ["a/b/c", "a/d", "l"]


def test_nothing_is_opened_once_the_folder_is_closed(root: Path) -> None:
    """The number of a descriptor is soon another folder's."""
    folder = Confinement(root)
    store = ConfinedStore(folder)
    folder.close()
    folder.close()
    with pytest.raises(OSError, match="descriptor"):
        store.get("a/d")


def test_a_copy_for_another_process_opens_its_folder_itself(store: ConfinedStore) -> None:
    copy = pickle.loads(pickle.dumps(store.child("a")))
    assert copy.get("d") == b"d"


def test_a_folder_that_becomes_a_link_while_it_is_read(tmp_path: Path, root: Path, store: ConfinedStore) -> None:
    """Somebody swaps folders and links all the time: what is read is the folder's own, nothing, or an error."""
    (root / "x/b").mkdir(parents=True)
    (root / "x/b/secret").write_bytes(b"mine")
    (tmp_path / "outside/b").mkdir()
    (tmp_path / "outside/b/secret").write_bytes(SECRET)
    for name, target in (("out", "../outside"), ("absolute", tmp_path / "outside"), ("in", "hidden")):
        (root / name).symlink_to(target)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for name in ("out", "absolute", "in"):
                (root / "x").rename(root / "hidden")
                (root / name).rename(root / "x")
                (root / "x").rename(root / name)
                (root / "hidden").rename(root / "x")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for turn in range(6000):
            try:
                if turn % 3 == 0:
                    seen.add(store.get("x/b/secret"))
                elif turn % 3 == 1:
                    seen.add(store.size("x/b/secret"))
                else:
                    seen.update(store.list_dir("x")[1])
            except InvalidKeyError:
                seen.add("refused")
    finally:
        done.set()
        swapper.join()
    assert {b"mine", 4} <= seen
    assert seen <= {b"mine", 4, None, "refused"}


def test_arrays_are_read_through_it(root: Path, store: ConfinedStore) -> None:
    import numpy as np

    values = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    for format, options in (("zarr3", {"shards": (32, 32)}), ("n5", {}), ("zarr3", {})):
        zvcore.create(
            root / "array", format=format, shape=(64, 64), dtype="u2", chunks=(16, 16), overwrite=True, **options
        )[...] = values
        opened = zvcore.open(store.child("array"))
        assert (opened[...] == values).all()
        assert (opened[3:50:7, 20] == values[3:50:7, 20]).all()
