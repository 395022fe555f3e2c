"""The index cache: what it keeps, and when it looks again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.engine.caching import ENTRY, Loader, get, put, settle
from zvcore.stores import LocalStore, MemoryStore, Store
from zvcore.stores import indexes as cache_module
from zvcore.stores.indexes import IndexCache, index_cache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_loads_once(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "a/x", b"1")
    load = Loader(store, "a/x")
    first = get(cache, store, "a/x", load)
    assert first == b"1"
    for _ in range(5):
        assert get(cache, store, "a/x", load) is first
    assert load.calls == 1
    assert len(cache) == 1
    assert cache.nbytes == 100 + ENTRY


def test_one_object_through_many_stores(tmp_path: Path) -> None:
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    put(store, "a/b/x", b"1")
    load = Loader(store, "a/b/x")
    for view, key in (
        (store, "a/b/x"),
        (LocalStore(tmp_path, read_only=True), "a/b/x"),
        (store.child("a"), "b/x"),
        (LocalStore(tmp_path / "a" / "b"), "x"),
    ):
        assert get(cache, view, key, load) == b"1"
    assert load.calls == 1
    cache.invalidate(store.child("a/b"), "x")
    assert len(cache) == 0


def test_same_key_in_two_stores(tmp_path: Path) -> None:
    cache = IndexCache(10_000)
    one, two = LocalStore(tmp_path / "1"), LocalStore(tmp_path / "2")
    put(one, "x", b"1")
    put(two, "x", b"2")
    for _ in range(2):
        assert get(cache, one, "x", Loader(one, "x")) == b"1"
        assert get(cache, two, "x", Loader(two, "x")) == b"2"
    assert len(cache) == 2


def test_a_missing_object_is_not_loaded(store: Store) -> None:
    cache = IndexCache(10_000)
    load = Loader(store, "x")
    assert get(cache, store, "x", load) is None
    put(store, "x", b"1")
    assert get(cache, store, "x", load) == b"1"
    store.delete("x")
    assert get(cache, store, "x", load) is None
    assert load.calls == 1
    assert (len(cache), cache.nbytes) == (0, 0)


def test_changes_are_seen(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"0000")
    changes: list[Callable[[], None]] = [
        lambda: store.put("x", b"1111"),
        lambda: store.put_if_unchanged("x", b"2222", store.stamp("x")),
        lambda: store.patch("x", 0, b"3333"),
        lambda: store.append("x", b"4", at=4),
        lambda: (store.delete("x"), store.put("x", b"5555"))[1],
    ]
    for wait in (True, False):
        for change in changes:
            store.put("x", b"0000")
            if wait:
                settle(store, "x")
            assert get(cache, store, "x", Loader(store, "x")) == b"0000"
            change()
            assert get(cache, store, "x", Loader(store, "x")) == store.get("x") != b"0000"


def test_changes_in_place_within_one_tick_of_the_clock_are_seen(tmp_path: Path) -> None:
    """By a program that knows nothing of us: size and inode stay."""
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    path = tmp_path / "x"
    path.write_bytes(b"----")
    for i in range(500):
        with path.open("r+b") as file:
            file.write(b"%04d" % i)
        assert get(cache, store, "x", Loader(store, "x")) == b"%04d" % i


def test_replacements_within_one_tick_of_the_clock_are_seen(tmp_path: Path) -> None:
    """By a program that knows nothing of us. After two of them, the first file's inode number is in use again."""
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    for i in range(500):
        for value in (b"a%03d", b"b%03d"):
            (tmp_path / "new").write_bytes(value % i)
            os.replace(tmp_path / "new", tmp_path / "x")
        assert get(cache, store, "x", Loader(store, "x")) == b"b%03d" % i


def test_an_object_that_changed_just_now_is_loaded_but_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    put(store, "x", b"1")
    monkeypatch.setattr(LocalStore, "settled", lambda self, stamp: False)
    assert get(cache, store, "x", Loader(store, "x")) == b"1"
    assert len(cache) == 0
    monkeypatch.undo()
    assert get(cache, store, "x", Loader(store, "x")) == b"1"
    assert len(cache) == 1


