"""The fragment kernel: many indices into columns, and rows gathered by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.errors import CorruptDataError
from zvcore.kernels import fragments as kernel
from zvcore.kernels.fragment_lookup import Pieces
from zvcore.zvf import FragmentIndex, encode_fragments

fragment = st.one_of(
    st.tuples(st.integers(0, 20), st.integers(0, 10)), st.lists(st.integers(0, 29), max_size=8).map(np.array)
)
cells = st.lists(st.lists(fragment, max_size=20), min_size=1, max_size=4)


def packed(blobs: list[bytes]) -> tuple[bytes, np.ndarray, np.ndarray]:
    lengths = np.array([len(blob) for blob in blobs], np.int64)
    return b"".join(blobs), np.cumsum(lengths) - lengths, lengths


@given(cells, st.booleans(), st.data())
def test_gathering_is_what_the_indices_say(pieces: list[list], force: bool, data: st.DataObject) -> None:
    blobs = [encode_fragments(each, force_explicit=force) for each in pieces]
    offsets, first, count, listed, pool, status = kernel.decode_cells(*packed(blobs))
    assert (status == kernel.FINE_CELL).all()
    assert np.diff(offsets).tolist() == [len(each) for each in pieces]
    vertices = [np.random.default_rng(k).random((30, 2), np.float32) for k in range(len(pieces))]
    wanted = [(k, f) for k, each in enumerate(pieces) for f in range(len(each))]
    wanted = data.draw(st.permutations(wanted))
    cell = np.array([k for k, _ in wanted], np.int64)
    piece = np.array([f for _, f in wanted], np.int64)
    columns = (offsets, first, count, listed, pool)
    wanted_rows = kernel.Gathering(cell, piece, columns, np.full(len(pieces), 30))
    sums = wanted_rows.sums
    assert wanted_rows.faulty == -1
    out = np.empty((int(sums[-1]), 2), np.float32)
    source = np.concatenate(vertices).tobytes()
    starts = np.arange(len(pieces)) * 240
    middle = len(wanted) // 2
    flat = out.reshape(-1).view(np.uint8)
    wanted_rows.take(source, starts, 8, flat, middle, len(wanted))
    wanted_rows.take(source, starts, 8, flat, 0, middle)
    for i, (k, f) in enumerate(wanted):
        expected = vertices[k][FragmentIndex(blobs[k]).indices(f)]
        assert np.array_equal(out[sums[i] : sums[i + 1]], expected)


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_are_judged_cell_by_cell(blobs: list[bytes]) -> None:
    status = kernel.decode_cells(*packed(blobs))[5]
    for blob, found in zip(blobs, status.tolist(), strict=True):
        assert (kernel.cell_error(blob) is None) == (found == kernel.FINE_CELL)
        assert (not blob) == (found == kernel.ABSENT_CELL)


@pytest.mark.parametrize(
    ("pieces", "rows", "cell", "piece"),
    [
        ([(0, 5)], 4, 0, 0),
        ([(-1, 2)], 4, 0, 0),
        ([(2**63 - 1, 2**63 - 1)], 4, 0, 0),
        ([np.array([0, 9, 1])], 9, 0, 0),
        ([(0, 1)], 4, 0, 1),
        ([(0, 1)], 4, 0, -1),
        ([(0, 1)], 4, 1, 0),
        ([(0, 1)], 4, -1, 0),
    ],
)
def test_pieces_that_cannot_be_taken_are_found(pieces: list, rows: int, cell: int, piece: int) -> None:
    offsets, first, count, listed, pool, _ = kernel.decode_cells(*packed([encode_fragments(pieces)]))
    wanted = np.array([cell]), np.array([piece])
    assert kernel.Gathering(*wanted, (offsets, first, count, listed, pool), np.array([rows])).faulty == 0


def test_taking_never_leaves_its_buffers() -> None:
    offsets, first, count, listed, pool, _ = kernel.decode_cells(
        *packed([encode_fragments([(0, 4), np.array([3, 1])])])
    )
    cell, piece = np.zeros(2, np.int64), np.arange(2)
    columns = (offsets, first, count, listed, pool)
    wanted = kernel.Gathering(cell, piece, columns, np.array([4]))
    for source, starts, out in ((15, 0, 24), (16, 1, 24), (16, -1, 24), (16, 0, 23)):
        with pytest.raises(ValueError):
            wanted.take(bytes(source), np.array([starts]), 4, bytearray(out), 0, 2)


def test_declared_counts_take_no_memory() -> None:
    import struct

    huge = struct.pack("<IHHII", 0x5A564647, 1, 0, 2**32 - 1, 2**32 - 1)
    with pytest.raises(CorruptDataError, match="truncated in bitmap"):
        Pieces(huge + bytes(100))
