"""The one Array against a numpy mirror: every selection, chunk shape, byte order, axis order and codec."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore.codecs
from tests.engine.toy import toy
from zvcore.errors import MetadataError, ReadOnlyError, UnsupportedError
from zvcore.stores import LocalStore, MemoryStore

DTYPES = ["u1", "i2", "u4", "f4", "f8", "i8", "c8", "c16", "?", "f2", "M8[s]", "V3"]


def mirror_of(array):
    return np.full(array.shape, array.fill_value, array.dtype)


def values_for(rng, dtype, shape):
    dtype = np.dtype(dtype)
    raw = rng.integers(0, 255, (*shape, dtype.itemsize), dtype=np.uint8)
    if dtype.kind == "b":
        return raw[..., 0] > 127
    if dtype.kind in "fc":
        return (raw[..., 0].astype("f8") - 100).astype(dtype)
    return np.ascontiguousarray(raw).view(dtype)[..., 0] if shape else np.ascontiguousarray(raw).view(dtype)[0]


@st.composite
def arrays(draw, stores=("local", "memory")):
    ndim = draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=ndim, max_size=ndim)))
    chunks = tuple(draw(st.lists(st.integers(1, 5), min_size=ndim, max_size=ndim)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    per_shard = draw(st.none() | st.tuples(*[st.integers(1, 3)] * ndim))
    chain = draw(st.sampled_from([(), ("gzip",), ("zstd",), ("zstd", "gzip")]))
    return {
        "shape": shape,
        "chunks": chunks,
        "dtype": dtype,
        "per_shard": per_shard,
        "codecs": tuple(zvcore.codecs.get(name) for name in chain),
        "axes": tuple(draw(st.permutations(range(ndim)))),
        "swapped": draw(st.booleans()) and dtype.kind != "V",
        "edge": draw(st.sampled_from(["full", "cropped"])),
        "fill_value": np.zeros((), dtype)[()] if dtype.kind in "VM" else dtype.type(draw(st.integers(0, 1))),
        "store_empty": draw(st.booleans()),
    }


@st.composite
def basic_keys(draw, shape):
    key = []
    for bound in shape:
        kind = draw(st.sampled_from(["slice", "slice", "int", "all"]))
        if kind == "int":
            key.append(draw(st.integers(-bound, bound - 1)))
        elif kind == "all":
            key.append(slice(None))
        else:
            start = draw(st.none() | st.integers(-bound - 2, bound + 2))
            stop = draw(st.none() | st.integers(-bound - 2, bound + 2))
            step = draw(st.none() | st.integers(-4, 4).filter(bool))
            key.append(slice(start, stop, step))
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(key)))
        key[cut : draw(st.integers(cut, len(key)))] = [Ellipsis]
    return tuple(key)


@given(st.data())
def test_every_read_and_write_is_what_numpy_does(data):
    spec = data.draw(arrays())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    array = toy(MemoryStore(), **spec)
    mirror = mirror_of(array)
    for _ in range(data.draw(st.integers(1, 4))):
        key = data.draw(basic_keys(array.shape))
        value = values_for(rng, array.dtype, mirror[key].shape)
        array[key] = value
        mirror[key] = value
    assert array[...].tobytes() == mirror.tobytes()
    key = data.draw(basic_keys(array.shape))
    got = array[key]
    assert np.shape(got) == mirror[key].shape
    assert np.asarray(got).tobytes() == np.asarray(mirror[key]).tobytes()
    assert type(got) is type(mirror[key])


@given(st.data())
def test_lists_and_points(data):
    spec = data.draw(arrays())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    array = toy(MemoryStore(), **spec)
    mirror = values_for(rng, array.dtype, array.shape)
    array[...] = mirror
    lists = [
        data.draw(st.lists(st.integers(-bound, bound - 1), max_size=2 * bound))
        if data.draw(st.booleans())
        else np.array(data.draw(st.lists(st.booleans(), min_size=bound, max_size=bound)))
        for bound in array.shape
    ]
    as_numpy = np.ix_(*[np.flatnonzero(one) if isinstance(one, np.ndarray) else np.array(one, int) for one in lists])
    assert array.oindex[tuple(lists)].tobytes() == mirror[as_numpy].tobytes()
    count = data.draw(st.integers(0, 20))
    points = tuple(rng.integers(-bound, bound, count) for bound in array.shape)
    assert array.vindex[points].tobytes() == mirror[points].tobytes()
    mask = rng.random(array.shape) < 0.3
    assert array.vindex[mask].tobytes() == mirror[mask].tobytes()

    value = values_for(rng, array.dtype, mirror[as_numpy].shape)
    unique = all(
        len(set(np.arange(bound)[one].tolist())) == len(np.arange(bound)[one])
        for one, bound in zip(
            [np.asarray(one, bool) if isinstance(one, np.ndarray) else np.array(one, int) for one in lists],
            array.shape,
            strict=True,
        )
    )
    if unique:
        array.oindex[tuple(lists)] = value
        mirror[as_numpy] = value
    value = values_for(rng, array.dtype, mirror[mask].shape)
    array.vindex[mask] = value
    mirror[mask] = value
    assert array[...].tobytes() == mirror.tobytes()


@pytest.fixture(params=[None, (2, 2)], ids=["chunks", "shards"])
def array(request, store):
    return toy(store, (37, 53), (8, 10), "u2", request.param, (zvcore.codecs.get("gzip", level=1),), fill_value=7)


def test_a_chunk_that_is_not_stored_reads_as_the_fill_value(array):
    assert (array[...] == 7).all()
    array[0, 0] = 1
    assert array[0, 0] == 1
    assert array[0, 1] == 7
    assert array.block_exists((0, 0))
    assert not array.block_exists((0, 1))
    assert array.read_block((0, 1)) is None


def test_a_chunk_of_nothing_but_fill_value_is_taken_away(array):
    array[...] = 1
    array[8:16, 10:20] = 7
    assert not array.block_exists((1, 1))
    assert array.block_exists((0, 0))
    array[...] = 7
    assert list(array.layout.store.list()) == []


def test_blocks_as_they_are_stored(array):
    values = np.arange(37 * 53, dtype="u2").reshape(37, 53)
    array[...] = values
    assert (array.read_block((4, 5)) == values[32:, 50:]).all()
    stored = array.read_encoded((1, 2))
    array.write_encoded((0, 0), stored)
    assert (array.read_block((0, 0)) == values[8:16, 20:30]).all()
    array.write_block((4, 5), np.zeros((5, 3)))
    assert (array[32:, 50:] == 0).all()
    assert array.delete_block((1, 2))
    assert not array.delete_block((1, 2))
    assert (array[8:16, 20:30] == 7).all()
    assert (array[8:16, 30:] == values[8:16, 30:]).all()
    with pytest.raises(IndexError, match="outside the grid"):
        array.read_block((5, 0))
    with pytest.raises(ValueError, match="shape"):
        array.write_block((4, 5), np.zeros((8, 10)))


def test_a_truth_value_is_no_place_of_a_chunk(array):
    array[...] = 1
    place = (True,) * array.ndim
    with pytest.raises(TypeError, match="whole numbers"):
        array.read_block(place)
    with pytest.raises(TypeError, match="whole numbers"):
        array.delete_block(place)


@pytest.mark.parametrize("memory", [1.5, float("nan"), True, "64M"])
def test_memory_is_a_whole_number_of_bytes(array, memory):
    with pytest.raises(MetadataError, match="memory"):
        array.read(..., memory=memory)


def test_blocks_that_are_asked_for_several_times(array):
    values = np.arange(37 * 53, dtype="u2").reshape(37, 53)
    array[...] = values
    array.delete_block((1, 2))
    asked = [(4, 5), (1, 2), (0, 0), (4, 5), (1, 2), (4, 5)]
    found = array.read_blocks(asked)
    for place, block in zip(asked, found, strict=True):
        expected = array.read_block(place)
        assert (block is None) == (expected is None)
        if block is not None:
            assert (block == expected).all()
    found[0][...] = 9  # nobody else's values change
    assert (found[3] == values[32:, 50:]).all()
    assert not np.shares_memory(found[3], found[5])


def test_a_covered_chunk_is_never_read(array):
    """Not even at the array's edge: what lies there now may be broken."""
    array[...] = 3
    for key in list(array.layout.store.list()):
        if array.shards is None:
            array.layout.store.put(key, b"broken")
    array[...] = 4
    array[32:, :] = 5
    array[:, 50:] = 6
    assert (array[:32, :50] == 4).all()
    assert (array[:, 50:] == 6).all()


