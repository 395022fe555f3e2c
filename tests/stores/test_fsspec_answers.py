"""What file systems of fsspec answer is not taken for more than it is: folders that fail, objects that change."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from zvcore.errors import ConflictError, CorruptDataError, StoreError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.stores import Store

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.dirfs import DirFileSystem  # noqa: E402
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402
from fsspec.spec import AbstractFileSystem  # noqa: E402


class Failing(MemoryFileSystem):
    """Lists all folders but one; it has no way of its own to list all that is below a folder."""

    protocol = "zvcore-failing"
    find = AbstractFileSystem.find
    error: Exception = OSError("connection lost")

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        if path.rstrip("/").endswith("/b"):
            raise self.error
        return super().ls(path, detail, **kwargs)


class Keeping(MemoryFileSystem):
    """Keeps what it has listed, as that of FTP does, and has no way of its own to list all that is below a folder."""

    protocol = "zvcore-keeping"
    find = AbstractFileSystem.find

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        kept = self.__dict__.setdefault("kept", {})
        name = path.rstrip("/")
        if name not in kept:
            kept[name] = super().ls(path, detail, **kwargs)
        return kept[name]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.__dict__.setdefault("kept", {}).pop((path or "").rstrip("/"), None)


class Changing(MemoryFileSystem):
    """After a look at an object, something happens once."""

    protocol = "zvcore-changing"
    then: Callable[[], None] | None = None

    def info(self, path: str, **kwargs: Any) -> Any:
        found = dict(super().info(path, **kwargs))
        then, self.then = self.then, None
        if then is not None:
            then()
        return found


def opened(error: Exception, wrapped: bool) -> Store:
    files = Failing(skip_instance_cache=True)
    files.store, files.pseudo_dirs, files.error = {}, [""], error
    for name in ("a/1", "b/2", "c/d/3"):
        files.pipe_file(f"/top/{name}", b"x")
    return open_store(DirFileSystem("/top", files), "r") if wrapped else open_store(files, "r").child("top")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_folder_that_cannot_be_listed_is_not_left_out(wrapped: bool) -> None:
    store = opened(OSError("connection lost"), wrapped)
    assert sorted(store.list("a")) == ["a/1"]
    with pytest.raises(StoreError, match="connection lost"):
        list(store.list())


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_folder_that_has_gone_meanwhile_is_no_error(wrapped: bool) -> None:
    assert sorted(opened(FileNotFoundError("b"), wrapped).list()) == ["a/1", "c/d/3"]


def test_a_list_that_the_file_system_has_kept_does_not_hide_what_has_come() -> None:
    files = Keeping(skip_instance_cache=True)
    files.store, files.pseudo_dirs = {}, [""]
    store = open_store(files, "r+").child("top")
    store.put("a/b/1", b"x")
    assert list(store.list()) == ["a/b/1"]
    other = open_store(files, "r+").child("top")
    assert other.list_dir("a/b") == ([], ["1"])
    files.pipe_file("/top/a/b/2", b"y")
    assert list(store.list()) == ["a/b/1", "a/b/2"]


def test_a_whole_file_system_lists_what_it_has() -> None:
    files = MemoryFileSystem(skip_instance_cache=True)
    files.store, files.pseudo_dirs = {}, [""]
    store = open_store(files, "r+")
    store.put("top/a/1", b"x")
    assert list(store.list()) == ["top/a/1"]
    assert store.list_dir("") == (["top"], []) and store.list_dir("top/a") == ([], ["1"])
    assert list(store.child("top").list()) == ["a/1"]


class Dated(MemoryFileSystem):
    """Tells when an object was changed by one name, and when it was made by another."""

    protocol = "zvcore-dated"
    name = "modify"
    change = 1

    def info(self, path: str, **kwargs: Any) -> Any:
        found = super().info(path, **kwargs)
        if found["type"] == "file":
            found = {"name": found["name"], "size": found["size"], "type": "file", "created": 5, self.name: self.change}
        return found


@pytest.mark.parametrize("name", ["modify", "modificationTime", "modified", "mtime"])
def test_versions_of_the_same_size_are_told_apart_however_the_time_is_called(name: str) -> None:
    files = Dated(skip_instance_cache=True)
    files.store, files.pseudo_dirs, files.name = {}, [""], name
    store = open_store(files, "r+")
    store.put("x", b"first")
    before = store.stamp("x")
    files.pipe_file("/x", b"other")
    files.change = 2
    assert store.stamp("x") != before
    with pytest.raises(ConflictError):
        store.put_if_unchanged("x", b"third", before)
    with pytest.raises(ConflictError):
        store.get("x", stamp=before)


@pytest.mark.parametrize(("start", "length"), [(0, None), (0, 1000), (0, 100), (-4, None), (90, None), (90, 20)])
@pytest.mark.parametrize("size", [50, 200])
def test_an_object_that_is_replaced_after_the_look_at_its_size_is_of_one_version(
    start: int, length: int | None, size: int
) -> None:
    files = Changing(skip_instance_cache=True)
    files.store, files.pseudo_dirs = {}, [""]
    store = open_store(files, "r+").child(str(uuid.uuid4()))
    store.put("x", bytes(range(100)))
    new = bytes(range(200, 250)) * (size // 50)
    path = store._path("x")
    files.then = lambda: files.pipe_file(path, new)
    stop = None if length is None else start + length
    found = store.snapshot("x", start, length)
    assert found is not None and bytes(found.data) == new[start:stop]
    assert found.size == size and found.stamp == store.stamp("x")


def test_ranges_of_which_less_came_are_no_shorter_values(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFileSystem(skip_instance_cache=True)
    files.store, files.pseudo_dirs = {}, [""]
    store = open_store(files, "r+")
    store.put("x", bytes(range(100)))
    assert store.get_ranges("x", [(10, 20), (40, 5)]) == [bytes(range(10, 30)), bytes(range(40, 45))]
    monkeypatch.setattr(files, "cat_file", lambda path, start, end: bytes(range(100))[start : end - 1])
    with pytest.raises(CorruptDataError, match="another number of bytes") as raised:
        store.get_ranges("x", [(10, 20), (40, 5)])
    assert (raised.value.key, raised.value.offset, raised.value.expected, raised.value.found) == ("x", 10, 35, 34)
