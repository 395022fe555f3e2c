"""Data sets that are single files: the store over one file, and the way there from a path or URL."""

from __future__ import annotations

import pickle
import tempfile
from typing import TYPE_CHECKING

import pytest

import zvcore
from zvcore.errors import InvalidKeyError, NotFoundError, ReadOnlyError, UnsupportedError
from zvcore.format import Format, _plugins, register_format
from zvcore.opening import detect, store_at
from zvcore.stores import LocalStore, MemoryStore
from zvcore.stores.single_file import SingleFileStore
from zvcore.stores.whole_files import file_for

if TYPE_CHECKING:
    from pathlib import Path


class Note(Format):
    """Files that are opened as the store over them."""

    name = "note"
    title = "Notes"
    suffixes = (".note",)

    def open(self, store, mode="r", **options):
        return store

    def create(self, store, **options):
        store.put(store.file, b"made")
        return store

    def care(self):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def format():
    register_format(Note())
    yield
    _plugins.unregister("note")


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()


def test_it_has_the_file_and_nothing_that_lies_beside_it(folder):
    folder.put("b.note", b"other")
    folder.put("zarr.json", b"{}")
    store = SingleFileStore(folder, "a.note")
    assert (list(store.list()), store.list_dir(), store.get("a.note")) == ([], ([], []), None)
    store.put("a.note", [b"he", b"llo"])
    assert (list(store.list()), store.list_dir()) == (["a.note"], ([], ["a.note"]))
    assert bytes(store.get("a.note", 1, 3)) == b"ell"
    assert [bytes(part) for part in store.get_ranges("a.note", [(0, 1), (4, 1)])] == [b"h", b"o"]
    assert store.snapshot("a.note").stamp == store.stamp("a.note") == folder.stamp("a.note")
    assert (store.size("zarr.json"), store.get("b.note"), store.delete("b.note")) == (None, None, False)
    for key in ("b.note", "a.note/x"):
        with pytest.raises(InvalidKeyError, match=r"is a file, and holds no other objects.*expected a\.note"):
            store.put(key, b"")
    with pytest.raises(InvalidKeyError):
        store.get("../x")
    store.change("a.note", lambda old: bytes(old) + b"!")
    with store.writer("a.note") as writer:
        writer.write_at(0, b"whole")
    assert store.delete_prefix("") == 1
    assert sorted(folder.list()) == ["b.note", "zarr.json"]
    if isinstance(folder, LocalStore):
        assert pickle.loads(pickle.dumps(store)) == store


def test_notes_about_it_lie_beside_it_and_are_not_listed(folder):
    store = SingleFileStore(folder, "a.note")
    store.put("a.note", b"")
    store.put(".zvcore-convert.json", b"{}")
    assert list(store.list()) == ["a.note"]
    assert store.exists(".zvcore-convert.json")
    assert not SingleFileStore(folder, "b.note").exists(".zvcore-convert.json")
    assert not folder.exists(".zvcore-convert.json")


@pytest.mark.parametrize("place", ["{0}/a.note", "file://{0}/a.note", "{0}/A.NOTE", "file://{0}/a%20b.note"])
def test_a_path_or_url_whose_name_ends_so_is_a_file(tmp_path, place):
    path = place.format(tmp_path)
    with pytest.raises(NotFoundError):
        zvcore.open(path)
    made = zvcore.create(path, format="note", shape=(), dtype="u1")
    assert isinstance(made, SingleFileStore)
    found = zvcore.open(path)
    assert bytes(found.get(found.file)) == b"made"
    assert found.file in ("a.note", "A.NOTE", "a b.note")
    with pytest.raises(ReadOnlyError):
        found.put(found.file, b"")
    assert detect(store_at(path)).name == "note"


def test_in_memory_too():
    zvcore.create("memory://single-file/x/a.note", format="note", shape=(), dtype="u1")
    assert zvcore.open("memory://single-file/x/a.note").file == "a.note"
    assert isinstance(store_at("memory://a.note", "w"), MemoryStore)


def test_folders_with_such_a_name_stay_folders(tmp_path):
    array = zvcore.create(tmp_path / "a.note", format="zarr3", shape=(3,), dtype="u1", chunks=(3,))
    array[...] = 1
    assert zvcore.open(tmp_path / "a.note").format == "zarr3"
    assert zvcore.inspect(tmp_path / "a.note")["format"] == "zarr3"


def test_a_file_of_another_name_is_an_error_that_tells_the_names(tmp_path):
    (tmp_path / "x.bmp").write_bytes(b"BM")
    for look in (zvcore.open, zvcore.inspect):
        with pytest.raises(UnsupportedError, match=r"this is a file, of no format.*\.note \(Notes\)") as caught:
            look(tmp_path / "x.bmp")
        assert "N5" not in str(caught.value)
    assert zvcore.open(tmp_path / "x.bmp", format="note").file == "x.bmp"
    with pytest.raises(ValueError, match=r"note datasets are files, whose names end with \.note"):
        zvcore.create(tmp_path / "x.bmp", format="note", shape=(), dtype="u1")


def test_a_name_without_a_folder_is_in_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zvcore.create("a.note", format="note", shape=(), dtype="u1")
    assert (tmp_path / "a.note").read_bytes() == b"made"
    assert zvcore.open("a.note").root == str(tmp_path / "a.note")


@pytest.mark.parametrize("folder", ["", "new/newer"])
def test_a_file_that_is_made_before_it_is_stored_lies_on_the_disk_that_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """What is large may have no room where temporary files lie."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no room"))
    store = SingleFileStore(LocalStore(tmp_path / folder), "a.nii")
    with pytest.raises(ValueError, match="broken"), file_for(store, "a.nii") as file:
        file.write(b"half")
        raise ValueError("broken")
    assert not [*tmp_path.iterdir()]
    with file_for(store, "a.nii") as file:
        file.write(b"whole")
    assert (tmp_path / folder / "a.nii").read_bytes() == b"whole"


def test_a_file_for_a_store_that_is_no_folder_is_made_where_temporary_files_lie() -> None:
    store = MemoryStore()
    with file_for(SingleFileStore(store, "a.nii"), "a.nii") as file:
        file.write(b"whole")
    assert bytes(store.get("a.nii") or b"") == b"whole"


def test_what_writes_to_files_alone_writes_to_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large images, another one would take as much room and time again."""
    place = SingleFileStore(LocalStore(tmp_path), "a.bin")
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    with file_for(place, "a.bin") as file:
        file.write(b"later")
        file.seek(0)
        file.write(b"first")
        assert [path.suffix for path in tmp_path.iterdir()] == [".zvtmp"]
        assert file.read() == b"" and file.seek(0) == 0 and file.read() == b"first"
    assert (tmp_path / "a.bin").read_bytes() == b"first"
    with pytest.raises(ZeroDivisionError), file_for(place, "a.bin") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"] and (tmp_path / "a.bin").read_bytes() == b"first"