def test_assignment_casts_and_broadcasts_as_numpy_does(array):
    mirror = mirror_of(array)
    for key, value in [
        (np.s_[3:5], 2.9),
        (np.s_[5], np.arange(53)),
        (np.s_[:, 3], np.arange(37, dtype=">i4")),
        (np.s_[1:3], np.ones((1, 1, 2, 53))),
        (np.s_[::-1, ::-1], np.arange(37 * 53).reshape(37, 53)),
        (np.s_[2:4, 2:4], [[1, 2], [3, 4]]),
        (np.s_[...], True),
    ]:
        array[key] = value
        mirror[key] = value
        assert (array[...] == mirror).all()
    with pytest.raises(ValueError, match="broadcast"):
        array[0:3] = np.zeros((2, 53))
    with pytest.raises(OverflowError):
        array[0, 0] = 70000


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (np.s_[None], "newaxis"),
        (np.s_[..., ...], "one ellipsis"),
        (np.s_[0, 0, 0], "too many indices"),
        (np.s_[37], "out of bounds"),
        (np.s_[0, -54], "out of bounds"),
        (np.s_[[1, 2]], "oindex"),
        (np.s_[1.0], "oindex"),
        (True, "oindex"),
    ],
)
def test_what_basic_indexing_refuses(array, key, message):
    with pytest.raises(IndexError, match=message):
        array[key]


