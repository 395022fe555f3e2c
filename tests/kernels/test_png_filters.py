"""The filters of PNG's lines."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels.png_filters import choose_filters, undo_filters

DISTANCES = (1, 2, 3, 4, 6, 8, 5)


def nearest(left: int, above: int, between: int) -> int:
    """As the specification has it."""
    guess = left + above - between
    apart = [abs(guess - one) for one in (left, above, between)]
    return (left, above, between)[apart.index(min(apart))]


def undone(lines: np.ndarray, distance: int) -> np.ndarray:
    height, width = lines.shape[0], lines.shape[1] - 1
    out = np.zeros((height, width), np.uint8)
    for row, at in np.ndindex(height, width):
        left = int(out[row, at - distance]) if at >= distance else 0
        above = int(out[row - 1, at]) if row else 0
        between = int(out[row - 1, at - distance]) if row and at >= distance else 0
        guess = (0, left, above, (left + above) // 2, nearest(left, above, between))[lines[row, 0]]
        out[row, at] = (int(lines[row, at + 1]) + guess) & 255
    return out


@st.composite
def filtered(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    distance = draw(st.sampled_from(DISTANCES))
    height, pixels = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    size = height * (1 + distance * pixels)
    # Small differences as well as any: the nearest of three is decided by the last bit.
    values = draw(st.lists(st.integers(0, 255) | st.sampled_from([0, 1, 255]), min_size=size, max_size=size))
    lines = np.array(values, np.uint8).reshape(height, -1)
    lines[:, 0] = draw(st.lists(st.integers(0, 4), min_size=height, max_size=height))
    return lines, distance


@given(filtered())
def test_every_filter_is_undone_as_the_specification_says(case: tuple[np.ndarray, int]) -> None:
    lines, distance = case
    np.testing.assert_array_equal(undo_filters(lines, distance), undone(lines, distance))


@given(filtered())
def test_chosen_filters_are_undone(case: tuple[np.ndarray, int]) -> None:
    lines, distance = case
    chosen = choose_filters(np.ascontiguousarray(lines[:, 1:]), distance)
    assert chosen.shape == lines.shape and chosen[0, 0] < 2
    np.testing.assert_array_equal(undone(chosen, distance), lines[:, 1:])


def test_the_nearest_of_three_is_that_of_the_specification() -> None:
    """A square of four pixels, the last of which is told by the others."""
    values = [*range(0, 256, 17), 1, 2, 127, 128, 129, 254]
    for left, above, between in itertools.product(values, repeat=3):
        square = np.array([[0, between, above], [4, (left - between) & 255, 0]], np.uint8)
        assert undo_filters(square, 1)[1].tolist() == [left, nearest(left, above, between)]


def test_a_filter_that_makes_less_is_chosen() -> None:
    slope = np.arange(200, dtype=np.uint8)
    assert choose_filters(np.stack([slope, slope, slope]), 1)[:, 0].tolist() == [1, 2, 2]
    assert choose_filters(np.zeros((3, 7), np.uint8), 1)[:, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("filter", [5, 6, 128, 255])
def test_no_other_filter_is_undone(filter: int) -> None:
    with pytest.raises(ValueError, match=f"line 1 has filter {filter}"):
        undo_filters(np.array([[0, 1], [filter, 1]], np.uint8), 1)


@pytest.mark.parametrize("call", [undo_filters, choose_filters])
def test_lines_of_nothing_are_refused(call: Any) -> None:
    with pytest.raises(ValueError):
        call(np.zeros((2, 1 if call is undo_filters else 0), np.uint8), 1)
    with pytest.raises(ValueError):
        call(np.zeros((2, 4), np.uint8), 0)
