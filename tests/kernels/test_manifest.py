"""The manifest kernels: checked walks over hostile bytes, columns both ways."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.errors import CorruptDataError
from zvcore.kernels import manifest, manifest_columns, manifest_lists

NONE = np.zeros(0, np.int64)


def rows_of(blobs: list[bytes]) -> tuple[bytes, np.ndarray, np.ndarray]:
    lengths = np.array([len(blob) for blob in blobs], np.int64)
    return b"".join(blobs), np.cumsum(lengths) - lengths, lengths


@given(st.lists(st.binary(max_size=120), max_size=6), st.integers(0, 4))
def test_any_bytes_are_judged_row_by_row(blobs: list[bytes], ndim: int) -> None:
    data, starts, lengths = rows_of(blobs)
    offsets, coords, mode, first, count, pool, status = manifest_columns.decode_rows(data, starts, lengths, ndim)
    lists = manifest_lists.to_lists(offsets, coords, mode, first, count, pool)
    for row, blob in enumerate(blobs):
        error = manifest.row_error(blob, ndim)
        if not blob:
            assert status[row] == manifest.ABSENT_ROW
            assert lists[row] == []
        elif status[row] == manifest.FINE_ROW:
            assert error is None
            assert repr(manifest_lists.decode_one(blob, ndim)) == repr(lists[row])
        else:
            assert isinstance(error, CorruptDataError)
            assert lists[row] == []
            with pytest.raises(CorruptDataError) as caught:
                manifest_lists.decode_one(blob, ndim)
            assert str(caught.value) == str(error)


def test_a_count_of_blocks_or_indices_takes_no_memory() -> None:
    for blob in (b"\xff" * 4 + bytes(40), struct.pack("<I3qBI", 1, 0, 0, 0, 2, 2**32 - 1) + bytes(8)):
        with pytest.raises(CorruptDataError, match="truncated"):
            manifest_lists.decode_one(blob, 3)


def test_unaligned_rows() -> None:
    blob = manifest_lists.encode_one([((1, -2, 3), np.array([5, 3])), ((4, 5, 6), (7, 8))], 3)
    for shift in range(9):
        data = bytes(shift) + blob
        columns = manifest_columns.decode_rows(data, np.array([shift]), np.array([len(blob)]), 3)
        assert columns[1].tolist() == [[1, -2, 3], [4, 5, 6]]
        assert columns[5].tolist() == [5, 3]


def test_rows_outside_the_data_are_an_argument_error() -> None:
    for start, length in ((-1, 4), (0, 5), (2**62, 4), (0, -1), (3, 4)):
        with pytest.raises(ValueError, match="not inside the data"):
            manifest_columns.decode_rows(bytes(4), np.array([start]), np.array([length]), 3)


def test_columns_that_contradict_each_other_are_refused() -> None:
    coords, one = np.zeros((1, 3), np.int64), np.ones(1, np.int64)
    listing = np.full(1, 2, np.uint8)
    for offsets in ([0, 2], [1, 0], [-1, 1]):
        with pytest.raises(ValueError):
            manifest_lists.to_lists(np.array(offsets), coords, None, one, None, NONE)
        with pytest.raises(ValueError):
            manifest_columns.encode_rows(np.array(offsets), coords, None, one, None, NONE)
        with pytest.raises(ValueError):
            manifest_columns.expand(np.array(offsets), coords, listing, one, one, NONE, 10)
    whole = np.array([0, 1])
    with pytest.raises(ValueError, match="pool"):
        manifest_lists.to_lists(whole, coords, listing, one, one, NONE)
    with pytest.raises(ValueError):
        manifest_columns.encode_rows(whole, coords, listing, one, one, NONE)
    with pytest.raises(ValueError):
        manifest_columns.encode_rows(whole, coords, np.full(1, 3, np.uint8), one, one, NONE)
    with pytest.raises(ValueError):
        manifest_columns.expand(whole, coords, listing, one, one, NONE, 10)
    with pytest.raises(ValueError, match=">= 0"):
        manifest_columns.encode_rows(whole, coords, None, -one, None, NONE)


def test_expanding_stops_at_the_limit() -> None:
    coords, start = np.zeros((1, 3), np.int64), np.zeros(1, np.int64)
    run = np.ones(1, np.uint8)
    assert manifest_columns.expand(np.array([0, 1]), coords, run, start, np.array([2**62]), NONE, 2**20) is None
    offsets, _, pieces = manifest_columns.expand(np.array([0, 1]), coords, run, start, np.array([3]), NONE, 3)
    assert offsets.tolist() == [0, 3]
    assert pieces.tolist() == [0, 1, 2]


@pytest.mark.parametrize("ndim", [-1, 65, 2**70])
def test_no_such_rank(ndim: int) -> None:
    with pytest.raises(ValueError, match="sid_ndim"):
        manifest_lists.decode_one(bytes(4), ndim)


def test_coordinates_that_do_not_fit_are_refused_whatever_holds_them() -> None:
    for coords in ((2**63, 0), [0, -(2**63) - 1], (2**63, -1), np.array([2**63, 0], np.uint64), (np.uint64(2**63), 0)):
        with pytest.raises(ValueError, match="must fit"):
            manifest_lists.encode_one([(coords, 1)], 2)
    for coords in ((5, -6), [5, -6], np.array([5, -6], np.int8), (np.int16(5), -6), (5, np.float32(-6))):
        assert manifest_lists.encode_one([(coords, 1)], 2) == manifest_lists.encode_one([((5, -6), 1)], 2)


@pytest.mark.parametrize("outer", [False, True])
def test_lists_that_change_while_they_are_encoded(outer: bool) -> None:
    manifests: list[list[object]] = [[((0,), 1)] for _ in range(50)]

    class Number:
        def __int__(self) -> int:
            (manifests if outer else manifests[1]).clear()
            return 7

    manifests[1] = [((0,), (Number(), 1)), ((0,), 2)]
    with pytest.raises(RuntimeError, match="changed while"):
        manifest_lists.encode_lists(manifests, 1)
