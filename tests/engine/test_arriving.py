"""Chunks that come part by part: all of them, each once, without more requests, and nothing left under way."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.engine import streaming as module
from zvcore.engine.buffers import Keys
from zvcore.engine.sources import ABSENT, Sources
from zvcore.engine.streaming import arriving
from zvcore.engine.work import Work
from zvcore.errors import CorruptDataError, StoreError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Far(MemoryStore):
    """As if it lay behind a network. `fails` is asked for before it gives an object."""

    ahead = 3

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[tuple[str, int]]] = []
        self.fails: Any = lambda key: False
        self.inside = 0
        self._turn = threading.Lock()

    def parts_ahead(self) -> int:
        return self.ahead

    def get_ranges_many(self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Any]]) -> list[Any]:
        with self._turn:
            self.inside += 1
            self.asked.append([(key, len(ranges)) for key, ranges, _ in requests])
        try:
            for key, _, _ in requests:
                if self.fails(key):
                    raise StoreError("broken", key=key)
            return super().get_ranges_many(requests)
        finally:
            with self._turn:
                self.inside -= 1

    def get_many(self, keys: Iterable[str]) -> Iterator[Any]:
        names = list(keys)
        with self._turn:
            self.asked.append([(name, 1) for name in names])
        return super().get_many(names)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Far:
    monkeypatch.setattr(module, "_PART_BYTES", 1000)
    store = Far()
    for number in range(6):
        store.put(f"o{number}", bytes((number * 50 + i) % 256 for i in range(1000)))
    return store


def ranges(rows: Sequence[tuple[int, int, int]]) -> Sources:
    key, offset, length = (np.array(column) for column in zip(*rows, strict=True))
    absent = length < 0
    lengths = np.where(absent, 0, length).astype(np.uint64)
    lengths[absent] = ABSENT
    offsets = np.where(absent, ABSENT, offset.astype(np.uint64)) if absent.any() else offset.astype(np.uint64)
    return Sources(Keys.of([f"o{i}" for i in range(6)]), key.astype(np.int32), offsets.astype(np.uint64), lengths)


def collected(store: Far, sources: Sources, count: int) -> tuple[list[bytes | None], list[list[int]]]:
    found: list[bytes | None] = [b"never came"] * count
    parts = []
    for rows, here in arriving(store, sources, count, 100, Work()):
        assert here.blobs is not None
        numbers = list(range(count)) if rows is None else rows.tolist()
        parts.append(numbers)
        assert len(here.blobs) == len(numbers)
        for row, blob in zip(numbers, here.blobs, strict=True):
            assert found[row] == b"never came"
            found[row] = None if blob is None else bytes(blob)
    return found, parts


def test_rows_come_once_and_objects_together(store: Far) -> None:
    rng = np.random.default_rng(4)
    rows = [(int(k), int(o), 300 if o % 7 else -1) for k, o in zip(rng.integers(0, 6, 60), rng.integers(0, 700, 60))]
    found, parts = collected(store, ranges(rows), 60)
    for row, (key, offset, length) in enumerate(rows):
        whole = bytes(store.get(f"o{key}") or b"")
        assert found[row] == (None if length < 0 else whole[offset : offset + length])
    assert len(parts) > 1
    # No object is asked for twice, wherever its rows stood.
    names = [name for asked in store.asked for name, _ in asked]
    assert sorted(names) == [f"o{i}" for i in range(6)]


def test_a_few_megabytes_come_at_once_where_small_parts_do_not_pay(store: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(key, 0, 1000) for key in range(6)]
    _, parts = collected(store, ranges(rows), 6)
    assert len(parts) > 1
    monkeypatch.setattr(store, "small_parts_pay", lambda: False)
    found, parts = collected(store, ranges(rows), 6)
    assert parts == [list(range(6))]
    assert found == [store.get(f"o{key}") for key in range(6)]
    monkeypatch.setattr(module, "_MOST_BYTES", 2000)
    _, parts = collected(store, ranges(rows), 6)
    assert len(parts) == 3, "more than that comes in parts everywhere"


def test_large_objects_are_parted(store: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 2000)
    monkeypatch.setattr(module, "_PART_BYTES", 2000)
    store.put("o0", bytes(20_000))
    found, parts = collected(store, ranges([(0, i * 1000, 1000) for i in range(20)]), 20)
    assert all(len(one or b"") == 1000 for one in found)
    assert [row for part in parts for row in part] == list(range(20))
    assert max(map(len, parts)) <= 4
    assert len(parts) >= 5


def test_what_is_absent_comes_with_its_object(store: Far) -> None:
    rows = [(key, offset, -1 if offset == 0 else 400) for key in range(6) for offset in (0, 100, 500)]
    _, parts = collected(store, ranges(rows), len(rows))
    assert len(parts) > 1
    for part in parts:
        for key in range(6):
            assert set(part) & {3 * key, 3 * key + 1, 3 * key + 2} in (set(), {3 * key, 3 * key + 1, 3 * key + 2})


def test_whole_objects(store: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART_OBJECTS", 2)
    names = [f"o{i}" for i in (5, 3, 1, 0, 2)] + ["nothing"]
    found, parts = collected(store, Sources(Keys.of(names)), 6)
    assert found == [store.get(name) for name in names]
    assert [len(part) for part in parts] == [2, 2, 2]
    key = np.array([1, 0, 1, 2, 5, 0, 3, 4], np.int32)
    found, parts = collected(store, Sources(Keys.of(names), key), 8)
    assert found == [store.get(names[k]) for k in key]
    assert len(parts) == 3
    assert sorted(name for asked in store.asked[3:] for name, _ in asked) == sorted(names)


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_one_part_is_no_detour(store: Far, ahead: int) -> None:
    store.ahead = ahead
    for rows in ([(2, 10, 20)], [(2, 10, 20), (3, 10, 20)], [(2, 10, 20), (2, 40, 20)]):
        _, parts = collected(store, ranges(rows), len(rows))
        assert parts == [list(range(len(rows)))]


@pytest.mark.parametrize("broken", range(6))
def test_an_error_leaves_nothing_under_way(store: Far, broken: int) -> None:
    store.fails = lambda key: key == f"o{broken}"
    rows = [(key, 0, 1000) for key in range(6)]
    come = []
    with pytest.raises(StoreError, match=f"o{broken}"):
        for some, _ in arriving(store, ranges(rows), 6, 100, Work()):
            assert some is not None
            come += some.tolist()
    assert store.inside == 0
    assert broken not in come
    # A caller that does not want the rest may leave.
    store.fails = lambda key: False
    parts: Any = arriving(store, ranges(rows), 6, 100, Work())
    next(parts)
    parts.close()
    assert store.inside == 0


@pytest.mark.parametrize("selection", [np.s_[...], np.s_[3:70:3, 60:2:-1], ([5, 77, 5, 31], [9, 9, 90, 40])])
def test_arrays_are_read_part_by_part(store: Far, monkeypatch: pytest.MonkeyPatch, selection: Any) -> None:
    monkeypatch.setattr(module, "_PART_OBJECTS", 3)
    data = np.random.default_rng(1).integers(0, 1000, (80, 100)).astype("u2")
    data[16:32] = 0
    for kind, options in (("zarr3", {"shards": (32, 32)}), ("zarr3", {}), ("n5", {})):
        place = Far()
        array = zvcore.create(place, format=kind, shape=data.shape, dtype="u2", chunks=(16, 16), **options)
        array[...] = data
        assert array.layout.store is place
        steps: list[tuple[int, int]] = []
        read = array.vindex[selection] if isinstance(selection, tuple) and isinstance(selection[0], list) else None
        read = array[selection] if read is None else read
        assert np.array_equal(read, data[selection])
        array.read(progress=lambda done, total, steps=steps: steps.append((done, total)))
        assert steps[-1][0] == steps[-1][1] == 35
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)
        blocks = [(i, j) for i in range(5) for j in range(7)][::-1]
        for place_, block in zip(blocks, array.read_blocks(blocks), strict=True):
            expected = array.read_block(place_)
            assert (block is None) == (expected is None)
            assert block is None or np.array_equal(block, expected)


def test_a_chunk_that_is_damaged_among_many_is_named_as_what_it_is() -> None:
    store = Far()
    array = zvcore.create(store, format="zarr3", shape=(80, 100), dtype="u2", chunks=(16, 16), codec="gzip")
    array[...] = np.arange(8000).reshape(80, 100)
    store.put("c/3/4", b"no gzip at all")
    with pytest.raises(CorruptDataError) as caught:
        array.read_blocks([(0, 0), (3, 4), (1, 1)])
    assert (caught.value.key, caught.value.chunk) == ("c/3/4", (3, 4))
