"""Where the system cannot tell whether something is there, that is an error, and no "no"; and it says which file."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.care.manifest import MANIFEST
from zvcore.commands.cli import main
from zvcore.converting import note
from zvcore.converting.note import KEY
from zvcore.errors import InvalidKeyError, NotFoundError, UnfinishedConversionWarning, UnsupportedError
from zvcore.stores import LocalStore, local, lock_files, open_store
from zvcore.stores.plain_files import complete_file
from zvcore.stores.presence import is_there, mode_of, surely_nothing_above

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAILED = os.strerror(errno.EIO)


@pytest.fixture
def failing_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let the system not say what this path is."""

    def begin(place: Path) -> None:
        stat = os.stat

        def fails(path: Any, **options: Any) -> Any:
            if not isinstance(path, int) and os.fsdecode(path) == str(place):
                raise OSError(errno.EIO, FAILED, path)
            return stat(path, **options)

        monkeypatch.setattr(os, "stat", fails)

    return begin


def test_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    assert is_there(tmp_path / "file") and is_there(tmp_path / "loop")
    for absent in ("none", "file/below", "x" * 300, "loop/below", "nul\0"):
        assert not is_there(tmp_path / absent) and mode_of(tmp_path / absent) is None
    assert mode_of(tmp_path / "loop") is None


@pytest.mark.parametrize("mode", ["r", "r+", "w"])
def test_a_folder_that_cannot_be_looked_at_is_neither_missing_nor_a_file(
    tmp_path: Path, failing_at: Any, mode: str
) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    failing_at(tmp_path / "a")
    with pytest.raises(OSError, match=FAILED) as caught:
        open_store(tmp_path / "a", mode)
    assert not isinstance(caught.value, NotFoundError | UnsupportedError)
    assert caught.value.filename == str(tmp_path / "a")


def test_what_cannot_be_looked_at_is_not_passed_over_when_it_is_to_be_removed(tmp_path: Path, failing_at: Any) -> None:
    """Old chunks that stay, where a new array is to be, would be its values."""
    store = LocalStore(tmp_path / "s")
    store.put("c/0", b"old")
    failing_at(tmp_path / "s" / "c")
    with pytest.raises(OSError, match=FAILED):
        store.delete_prefix("c")


def test_a_table_does_not_take_the_place_of_a_file_that_cannot_be_looked_at(tmp_path: Path, failing_at: Any) -> None:
    from zvcore.zvf import write_points

    write_points(tmp_path / "points", np.ones((3, 3)), chunk_shape=(5, 5, 5))
    (tmp_path / "table.csv").write_text("old")
    failing_at(tmp_path / "table.csv")
    with pytest.raises(OSError, match=FAILED):
        zvcore.convert(tmp_path / "points", tmp_path / "table.csv", format="csv")
    assert (tmp_path / "table.csv").read_text() == "old"


def test_a_command_does_not_say_that_there_is_no_folder(
    tmp_path: Path, failing_at: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    (tmp_path / "out").mkdir()
    failing_at(tmp_path / "out")
    assert main(["get", str(tmp_path / "a"), "-o", str(tmp_path / "out" / "a.npy")]) == 1
    said = capsys.readouterr().err
    assert FAILED in said and str(tmp_path / "out") in said and "there is no folder" not in said


def test_a_lock_that_fails_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.EIO, FAILED)

    monkeypatch.setattr(lock_files, "take", lambda *_: 0)
    monkeypatch.setattr(lock_files, "enter", fails)
    with pytest.raises(OSError, match=FAILED) as caught, LocalStore(tmp_path).lock("key"):
        pass
    assert "key" in str(caught.value.filename) and isinstance(caught.value.filename, str)


def test_a_file_that_cannot_be_written_says_which(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=FAILED) as caught, complete_file(tmp_path / "a.npy"):
        raise OSError(errno.EIO, FAILED)
    assert caught.value.filename == str(tmp_path / "a.npy")
    with pytest.raises(OSError, match=FAILED) as caught, complete_file(tmp_path / "a.npy"):
        raise OSError(errno.EIO, FAILED, "source")
    assert caught.value.filename == "source"


@pytest.mark.parametrize("ends", ["close", "patch"])
def test_what_could_not_be_brought_to_the_disk_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    def fails() -> None:
        raise OSError(errno.EIO, FAILED)

    store = LocalStore(tmp_path, durability="late")
    store.put("a", b"12")
    with monkeypatch.context() as patch:
        patch.setattr(local, "settle", fails)
        with pytest.raises(OSError, match=f"{FAILED}: .*old version") as caught:
            store.close() if ends == "close" else store.patch("a", 0, b"3")
    assert caught.value.errno == errno.EIO and caught.value.filename == str(tmp_path)


