"""Zip archives that others change, open for reading, or have open, while this process knows them."""

from __future__ import annotations

import os
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

import zvcore
from tests.stores.test_zip import written
from zvcore.errors import ReadOnlyError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path


def test_what_others_have_made_of_an_archive_is_listed(tmp_path: Path) -> None:
    """Also by a store that was opened before, and by a new one, which shares what the process knows of the archive."""
    for name, keys in (("a.zip", ["one", "f/two"]), ("b.zip", ["one", "f/three", "four"])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for key in keys:
                archive.writestr(key, key)
    for question in (
        lambda store: list(store.list()),
        lambda store: store.list_dir(),
        lambda store: store.sizes(["four", "f/two"]),
        lambda store: [store.exists("four"), store.exists("f/two")],
    ):
        shutil.copy(tmp_path / "a.zip", tmp_path / "now.zip")
        old = open_store(tmp_path / "now.zip")
        before = question(old)
        shutil.copy(tmp_path / "b.zip", tmp_path / "next.zip")
        os.replace(tmp_path / "next.zip", tmp_path / "now.zip")
        expected = question(open_store(tmp_path / "b.zip"))
        assert before != expected
        assert question(open_store(tmp_path / "now.zip")) == expected
        shutil.copy(tmp_path / "a.zip", tmp_path / "next.zip")
        os.replace(tmp_path / "next.zip", tmp_path / "now.zip")
        assert question(old) == before


def test_what_others_add_is_seen_by_who_has_the_archive_open(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    zvcore.create(path, format="zarr3", shape=(4,), dtype="u2", chunks=(1,), codec=None).store.close()
    held = zvcore.open(path)
    assert held[...].tolist() == [0, 0, 0, 0]
    held.store.list_dir()
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("c/2", bytes([7, 0]))
    assert "c/2" in [*held.store.list()]
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("c/1", bytes([8, 0]))
    assert held[...].tolist() == [0, 8, 7, 0]


def test_a_copy_is_made_where_an_archive_was_that_is_still_open(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(4,), dtype="u2", chunks=(1,))
    zvcore.copy(tmp_path / "a.zarr", path)
    held = zvcore.open(path)
    path.unlink()
    report = zvcore.copy(tmp_path / "a.zarr", path)
    assert report.counts["objects copied"] == 1 and path.exists()
    assert held.shape == zvcore.open(path).shape


def test_an_archive_that_is_open_for_reading_can_be_written(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip")
    held = zvcore.open(path)
    assert held[0, 0] == 0
    array = zvcore.open(path, "r+")
    array[0, 0] = 9
    array.store.close()
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
    assert held[0, 0] == zvcore.open(path)[0, 0] == 9
    with pytest.raises(ReadOnlyError):
        held[0, 0] = 1
