"""`Store.edit`: replacing objects so that nobody's change is lost, with locks and without; `again`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from zvcore.errors import ConflictError, ReadOnlyError
from zvcore.stores import MemoryStore, Store
from zvcore.stores.again import again

if TYPE_CHECKING:
    from pathlib import Path


class Unlocked(MemoryStore):
    """A store without locks, in which writers learn of each other by conditions."""

    can_lock = False


@pytest.fixture(params=["locked", "unlocked"])
def kept(request: pytest.FixtureRequest, store: Store) -> Store:
    return store if request.param == "locked" else Unlocked()


def test_what_is_put_takes_the_place_of_what_was_read(kept: Store) -> None:
    with kept.edit("a/x") as edit:
        assert edit.get() is None
        edit.put(b"one")
    with kept.edit("a/x") as edit:
        assert edit.get() == b"one"
        edit.put([b"t", b"wo"])
    with kept.edit("a/x") as edit:
        assert edit.look() == kept.stamp("a/x")
        with edit.writer() as writer:
            writer.write_at(0, b"three")
    assert kept.get("a/x") == b"three"
    with kept.edit("a/x") as edit:
        edit.put(b"four")
    assert kept.get("a/x") == b"four"


def test_without_locks_the_object_must_be_the_one_that_was_read() -> None:
    store = Unlocked()
    store.put("x", b"one")
    old = store.stamp("x")
    with store.edit("x") as edit:
        assert not edit.locked
        edit.get()
        store.put("x", b"theirs")
        with pytest.raises(ConflictError):
            edit.put(b"ours")
    for name in (old, None):
        with store.edit("x") as edit:
            edit.made_from(name)
            with pytest.raises(ConflictError):
                edit.put(b"ours")
    with store.edit("x") as edit:
        edit.get()
        with pytest.raises(ConflictError):
            edit.made_from(old)
    for look in ("get", "look"):
        # What is to be put comes from another version than the one that is found now.
        with store.edit("x") as edit:
            edit.made_from(old)
            with pytest.raises(ConflictError):
                getattr(edit, look)()
    with store.edit("x") as edit:
        edit.get()
        edit.made_from(store.stamp("x"))
        edit.put(b"ours")
    assert store.get("x") == b"ours"


def test_what_was_read_is_removed_only_under_a_lock() -> None:
    for store in (MemoryStore(), Unlocked()):
        store.put("x", b"one")
        with store.edit("x") as edit:
            edit.get()
            assert edit.can_delete is store.can_lock
            if store.can_lock:
                edit.delete()
            else:
                with pytest.raises(ValueError, match="only be removed under its lock"):
                    edit.delete()
        store.delete("x")
        with store.edit("x") as edit:
            edit.get()
            assert edit.can_delete
            store.put("x", b"theirs")
            edit.delete()
        assert store.get("x") == (None if store.can_lock else b"theirs")
        with store.edit("x") as edit:
            edit.delete()
        assert store.get("x") is None


def test_several_at_once_are_locked_in_one_order_by_all(tmp_path: Path, changeable: Store) -> None:
    begin = threading.Barrier(2)

    def work(keys: list[str]) -> None:
        begin.wait()
        for _ in range(50):
            with changeable.edit_all(keys) as edits:
                assert list(edits) == ["a", "b"] and all(edit.locked for edit in edits.values())
                for edit in edits.values():
                    edit.put(b"%d" % (int(edit.get() or b"0") + 1))

    threads = [threading.Thread(target=work, args=(keys,)) for keys in (["a", "b"], ["b", "a"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert changeable.get("a") == changeable.get("b") == b"100"


def test_a_store_that_was_opened_for_reading_is_not_edited() -> None:
    store = MemoryStore("read only", read_only=True)
    with pytest.raises(ReadOnlyError), store.edit("x"):
        pass


def test_again_begins_again_until_it_goes_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.stores.again.give_way", lambda number: None)
    tries = []
    for attempt in again("a/x"):
        with attempt:
            tries.append(1)
            if len(tries) < 5:
                raise ConflictError("no")
    assert len(tries) == 5
    with pytest.raises(KeyError):
        for attempt in again("a/x"):
            with attempt:
                raise KeyError
    tries.clear()
    with pytest.raises(ConflictError, match="a/x: other writers keep changing this object"):
        for attempt in again("a/x"):
            with attempt:
                # A caller that has given up inside is not tried again.
                for inner in again("a/x"):
                    with inner:
                        tries.append(1)
                        raise ConflictError("no")
    assert len(tries) == 100


def test_a_conflict_of_the_change_itself_is_not_begun_again(kept: Store) -> None:
    calls = []

    def refuse(old: bytes | None) -> bytes:
        calls.append(old)
        raise ConflictError("something is here already")

    with pytest.raises(ConflictError, match="already"):
        kept.change("x", refuse)
    assert calls == [None]
