"""An array that takes the place of another whose removal failed half way: nothing of the old one is its values."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from zvcore.errors import ConflictError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3"},
    "zarr3 dots": {"format": "zarr3", "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}},
    "zarr3 v2 keys": {"format": "zarr3", "chunk_key_encoding": "v2"},
    "zarr3 v2 folders": {"format": "zarr3", "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}},
    "zarr3 without axes": {"format": "zarr3", "shape": (), "chunks": ()},
    "zarr2": {"format": "zarr2"},
    "zarr2 folders": {"format": "zarr2", "dimension_separator": "/"},
    "n5": {"format": "n5"},
}
USUAL: dict[str, Any] = {"shape": (4, 4), "chunks": (2, 2), "dtype": "u1"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_again_after_a_removal_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    options = {**USUAL, **KINDS[kind]}
    zvcore.create(tmp_path / "a", **options)[...] = 7
    (tmp_path / "a" / "theirs").mkdir()
    unlink = os.unlink
    documents = ("zarr.json", ".zarray", "attributes.json")

    def only_documents(path: Any, **others: Any) -> None:
        if os.path.basename(os.fsdecode(path)) not in documents:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        unlink(path, **others)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", only_documents)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            zvcore.create(tmp_path / "a", overwrite=True, **options)
    again = zvcore.create(tmp_path / "a", overwrite=True, **options)
    assert not again[...].any()
    assert zvcore.verify(tmp_path / "a").ok


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_store_without_folders(kind: str) -> None:
    store, options = MemoryStore(), {**USUAL, **KINDS[kind]}
    zvcore.create(store, **options)[...] = 7
    for name in ("zarr.json", ".zarray", "attributes.json"):
        store.delete(name)
    assert not zvcore.create(store, overwrite=True, **options)[...].any()


@pytest.mark.parametrize("kind", [*KINDS, "precomputed", "precomputed shards"])
def test_they_are_not_taken_for_values_without_overwrite(tmp_path: Path, kind: str) -> None:
    volumes: dict[str, dict[str, Any]] = {
        "precomputed": {}, "precomputed shards": {"sharding": "advise"}
    }  # fmt: skip
    options = {**USUAL, **KINDS[kind]} if kind in KINDS else {
        "format": "precomputed", "shape": (4, 4, 4), "chunks": (2, 2, 2), "dtype": "u1", **volumes[kind],
    }  # fmt: skip
    zvcore.create(tmp_path / "a", **options)[...] = 7
    for name in ("zarr.json", ".zarray", "attributes.json", "info"):
        (tmp_path / "a" / name).unlink(missing_ok=True)
    with pytest.raises(ConflictError, match="overwrite=True removes them"):
        zvcore.create(tmp_path / "a", **options)
    assert not any((tmp_path / "a" / name).exists() for name in ("zarr.json", ".zarray", "info"))
    assert not zvcore.create(tmp_path / "a", overwrite=True, **options)[...].any()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("n5", "zarr3 without axes")])
def test_empty_folders_are_no_chunks(tmp_path: Path, kind: str) -> None:
    options = {**USUAL, **KINDS[kind]}
    for name in ("c/9", "9"):
        (tmp_path / "a" / name).mkdir(parents=True)
    assert not zvcore.create(tmp_path / "a", **options)[...].any()


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_what_others_have_there_stays(tmp_path: Path, format: str) -> None:
    """No document tells that all of it is a data set which is to be replaced."""
    member = zvcore.create(tmp_path / "a" / "c", format=format, **USUAL)
    member[...] = 5
    for name in ("letter.txt", "c.tif", "10.tif", "d/1"):
        (tmp_path / "a" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "a" / name).write_bytes(b"theirs")
    zvcore.create(tmp_path / "a", format=format, overwrite=True, **USUAL)
    assert zvcore.open(tmp_path / "a" / "c")[0, 0] == 5
    for name in ("letter.txt", "c.tif", "10.tif", "d/1"):
        assert (tmp_path / "a" / name).read_bytes() == b"theirs"


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_group_that_has_the_name_of_a_chunk_stays(tmp_path: Path, format: str) -> None:
    """So do those that another format describes."""
    name = {"zarr3": "c", "zarr2": "0"}[format]
    for kind, below in ((format, name), ("n5", f"{name}/1")):
        root = tmp_path / kind / "a"
        zvcore.create(root / below / "0", format=kind, **USUAL)[...] = 5
        options: dict[str, Any] = {} if format == "zarr3" else {"dimension_separator": "/"}
        zvcore.create(root, format=format, overwrite=True, **USUAL, **options)
        assert (zvcore.open(root / below / "0", format=kind)[...] == 5).all()
