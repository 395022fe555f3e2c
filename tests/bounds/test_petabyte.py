"""A petabyte on paper: planning, notes and lists of ten million shards within a little memory (`bench/petabyte.py`)."""

from __future__ import annotations

import random
from typing import Any

from bench.petabyte import shards
from tests.processes import run_within
from zvcore.converting.spans import insert, joined
from zvcore.report import human_size

WITHIN = """
import sys
from bench import petabyte
getattr(petabyte, sys.argv[1])(int(sys.argv[2]))
"""
MIB = 1 << 20


def test_an_array_of_a_thousand_million_chunks_is_opened_and_read_within_little_memory() -> None:
    run_within(64 * MIB, WITHIN, "opening", 10**9)


def test_a_conversion_of_ten_million_shards_is_planned_within_little_memory() -> None:
    run_within(200 * MIB, WITHIN, "planning", 10**7)


def test_what_is_stored_of_many_shards_is_listed_within_little_memory() -> None:
    run_within(200 * MIB, WITHIN, "only_listed", 50**3)


def test_units_that_are_done_nearly_in_order_are_noted_within_little_memory() -> None:
    run_within(32 * MIB, WITHIN, "journal", 200_000)


class Watched(list[Any]):
    """Spans that count how often they are looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)


def test_noting_a_unit_does_not_look_at_all_that_are_noted() -> None:
    spans = Watched([unit, unit + 1] for unit in range(0, 20_000, 2))
    insert(spans, 3)
    assert spans.looks < 40 and spans[:3] == [[0, 1], [2, 5], [6, 7]]


def test_units_in_any_order_become_the_spans_that_they_make() -> None:
    order = random.Random(5)
    for _ in range(200):
        units = [order.randrange(40) for _ in range(order.randrange(60))]
        spans: list[list[int]] = []
        for unit in units:
            insert(spans, unit)
        assert spans == joined([[unit, unit + 1]] for unit in units)


def test_the_petabyte_is_one() -> None:
    array = shards(10**7)
    assert array.size * array.dtype.itemsize > 150 << 40, human_size(array.size)
