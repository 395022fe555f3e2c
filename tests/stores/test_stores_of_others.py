"""What is asked of stores of zarr-python: many objects at once, and of each no more than is needed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

import zvcore
from tests.stores.watched import Watched
from zvcore.errors import ConflictError, CorruptDataError, StoreError
from zvcore.stores import Store, open_store
from zvcore.stores.writing import ANYTHING

VALUES = np.arange(64 * 64, dtype="uint16").reshape(64, 64)


@pytest.fixture
def watched() -> Watched:
    return Watched(MemoryStore())


@pytest.fixture
def store(watched: Watched) -> Store:
    return open_store(watched, "w")


@pytest.fixture
def array(watched: Watched) -> zvcore.Array:
    """16 chunks."""
    return zvcore.create(watched, format="zarr3", data=VALUES, chunks=(16, 16))


def test_chunks_are_asked_for_at_once_and_each_once(watched: Watched, array: zvcore.Array) -> None:
    watched.forget()
    np.testing.assert_array_equal(array[...], VALUES)
    assert watched.asked == {"get": 16}
    assert watched.together == 16


def test_chunks_are_put_at_once(watched: Watched, array: zvcore.Array) -> None:
    watched.forget()
    array[...] = VALUES + 1
    assert watched.asked == {"set": 16}
    assert watched.together == 16
    np.testing.assert_array_equal(zarr.open_array(watched._store, mode="r")[...], VALUES + 1)


def test_chunks_that_change_in_part_are_read_and_put(watched: Watched, array: zvcore.Array) -> None:
    watched.forget()
    array[:, 5] = 9
    assert watched.asked == {"get": 4, "set": 4}
    assert watched.together == 4
    expected = VALUES.copy()
    expected[:, 5] = 9
    np.testing.assert_array_equal(zarr.open_array(watched._store, mode="r")[...], expected)


def test_shards_are_read_at_once(watched: Watched) -> None:
    array = zvcore.create(watched, format="zarr3", data=VALUES, chunks=(8, 8), shards=(16, 16))
    np.testing.assert_array_equal(array[...], VALUES)
    watched.forget()
    np.testing.assert_array_equal(array[...], VALUES)
    # An index and the chunks of each of 16 shards; whether they are still what they were.
    assert watched.asked["get"] <= 32
    assert watched.together >= 16


def test_an_error_says_of_which_object_it_is(watched: Watched, array: zvcore.Array) -> None:
    def fail(what: str, key: str) -> None:
        if key == "c/2/1":
            raise RuntimeError("the disk is on fire")

    watched.before = fail
    with pytest.raises(StoreError, match="c/2/1: RuntimeError: the disk is on fire"):
        array[...]
    with pytest.raises(StoreError, match="c/2/1: RuntimeError: the disk is on fire"):
        array[...] = 0
    with pytest.raises(StoreError, match="c/2/1: RuntimeError: the disk is on fire"):
        array.store.sizes(["c/0/0", "c/2/1"])


def test_what_is_read_cannot_be_changed(watched: Watched, array: zvcore.Array) -> None:
    data = array.store.get("c/0/0")
    assert data is not None and memoryview(data).readonly


def test_what_was_given_may_be_changed_afterwards(store: Store) -> None:
    given = bytearray(b"0123456789")
    store.put("a", given)
    store.put("b", [memoryview(given)[:4], memoryview(given)[4:]])
    given[:] = bytes(10)
    assert [bytes(data or b"") for data in store.get_many(["a", "b"])] == [b"0123456789"] * 2


def test_objects_without_bytes_are_there(watched: Watched, store: Store) -> None:
    store.put("a", b"")
    assert store.get("a") == b""
    assert store.sizes(["a", "b"]) == [0, None]
    assert [*store.get_many(["a", "b"])] == [b"", None]
    one, other = store.snapshots(["a", "b"])
    assert one is not None and one.size == 0 and other is None


def test_only_what_is_still_the_same_is_replaced(store: Store) -> None:
    store.put("a", b"one")
    store.put("b", b"one")
    old = store.stamps(["a", "b", "c"])
    assert old[2] is None
    store.put("a", b"two")
    wanted = [(key, b"new", stamp) for key, stamp in zip("abc", old, strict=True)]
    assert store.put_each([*wanted, ("d", b"new", ANYTHING)]) == [False, True, True, True]
    assert [bytes(data or b"") for data in store.get_many("abcd")] == [b"two", b"new", b"new", b"new"]
    with pytest.raises(ConflictError):
        store.put_if_unchanged("a", b"new", old[0])


def test_of_two_that_replace_the_same_object_one_does(store: Store) -> None:
    assert store.put_each([("a", b"one", None), ("a", b"two", None)]) == [True, False]
    assert store.get("a") == b"one"


def test_what_was_read_is_of_a_version_that_writers_notice(store: Store) -> None:
    store.put("a", b"one")
    (found,) = store.snapshots(["a"])
    assert found is not None and found.stamp == store.stamp("a")
    store.put("a", b"two")
    assert not store.put_each([("a", b"three", found.stamp)])[0]


def test_ranges_are_of_one_version(watched: Watched, store: Store) -> None:
    store.put("a", b"0123456789")
    stamp = store.stamp("a")

    def replace(what: str, key: str) -> None:
        if what == "get":
            watched._store._store_dict["a"] = watched._store._store_dict["a"][:5]

    watched.before = replace
    with pytest.raises(ConflictError):
        store.get_ranges("a", [(0, 2)], stamp=stamp)


def test_ranges_that_do_not_lie_within_their_object_say_so(store: Store) -> None:
    store.put("a", b"0123456789")
    store.put("b", b"0123456789")
    with pytest.raises(CorruptDataError, match=r"b: bytes 8\.\.13"):
        store.get_ranges_many([("a", [(0, 4), (6, 4)], None), ("b", [(8, 5)], None)])


def test_what_describes_members_is_asked_for_at_once_and_once(watched: Watched) -> None:
    group = zvcore.open(watched, "w", format="zarr3")
    for number in range(20):
        group.create_array(f"a{number}", shape=(4, number), dtype="u1", chunks=(2, 2))
    watched.forget()
    found = [array.shape for array in zvcore.open(watched).values()]
    assert sorted(found) == [(4, number) for number in range(20)]
    asked = Counter(key for key in watched.keys if key.startswith("a") and "/" in key)
    assert len(asked) == 20 and set(asked.values()) == {1}
    assert watched.together > 10


def test_what_is_written_while_documents_are_looked_at_is_seen(store: Store) -> None:
    store.put("a", b"one")
    with store.looking_at(["a", "b"], around=["c"]):
        assert (store.get("a"), store.get("b"), store.size("a"), store.exists("c")) == (b"one", None, 3, False)
        store.put("a", b"three")
        store.put("b", b"four")
        assert (store.get("a"), store.get("b"), store.size("a")) == (b"three", b"four", 5)
        store.delete("a")
        assert store.get("a") is None and store.stamp("a") is None


def test_what_lies_around_is_asked_for_too(watched: Watched, store: Store) -> None:
    store.put("a/b/zarr.json", b"{}")
    store.put("a/note", b"here")
    inside = store.child("a/b")
    watched.forget()
    with inside.looking_at(["zarr.json"], ["other"], around=["note"]):
        above = [one.get("note") for one in inside.above()]
        assert (inside.get("zarr.json"), inside.get("note"), above) == (b"{}", None, [b"here", None])
    assert watched.asked == {"get": 4} and watched.together == 4
    with inside.looking_at(["nothing"], ["zarr.json"]):
        assert inside.get("zarr.json") == b"{}"
    assert watched.asked == {"get": 6}
