"""Rows of variable length: against numcodecs' VLenBytes, and against damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs.vlen import VLenBytes

from zvcore.errors import CorruptDataError
from zvcore.kernels.vlen import join_rows, split_rows, split_single_rows

rows_of_bytes = st.lists(st.binary(max_size=40), max_size=30)


def joined(rows: list[bytes]) -> bytes:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return bytes(join_rows(b"".join(rows), offsets))


def split(data: bytes) -> list[bytes]:
    starts, lengths = split_rows(data)
    return [data[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]


@given(rows_of_bytes)
def test_both_ways_as_numcodecs(rows: list[bytes]) -> None:
    values = np.empty(len(rows), object)
    values[:] = rows
    encoded = joined(rows)
    assert encoded == bytes(VLenBytes().encode(values))
    assert split(encoded) == rows


@given(rows_of_bytes, st.data())
def test_every_prefix_and_any_tail_is_refused(rows: list[bytes], data: st.DataObject) -> None:
    encoded = joined(rows)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptDataError, match="missing or truncated header" if cut < 4 else "truncated"):
        split(encoded[:cut])
    with pytest.raises(CorruptDataError, match="after the last row"):
        split(encoded + data.draw(st.binary(min_size=1, max_size=9)))


@given(st.binary(max_size=60))
def test_any_bytes_are_rows_or_an_error(data: bytes) -> None:
    try:
        rows = split(data)
    except CorruptDataError:
        return
    assert joined(rows) == data


def test_a_huge_count_takes_no_memory() -> None:
    with pytest.raises(CorruptDataError, match="truncated"):
        split_rows(b"\xff\xff\xff\xff" + bytes(100))


def test_single_rows_in_one_buffer() -> None:
    cells = [joined([b"abc"]), b"", joined([b""]), joined([b"x" * 9])]
    lengths = np.array([len(cell) for cell in cells], np.int64)
    starts = np.cumsum(lengths) - lengths
    data = b"".join(cells)
    at, size, faulty = split_single_rows(data, starts, lengths)
    assert faulty == -1
    assert [data[a : a + n] for a, n in zip(at.tolist(), size.tolist(), strict=True)] == [b"abc", b"", b"", b"x" * 9]


@pytest.mark.parametrize(
    "bad", [b"\x01\0\0\0", joined([b"a", b"b"]), joined([]), joined([b"abc"])[:-1], joined([b"abc"]) + b"!"]
)
def test_a_cell_that_is_not_one_row_is_found(bad: bytes) -> None:
    cells = [joined([b"abc"]), bad]
    lengths = np.array([len(cell) for cell in cells], np.int64)
    assert split_single_rows(b"".join(cells), np.cumsum(lengths) - lengths, lengths)[2] == 1


def test_rows_outside_the_buffer_are_found() -> None:
    cell = joined([b"abc"])
    for start, length in ((-1, 11), (1, 11), (0, 12), (2**62, 11), (0, -5)):
        assert split_single_rows(cell, np.array([start]), np.array([length]))[2] == 0


def test_joining_refuses_offsets_that_leave_the_data() -> None:
    for offsets in ([0, 5], [-1, 3], [2, 1], []):
        with pytest.raises(ValueError):
            join_rows(b"abc", np.array(offsets, np.int64))
