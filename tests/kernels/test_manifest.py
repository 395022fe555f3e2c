"""The manifest kernels: checked walks over hostile bytes, columns both ways."""

from __future__ import annotations

import gc
import struct
import sys

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


def uniform_lists(coords: np.ndarray, pieces: np.ndarray) -> list[list[tuple[tuple[int, ...], int]]]:
    """Rows of three blocks, and then the rest."""
    offsets = np.array([*range(0, len(coords), 3), len(coords)])
    return manifest_lists.to_lists(offsets, coords, None, pieces, None, NONE)


@pytest.mark.parametrize("ndim", [0, 1, 3, 64])
@pytest.mark.parametrize("chunks", [1, 700, 5000, 90_000])
def test_tables_of_few_and_of_many_chunks_become_the_same_lists(ndim: int, chunks: int) -> None:
    """More chunks than can be shared at a time, and of so many axes that fewer can."""
    rng = np.random.default_rng(chunks)
    blocks = 20_000 if ndim == 64 else 100_000
    known = rng.integers(-(2**62), 2**62, (chunks, ndim))
    coords = np.ascontiguousarray(known[rng.integers(0, chunks, blocks)])
    pieces = rng.choice([-(2**63), -6, 0, 256, 257, 1023, 1024, 2**63 - 1], blocks)
    found = [block for row in uniform_lists(coords, pieces) for block in row]
    assert found == list(zip(map(tuple, coords.tolist()), pieces.tolist(), strict=True))


def test_equal_chunks_are_one_tuple_however_many_there_are() -> None:
    """A third of a thousand were made again for each block when each had but one place in the table."""
    known = np.stack(np.unravel_index(np.arange(20_000), (50, 20, 20)), 1) - 5
    coords = np.ascontiguousarray(np.concatenate([known, known[::-1]]).astype(np.int64))
    found = [block for row in uniform_lists(coords, np.arange(40_000)) for block in row]
    assert len({id(chunk) for chunk, _ in found}) < 20_000 * 1.1


def test_what_the_collector_need_not_look_at_it_does_not() -> None:
    blob = manifest_lists.encode_one([((1, 2), 3), ((4, 5), (6, 7)), ((8, 9), np.array([5, 3]))], 2)
    columns = manifest_columns.decode_rows(blob, np.zeros(1, np.int64), np.array([len(blob)]), 2)
    (row,) = manifest_lists.to_lists(*columns[:6])
    for blocks in (row, manifest_lists.decode_one(blob, 2), manifest_lists.to_list(*columns[1:6], 0, 3)):
        assert gc.is_tracked(blocks)
        assert not any(gc.is_tracked(block) or gc.is_tracked(block[0]) for block in blocks)
        assert not gc.is_tracked(blocks[1][1])
        # A list may be made to hold itself, and is then found.
        blocks.append(blocks)
        assert gc.is_tracked(blocks)
        blocks.clear()


def test_lists_own_what_they_hold_and_nothing_else_does() -> None:
    coords = np.full((9, 3), 1000, np.int64)
    rows = uniform_lists(coords, np.full(9, 1000))
    chunk, number = rows[0][0]
    alone = tuple(coords[0].tolist())
    once = sys.getrefcount(alone)
    assert sys.getrefcount(chunk) == sys.getrefcount(number) == once + 9
    del rows
    assert sys.getrefcount(chunk) == sys.getrefcount(number) == once


def test_a_list_that_fails_midway_leaves_nothing_behind() -> None:
    coords, mode = np.full((5, 2), 3000, np.int64), np.array([0, 0, 1, 2, 0], np.uint8)
    first, count = np.full(5, 5000, np.int64), np.ones(5, np.int64)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        with pytest.raises(ValueError, match="block 3 lies outside the pool"):
            manifest_lists.to_lists(np.array([0, 2, 5]), coords, mode, first, count, NONE)
        with pytest.raises(ValueError, match="block 3 lies outside the pool"):
            manifest_lists.to_list(coords, mode, first, count, NONE, 0, 5)
    gc.collect()  # of Python 3.11, errors and their frames go only then
    assert sys.getallocatedblocks() - before < 200