def test_parts_of_one_object(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    put(store, "y", b"1")
    loads = {part: Loader(store, "x") for part in (None, 0, 1, ("a", 2))}
    for _ in range(2):
        for part, load in loads.items():
            assert get(cache, store, "x", load, part=part) == b"1"
    get(cache, store, "y", Loader(store, "y"), part=0)
    assert [load.calls for load in loads.values()] == [1, 1, 1, 1]
    assert len(cache) == 5
    cache.invalidate(store, "x")
    assert len(cache) == 1
    assert cache.nbytes == 100 + ENTRY
    cache.invalidate(store, "x")
    cache.invalidate(store, "never seen")


def test_is_bounded_and_drops_what_was_not_used_longest(store: Store) -> None:
    cache = IndexCache(3 * (100 + ENTRY))
    loads = {}
    for name in "abcd":
        store.put(name, name.encode())
        loads[name] = Loader(store, name)
    settle(store, "d")
    for name in "abc":
        get(cache, store, name, loads[name])
    get(cache, store, "a", loads["a"])
    get(cache, store, "d", loads["d"])  # and b goes
    for name in "acd":
        get(cache, store, name, loads[name])
    assert [loads[name].calls for name in "abcd"] == [1, 1, 1, 1]
    get(cache, store, "b", loads["b"])  # and a goes
    get(cache, store, "a", loads["a"])
    assert [loads[name].calls for name in "abcd"] == [2, 2, 1, 1]
    assert cache.nbytes <= cache.max_bytes


def test_what_is_larger_than_the_cache_is_not_kept_and_pushes_nothing_out(store: Store) -> None:
    cache = IndexCache(1000)
    put(store, "small", b"1")
    put(store, "large", b"1")
    small, large = Loader(store, "small"), Loader(store, "large", nbytes=10_000)
    get(cache, store, "small", small)
    for _ in range(2):
        assert get(cache, store, "large", large) == b"1"
        get(cache, store, "small", small)
    assert (small.calls, large.calls) == (1, 2)


def test_no_cache(store: Store) -> None:
    cache = IndexCache(0)
    put(store, "x", b"1")
    load = Loader(store, "x", nbytes=0)
    for _ in range(3):
        assert get(cache, store, "x", load) == b"1"
    assert load.calls == 3
    assert len(cache) == 0
    with pytest.raises(ValueError, match="-1 bytes"):
        IndexCache(-1)


def test_many_values_that_are_small_by_their_own_account(store: Store) -> None:
    """Bookkeeping takes memory too."""
    cache = IndexCache(50 * ENTRY)
    put(store, "x", b"")
    for i in range(500):
        get(cache, store, "x", lambda found: (b"", 0), part=i)
    assert len(cache) == 50


def test_values_that_grow_in_use(store: Store) -> None:
    cache = IndexCache(2 * (100 + ENTRY))
    loads = {name: Loader(store, name) for name in "abc"}
    for name in "abc":
        put(store, name, name.encode())
    values = {name: get(cache, store, name, loads[name]) for name in "ab"}
    cache.resize(store, "a", values["a"], 90)
    assert cache.nbytes == 90 + 100 + 2 * ENTRY
    cache.resize(store, "a", values["a"], 101)  # and b, not used for longer, has to go
    assert cache.nbytes == 101 + ENTRY
    cache.resize(store, "a", object(), 5)  # another value than the one that is kept
    cache.resize(store, "b", values["b"], 5)
    assert cache.nbytes == 101 + ENTRY
    cache.resize(store, "a", values["a"], 10_000)
    assert (len(cache), cache.nbytes) == (0, 0)


def test_clear(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    load = Loader(store, "x")
    get(cache, store, "x", load)
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)
    get(cache, store, "x", load)
    assert load.calls == 2


@pytest.mark.parametrize(("setting", "expected"), [(None, 256 * 2**20), ("", 256 * 2**20), ("0", 0), ("12345", 12345)])
def test_the_cache_of_the_process(monkeypatch: pytest.MonkeyPatch, setting: str | None, expected: int) -> None:
    monkeypatch.setattr(cache_module, "_default", None)
    if setting is None:
        monkeypatch.delenv("ZVCORE_INDEX_CACHE_BYTES", raising=False)
    else:
        monkeypatch.setenv("ZVCORE_INDEX_CACHE_BYTES", setting)
    assert index_cache().max_bytes == expected
    assert index_cache() is index_cache()


@pytest.mark.parametrize("setting", ["-1", "1e6", "lots", "1 GB", "٣"])
def test_settings_that_make_no_sense(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setattr(cache_module, "_default", None)
    monkeypatch.setitem(os.environ, "ZVCORE_INDEX_CACHE_BYTES", setting)
    with pytest.raises(ValueError, match="ZVCORE_INDEX_CACHE_BYTES"):
        index_cache()


def test_a_value_that_fills_says_how_large_it_is() -> None:
    store = MemoryStore()
    for key in ("a", "b"):
        store.put(key, b"x")
    cache = IndexCache(10_000)
    value = get(cache, store, "a", lambda found: ([], 100))
    before = cache.nbytes
    cache.resize(store, "a", value, 5000)
    assert cache.nbytes == before + 4900
    # Another value of the object is not the one that was meant.
    cache.resize(store, "a", [], 1)
    assert cache.nbytes == before + 4900
    assert get(cache, store, "a", lambda found: ([1], 100)) is value
    # The other has to go when there is no room for both.
    get(cache, store, "b", lambda found: ("b", 4500))
    assert len(cache) == 1
    cache.resize(store, "b", get(cache, store, "b", lambda found: ("c", 1)), 20_000)
    assert len(cache) == 0