@pytest.mark.parametrize("inside", ["", "member"])
def test_where_nobody_can_tell_whether_a_conversion_has_ended_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    zvcore.create(tmp_path / "a" / inside, format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    size, stat = LocalStore.size, os.stat

    def no_size(store: LocalStore, key: str) -> int | None:
        if key == KEY and store.root == str(tmp_path / "a"):
            raise OSError(errno.EIO, FAILED, key)
        return size(store, key)

    def no_stat(path: Any, **options: Any) -> Any:
        if path == str(tmp_path / "a" / KEY):
            raise OSError(errno.EIO, FAILED, path)
        return stat(path, **options)

    monkeypatch.setattr(LocalStore, "size", no_size)
    monkeypatch.setattr(os, "stat", no_stat)
    # Native code asks first, which cannot be made to fail so: below, it meets links that lead in a circle.
    monkeypatch.setattr(note, "surely_nothing_above", lambda here, name: False)
    with pytest.warns(UnfinishedConversionWarning, match="cannot be read"):
        zvcore.open(tmp_path / "a" / inside)


@pytest.mark.parametrize("inside", ["", "member", "member/below/there"])
def test_a_note_behind_links_that_end_nowhere_is_told(tmp_path: Path, inside: str) -> None:
    zvcore.create(tmp_path / "a" / inside, format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    assert surely_nothing_above(str(tmp_path / "a" / inside), KEY)
    (tmp_path / "a" / KEY).symlink_to(KEY)
    assert surely_nothing_above(str(tmp_path / "a" / inside), KEY) is (inside == "")
    with pytest.warns(UnfinishedConversionWarning, match="cannot be read"):
        zvcore.open(tmp_path / "a" / inside)


def test_what_lies_above_is_found_wherever_it_does(tmp_path: Path) -> None:
    here = tmp_path / "one" / "two" / "three"
    here.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "one", tmp_path / "one" / "two"):
        assert surely_nothing_above(str(here), "note")
        (folder / "note").mkdir()  # a folder is none
        assert surely_nothing_above(str(here), "note")
        (folder / "note").rmdir()
        (folder / "note").write_bytes(b"")
        assert not surely_nothing_above(str(here), "note")
        (folder / "note").unlink()
    (here / "note").write_bytes(b"")
    assert surely_nothing_above(str(here), "note")
    # What is longer than any path has to be asked for in another way.
    assert not surely_nothing_above(f"/{'x' * 5000}/y", "note")
    assert surely_nothing_above("/", "note") and surely_nothing_above("/etc", "note")


def test_which_objects_are_there(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"1")
    store.put("b/c", b"2")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "astray").symlink_to("none")
    (tmp_path / "link").symlink_to("a")
    # Of a loop, only who opens it is told what is wrong with it.
    asked = ("a", "b", "b/c", "a/x", "none", "loop", "astray", "link", "x" * 300, "y/" * 3000 + "z")
    assert store.present(asked) == {"a", "b/c", "loop", "link"}
    assert store.present(()) == set()
    with pytest.raises(InvalidKeyError):
        store.present(("a", "../a"))


def test_a_whole_object_is_read_at_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"12345")
    store.put("empty", b"")
    (tmp_path / "loop").symlink_to("loop")
    assert store.get("a") == b"12345" and store.get("empty") == b""
    assert store.get("none") is None and store.get("a/below") is None
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)) as caught:
        store.get("loop")
    assert caught.value.errno == errno.ELOOP and caught.value.filename == str(tmp_path / "loop")


@pytest.mark.parametrize("inside", ["", "member"])
def test_a_manifest_that_cannot_be_looked_for_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    zvcore.open(tmp_path / "a", "w", format="zarr3")
    zvcore.create(tmp_path / "a" / "member", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    zvcore.make_manifest(tmp_path / "a")
    assert "of the manifest" in str(zvcore.verify(tmp_path / "a" / inside))
    exists, stat = LocalStore.exists, os.stat

    def cannot_tell(store: LocalStore, key: str) -> bool:
        if key == MANIFEST and store.root == str(tmp_path / "a"):
            raise OSError(errno.EIO, FAILED, key)
        return exists(store, key)

    def no_stat(path: Any, **options: Any) -> Any:
        if path == str(tmp_path / "a" / MANIFEST):
            raise OSError(errno.EIO, FAILED, path)
        return stat(path, **options)

    monkeypatch.setattr(LocalStore, "exists", cannot_tell)
    monkeypatch.setattr(os, "stat", no_stat)
    with pytest.raises(OSError, match=FAILED):
        zvcore.verify(tmp_path / "a" / inside)
