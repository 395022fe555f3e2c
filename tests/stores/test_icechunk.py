"""Icechunk: sessions as places, whose commits are made by those who opened them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.errors import ReadOnlyError, StoreError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

icechunk = pytest.importorskip("icechunk")

VALUES = np.arange(24 * 20, dtype="uint16").reshape(24, 20)


@pytest.fixture
def repository(tmp_path: Path) -> Any:
    return icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repository")))


def committed(repository: Any) -> Any:
    return repository.readonly_session("main")


def test_an_array_is_created_in_a_session_and_read_by_zarr_after_the_commit(repository: Any) -> None:
    session = repository.writable_session("main")
    zvcore.create(session, format="zarr3", data=VALUES, chunks=(6, 10), shards=(12, 20))
    assert session.has_uncommitted_changes
    session.commit("made by zvcore")
    np.testing.assert_array_equal(zarr.open_array(committed(repository).store, mode="r")[...], VALUES)
    opened = zvcore.open(committed(repository))
    np.testing.assert_array_equal(opened[...], VALUES)
    np.testing.assert_array_equal(opened[5:9, 3], VALUES[5:9, 3])
    assert zvcore.verify(committed(repository)).ok


def test_a_pyramid_is_converted_into_a_session_and_back(repository: Any, tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a.n5", format="n5", data=VALUES, chunks=(6, 10))
    session = repository.writable_session("main")
    report = zvcore.convert(tmp_path / "a.n5", session, format="zarr3", shards=True, levels=1, verify=True)
    assert report.ok
    session.commit("converted")
    group: Any = zarr.open_group(committed(repository).store, mode="r")
    np.testing.assert_array_equal(group["0"][...], VALUES.T)
    assert group.attrs["ome"]["multiscales"]
    zvcore.convert(committed(repository), tmp_path / "back.n5", format="n5", verify=True)
    np.testing.assert_array_equal(zvcore.open(tmp_path / "back.n5")["s0"][...], VALUES)


def test_a_chunk_that_was_lost_is_a_store_error_that_names_it_and_a_problem_of_verify(
    repository: Any, tmp_path: Path
) -> None:
    session = repository.writable_session("main")
    zvcore.create(session, format="zarr3", data=np.arange(50000.0), chunks=(25000,))
    session.commit("made by zvcore")
    for chunk in (tmp_path / "repository" / "chunks").iterdir():
        chunk.unlink()
    again = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "repository")))
    array = zvcore.open(committed(again))
    with pytest.raises(StoreError, match=r"c/0: (StorageError|IcechunkError)"):
        array.store.get("c/0")
    with pytest.raises(StoreError, match=r"c/1: (StorageError|IcechunkError)"):
        asyncio.run(array.store.aget("c/1"))
    with pytest.raises(StoreError):
        array.read()
    report = zvcore.verify(committed(again))
    assert not report.ok
    assert {problem.where for problem in report.problems} == {"c/0", "c/1"}


def test_xarray_reads_what_is_in_a_session(repository: Any) -> None:
    xarray = pytest.importorskip("xarray")
    session = repository.writable_session("main")
    group = zvcore.open(session, "w", format="zarr3")
    group.create_dataset("a", shape=VALUES.shape, dtype="uint16", chunks=(6, 10), dimension_names=("y", "x"))[...] = (
        VALUES
    )
    session.commit("group")
    dataset = xarray.open_zarr(committed(repository).store, consolidated=False, zarr_format=3)
    np.testing.assert_array_equal(dataset["a"].values, VALUES)
    assert dataset["a"].dims == ("y", "x")


def test_what_was_not_committed_is_not_there(repository: Any) -> None:
    session = repository.writable_session("main")
    array = zvcore.create(session, format="zarr3", data=VALUES, chunks=(6, 10))
    session.commit("first")
    session = repository.writable_session("main")
    array = zvcore.open(session, "r+")
    array[...] = 0
    assert not zvcore.open(session)[...].any()
    session.discard_changes()
    np.testing.assert_array_equal(zvcore.open(committed(repository))[...], VALUES)


def test_a_shard_that_was_changed_in_a_session_is_read_as_it_is(repository: Any) -> None:
    session = repository.writable_session("main")
    array = zvcore.create(session, format="zarr3", data=VALUES, chunks=(6, 10), shards=(24, 20))
    assert array[0, 1] == 1
    zarr.open_array(session.store, mode="r+")[0, :2] = [77, 78]
    assert array[0, 1] == 78
    array[0, 0] = 5
    assert np.array_equal(zarr.open_array(session.store, mode="r")[0, :2], [5, 78])


def test_sessions_for_reading_are_not_written(repository: Any) -> None:
    session = repository.writable_session("main")
    zvcore.create(session, format="zarr3", data=VALUES)
    session.commit("first")
    with pytest.raises(ReadOnlyError):
        zvcore.open(committed(repository), "r+")[0, 0] = 1


def test_other_formats_are_refused_with_the_words_of_icechunk(repository: Any) -> None:
    with pytest.raises(StoreError, match="invalid zarr key"):
        zvcore.create(repository.writable_session("main"), format="n5", data=VALUES)


def test_notes_of_zvcore_do_not_reach_the_session(repository: Any) -> None:
    session = repository.writable_session("main")
    store = open_store(session, "w")
    store.put(".zvcore-note.json", b"{}")
    assert store.get(".zvcore-note.json") == b"{}"
    assert store.list_dir()[1] == [".zvcore-note.json"]
    assert open_store(session).get(".zvcore-note.json") == b"{}"
    assert not session.has_uncommitted_changes
    assert open_store(committed(repository)).get(".zvcore-note.json") is None
    assert store.delete(".zvcore-note.json")