def test_lists_that_are_refused(array):
    for key in ([37], [-38], [1.5], [[1]], np.ones(36, bool)):
        with pytest.raises(IndexError):
            array.oindex[key]
    for key in (([0], [53]), ([0],), (slice(None), [0]), np.ones((37, 52), bool)):
        with pytest.raises(IndexError):
            array.vindex[key]


def test_reading_into_a_given_output(array):
    values = np.arange(37 * 53, dtype="u2").reshape(37, 53)
    array[...] = values
    frame = np.zeros((80, 120), "u2")
    out = frame[1:75:2, 110:4:-2]
    assert array.read(out=out) is out
    assert (out == values).all()
    assert frame[0].sum() == 0
    swapped = np.zeros((37, 53), ">u2")
    array.read(..., swapped)
    assert (swapped == values).all()
    array.read(np.s_[3:5], memoryview(frame)[0:2, :53] if False else frame[0:2, :53])
    assert (frame[0:2, :53] == values[3:5]).all()
    locked = np.zeros((37, 53), "u2")
    locked.flags.writeable = False
    for wrong in (np.zeros((37, 52), "u2"), np.zeros((37, 53), "u4"), locked):
        with pytest.raises(ValueError, match="out"):
            array.read(out=wrong)


def test_an_output_that_is_no_memory_is_refused(array):
    """numpy makes a new array of it: values went there, and what was given stayed as it was."""
    array[...] = 7
    for wrong in ([[0] * 53] * 37, array, NoMemory(np.zeros((37, 53), "u2"))):
        with pytest.raises(TypeError, match="memory"):
            array.read(out=wrong)
    buffer = memoryview(bytearray(37 * 53 * 2)).cast("H", (37, 53))
    assert array.read(out=buffer) is buffer and buffer[36, 52] == 7


