"""The memory of large results waits for the next ones, up to a number of bytes, and is never shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.engine.kept_memory import address, nothing_else_waits
from tests.processes import run_within
from zvcore import transfer
from zvcore.engine.large import LEAST, MOST, LargeMemory, forget

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def nothing_kept():
    with nothing_else_waits(forget):
        yield


def test_the_last_piece_is_kept_for_the_next_result() -> None:
    first = LargeMemory(LEAST)
    where = address(first)
    del first
    second = LargeMemory(LEAST - 5000)
    assert address(second) == where
    third = LargeMemory(LEAST)
    assert address(third) != where
    np.frombuffer(second, np.uint8)[:] = 1
    np.frombuffer(third, np.uint8)[:] = 2
    assert (np.frombuffer(second, np.uint8) == 1).all()


def test_as_many_wait_as_may_take_room() -> None:
    size = MOST // 4
    many = [LargeMemory(size) for _ in range(6)]
    places = [address(one) for one in many]
    while many:
        del many[0]
    again = [LargeMemory(size) for _ in range(4)]
    assert [address(one) for one in again] == places[:1:-1]


def test_what_is_no_whole_huge_page_takes_no_more_than_it_needs() -> None:
    for size in (LEAST, LEAST + 1, (9 << 20) + 12345):
        assert size <= len(memoryview(LargeMemory(size))) < size + (64 << 10)


def test_memory_that_does_not_fit_is_left_for_others() -> None:
    for size in (LEAST + 1, LEAST // 3):
        first = LargeMemory(LEAST)
        del first
        second = LargeMemory(size)
        assert size <= len(memoryview(second)) < size + (2 << 20)
        np.frombuffer(second, np.uint8)[-1] = 1
        del second
        forget()


def test_what_cannot_be_had_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="no memory for"):
        LargeMemory(1 << 60)
    with pytest.raises(OverflowError):
        LargeMemory(-1)


@pytest.mark.parametrize("order", ["C", "F"])
def test_results_lie_in_it_in_either_order(order: str) -> None:
    result = transfer.empty((4, LEAST // 16, 2), np.dtype(">u2"), order)  # type: ignore[arg-type]
    assert isinstance(result.base, LargeMemory)
    assert result.flags["F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"]
    assert result.flags.writeable
    assert result.dtype == ">u2"
    assert result.ctypes.data % 4096 == 0
    assert not isinstance(transfer.empty((LEAST - 1,), np.dtype("u1")).base, LargeMemory)
    assert not isinstance(transfer.empty((MOST + 1,), np.dtype("u1")).base, LargeMemory)


def test_a_view_of_a_result_keeps_its_memory(tmp_path: Path) -> None:
    values = np.arange(LEAST, dtype=np.uint32).view("u1").reshape(4, 512, -1)[:, :, : LEAST // 2048]
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=values.shape, dtype="u1", chunks=(1, 512, 4096), shards=(4, 512, 16384),
        codec=None,
    )  # fmt: skip
    array[...] = values
    first = array[...][1:3, 7]
    second = array[...]
    assert np.array_equal(second, values)
    assert np.array_equal(first, values[1:3, 7])
    where = second.ctypes.data
    del second
    third = array[...]
    assert third.ctypes.data == where
    assert np.array_equal(third, values)
    assert np.array_equal(first, values[1:3, 7])


def test_what_waits_is_given_back_where_memory_is_short() -> None:
    script = """
    import numpy as np
    from zvcore import transfer
    for count, size in ((5, 50 << 20), (10, 3 << 20)):
        held = [transfer.empty((size,), np.dtype("u1")) for _ in range(count)]
        del held
    for size in (200 << 20, 300 << 20):
        print(transfer.empty((size,), np.dtype("u1")).size == size)
    """
    assert run_within(400 << 20, script).split() == ["True", "True"]
