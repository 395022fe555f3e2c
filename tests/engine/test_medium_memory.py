"""The memory of results of medium size waits for the next ones, up to a number of bytes, and is never shared."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.engine.kept_memory import address, nothing_else_waits
from zvcore import transfer
from zvcore.engine.medium import LEAST_MEDIUM, MOST_WAITING, MediumMemory, forget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 200_000


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    with nothing_else_waits(forget):
        yield


def test_results_that_are_gone_together_leave_their_memory_to_the_next_ones() -> None:
    first = [MediumMemory(SIZE) for _ in range(20)]
    places = {address(one) for one in first}
    assert len(places) == 20
    del first
    second = [MediumMemory(SIZE - 10 * i) for i in range(20)]
    assert {address(one) for one in second} == places


def test_what_was_used_last_is_used_first() -> None:
    first, second = MediumMemory(SIZE), MediumMemory(SIZE)
    where = address(first)
    del second
    del first
    assert address(MediumMemory(SIZE)) == where


def test_memory_is_used_by_one_result_at_a_time() -> None:
    first = MediumMemory(SIZE)
    del first
    results = [np.frombuffer(MediumMemory(SIZE), np.uint8) for _ in range(5)]  # type: ignore[call-overload]
    for number, result in enumerate(results):
        result[:] = number
    assert [set(result.tolist()) for result in results] == [{0}, {1}, {2}, {3}, {4}]


def test_much_larger_memory_is_left_for_larger_results() -> None:
    large = MediumMemory(2 * SIZE)
    where = address(large)
    del large
    small = MediumMemory(SIZE)
    assert address(small) != where
    assert len(memoryview(small)) == SIZE
    assert address(MediumMemory(2 * SIZE - SIZE // 4)) == where


def test_no_more_than_a_number_of_bytes_waits() -> None:
    size = MOST_WAITING // 8
    many = [MediumMemory(size) for _ in range(12)]
    places = [address(one) for one in many]
    while many:
        del many[0]
    # Those that have waited longest went; the C library may hand out their places again.
    again = [MediumMemory(size) for _ in range(8)]
    assert [address(one) for one in again] == places[:3:-1]


def test_many_small_ones_do_not_wait_without_end() -> None:
    many = [MediumMemory(100) for _ in range(5000)]
    del many
    assert len({address(one) for one in [MediumMemory(100) for _ in range(600)]}) == 600


def test_what_cannot_be_had_is_a_memory_error() -> None:
    for size in (1 << 60, 2**64 - 1):
        with pytest.raises(MemoryError, match="no memory for"):
            MediumMemory(size)


@pytest.mark.parametrize("order", ["C", "F"])
def test_results_lie_in_it_in_either_order(order: str) -> None:
    shape = (4, LEAST_MEDIUM // 16, 2)
    assert not isinstance(transfer.empty(shape, np.dtype("u1"), order).base, MediumMemory)  # type: ignore[arg-type]
    result = transfer.empty(shape, np.dtype(">u8"), order)  # type: ignore[arg-type]
    assert isinstance(result.base, MediumMemory)
    assert result.flags["F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"]
    assert result.flags.writeable
    assert result.dtype == ">u8"
    assert result.ctypes.data % 64 == 0
    assert not isinstance(transfer.empty((SIZE,), np.dtype(object)).base, MediumMemory)


def test_chunks_that_are_kept_are_those_that_were_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 99, (8, 64, 64, 64), "u1")
    array = zvcore.create(
        tmp_path / "a", format="zarr2", shape=values.shape, dtype="u1", chunks=(1, 64, 64, 64), codec="zstd"
    )
    array[...] = values
    kept = []
    for turn in range(40):
        kept.append((turn % 8, array[turn % 8]))
        if turn % 3 == 2:
            del kept[turn % len(kept)]
    assert isinstance(kept[0][1].base, MediumMemory)
    assert all(np.array_equal(found, values[number]) for number, found in kept)


def test_threads_take_and_leave_memory_at_the_same_time() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        held: list[np.ndarray] = []
        for turn in range(300):
            memory = np.frombuffer(MediumMemory(SIZE // 4 + turn % 7), np.uint8)  # type: ignore[call-overload]
            memory[:64] = number
            held.append(memory)
            if len(held) > 5:
                wrong.extend(1 for one in held if (one[:64] != number).any())
                held = held[3:]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
