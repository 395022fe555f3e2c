"""Labels packed block by block: against the two other implementations, a slow oracle, and input that lies."""

import struct

import compressed_segmentation as peer
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from zvcore.errors import CorruptDataError
from zvcore.kernels.compressed_segmentation import decode_compressed_segmentation, encode_compressed_segmentation


def oracle(data, shape, block, dtype):
    """The labels as the format's description reads, voxel by voxel."""
    words = np.frombuffer(data, "<u4")
    dtype = np.dtype(dtype)
    out = np.zeros(shape, dtype)
    blocks = [-(-n // b) for n, b in zip(shape[:3], block, strict=True)]
    for x, y, z, c in np.ndindex(*shape):
        base = int(words[c])
        bx, by, bz = x // block[0], y // block[1], z // block[2]
        at = base + 2 * (bx + blocks[0] * (by + blocks[1] * bz))
        table, bits, values = int(words[at]) & 0xFFFFFF, int(words[at]) >> 24, int(words[at + 1])
        index = 0
        if bits:
            place = (x % block[0] + block[0] * (y % block[1] + block[1] * (z % block[2]))) * bits
            index = (int(words[base + values + place // 32]) >> (place % 32)) & ((1 << bits) - 1)
        start = 4 * (base + table) + dtype.itemsize * index
        out[x, y, z, c] = int.from_bytes(data[start : start + dtype.itemsize], "little")
    return out


def labels(shape, dtype, kinds, seed=0):
    """Labels in runs, as segmentations have them, out of `kinds` values from the whole range of the type."""
    generator = np.random.default_rng(seed)
    values = generator.integers(0, np.iinfo(dtype).max, max(1, kinds), dtype, endpoint=True)
    picks = np.repeat(generator.integers(0, len(values), -(-int(np.prod(shape)) // 3)), 3)[: int(np.prod(shape))]
    return np.asfortranarray(values[picks].reshape(shape, order="F"))


@examples(60, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, 11)] * 3, st.integers(1, 3)),
    block=st.tuples(*[st.integers(1, 9)] * 3),
    dtype=st.sampled_from([np.uint32, np.uint64]),
    kinds=st.sampled_from([1, 2, 3, 4, 5, 16, 17, 200, 700]),
    seed=st.integers(0, 99),
)
def test_round_trip_and_oracle(shape, block, dtype, kinds, seed):
    array = labels(shape, dtype, kinds, seed)
    packed = encode_compressed_segmentation(array, block)
    back = decode_compressed_segmentation(packed, shape, block, dtype)
    assert back.dtype == dtype
    assert back.flags.f_contiguous
    np.testing.assert_array_equal(back, array)
    np.testing.assert_array_equal(oracle(packed, shape, block, dtype), array)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("kinds", [1, 2, 4, 16, 256, 300, 70000])
@pytest.mark.parametrize("block", [(8, 8, 8), (4, 16, 2), (64, 64, 32)])
# One channel: the peer loses values of a second one itself.
def test_other_implementation_both_ways(dtype, kinds, block):
    shape = (64, 61, 40, 1)
    array = labels(shape, dtype, kinds)
    packed = encode_compressed_segmentation(array, block)
    np.testing.assert_array_equal(
        peer.decompress(packed, shape, dtype, block_size=block, order="F").reshape(shape, order="F"), array
    )
    theirs = peer.compress(array, block_size=block, order="F")
    np.testing.assert_array_equal(decode_compressed_segmentation(theirs, shape, block, dtype), array)


def test_every_index_width_is_met():
    seen = set()
    for kinds, block in [(1, 8), (2, 8), (4, 8), (16, 8), (256, 8), (3000, 16), (200000, 64)]:
        array = np.arange(block**3, dtype=np.uint32).reshape((block, block, block, 1), order="F") % kinds
        packed = encode_compressed_segmentation(array, (block,) * 3)
        seen.add(packed[7])
        np.testing.assert_array_equal(decode_compressed_segmentation(packed, array.shape, (block,) * 3, "u4"), array)
    assert seen == {0, 1, 2, 4, 8, 16, 32}


def test_equal_tables_are_shared():
    array = np.zeros((64, 64, 64, 1), np.uint64, order="F")
    array[::2] = 7
    alternating = np.where(np.arange(64)[None, :, None, None] // 8 % 2, array, 7 - array)
    assert len(encode_compressed_segmentation(alternating, (8, 8, 8))) == 4 + 512 * (8 + 64) + 16


def test_views_and_big_endian_arrays_are_taken():
    array = labels((9, 8, 7, 1), np.uint32, 5)
    want = encode_compressed_segmentation(array, (4, 4, 4))
    assert encode_compressed_segmentation(np.ascontiguousarray(array), (4, 4, 4)) == want
    assert encode_compressed_segmentation(array.astype(">u4"), (4, 4, 4)) == want


def buffer(*words):
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "headers"),
        (b"\1\0\0", "headers"),
        (buffer(1, 0, 0) + b"x", "multiple of 4"),
        (buffer(9, 0, 0), "channel starts outside"),
        (buffer(2, 0, 0), "block headers do not fit"),
        (buffer(1, 3, 0), "table of labels lies outside"),
        (buffer(1, 0xFFFFFF, 0), "table of labels lies outside"),
        (buffer(1, 2, 0), "table of labels lies outside"),
        (buffer(1, 3 << 24 | 2, 0, 5), "take that many bits"),
        (buffer(1, 64 << 24 | 2, 0, 5), "take that many bits"),
        (buffer(1, 1 << 24 | 2, 3, 5), "indices of a block lie outside"),
        (buffer(1, 1 << 24 | 2, 0xFFFFFFFF, 5), "indices of a block lie outside"),
        (buffer(1, 1 << 24 | 3, 2, 0xFF, 5), "index points past the end"),
        (buffer(1, 32 << 24 | 2, 2, *[0xFFFFFFFF] * 8), "index points past the end"),
    ],
)
def test_malformed(data, text):
    with pytest.raises(CorruptDataError, match=text):
        decode_compressed_segmentation(data, (2, 2, 2, 1), (2, 2, 2), np.uint32)


@examples(200, deadline=None)
@given(
    data=st.data(),
    dtype=st.sampled_from([np.uint32, np.uint64]),
    kinds=st.sampled_from([2, 5, 60]),
)
def test_mutations_raise_or_decode_like_the_oracle(data, dtype, kinds):
    shape, block = (6, 5, 4, 2), (4, 4, 2)
    packed = bytearray(encode_compressed_segmentation(labels(shape, dtype, kinds), block))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    packed = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    try:
        got = decode_compressed_segmentation(packed, shape, block, dtype)
    except CorruptDataError:
        return
    np.testing.assert_array_equal(got, oracle(packed, shape, block, dtype))


def test_bad_forms_are_refused():
    array = np.zeros((2, 2, 2, 1), np.uint32)
    for block in [(0, 8, 8), (8, 8), (-1, 8, 8), (1 << 20, 1 << 20, 1 << 20)]:
        with pytest.raises(ValueError, match=r"packed|shape"):
            encode_compressed_segmentation(array, block)
    with pytest.raises(ValueError, match="packed"):
        encode_compressed_segmentation(array.astype(np.uint16), (8, 8, 8))
    with pytest.raises(ValueError, match="labels are"):
        encode_compressed_segmentation(array.astype(np.float32), (8, 8, 8))


def test_memory_is_not_taken_from_a_declared_shape():
    with pytest.raises(CorruptDataError, match="headers"):
        decode_compressed_segmentation(bytes(64), (1 << 14, 1 << 14, 1 << 14, 1), (8, 8, 8), np.uint64)
