"""Objects written piece by piece."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from zvcore.errors import ConflictError, InvalidKeyError, ReadOnlyError
from zvcore.stores import LocalStore, MemoryStore, Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["local", "local-fsync", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return LocalStore(tmp_path / "root", fsync=request.param == "local-fsync")


def test_pieces_in_any_order_and_holes(store: Store) -> None:
    with store.writer("a/b") as writer:
        writer.write_at(10, b"tail")
        writer.write_at(0, bytearray(b"head"))
        assert store.get("a/b") is None
    assert store.get("a/b") == b"head" + bytes(6) + b"tail"
    assert [*store.list()] == ["a/b"]


def test_nothing_written_is_an_empty_object(store: Store) -> None:
    with store.writer("a"):
        pass
    assert store.get("a") == b""


def test_an_exception_or_discard_keeps_the_old_object(store: Store) -> None:
    store.put("a", b"old")
    with pytest.raises(ZeroDivisionError):
        with store.writer("a") as writer:
            writer.write_at(0, b"new")
            raise ZeroDivisionError
    with store.writer("a") as writer:
        writer.write_at(0, b"new")
        writer.discard()
    assert store.get("a") == b"old"
    if isinstance(store, LocalStore):
        assert os.listdir(store.root) == ["a"]


def test_a_replaced_object_has_another_stamp_and_is_read_again(store: Store) -> None:
    store.put("a", b"old")
    before = store.stamp("a")
    assert store.get("a", 0, 3) == b"old"
    with store.writer("a") as writer:
        writer.write_at(0, b"new")
    assert store.stamp("a") != before
    assert store.get("a", 0, 3) == b"new"


def test_conditional(store: Store) -> None:
    with store.writer("a", unchanged=None) as writer:
        writer.write_at(0, b"1")
    stamp = store.stamp("a")
    with pytest.raises(ConflictError):
        with store.writer("a", unchanged=None) as writer:
            writer.write_at(0, b"2")
    with store.writer("a", unchanged=stamp) as writer:
        writer.write_at(0, b"3")
    with pytest.raises(ConflictError):
        with store.writer("a", unchanged=stamp) as writer:
            writer.write_at(0, b"4")
    assert store.get("a") == b"3"


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ReadOnlyError):
        LocalStore(tmp_path, read_only=True).writer("a")
    for store in (LocalStore(tmp_path), MemoryStore()):
        with pytest.raises(InvalidKeyError):
            store.writer("../a")
