"""One array or group in several threads: what it shows in the end is what was written last."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.at_once import run_threads
from zvcore.documents import Document
from zvcore.stores import LocalStore, MemoryStore
from zvcore.zarr2.consolidated import consolidate, read_consolidated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMATS = ["zarr3", "zarr2", "n5", "precomputed"]
# How long the other thread gets to do what it must not be able to do. It never ends a test that holds.
CHANCE = 0.3


def in_the_middle(monkeypatch: pytest.MonkeyPatch, document: Document, first: Any, second: Callable[[], Any]) -> None:
    """Run both in threads; `second` begins when `first` has written and not yet taken what it wrote as its view."""
    written, over = threading.Event(), threading.Event()
    change = document.store.change

    def stopped(key: str, make: Any) -> Any:
        found = change(key, make)
        if not written.is_set():
            written.set()
            over.wait(CHANCE)
        return found

    def other() -> None:
        written.wait()
        second()
        over.set()

    monkeypatch.setattr(document.store, "change", stopped)
    run_threads([first, other])
    monkeypatch.undo()


def made(format: str, path: Path) -> Any:
    return zvcore.create(path, format=format, shape=(8, 8, 8), dtype="u1", chunks=(4, 4, 4))


@pytest.mark.parametrize("format", FORMATS)
def test_attributes_that_two_threads_set_are_both_shown(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = made(format, tmp_path / "a")
    document = array.attrs._document
    in_the_middle(monkeypatch, document, lambda: array.attrs.update(one="1"), lambda: array.attrs.update(two="2"))
    assert {"one": "1", "two": "2"}.items() <= dict(array.attrs).items()


def test_what_one_thread_reads_again_is_not_older_than_what_another_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = made("zarr3", tmp_path / "a")
    others = zvcore.open(tmp_path / "a", mode="r+")

    def read_again() -> None:
        others.attrs["others"] = 3
        array.attrs.refresh()

    in_the_middle(monkeypatch, array.attrs._document, lambda: array.attrs.update(one=1), read_again)
    assert {"one": 1, "others": 3}.items() <= dict(array.attrs).items()


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_an_array_that_two_threads_resize_has_the_shape_that_was_written_last(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = made(format, tmp_path / "a")
    in_the_middle(monkeypatch, array._document, lambda: array.resize((9, 9, 9)), lambda: array.resize((10, 10, 10)))
    assert array.shape == zvcore.open(tmp_path / "a").shape == (10, 10, 10)
    array[...] = 1
    assert np.asarray(array[9]).sum() == 100


def test_a_group_that_tells_of_its_members_says_what_the_last_of_two_writers_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that wrote first may tell last: it tells what is there, not what it wrote."""
    group = zvcore.zarr2.create_group(LocalStore(tmp_path))
    group.create_array("a", shape=(4,), dtype="u1", attrs={"one": 0})
    consolidate(group.store)
    first, second = (zvcore.open(tmp_path / "a", mode="r+") for _ in range(2))
    store = first.attrs._document.store
    change = store.change

    def and_then_the_other(key: str, make: Any) -> Any:
        found = change(key, make)
        second.attrs["two"] = 2
        return found

    monkeypatch.setattr(store, "change", and_then_the_other)
    first.attrs["one"] = 1
    told = read_consolidated(group.store)
    assert told is not None and told["a/.zattrs"] == {"one": 1, "two": 2}


def test_who_has_the_turn_may_change_the_document_within_it() -> None:
    store = MemoryStore()
    store.put("a", b"{}")
    document = Document(store, "a", {})
    with document.turn.held():
        assert document.change(lambda content: {**content, "x": 1}) == document.content == {"x": 1}
