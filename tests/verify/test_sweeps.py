"""What the looking after every format is made of: finding the bad ones of a batch, and sweeps over byte ranges."""

from __future__ import annotations

import numpy as np
import pytest

from zvcore.care.checking import first_bad
from zvcore.care.intervals import byte_map, covered, overlaps
from zvcore.errors import ConflictError, CorruptDataError


def ranges(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs], np.uint64), np.array([b for _, b in pairs], np.uint64)


def test_one_bad_chunk_among_many_is_found_by_halving() -> None:
    calls = []

    def decode(first: int, last: int) -> None:
        calls.append((first, last))
        if first <= 6789 < last:
            raise CorruptDataError("bad", chunk=6789)

    assert [(row, error.chunk) for row, error in first_bad(decode, 0, 10_000)] == [(6789, 6789)]
    assert len(calls) < 32


def test_bad_rows_come_in_their_order() -> None:
    bad = {3, 4, 17, 99}

    def decode(first: int, last: int) -> None:
        if bad & {*range(first, last)}:
            raise CorruptDataError("bad")

    assert [row for row, _ in first_bad(decode, 0, 100)] == sorted(bad)
    assert [*first_bad(decode, 20, 90)] == []


def test_another_writer_is_no_fault_of_any_row() -> None:
    def decode(first: int, last: int) -> None:
        raise ConflictError("replaced")

    with pytest.raises(ConflictError):
        list(first_bad(decode, 0, 8))


def test_bytes_that_several_ranges_share_count_once() -> None:
    assert covered(*ranges()) == 0
    assert covered(*ranges((0, 10), (5, 12), (20, 30), (22, 25))) == 22


def test_ranges_that_share_bytes_are_reported_with_the_one_that_reaches_furthest() -> None:
    found = [tuple(one) for one in overlaps(*ranges((50, 60), (0, 30), (10, 12), (20, 25), (50, 60), (60, 61)))]
    assert found == [(2, 1, 30, False), (3, 1, 30, False), (4, 0, 60, True)]
    assert [*overlaps(*ranges())] == []


def test_the_map_of_an_object_has_no_holes() -> None:
    spans = [(30, 40, "live"), (0, 10, "index"), (35, 50, "live"), (10, 12, "live")]
    assert byte_map(spans, 60) == [
        (0, 10, "index"), (10, 12, "live"), (12, 30, "dead"), (30, 50, "live"), (50, 60, "dead"),
    ]  # fmt: skip
    assert byte_map([], 5) == [(0, 5, "dead")]