class NoMemory:
    """As Dask has it: it copies though it is told not to."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values.copy()


def test_zero_dimensions_and_zero_lengths():
    for per_shard in (None,):
        scalar = toy(MemoryStore(), (), (), "f8", per_shard, fill_value=1.5)
        assert scalar[()] == 1.5
        scalar[...] = 2.5
        assert scalar[()] == scalar[...] == 2.5
        assert np.asarray(scalar).shape == ()
    empty = toy(MemoryStore(), (0, 5), (2, 2), "u1")
    assert empty[...].shape == (0, 5)
    empty[...] = 3
    assert list(empty.layout.store.list()) == []


def test_what_an_array_says_of_itself(array):
    assert (array.ndim, array.size, array.nbytes, len(array)) == (2, 37 * 53, 37 * 53 * 2, 37)
    assert array.grid == (5, 6)
    assert array.chunks == (8, 10)
    assert "37, 53" in repr(array)
    assert (np.asarray(array) == array[...]).all()
    assert np.asarray(array, "f4").dtype == np.float32
    assert sum(1 for _ in array) == 37
    with pytest.raises(ValueError, match="copy"):
        np.array(array, copy=False)


def test_results_lie_as_stored():
    array = toy(MemoryStore(), (6, 7, 8), (2, 3, 4), "u2", axes=(2, 1, 0))
    assert array.order == "F"
    assert array[...].flags.f_contiguous
    assert array[:, 2].flags.f_contiguous


def test_a_read_only_array(tmp_path):
    array = toy(LocalStore(tmp_path), (4,), (2,), "u1")
    array[...] = 1
    again = toy(LocalStore(tmp_path, read_only=True), (4,), (2,), "u1")
    assert (again[...] == 1).all()
    for change in (
        lambda: again.__setitem__(..., 2),
        lambda: again.write_block((0,), [1, 2]),
        lambda: again.delete_block((0,)),
        lambda: again.write_encoded((0,), b"xx"),
    ):
        with pytest.raises(ReadOnlyError):
            change()


def test_pickle(tmp_path):
    array = toy(LocalStore(tmp_path), (9, 9), (4, 4), "u2", (2, 2), (zvcore.codecs.get("zstd"),))
    array[...] = np.arange(81).reshape(9, 9)
    copy = pickle.loads(pickle.dumps(array))
    assert (copy[...] == array[...]).all()
    copy[0] = 5
    assert (array[0] == 5).all()


def test_dask(tmp_path):
    import dask.array

    array = toy(LocalStore(tmp_path), (40, 60), (8, 10), "u2", (2, 3), (zvcore.codecs.get("zstd"),))
    values = np.arange(40 * 60, dtype="u2").reshape(40, 60)
    dask.array.store(dask.array.from_array(values, chunks=array.shards), array, lock=False)
    lazy = array.to_dask()
    assert lazy.chunks[0][0] == 16
    assert (lazy.sum(axis=0).compute() == values.sum(axis=0)).all()
    assert (dask.array.from_array(array)[3:20, ::2].compute(scheduler="processes") == values[3:20, ::2]).all()


def test_dask_does_not_take_what_it_read_before_for_what_was_written_since(tmp_path):
    array = zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype="u1", chunks=(2,))
    array[...] = 1
    before = zvcore.open(tmp_path).to_dask().persist()
    array[...] = 2
    after = zvcore.open(tmp_path).to_dask()
    assert (after + before).compute().tolist() == (before + after).compute().tolist() == [3, 3, 3, 3]


def test_dask_is_not_asked_to_list_as_many_chunks_as_a_document_claims(tmp_path):
    array = zvcore.create(tmp_path, format="zarr3", shape=(2**50, 2), dtype="u1", chunks=(1, 2))
    with pytest.raises(UnsupportedError, match="say chunks="):
        array.to_dask()
    assert array.to_dask(chunks=(2**46, 2)).shape == array.shape


@pytest.mark.parametrize("per_shard", [None, (3, 2, 1)])
def test_bytes_are_the_same_for_any_number_of_threads(tmp_path, per_shard):
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.integers(-3, 4, (60, 50, 40)), axis=2).astype("i2")
    stored = []
    for threads in (1, 2, 5):
        store = LocalStore(tmp_path / str(threads))
        array = toy(store, values.shape, (16, 16, 16), "i2", per_shard, (zvcore.codecs.get("gzip"),))
        array.write(..., values, threads=threads)
        array.write(np.s_[5:30, 7:20], 3, threads=threads)
        stored.append({key: bytes(store.get(key)) for key in store.list()})
        assert array.read(threads=threads).tobytes() == stored[0].get("", array[...].tobytes())
    assert stored[0] == stored[1] == stored[2]


def test_steps_larger_than_chunks_pass_chunks_over(store):
    array = toy(store, (100, 100), (3, 3), "u2")
    values = np.arange(10000, dtype="u2").reshape(100, 100)
    array[...] = values
    for step in itertools.chain(range(1, 12), (50, 99, 200)):
        assert (array[::step, ::step] == values[::step, ::step]).all()
        assert (array[::-step, 5::step] == values[::-step, 5::step]).all()


def test_memory_whose_items_lie_upon_each_other_is_refused(tmp_path):
    """Of such items only what was written last stays."""
    strided = np.lib.stride_tricks.as_strided
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(4, 6), chunks=(2, 3), dtype="u2")
    array[...] = values = np.arange(24, dtype="u2").reshape(4, 6)
    room = np.zeros(1000, "u2")
    for strides in ((2, 2), (0, 2), (12, 0), (10, 2), (-2, 2), (12, 1), (2, 6)):
        with pytest.raises(ValueError, match="lie upon each other"):
            array.read(..., out=strided(room[100:], (4, 6), strides))
    assert not room.any()
    for out in (
        strided(room[100:], (4, 6), (-12, 2)), strided(room[100:], (4, 6), (100, -14)), np.zeros((9, 4), "u2").T[:, 3:],
        np.zeros((8, 9, 12), "u2")[::-2, 4, ::2],
    ):  # fmt: skip
        assert array.read(..., out=out) is out and (out == values).all()
    one = strided(room, (1, 6), (0, 2))
    assert (array.read((slice(0, 1), slice(None)), out=one) == values[:1]).all()
    assert array.read((slice(0, 0),), out=strided(room, (0, 6), (0, 0))).shape == (0, 6)
