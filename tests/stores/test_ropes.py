"""Objects in memory that lie in pieces: what is put together is not copied, and nobody can change it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.engine.buffers import Buffers
from zvcore.errors import ConflictError, CorruptDataError
from zvcore.stores import MemoryStore
from zvcore.stores.ropes import Rope, kept

PIECES = st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=6)


@given(pieces=PIECES, ends=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_any_part_of_a_rope_is_that_of_all_its_bytes(pieces: list[bytes], ends: tuple[int, int]) -> None:
    rope, whole = Rope([memoryview(piece) for piece in pieces]), b"".join(pieces)
    start, stop = (min(end, len(whole)) for end in sorted(ends))
    assert bytes(rope.part(start, stop)) == whole[start:stop]
    assert (len(rope), rope.joined()) == (len(whole), whole)


def large(count: int) -> tuple[list[Any], bytes]:
    data = [np.random.default_rng(number).bytes(5000 + number) for number in range(count)]
    return [*Buffers.of(data)], b"".join(data)


def test_only_what_nobody_can_change_is_kept_as_it_is() -> None:
    pieces, _ = large(2)
    assert isinstance(kept(pieces), Rope)
    assert np.shares_memory(np.asarray(kept(pieces[:1])), np.asarray(pieces[0]))
    changeable = bytearray(5000)
    for parts in ([changeable], [memoryview(changeable)], [memoryview(changeable).toreadonly()], [changeable, *pieces]):
        found, expected = kept(parts), b"".join(bytes(part) for part in parts)
        changeable[0] += 1
        assert found == expected
    assert isinstance(kept([b"small", b"pieces"]), bytes)
    assert isinstance(kept([pieces[0]] * 1025), bytes)


def test_little_of_what_is_large_is_copied_out_of_it() -> None:
    (large_one,), whole = large(1)
    for some in ([large_one[:2000]], [large_one[:1200], large_one[-1200:]], [memoryview(whole)[7:9]]):
        assert kept(some) == b"".join(some) and isinstance(kept(some), bytes)
    assert np.shares_memory(np.asarray(kept([large_one[:4000]])), np.asarray(large_one))


def test_what_is_kept_outlives_its_givers() -> None:
    store = MemoryStore()
    pieces, whole = large(3)
    store.put("many", pieces)
    with pieces[0] as one:
        store.put("one", one)
    del pieces, one
    assert bytes(store.get("one") or b"") == whole[:5000]
    assert [bytes(part) for part in store.get_ranges("many", [(4990, 5020), (0, 0), (len(whole), 0)]) or ()] == [
        whole[4990:10010], b"", b"",
    ]  # fmt: skip
    assert bytes(store.get("many") or b"") == whole


def test_a_store_answers_for_ropes_as_for_all_objects() -> None:
    store, plain = MemoryStore(), MemoryStore()
    pieces, whole = large(4)
    store.put("x", pieces)
    plain.put("x", whole)
    assert store.size("x") == len(whole)
    edges = [*itertools.accumulate(map(len, pieces), initial=0)]
    for start, length in itertools.product([0, 1, *edges, -1, -6000, -99_999], [None, 0, 1, 5000, 99_999]):
        if start >= 0 or length is None:
            assert bytes(store.get("x", start, length) or b"") == bytes(plain.get("x", start, length) or b"")
    for bad in ((len(whole), 1), (0, len(whole) + 1)):
        with pytest.raises(CorruptDataError):
            store.get_ranges("x", [bad])
    stamp = store.stamp("x")
    assert bytes(store.get("x", stamp=stamp) or b"") == whole
    assert store.stamp("x") == stamp, "to join it is no change"
    store.put("x", pieces)
    with pytest.raises(ConflictError):
        store.get("x", stamp=stamp)
    store.append("x", b"end", len(whole))
    store.put("y", pieces)
    store.patch("y", 4999, b"new")
    assert bytes(store.get("x") or b"") == whole + b"end"
    assert bytes(store.get("y") or b"") == whole[:4999] + b"new" + whole[5002:]


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("shards", [None, (48, 48, 48)])
def test_arrays_in_memory_are_their_own(codec: str | None, shards: tuple[int, ...] | None) -> None:
    """What was given, and what was read, may change afterwards; what is stored stays."""
    rng = np.random.default_rng(3)
    values = rng.integers(0, 9, (96, 50, 70)).astype(np.uint16)
    array = zvcore.create(
        MemoryStore(), format="zarr3", shape=values.shape, dtype="u2", chunks=(24, 24, 24), shards=shards, codec=codec
    )
    given = values.copy()
    array[...] = given
    given[...] = 77
    for _ in range(40):
        begin = [int(rng.integers(0, length)) for length in values.shape]
        box = tuple(slice(at, at + int(rng.integers(1, 60))) for at in begin)
        part = rng.integers(0, 9, values[box].shape).astype(np.uint16)
        values[box] = array[box] = part
        part[...] = 88
        found = array[...]
        assert np.array_equal(found, values)
        found[...] = 99
    assert np.array_equal(array[...], values)
