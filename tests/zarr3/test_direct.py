"""Reads of zarr-python's arrays without its event loop: the same values, types and errors as its own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import zarr
import zarr.core.array
import zarr.storage

import zvcore.zarr3

BATCHED = "zarr.core.codec_pipeline.BatchedCodecPipeline"
KEYS = (
    np.s_[...], np.s_[3:20, 5], np.s_[7], np.s_[-1], np.s_[..., 4], np.s_[np.int8(2), 1:5],
    np.s_[::3, 1], np.s_[4:40:7, ::5], np.s_[5:5], np.s_[9:4], np.s_[40:99, -7:], (),
)  # fmt: skip


@pytest.fixture
def loop(monkeypatch):
    """What zarr-python gave its event loop to do."""
    asked = []
    original = zarr.core.array.sync

    def sync(coroutine, *args, **kwargs):
        asked.append(coroutine.__name__)
        return original(coroutine, *args, **kwargs)

    monkeypatch.setattr(zarr.core.array, "sync", sync)
    return asked


def by_zarr(store, **options):
    """An array made, filled and read by zarr-python alone."""
    options = {"shape": (50, 60), "chunks": (10, 15), "dtype": "u2", "fill_value": 3, **options}
    with zarr.config.set({"codec_pipeline.path": BATCHED}):
        array = zarr.create_array(store, **options)
        array[5:45, 7:59] = np.arange(40 * 52).reshape(40, 52).astype(options["dtype"])
        return zarr.open_array(store, path=options.get("name", ""), mode="r", config=options.get("config"))


def assert_same(found, expected):
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if isinstance(expected, np.ndarray):
        assert found.flags.f_contiguous == expected.flags.f_contiguous
        assert found.flags.writeable


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shards": (20, 30)},
        {"config": {"order": "F"}},
        {"zarr_format": 2, "order": "F"},
        {"zarr_format": 2, "name": "a/b"},
        {"name": "a/b", "shards": (20, 30), "compressors": None},
        {"chunk_key_encoding": {"name": "v2", "separator": "."}},
        {"dtype": "f4"},
    ],
    ids=str,
)
def test_numbers_and_slices_are_read_in_the_thread_that_asks(tmp_path, loop, options):
    theirs = by_zarr(tmp_path, **options)
    with zvcore.zarr3.accelerate():
        ours = zarr.open_array(tmp_path, path=options.get("name", ""), mode="r", config=options.get("config"))
        loop.clear()
        found = [ours[key] for key in KEYS]
        assert not loop
    for key, values in zip(KEYS, found, strict=True):
        assert_same(values, theirs[key])
    assert len(loop) == len(KEYS)


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")
@pytest.mark.parametrize("dtype", [">i4", "bool", "M8[s]", "c16", str])
def test_items_of_every_type_come_out_as_zarr_python_has_them(tmp_path, dtype):
    with zarr.config.set({"codec_pipeline.path": BATCHED}):
        zarr.create_array(tmp_path, shape=(9,), chunks=(2,), dtype=dtype)[2:7] = np.array([1, 0, 5, 3, 1]).astype(dtype)
        theirs = zarr.open_array(tmp_path, mode="r")
    with zvcore.zarr3.accelerate():
        ours = zarr.open_array(tmp_path, mode="r")
        for key in (np.s_[...], np.s_[1:6], np.s_[6:]):
            assert_same(ours[key], theirs[key])
        assert ours[3] == theirs[3]


@pytest.mark.parametrize("key", [np.s_[50], np.s_[0, -61], np.s_[::-1], np.s_[1, 2, 3], np.s_[..., ...], "a", 1.5])
def test_what_zarr_python_refuses_is_refused_in_its_own_words(tmp_path, key):
    theirs = by_zarr(tmp_path)
    with pytest.raises(Exception) as expected:
        theirs[key]
    with zvcore.zarr3.accelerate():
        ours = zarr.open_array(tmp_path, mode="r")
        with pytest.raises(type(expected.value)) as found:
            ours[key]
    assert str(found.value) == str(expected.value)


def test_everything_else_goes_zarr_pythons_way(tmp_path, loop):
    theirs = by_zarr(tmp_path)
    mask = np.zeros((50, 60), bool)
    mask[7, 9:12] = True
    with zvcore.zarr3.accelerate():
        ours = zarr.open_array(tmp_path, mode="r+")
        for key in (np.s_[2, 3], np.s_[-1, -1], np.s_[2:3, 9:10]):
            assert_same(ours[key], theirs[key])
        np.testing.assert_array_equal(ours[[1, 7, 9], [3, 8, 59]], theirs[[1, 7, 9], [3, 8, 59]])
        np.testing.assert_array_equal(ours[mask], theirs[mask])
        np.testing.assert_array_equal(ours.oindex[[9, 3], 4:20], theirs.oindex[[9, 3], 4:20])
        held = zarr.core.buffer.default_buffer_prototype().nd_buffer.empty(shape=(50, 60), dtype=np.dtype("u2"))
        ours.get_basic_selection(out=held)
        np.testing.assert_array_equal(held.as_numpy_array(), theirs[...])
        memory = zarr.create_array(zarr.storage.MemoryStore(), shape=(4,), dtype="u1")
        memory[1:3] = 5
        assert memory[:].tolist() == [0, 5, 5, 0]
        ours[3:5, 4] = 9
        assert ours[3:5, 3:5].tolist() == [[3, 9], [3, 9]]
    assert loop


def test_arrays_that_are_resized_or_moved_are_read_as_they_are_now(tmp_path):
    with zvcore.zarr3.accelerate():
        array = zarr.create_array(tmp_path / "z", shape=(13, 11), chunks=(5, 4), shards=(10, 8), dtype="i4")
        array[...] = values = np.arange(143, dtype="i4").reshape(13, 11)
        np.testing.assert_array_equal(array[...], values)
        array.append(values[:4], axis=0)
        np.testing.assert_array_equal(array[12:], np.concatenate([values[12:], values[:4]]))
        array.resize((6, 30))
        assert array[...].shape == (6, 30)
        np.testing.assert_array_equal(array[:, :11], values[:6])
        copy = pickle.loads(pickle.dumps(array))
        np.testing.assert_array_equal(copy[2:6, 3:9], values[2:6, 3:9])
        (tmp_path / "z").rename(tmp_path / "y")
        array.store.root = tmp_path / "y"
        np.testing.assert_array_equal(array[2:6, 3:9], values[2:6, 3:9])


def test_missing_chunks_are_an_error_where_they_are_to_be(tmp_path):
    by_zarr(tmp_path)
    with zvcore.zarr3.accelerate():
        ours = zarr.open_array(tmp_path, mode="r", config={"read_missing_chunks": False})
        if not hasattr(ours.async_array.config, "read_missing_chunks"):
            pytest.skip("this zarr-python has no such setting")
        assert ours[6:9, 20:23].shape == (3, 3)
        (tmp_path / "c/0/1").unlink()
        with pytest.raises(Exception, match="not found in store"):
            ours[6:9, 20:23]


def test_zarr_python_gets_its_own_ways_back(tmp_path, loop):
    original, path = zarr.Array.__getitem__, zarr.config.get("codec_pipeline.path")
    by_zarr(tmp_path)
    outer = zvcore.zarr3.accelerate()
    array = zarr.open_array(tmp_path, mode="r")
    with zvcore.zarr3.accelerate() as inner:
        assert zarr.Array.__getitem__ is not original
    inner.restore()
    loop.clear()
    array[3]
    assert not loop
    outer.restore()
    assert zarr.Array.__getitem__ is original
    assert zarr.config.get("codec_pipeline.path") == path
    array[3]
    assert loop
