"""`open_store`: paths, URLs, stores in memory, schemes of others."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from zvcore.errors import InvalidKeyError, NotFoundError, UnsupportedError
from zvcore.stores import LocalStore, MemoryStore, Store, open_store, register_scheme

if TYPE_CHECKING:
    from pathlib import Path


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


def test_a_registered_opener_gets_the_address_the_mode_and_the_options() -> None:
    opened = []

    def opener(url: str, mode: str, options: dict[str, Any]) -> Store:
        opened.append((url, mode, options))
        return MemoryStore()

    register_scheme("Test+scheme", opener)
    given = {"drawer": 3}
    assert isinstance(open_store("test+SCHEME://a/b?c", "r+", given), MemoryStore)
    assert opened == [("test+SCHEME://a/b?c", "r+", {"drawer": 3})]
    opened[0][2].clear()
    assert given == {"drawer": 3}


def test_options_are_refused_rather_than_dropped(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="already open"):
        open_store(MemoryStore(), "r", {"endpoint": "http://localhost"})
    with pytest.raises(ValueError, match="storage_options are for object stores"):
        open_store(tmp_path, "w", {"fsyncs": True})
    with pytest.raises(ValueError, match=r"http://localhost/a takes the storage_options .*timeout.*, not 'endpoint'"):
        open_store("http://localhost/a", "r", {"endpoint": "x", "timeout": "3s"})
    with pytest.raises(ValueError, match="bucket_nmae"):
        open_store("s3://bucket/a", "r", {"bucket_nmae": "x"})
    array = zvcore.create(tmp_path / "a", format="n5", shape=(3,), dtype="u1")
    with pytest.raises(ValueError, match="neither path leads to one"):
        zvcore.downsample(array, tmp_path / "b", storage_options={"region": "x"})
    with pytest.raises(ValueError, match="neither path leads to one"):
        zvcore.repair(tmp_path / "a", tmp_path / "b", storage_options={"region": "x"})
