"""Manifests against the reference: the same results, the same refusals in the same words, and what it lacks."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from zarr_vectors.encoding import fragments as reference
from zarr_vectors.exceptions import ArrayError

from zvcore.errors import CorruptDataError
from zvcore.kernels.vlen import join_rows
from zvcore.zvf import ManifestTable, decode_manifest, decode_manifests, encode_manifest, encode_manifests
from zvcore.zvf.manifests import expand_manifest

int64 = st.integers(-(2**63), 2**63 - 1)
index = st.integers(0, 2**63 - 1)
piece = st.one_of(
    index,
    st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
    # The reference fails where a list's first index and its length together reach 2**63.
    st.lists(st.integers(0, 2**63 - 8), max_size=6).map(lambda values: np.array(values, np.int64)),
    st.tuples(st.integers(0, 100), st.integers(1, 6)).map(lambda run: np.arange(run[0], run[0] + run[1])),
)


def manifest(ndim: int) -> st.SearchStrategy[list]:
    return st.lists(st.tuples(st.tuples(*[int64] * ndim), piece), max_size=6)


def outcome(function: Any, *arguments: Any) -> str:
    """What a decoder answers, or the words with which it refuses."""
    try:
        return repr(function(*arguments))
    except ArrayError as error:
        return str(error)
    except CorruptDataError as error:
        return error.message


@given(st.integers(1, 4).flatmap(lambda ndim: st.tuples(st.just(ndim), manifest(ndim))), st.booleans())
def test_both_ways_as_the_reference(case: tuple[int, list], force: bool) -> None:
    ndim, blocks = case
    blob = encode_manifest(blocks, ndim, force)
    assert blob == reference.encode_object_manifest_blocks(blocks, ndim, force_explicit=force)
    assert outcome(decode_manifest, blob, ndim) == outcome(reference.decode_object_manifest_blocks, blob, ndim)
    assert encode_manifests([blocks], ndim, force) == [blob]


@given(manifest(3), st.data())
def test_every_prefix_tail_and_flipped_bit_as_the_reference(blocks: list, data: st.DataObject) -> None:
    blob = bytearray(encode_manifest(blocks, 3))
    cut = data.draw(st.integers(0, len(blob)))
    tail = data.draw(st.binary(max_size=3))
    bad = blob[:cut] + tail
    if bad:
        bit = data.draw(st.integers(0, 8 * len(bad) - 1))
        if data.draw(st.booleans()):
            bad[bit // 8] ^= 1 << (bit % 8)
    assert outcome(decode_manifest, bytes(bad), 3) == outcome(reference.decode_object_manifest_blocks, bytes(bad), 3)


@given(st.binary(max_size=200), st.integers(0, 4))
@example(b"\xff\xff\xff\xff", 0)
def test_any_bytes_as_the_reference(blob: bytes, ndim: int) -> None:
    assert outcome(decode_manifest, blob, ndim) == outcome(reference.decode_object_manifest_blocks, blob, ndim)


def test_lists_of_the_largest_indices() -> None:
    for indices in ([2**63 - 1], [2**63 - 1, 0], [2**63 - 2, 2**63 - 1]):
        ((coords, piece),) = decode_manifest(encode_manifest([((4,), np.array(indices))], 1), 1)
        assert coords == (4,)
        found = piece.tolist() if isinstance(piece, np.ndarray) else [piece[0] + i for i in range(piece[1])]
        assert found == indices


def test_published_bytes() -> None:
    blob = bytes.fromhex("01000000 0100000000000000 0200000000000000 0300000000000000 00 0700000000000000")
    assert encode_manifest([((1, 2, 3), 7)], 3) == blob
    assert decode_manifest(blob, 3) == [((1, 2, 3), 7)]
    assert encode_manifest([], 3) == bytes(4)
    assert decode_manifest(bytes(4), 3) == []


REFUSED = [
    (b"", "Manifest blob too short: 0 < 4"),
    (b"\x01\0\0", "Manifest blob too short: 3 < 4"),
    (struct.pack("<I2q", 1, 0, 0), "Manifest blob truncated at block header"),
    (struct.pack("<I3qB", 1, 0, 0, 0, 0), "Manifest blob truncated in single-mode payload"),
    (struct.pack("<I3qBq", 1, 0, 0, 0, 1, 0), "Manifest blob truncated in range-mode payload"),
    (struct.pack("<I3qBH", 1, 0, 0, 0, 2, 0), "Manifest blob truncated in explicit-mode header"),
    (struct.pack("<I3qBIq", 1, 0, 0, 0, 2, 2, 0), "Manifest blob truncated in explicit-mode indices"),
    (struct.pack("<I3qBI", 1, 0, 0, 0, 2, 2**32 - 1), "Manifest blob truncated in explicit-mode indices"),
    (struct.pack("<I3qBq", 1, 0, 0, 0, 3, 0), "Unknown manifest block mode 3"),
    (bytes(12), "Manifest blob has 8 trailing bytes after 0 blocks"),
]


@pytest.mark.parametrize(("blob", "text"), REFUSED)
def test_refusals_are_worded_as_the_reference_words_them(blob: bytes, text: str) -> None:
    with pytest.raises(ArrayError, match=text):
        reference.decode_object_manifest_blocks(blob, 3)
    with pytest.raises(CorruptDataError) as caught:
        decode_manifest(blob, 3)
    assert caught.value.message == text
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([((0, 0, 0), -1)], "fragment_index must be >= 0, got -1"),
        ([((0, 0, 0), (0, -5))], "range count must be >= 0, got -5"),
        ([((0, 0, 0), [3, -1])], "Explicit fragment indices must be non-negative"),
        ([((0, 0, 0), (1, 2, 3))], r"Fragment range tuple must be \(start, count\), got \(1, 2, 3\)"),
        ([((0, 0), 1)], r"chunk_coords \(0, 0\) has rank 2, expected sid_ndim=3"),
        ([((0, 0, 0), np.zeros((2, 2), int))], r"Fragment ref array must be 1-D, got shape \(2, 2\)"),
        ([((0, 0, 0), 3.0)], r"Fragment ref array must be 1-D, got shape \(\)"),
        ([((0, 0, 0), np.array([2**63], np.uint64))], "Explicit fragment indices must be non-negative"),
    ],
)
def test_what_cannot_be_encoded(blocks: list, text: str) -> None:
    with pytest.raises(ArrayError, match=text):
        reference.encode_object_manifest_blocks(blocks, 3)
    with pytest.raises(ValueError, match=text):
        encode_manifest(blocks, 3)


@pytest.mark.parametrize("blocks", [[((0, 0, 0), 2**63)], [((2**63, 0, 0), 1)], [((0, 0, 0), (2**63, 1))]])
def test_numbers_beyond_64_bits_are_a_named_error(blocks: list) -> None:
    with pytest.raises(ValueError, match="64-bit"):
        encode_manifest(blocks, 3)


@pytest.mark.parametrize(
    "blocks",
    [
        [((0, 1, 2), True)],
        [((0, 1, 2), np.uint64(7))],
        [((0, 1, 2), [5])],
        [((0, 1, 2), [])],
        [((0, 1, 2), (-4, 0))],
        [((0, 1, 2), [1.9, 7.2])],
        [([0, 1, 2], 3)],
        [(np.array([0, 1, 2]), np.array([9, 1], np.uint16))],
        [((np.int32(1), 2.7, True), range(3))],
        [((0, 1, 2), np.arange(10)[::-2])],
        [((0, 1, 2), np.arange(5, dtype=">i8"))],
        [((0, 1, 2), [2**63 - 1])],
    ],
)
def test_whatever_the_reference_takes(blocks: list) -> None:
    for force in (False, True):
        expected = reference.encode_object_manifest_blocks(blocks, 3, force_explicit=force)
        assert encode_manifest(blocks, 3, force_explicit=force) == expected


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda blob: np.frombuffer(blob, np.uint8)])
def test_any_buffer_can_be_decoded(kind: Any) -> None:
    assert decode_manifest(kind(encode_manifest([((1, 2, 3), 7)], 3)), 3) == [((1, 2, 3), 7)]
    with pytest.raises(TypeError):
        decode_manifest("text", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (struct.pack("<Bq", 0, -1), "negative fragment -1"),
        (struct.pack("<Bqq", 1, -2, 3), "negative fragment -2"),
        (struct.pack("<Bqq", 1, 2, -3), "range of -3"),
        (struct.pack("<Bqq", 1, 2**63 - 1, 2), r"beyond 2\*\*63"),
        (struct.pack("<BI2q", 2, 2, 4, -5), "negative fragment -5"),
    ],
)
def test_strict_refuses_what_the_reference_accepts(payload: bytes, text: str) -> None:
    blob = struct.pack("<I3q", 1, 0, 0, 0) + payload
    reference.decode_object_manifest_blocks(blob, 3)
    decode_manifest(blob, 3)
    with pytest.raises(CorruptDataError, match=text):
        decode_manifest(blob, 3, strict=True)
    with pytest.raises(CorruptDataError, match=text):
        decode_manifests([bytes(4), blob], 3, strict=True)


def test_strict_knows_the_chunks_when_given_them() -> None:
    counts = {(0, 0, 0): 4}
    fine = encode_manifest([((0, 0, 0), 3), ((0, 0, 0), (1, 3)), ((0, 0, 0), [3, 0]), ((0, 0, 0), (4, 0))], 3)
    decode_manifest(fine, 3, strict=True, fragment_counts=counts)
    for coords, fragments in (
        ((0, 0, 0), 4),
        ((0, 0, 0), (1, 4)),
        ((0, 0, 0), (9, 0)),
        ((0, 0, 0), [0, 4]),
        ((0, 0, 1), 0),
    ):
        with pytest.raises(CorruptDataError, match=r"which has 4|does not exist"):
            decode_manifest(encode_manifest([(coords, fragments)], 3), 3, strict=True, fragment_counts=counts)


def test_length_alone_never_means_single_fragments() -> None:
    blocks = [((1, 2, 3), (5, 2)), ((1, 2, 3), np.zeros(0, np.int64)), ((1, 2, 3), np.zeros(0, np.int64))]
    blob = encode_manifest(blocks, 3)
    assert len(blob) == 4 + 3 * 33
    table = decode_manifests([blob], 3)
    assert not table.uniform
    assert table.mode.tolist() == [1, 2, 2]
    assert table.to_csr().fragment_idx.tolist() == [5, 6]


# --- tables ---------------------------------------------------------------------------------------------------------


@given(st.lists(manifest(2), max_size=8), st.data())
def test_a_table_is_its_manifests(manifests: list[list], data: st.DataObject) -> None:
    blobs = [encode_manifest(blocks, 2) for blocks in manifests]
    for row in data.draw(st.sets(st.integers(0, max(len(blobs) - 1, 0)))):
        if row < len(blobs):
            blobs[row] = b""
    offsets = np.concatenate([[0], np.cumsum([len(blob) for blob in blobs])]).astype(np.int64)
    expected = [repr(reference.decode_object_manifest_blocks(blob, 2)) if blob else "[]" for blob in blobs]
    for table in (decode_manifests(blobs, 2), decode_manifests(join_rows(b"".join(blobs), offsets), 2)):
        assert len(table) == len(blobs)
        assert [repr(table[row]) for row in range(len(table))] == expected
        assert [repr(blocks) for blocks in table] == expected == [repr(blocks) for blocks in table.to_lists()]
        assert table.absent.tolist() == [not blob for blob in blobs]
        assert encode_manifests(table) == blobs
        rows = data.draw(st.lists(st.integers(-len(blobs), len(blobs) - 1), max_size=5)) if blobs else []
        chosen = table[rows]
        assert [repr(blocks) for blocks in chosen] == [expected[row] for row in rows]
        assert chosen.object_ids.tolist() == [row % len(blobs) for row in rows]
        assert encode_manifests(chosen) == [blobs[row] for row in rows]
        part = data.draw(st.slices(len(blobs)))
        assert [repr(blocks) for blocks in table[part]] == expected[part]
        assert encode_manifests(table[part]) == blobs[part]


@given(st.lists(st.lists(st.tuples(st.tuples(int64, int64), st.integers(0, 9)), max_size=5), max_size=8), st.booleans())
def test_csr_both_ways(manifests: list[list], compact: bool) -> None:
    table = decode_manifests([encode_manifest(blocks, 2) for blocks in manifests], 2)
    csr = table.to_csr()
    assert table.uniform
    assert csr.fragment_idx is table.start
    again = ManifestTable.from_csr(*csr, compact=compact)
    assert [expand_manifest(blocks) for blocks in again] == manifests
    back = again.to_csr()
    assert all(np.array_equal(a, b) for a, b in zip(back, csr, strict=True))


def test_compacting_joins_only_neighbours_of_one_object_and_chunk() -> None:
    table = ManifestTable.from_csr([0, 4, 6], [[0], [0], [1], [1], [1], [1]], [1, 2, 3, 4, 5, 5], [7, 9], compact=True)
    assert table.to_lists() == [[((0,), (1, 2)), ((1,), (3, 2))], [((1,), 5), ((1,), 5)]]
    assert table.object_ids.tolist() == [7, 9]


def test_a_range_is_never_spelt_out_beyond_the_limit() -> None:
    table = decode_manifests([encode_manifest([((0,), (0, 2**62))], 1)], 1)
    assert table[0] == [((0,), (0, 2**62))]
    with pytest.raises(CorruptDataError, match="more than"):
        table.to_csr()
    with pytest.raises(CorruptDataError, match="more than"):
        expand_manifest(table[0])


def test_a_damaged_manifest_leaves_the_others_alone() -> None:
    blobs = [encode_manifest([((row, 0, 0), row)], 3) for row in range(5)]
    blobs[2] = blobs[2][:-1]
    with pytest.raises(CorruptDataError, match=r"manifest 2.*truncated in single-mode"):
        decode_manifests(blobs, 3)
    table = decode_manifests(blobs, 3, keep_damaged=True)
    assert list(table.damaged) == [2]
    assert table[1] == [((1, 0, 0), 1)]
    assert table[3] == [((3, 0, 0), 3)]
    for use in (lambda: table[2], table.to_csr, table.to_lists, lambda: list(table), table.check):
        with pytest.raises(CorruptDataError, match="manifest 2"):
            use()
    assert table[3:].to_lists() == [[((3, 0, 0), 3)], [((4, 0, 0), 4)]]
    assert list(table[1:4].damaged) == [1]
    assert list(table[[4, 2]].damaged) == [1]


def test_a_broken_range_does_not_make_single_fragments_mixed() -> None:
    single = encode_manifest([((1, 2, 3), 4)], 3)
    broken = encode_manifest([((1, 2, 3), 4), ((1, 2, 3), (5, 6))], 3)[:-1]
    table = decode_manifests([single, broken, single], 3, keep_damaged=True)
    assert (table.uniform, table.offsets.tolist(), table[2]) == (True, [0, 1, 1, 2], [((1, 2, 3), 4)])
    mixed = decode_manifests([single, broken + b"\0", single], 3)
    assert (mixed.mode.tolist(), mixed.count.tolist()) == ([0, 0, 1, 0], [1, 1, 6, 1])


def test_a_chunk_is_read_in_one_go_as_row_by_row() -> None:
    blobs = [encode_manifest([((1, 2, 3), 4)] * n, 3) for n in range(4)] + [b"", bytes(4)]
    offsets = np.cumsum([0, *map(len, blobs)]).astype(np.int64)
    chunk = bytes(join_rows(b"".join(blobs), offsets))
    assert encode_manifests(decode_manifests(chunk, 3)) == blobs
    for bad in (chunk[:-1], chunk + b"!", chunk[:3], b"\xff" * 4 + chunk[4:]):
        with pytest.raises(CorruptDataError, match="corrupt buffer"):
            decode_manifests(bad, 3)
    at = chunk.index(blobs[2])
    with pytest.raises(CorruptDataError, match=r"manifest 2.*Unknown manifest block mode 9"):
        decode_manifests(chunk[: at + 28] + b"\x09" + chunk[at + 29 :], 3)


def test_a_list_may_hold_its_manifests_in_any_form() -> None:
    class Odd(bytes):
        pass

    blobs = [encode_manifest([((row, 0, 0), row)] * (row % 3), 3) for row in range(8)]
    kinds: list[Any] = [
        bytes,
        bytearray,
        memoryview,
        Odd,
        lambda blob: np.frombuffer(blob, np.uint8),
        lambda blob: None,
    ]
    some = [kinds[row % len(kinds)](blob) for row, blob in enumerate(blobs)]
    expected = [b"" if row % len(kinds) == 5 else blob for row, blob in enumerate(blobs)]
    for source in (some, tuple(some), iter(some)):
        table = decode_manifests(source, 3)
        assert encode_manifests(table) == expected
        assert table.absent.tolist() == [not blob for blob in expected]
    assert encode_manifests(decode_manifests([None, *blobs], 3)) == [b"", *blobs]
    for bad in (["text"], [*some, "text"]):
        with pytest.raises(TypeError, match="not str"):
            decode_manifests(bad, 3)
    with pytest.raises(CorruptDataError, match=r"manifest 1.*truncated"):
        decode_manifests([some[1], bytearray(blobs[1][:-1])], 3)


def test_rows_out_of_range() -> None:
    table = decode_manifests([bytes(4)], 3)
    for row in (1, -2):
        with pytest.raises(IndexError):
            table[row]
    for rows in ([1], [-2], [0, 5]):
        with pytest.raises(IndexError):
            table[rows]
    with pytest.raises(TypeError):
        table[[0.5]]  # type: ignore[list-item]
    assert len(table[[]]) == 0
    assert len(table[np.array([True])]) == 1


@pytest.mark.parametrize(
    "columns", [([0, 2], [[0]], [0]), ([1, 1], [[0]], [0]), ([0, 1], [[0]], [-1]), ([0, 1], [0], [0]), ([], [[0]], [0])]
)
def test_columns_that_do_not_fit(columns: tuple) -> None:
    with pytest.raises(ValueError):
        ManifestTable.from_csr(*columns)


def test_a_million_objects_fit_150_megabytes() -> None:
    blocks = np.arange(1_000_000, dtype=np.int64) % 6 + 1
    offsets = np.concatenate([[0], np.cumsum(blocks)])
    coords = np.zeros((offsets[-1], 3), np.int64)
    table = ManifestTable.from_csr(offsets, coords, np.zeros(offsets[-1], np.int64))
    assert table.nbytes < 150e6
