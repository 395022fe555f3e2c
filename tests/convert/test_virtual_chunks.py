"""Chunks of any format as virtual chunks of Icechunk, read where they lie by zarr-python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from tests.convert.test_references import DATA, KINDS, make, title
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

icechunk = pytest.importorskip("icechunk")


def repository(tmp_path: Path, place: str | None = None) -> Any:
    config = icechunk.RepositoryConfig.default()
    container = f"file://{place or tmp_path}/"
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(
        container, icechunk.local_filesystem_store(str(place or tmp_path))
    ))  # fmt: skip
    return icechunk.Repository.create(
        icechunk.in_memory_storage(), config=config,
        # Icechunk 1, the last for Python 3.11, needs no word for files that may be read where they lie.
        authorize_virtual_chunk_access={container: getattr(icechunk.credentials, "LocalFileSystemAccess", None)},
    )  # fmt: skip


def referred(tmp_path: Path, path: Any, **options: Any) -> tuple[Any, int]:
    """(what zarr-python reads after the commit, how many chunks)."""
    repo = repository(tmp_path)
    session = repo.writable_session("main")
    count = zvcore.write_references(path, session, **options)
    session.commit("references")
    return zarr.open(repo.readonly_session("main").store, mode="r"), count


@pytest.mark.parametrize(("format", "options"), KINDS, ids=title)
def test_zarr_python_reads_what_lies_in_other_formats(tmp_path: Path, format: str, options: dict[str, Any]) -> None:
    path = make(tmp_path / "a", format, DATA, **options)
    node, count = referred(tmp_path, path)
    array = next(iter(node.arrays()))[1] if isinstance(node, zarr.Group) else node
    np.testing.assert_array_equal(array[...], DATA)
    assert array.metadata.zarr_format == 3
    assert count == -(-DATA.shape[0] // 16) * -(-DATA.shape[1] // 16) * -(-DATA.shape[2] // 16)


def test_names_of_axes_and_attributes_and_groups_are_kept(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "g.n5", "w", format="n5")
    group.attrs["made by"] = "us"
    group.create_dataset(
        "a/b", shape=(32, 16), dtype="uint8", chunks=(16, 16), attrs={"unit": "nm", "axes": ["x", "y"]}
    )
    group["a/b"][...] = 5
    node, _ = referred(tmp_path, tmp_path / "g.n5")
    assert node.attrs["made by"] == "us"
    array = node["a/b"]
    assert array.attrs["unit"] == "nm"
    assert array.metadata.dimension_names == ("y", "x")
    assert (array[...] == 5).all()


def test_chunks_that_cannot_be_read_where_they_lie_are_put_in(tmp_path: Path) -> None:
    data = np.arange(20 * 9, dtype="uint16").reshape(20, 9)
    zvcore.create(tmp_path / "a.n5", format="n5", data=data, chunks=(8, 8))
    with pytest.raises(UnsupportedError, match="cut at the array's end"):
        referred(tmp_path, tmp_path / "a.n5")
    node, count = referred(tmp_path, tmp_path / "a.n5", inline=True)
    np.testing.assert_array_equal(node[...], data.T)
    assert count == 6


def test_chunks_that_are_not_there_are_the_fill_value(tmp_path: Path) -> None:
    options: dict[str, Any] = {"chunks": (4, 4), "shards": (8, 8), "fill_value": -3}
    array = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(8, 8), dtype="int16", **options)
    array[:4, :4] = 1
    node, count = referred(tmp_path, tmp_path / "a.zarr")
    np.testing.assert_array_equal(node[...], array[...])
    assert count == 1


def test_what_lies_in_no_container_of_the_repository_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a", "n5", DATA)
    (tmp_path / "other").mkdir()
    session = repository(tmp_path, str(tmp_path / "other")).writable_session("main")
    with pytest.raises(UnsupportedError, match="no container for virtual chunks"):
        zvcore.write_references(path, session)


def test_nothing_is_written_over_what_is_there(tmp_path: Path) -> None:
    session = repository(tmp_path).writable_session("main")
    zvcore.create(session, format="zarr3", data=[1, 2])
    with pytest.raises(ConflictError, match="data already"):
        zvcore.write_references(make(tmp_path / "a", "n5", DATA), session)


def test_places_that_know_no_virtual_chunks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="sessions of Icechunk"):
        zvcore.write_references(make(tmp_path / "a", "n5", DATA), zarr.storage.MemoryStore())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the last VirtualiZarr there takes a compressor for a list")
def test_virtualizarr_reads_references_of_shards(tmp_path: Path) -> None:
    parsers = pytest.importorskip("virtualizarr.parsers")
    registry = pytest.importorskip("obspec_utils.registry")
    import obstore

    zvcore.open(tmp_path / "g.zarr", "w", format="zarr3")
    make(tmp_path / "g.zarr" / "a", "zarr3", DATA, shards=(32, 32, 32))
    zvcore.write_references(tmp_path / "g.zarr", tmp_path / "g.json")
    files = registry.ObjectStoreRegistry({"file://": obstore.store.LocalStore()})
    store = parsers.KerchunkJSONParser()(url=f"file://{tmp_path}/g.json", registry=files)
    group: Any = zarr.open_group(store, mode="r")
    np.testing.assert_array_equal(group["a"][...], DATA)


def test_a_chunk_that_is_removed_meanwhile_is_an_error_and_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a", "zarr3", DATA)
    gone = path / "c" / "0" / "0" / "1"
    sizes = LocalStore.sizes

    def removing(store: LocalStore, keys: Any) -> Any:
        gone.unlink(missing_ok=True)
        return sizes(store, keys)

    monkeypatch.setattr(LocalStore, "sizes", removing)
    with pytest.raises(ConflictError, match="was removed while references") as caught:
        referred(tmp_path, path)
    assert str(caught.value.key) and str(gone).endswith(str(caught.value.key))
