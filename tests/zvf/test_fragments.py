"""Fragment indices against the reference, and what it leaves unchecked."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr_vectors.encoding import fragments as reference
from zarr_vectors.exceptions import ArrayError

from zvcore.errors import CorruptDataError
from zvcore.zvf import decode_fragments, encode_fragments

rows = st.integers(0, 2**40)
fragment = st.one_of(
    st.tuples(rows, rows.map(lambda count: count % 50)),
    st.lists(rows, max_size=6).map(lambda values: np.array(values, np.int64)),
    st.integers(0, 9).map(lambda start: np.arange(start, start + 4)),
)
fragments = st.lists(fragment, max_size=40)


@given(fragments, st.booleans(), st.integers(0, 60))
def test_both_ways_as_the_reference(pieces: list, force: bool, extent: int) -> None:
    blob = encode_fragments(pieces, force_explicit=force)
    assert blob == reference.encode_fragments(pieces, force_explicit=force)
    theirs = reference.decode_fragments(blob)
    for raw in (blob, bytearray(blob), memoryview(b"x" + blob)[1:]):
        ours = decode_fragments(raw, strict=True)
        assert len(ours) == len(theirs) == len(pieces)
        assert ours.num_range_fragments == theirs.num_range_fragments
        assert ours.num_explicit_fragments == theirs.num_explicit_fragments
        assert ours.vertex_extent == theirs.vertex_extent
        assert ours.tiles(extent) == theirs.tiles(extent)
        assert (ours.ranges() is None) == (theirs.ranges() is None)
        assert ours.ranges() is None or np.array_equal(ours.ranges(), theirs.ranges())
        for f in range(len(pieces)):
            assert ours.is_range(f) == theirs.is_range(f)
            assert np.array_equal(ours.indices(f), theirs.indices(f))
            if ours.is_range(f):
                assert ours.range(f) == theirs.range(f)
            else:
                assert np.array_equal(ours.indices_view(f), theirs.indices_view(f))
        order = list(range(len(pieces)))[::-1]
        taken, offsets = ours.gather(order)
        for i, f in enumerate(order):
            assert np.array_equal(taken[offsets[i] : offsets[i + 1]], theirs.indices(f))


def test_tiling_ranges() -> None:
    index = decode_fragments(encode_fragments([(0, 3), (3, 2), (5, 4)]))
    assert index.tiles(9)
    assert not index.tiles(8)
    assert not decode_fragments(encode_fragments([(0, 3), (4, 2)])).tiles(6)
    assert not decode_fragments(encode_fragments([])).tiles(0)


def outcome(function: Any, blob: bytes) -> str:
    try:
        return f"{len(function(blob))} fragments"
    except ArrayError as error:
        return str(error)
    except CorruptDataError as error:
        return error.message


# What the reference takes without a word and zvcore refuses.
STRICTER = ("another number of ranges", "must begin at 0 and not decrease", "trailing bytes")


@given(fragments, st.data())
def test_damage_is_refused_in_the_words_of_the_reference(pieces: list, data: st.DataObject) -> None:
    blob = bytearray(encode_fragments(pieces))
    bad = blob[: data.draw(st.integers(0, len(blob)))] + data.draw(st.binary(max_size=2))
    if bad and data.draw(st.booleans()):
        bit = data.draw(st.integers(0, 8 * len(bad) - 1))
        bad[bit // 8] ^= 1 << (bit % 8)
    ours = outcome(decode_fragments, bytes(bad))
    if not any(text in ours for text in STRICTER):
        assert ours == outcome(reference.decode_fragments, bytes(bad))


def head(pieces: int, ranges: int, magic: int = 0x5A564647, version: int = 1, flags: int = 0) -> bytes:
    return struct.pack("<IHHII", magic, version, flags, pieces, ranges)


@pytest.mark.parametrize(
    ("blob", "text"),
    [
        (b"", "Fragment-index blob too short: 0 < 16"),
        (head(0, 0, magic=1), "Bad fragment-index magic: got 0x00000001, want 0x5A564647"),
        (head(0, 0, version=2), "Unsupported fragment-index version 2; this code reads version 1"),
        (head(0, 0, flags=1), "Unsupported fragment-index flags 0x0001; expected 0"),
        (head(1, 2), "num_range_fragments 2 exceeds num_fragments 1"),
        (head(1, 1), "Fragment-index blob truncated in bitmap region"),
        (head(1, 1) + b"\x01" + bytes(7), "Fragment-index blob truncated in range table"),
        (head(1, 0) + bytes(8), "Fragment-index blob truncated in CSR offsets"),
        (head(1, 0) + bytes(12) + b"\x01\0\0\0", "Fragment-index blob truncated in CSR indices"),
    ],
)
def test_refusals_are_worded_as_the_reference_words_them(blob: bytes, text: str) -> None:
    with pytest.raises(ArrayError, match=text):
        reference.decode_fragments(blob)
    with pytest.raises(CorruptDataError) as caught:
        decode_fragments(blob)
    assert caught.value.message == text


@pytest.mark.parametrize(
    ("blob", "text"),
    [
        (encode_fragments([(0, 3)]) + b"\0", "1 trailing bytes after 1 fragments"),
        (head(0, 0) + bytes(4), "4 trailing bytes after 0 fragments"),
        (head(1, 1) + bytes(8) + bytes(16) + bytes(4), "another number of ranges"),
        (head(2, 1) + b"\x03" + bytes(7) + bytes(16) + bytes(8), "another number of ranges"),
        (head(1, 0) + bytes(8) + struct.pack("<II", 1, 1) + bytes(8), "must begin at 0"),
        (head(2, 0) + bytes(8) + struct.pack("<III", 0, 2, 1) + bytes(8), "not decrease; entry 2 is wrong"),
    ],
)
def test_refused_though_the_reference_takes_it(blob: bytes, text: str) -> None:
    reference.decode_fragments(blob)
    with pytest.raises(CorruptDataError, match=text):
        decode_fragments(blob)


@pytest.mark.parametrize("pieces", [[(-1, 2)], [(2**63 - 1, 1)]])
def test_strict_refuses_ranges_that_no_chunk_can_have(pieces: list) -> None:
    blob = encode_fragments(pieces)
    decode_fragments(blob)
    with pytest.raises(CorruptDataError, match="range of"):
        decode_fragments(blob, strict=True)
    with pytest.raises(CorruptDataError):
        decode_fragments(encode_fragments([(0, 5)])).check(rows=4)


def test_a_giant_range_is_not_spelt_out() -> None:
    index = decode_fragments(encode_fragments([(0, 2**62)]))
    assert index.range(0) == (0, 2**62)
    with pytest.raises(CorruptDataError, match="range of"):
        index.indices(0)


def test_accessors_refuse_as_the_reference_does() -> None:
    index = decode_fragments(encode_fragments([(0, 2), np.array([3, 1])]))
    for bad in (2, -1):
        with pytest.raises(IndexError, match=rf"Fragment index {bad} out of range \[0, 2\)"):
            index.indices(bad)
        with pytest.raises(IndexError, match=rf"Fragment index {bad} out of range \[0, 2\)"):
            index.gather([bad])
    with pytest.raises(CorruptDataError, match="is explicit"):
        index.range(1)
    with pytest.raises(CorruptDataError, match="is a range"):
        index.indices_view(0)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([(0, -1)], "Fragment count must be >= 0"),
        ([(1, 2, 3)], "Fragment tuple"),
        ([np.zeros((2, 2), int)], "1-D"),
        ([np.array([3, -1])], "non-negative"),
    ],
)
def test_what_cannot_be_encoded(pieces: list, text: str) -> None:
    with pytest.raises(ArrayError):
        reference.encode_fragments(pieces)
    with pytest.raises(ValueError, match=text):
        encode_fragments(pieces)


@pytest.mark.parametrize("count", [2**28 + 1, 2**35, 2**40, 2**62])
def test_no_memory_is_taken_for_the_range_that_a_few_bytes_claim(count: int) -> None:
    index = decode_fragments(encode_fragments([(0, 3), (5, count)]))
    assert index.range(1) == (5, count)
    assert index.indices(0).tolist() == [0, 1, 2]
    for ask in (lambda: index.indices(1), lambda: index.gather([0, 1])):
        with pytest.raises(CorruptDataError, match="range"):
            ask()


@pytest.mark.parametrize("every", [2, 3, 64, 130])
def test_fragments_of_a_long_index_are_found_wherever_they_are(every: int) -> None:
    pieces: list[Any] = [(5 * i, i % 4) if i % every else np.array([7 * i + 3, i]) for i in range(400)]
    blob = encode_fragments(pieces)
    ours, theirs = decode_fragments(blob), reference.decode_fragments(blob)
    for f in range(len(pieces)):
        assert np.array_equal(ours.indices(f), theirs.indices(f))
        assert ours.is_range(f) == theirs.is_range(f)
        if ours.is_range(f):
            assert ours.range(f) == theirs.range(f)
        else:
            assert np.array_equal(ours.indices_view(f), theirs.indices_view(f))


def test_a_view_of_a_fragment_outlives_its_index_and_cannot_be_written() -> None:
    view = decode_fragments(encode_fragments([(0, 2), np.array([9, 4, 6])])).indices_view(1)
    assert view.tolist() == [9, 4, 6]
    assert not view.flags.writeable
    assert view.dtype == np.int64


def test_numbers_of_any_kind_name_a_fragment() -> None:
    index = decode_fragments(encode_fragments([(4, 2), np.array([3, 1])]))
    assert index.range(np.uint8(0)) == (4, 2)
    for far in (2**63, 2**200, -(2**70)):
        with pytest.raises(IndexError):
            index.indices(far)
    with pytest.raises(TypeError):
        index.indices("0")  # type: ignore[arg-type]
