"""zvcore inside zarr-python: every kind of selection, stores of all kinds, and the word when it is not used."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import zarr
import zarr.abc.store
import zarr.storage
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import BufferPrototype, cpu

import zvcore.zarr3
from tests.processes import PATIENCE
from tests.zarr3.theirs import Theirs

PATH = "zvcore.zarr3.CodecPipeline"


@pytest.fixture(autouse=True)
def ours():
    with zarr.config.set({"codec_pipeline.path": PATH}):
        yield


@pytest.fixture(params=["local", "memory", "zip"])
def store(request, tmp_path):
    if request.param == "local":
        return zarr.storage.LocalStore(tmp_path)
    if request.param == "memory":
        return zarr.storage.MemoryStore()
    return zarr.storage.LoggingStore(zarr.storage.MemoryStore(), log_level="CRITICAL")


@pytest.mark.parametrize("shards", [None, (20, 30)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_kind_of_selection(store, shards, order):
    array = zarr.create_array(
        store,
        shape=(50, 60),
        chunks=(10, 15),
        shards=shards,
        dtype="u2",
        fill_value=3,
        name="a/b",
        config={"order": order},
    )
    assert zvcore.zarr3.explain(array)["native"]
    mirror = np.full((50, 60), 3, "u2")
    assert (array[...] == mirror).all()
    values = np.arange(3000, dtype="u2").reshape(50, 60)
    mask = values % 7 == 0
    i, j = [0, 5, 33], [1, 2, 50]
    for key, value in [
        (np.s_[...], values),
        (np.s_[3:20, 5], 9),
        (np.s_[7], 1),
        (np.s_[2, 3], 4),
        (np.s_[10:20, 10:20], 3),
        (np.s_[:, 59:], values[:, 59:]),
        (np.s_[41:50, 7:58], values[41:50, 7:58]),
    ]:
        array[key] = value
        mirror[key] = value
        assert (array[...] == mirror).all()
    for key in (np.s_[::3, 1], np.s_[3], np.s_[4:40:7, ::5], np.s_[-1, -1], np.s_[5:5], np.s_[49:, 58:]):
        got = array[key]
        assert np.shape(got) == mirror[key].shape
        assert (np.asarray(got) == mirror[key]).all()
    assert (array.oindex[i, :] == mirror[i, :]).all()
    assert (array.oindex[[33, 0, 5], 2] == mirror[[33, 0, 5], 2]).all()
    assert (array.oindex[i, j] == mirror[np.ix_(i, j)]).all()
    assert (array.oindex[3, j] == mirror[3, j]).all()
    assert (array.oindex[:, 30 : 2 : -1 if False else 3] == mirror[:, 30:2:3]).all()
    assert (array.vindex[i, j] == mirror[i, j]).all()
    assert (array.vindex[[33, 33, 0], [1, 1, 9]] == mirror[[33, 33, 0], [1, 1, 9]]).all()
    assert (array.vindex[mask] == mirror[mask]).all()
    first = (slice(20, 40), slice(30, 60)) if shards else (slice(10, 20), slice(15, 30))
    assert (array.blocks[1, 1] == mirror[first]).all()
    array.oindex[i, j] = values[:3, :3]
    mirror[np.ix_(i, j)] = values[:3, :3]
    array.vindex[[1, 1, 44], [2, 3, 4]] = [5, 6, 7]
    mirror[[1, 1, 44], [2, 3, 4]] = [5, 6, 7]
    array.vindex[mask] = 8
    mirror[mask] = 8
    array.blocks[0, 1] = 2
    mirror[tuple(slice(0, part.stop - part.start) if axis == 0 else part for axis, part in enumerate(first))] = 2
    assert (array[...] == mirror).all()
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        assert (zarr.open_array(store, path="a/b", mode="r")[...] == mirror).all()


@given(data=st.data())
def test_selections_against_numpy(data):
    shape = (data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20)))
    chunks = (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5)))
    shards = data.draw(st.none() | st.just(tuple(2 * n for n in chunks)))
    array = zarr.create_array({}, shape=shape, chunks=chunks, shards=shards, dtype="i4")
    mirror = np.arange(1, shape[0] * shape[1] + 1, dtype="i4").reshape(shape)
    array[...] = mirror
    lists = [data.draw(st.lists(st.integers(0, bound - 1), min_size=1, max_size=8)) for bound in shape]
    assert (array.oindex[lists[0], lists[1]] == mirror[np.ix_(*lists)]).all()
    assert (array.oindex[lists[0], 0] == mirror[lists[0], 0]).all()
    count = min(map(len, lists))
    points = tuple(one[:count] for one in lists)
    assert (array.vindex[points] == mirror[points]).all()
    start, stop = sorted((data.draw(st.integers(0, shape[0])), data.draw(st.integers(0, shape[0]))))
    step = data.draw(st.integers(1, 5))
    key = np.s_[start:stop:step, data.draw(st.integers(0, shape[1] - 1))]
    assert (array[key] == mirror[key]).all()
    array[key] = -1
    mirror[key] = -1
    assert (array[...] == mirror).all()


def test_other_stores_are_asked_for_an_index_and_then_for_ranges(tmp_path, monkeypatch):
    """Not for whole shards, and for what lies close together at once."""
    array = zarr.create_array(tmp_path, shape=(64, 128), chunks=(8, 8), shards=(64, 64), dtype="u2", compressors=None)
    array[...] = mirror = np.arange(64 * 128, dtype="u2").reshape(64, 128)
    asked = []

    class Asked(zarr.storage.WrapperStore):
        async def get(self, key, prototype, byte_range=None):
            if key.startswith("c/"):
                asked.append((key, byte_range))
            return await super().get(key, prototype, byte_range)

        def get_ranges(self, key, byte_ranges, **options):
            asked.append((key, byte_ranges))
            return super().get_ranges(key, byte_ranges, **options)

    if not hasattr(zarr.abc.store.Store, "get_ranges"):
        del Asked.get_ranges
    array = zarr.open_array(Asked(zarr.storage.LocalStore(tmp_path)), mode="r")
    np.testing.assert_array_equal(array[3:5, 60:70], mirror[3:5, 60:70])
    assert len(asked) == 4
    assert {key for key, _ in asked} == {"c/0/0", "c/0/1"}
    assert all(byte_range is not None for _, byte_range in asked)
    asked.clear()
    np.testing.assert_array_equal(array[:, 5], mirror[:, 5])
    assert len(asked) == 2


def test_empty_chunks_are_written_when_asked(tmp_path):
    for wanted in (False, True):
        array = zarr.create_array(
            tmp_path / str(wanted), shape=(4,), chunks=(2,), dtype="u1", config={"write_empty_chunks": wanted}
        )
        array[...] = 0
        assert os.path.exists(tmp_path / str(wanted) / "c/0") == wanted


def test_variable_length_text(tmp_path):
    array = zarr.create_array(tmp_path, shape=(5,), chunks=(2,), dtype=str)
    assert zvcore.zarr3.explain(array)["native"]
    array[...] = np.array(["a", "", "ü", "dd", "e"], object)
    array[1:3] = "x"
    assert list(array[...]) == ["a", "x", "x", "dd", "e"]


@pytest.mark.filterwarnings("ignore:.*is not currently part in the Zarr format 3")
@pytest.mark.filterwarnings("ignore:The data type")
def test_what_it_cannot_do_goes_to_zarr_python_and_is_said(tmp_path):
    version2 = zarr.create_array(tmp_path / "2", shape=(4,), chunks=(2,), dtype=str, zarr_format=2)
    version2[...] = "x"
    assert (version2[...] == "x").all()
    said = zvcore.zarr3.explain(version2)
    assert not said["native"]
    assert "v2" in said["reason"]
    transformed = zarr.create_array(tmp_path / "3", shape=(4,), chunks=(2,), dtype="u1", filters=[Theirs()])
    said = zvcore.zarr3.explain(transformed)
    assert not said["native"]
    assert "somebody.s" in said["reason"]
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        other = zarr.create_array(tmp_path / "4", shape=(4,), chunks=(2,), dtype="u1")
    said = zvcore.zarr3.explain(other)
    assert not said["native"]
    assert "codec_pipeline.path" in said["reason"]


def test_found_by_the_environment(tmp_path):
    code = (
        "import zarr, zvcore.zarr3, sys; a = zarr.create_array(sys.argv[1], shape=(4,), chunks=(2,), dtype='u1'); "
        "a[...] = 3; print(zvcore.zarr3.explain(a)['pipeline'], a[...].sum())"
    )
    env = {**os.environ, "ZARR_CODEC_PIPELINE__PATH": PATH}
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], env=env, capture_output=True, text=True)
    assert out.stdout.split() == [PATH, "12"], out.stderr


def test_pickled_arrays(tmp_path):
    array = zarr.create_array(tmp_path, shape=(40,), chunks=(5,), shards=(20,), dtype="u2")
    array[...] = np.arange(40)
    copy = pickle.loads(pickle.dumps(array))
    assert zvcore.zarr3.explain(copy)["native"]
    assert (copy[3:30] == np.arange(3, 30)).all()


def test_broken_shards_are_errors_here_too(tmp_path):
    array = zarr.create_array(tmp_path, shape=(8,), chunks=(2,), shards=(8,), dtype="u1")
    array[...] = 1
    (tmp_path / "c/0").write_bytes(b"")
    with pytest.raises(zvcore.errors.CorruptDataError, match="c/0"):
        array[...]


def test_single_values_are_written_by_the_engine(tmp_path, monkeypatch):
    """Not by zarr-python's own pipeline, which would not take the lock of the shard."""
    from zarr.core.codec_pipeline import BatchedCodecPipeline

    async def refuse(*arguments, **options):
        raise AssertionError("zarr-python's own pipeline was used")

    array = zarr.create_array(tmp_path, shape=(30, 20), chunks=(5, 5), shards=(10, 10), dtype="u2")
    mirror = np.zeros((30, 20), "u2")
    monkeypatch.setattr(BatchedCodecPipeline, "write", refuse)
    for value, key in enumerate(
        [np.s_[...], np.s_[0:8, 8:16], np.s_[3], np.s_[1, 2], np.s_[::3, 5], np.s_[29:, 1:20:7]]
    ):
        array[key] = value + 1
        mirror[key] = value + 1
        assert (array[...] == mirror).all()


def test_many_threads_in_a_store_that_needs_threads_itself(tmp_path):
    """Each waits for the event loop, whose own threads are few."""
    store = zarr.storage.WrapperStore(zarr.storage.LocalStore(tmp_path))
    array = zarr.create_array(store, shape=(40, 40), chunks=(2, 2), shards=(10, 20), dtype="u2")
    assert zvcore.zarr3.explain(array)["store"] == "bridged"
    mirror = np.arange(1600, dtype="u2").reshape(40, 40)

    def work(number):
        array[number] = mirror[number]
        return array[number]

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    np.testing.assert_array_equal(array[...], mirror)


@pytest.mark.parametrize("version", [2, 3])
def test_one_item_behind_the_end_that_an_array_had(store, version):
    array = zarr.create_array(store, shape=(2, 3), chunks=(1, 1), dtype="u1", zarr_format=version)
    array.append(np.ones((2, 3), "u1"), axis=0)
    array[3, 1] = 5
    array[2] = 6
    array[-1, :2] = 7
    assert array[...].tolist() == [[0, 0, 0], [0, 0, 0], [6, 6, 6], [7, 7, 1]]


@pytest.mark.parametrize("shards", [None, (20, 12)])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_arrays_that_are_resized(tmp_path, kind, shards):
    """zarr-python does not tell a pipeline: what it takes for the end may be in the middle by now."""
    store = tmp_path if kind == "local" else zarr.storage.MemoryStore()
    array = zarr.create_array(store, shape=(13, 11), chunks=(5, 4), shards=shards, dtype="i4", fill_value=-1)
    mirror = np.arange(143, dtype="i4").reshape(13, 11)
    array[...] = mirror
    array.append(np.arange(44, dtype="i4").reshape(4, 11), axis=0)
    mirror = np.concatenate([mirror, np.arange(44, dtype="i4").reshape(4, 11)])
    np.testing.assert_array_equal(array[...], mirror)
    # Up to the old end, which cut a chunk: the rest of the chunk stays.
    for key in (np.s_[10:13], np.s_[12], np.s_[0:13, 8:11], np.s_[12, 10]):
        array[key] = mirror[key] = mirror[key] + 1000
        np.testing.assert_array_equal(array[...], mirror)
    array.oindex[[12, 16], :] = mirror[[12, 16]] = 7
    array.vindex[[16, 11], [0, 10]] = mirror[[16, 11], [0, 10]] = 8
    np.testing.assert_array_equal(array[...], mirror)
    np.testing.assert_array_equal(array.oindex[[16, 2], 1:11:3], mirror[[16, 2], 1:11:3])
    np.testing.assert_array_equal(array.vindex[[16, 2], [1, 10]], mirror[[16, 2], [1, 10]])
    array.resize((6, 30))
    grown = np.full((6, 30), -1, "i4")
    grown[:, :11] = mirror[:6]
    np.testing.assert_array_equal(array[...], grown)
    # Of points, the chunk that lies the farthest along an axis need not be the last one.
    points = ([0, 0, 5], [1, 29, 1])
    array.vindex[points] = grown[points] = 9
    np.testing.assert_array_equal(array.vindex[points], grown[points])
    array[3:6, 9:30] = grown[3:6, 9:30] = 5
    array[...] += 1
    np.testing.assert_array_equal(array[...], grown + 1)


def test_arrays_that_were_opened_for_reading_stay_as_they_are(tmp_path):
    zarr.create_array(tmp_path, shape=(4, 4), chunks=(2, 2), dtype="u1")[...] = 1
    zarr.create_array(tmp_path / "s", shape=(4, 4), chunks=(2, 2), shards=(4, 4), dtype="u1")[...] = 1
    for path in (tmp_path, tmp_path / "s"):
        array = zarr.open_array(path, mode="r")
        for key in (np.s_[...], np.s_[0, 0]):
            with pytest.raises(ValueError, match="read-only"):
                array[key] = 2
        assert (array[...] == 1).all()


# What a batch for one shard of 8 x 6 at (1, 1) may look like: (selection within the shard, of the values, their shape,
# axes that the values do not have). Most of these zarr-python itself does not make.
UNUSUAL = {
    "backwards": (np.s_[6:1:-2, 0:4], np.s_[0:3, 1:5], (3, 5), ()),
    "backwards in the values": (np.s_[0:4, 1:3], np.s_[3::-1, 0:2], (4, 2), ()),
    "a mask": ((np.arange(48).reshape(8, 6) % 5 == 0,), np.s_[0:10], (10,), ()),
    "rows by a mask": ((np.arange(8) % 3 == 0, slice(1, 3)), np.s_[0:3, 0:2], (3, 2), ()),
    "values by a mask": (np.s_[0:2, 0:3], (np.arange(4) % 2 == 0, slice(0, 3)), (4, 3), ()),
    "an axis less": (np.ix_([2, 7], [3]), np.s_[0:2], (2,), (1,)),
    "a scalar": (np.s_[7:2:-1, 0:2], (), (), ()),
    "values with gaps": (np.s_[1:3, 1:3], (np.array([0, 4]), slice(0, 2)), (5, 2), ()),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_assignments_are_done_by_the_engine(tmp_path, monkeypatch, name):
    """Not by zarr-python's own pipeline, which would not take the lock of the shard (and refuses most of these)."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.codec_pipeline import BatchedCodecPipeline
    from zarr.core.sync import sync

    within, outside, shape, drop = UNUSUAL[name]
    values = np.arange(1, 1 + int(np.prod(shape)), dtype="u2").reshape(shape)
    array = zarr.create_array(tmp_path, shape=(13, 11), chunks=(4, 3), shards=(8, 6), dtype="u2", fill_value=9)
    array[...] = 500
    inner = getattr(array, "async_array", None) or array._async_array
    prototype = default_buffer_prototype()
    spec = ArraySpec((8, 6), inner.metadata.data_type, 9, getattr(inner, "config", None) or inner._config, prototype)
    batch = [(inner.store_path / "c/0/0", spec, within, outside, False)]
    monkeypatch.delattr(BatchedCodecPipeline, "write")
    sync(inner.codec_pipeline.write(batch, prototype.nd_buffer.from_numpy_array(values), drop))
    expected = np.full((13, 11), 500)
    chosen = values[outside] if shape else values
    expected[:8, :6][within] = chosen[:, None] if drop else chosen
    np.testing.assert_array_equal(array[...], expected)


def test_a_codec_that_somebody_replaced_is_left_to_zarr_python():
    from zarr.codecs import GzipCodec
    from zarr.registry import register_codec

    class Other(GzipCodec):
        pass

    register_codec("gzip", Other)
    with zarr.config.set({"codecs.gzip": f"{Other.__module__}.{Other.__qualname__}"}):
        compressors = [{"name": "gzip", "configuration": {"level": 1}}]
        array = zarr.create_array({}, shape=(4,), chunks=(2,), shards=(4,), dtype="u1", compressors=compressors)
        said = zvcore.zarr3.explain(array)
    assert not said["native"]
    assert "Other" in said["reason"]


@pytest.mark.parametrize("shards", [None, (4,)])
def test_a_store_that_was_moved_is_read_and_written_where_it_is_now(tmp_path, shards):
    store = zarr.storage.LocalStore(tmp_path / "a")
    array = zarr.create_array(store, shape=(4,), chunks=(2,), shards=shards, dtype="u1", name="in/group")
    array[:] = 7
    array[1:3] = 7
    assert (array[:] == 7).all()
    zarr.core.sync.sync(store.move(tmp_path / "b"))
    assert (array[:] == 7).all()
    array[:] = 1
    array[1:3] = 2
    assert not (tmp_path / "a").exists()
    assert zvcore.open(tmp_path / "b/in/group")[...].tolist() == [1, 2, 2, 1]


@pytest.mark.filterwarnings("ignore:The 'generic' unit")
@pytest.mark.filterwarnings("ignore:The data type")
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_times_without_a_unit_in_the_other_byte_order_are_swapped(tmp_path, kind):
    """numpy's `astype` does not do it."""
    numbers = np.array([0, 1, -2, 100], ">i8")
    nothing = np.dtype(kind).type("NaT")
    array = zarr.create_array(tmp_path, shape=(4,), chunks=(2,), dtype=f"<{kind}", fill_value=nothing, compressors=None)
    array[:] = numbers.view(f">{kind}")
    assert np.asarray(array[:]).view("<i8").tolist() == numbers.tolist()
    own = zvcore.open(tmp_path, "r+")
    assert own[:].view("<i8").tolist() == numbers.tolist()
    own[:] = numbers[::-1].view(f">{kind}")
    assert own[:].view("<i8").tolist() == numbers[::-1].tolist()
    assert own.__array__(np.dtype(f">{kind}")).view(">i8").tolist() == numbers[::-1].tolist()


@pytest.mark.parametrize(
    ("dtype", "fill"), [("f4", "0x7fc00001"), ("f8", "0xfff8000000000001"), ("c8", ["0x7fc00001", 1.0])]
)
def test_fill_values_keep_all_bits_of_a_nan(tmp_path, dtype, fill):
    zarr.create_array(tmp_path, shape=(4,), chunks=(2,), dtype=dtype)
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["fill_value"] = fill
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    array = zarr.open_array(tmp_path)
    assert zvcore.zarr3.explain(array)["native"]
    expected = zvcore.open(tmp_path)[...]
    assert array[...].tobytes() == expected.tobytes()
    array[...] = expected
    assert not (tmp_path / "c").exists()
    array[...] = np.nan
    assert (tmp_path / "c").exists()


class MarkedBuffer(cpu.Buffer):
    """What somebody has made of zarr-python's buffers."""


class StoreOfMarkedBuffers(zarr.storage.MemoryStore):
    """Takes and gives chunks in buffers of that kind only."""

    async def set(self, key, value, byte_range=None):
        assert "json" in key or isinstance(value, MarkedBuffer)
        await super().set(key, value, byte_range)

    async def get(self, key, prototype=None, byte_range=None):
        assert "json" in key or prototype.buffer is MarkedBuffer
        return await super().get(key, prototype, byte_range)


@pytest.mark.parametrize("shards", [None, (4,)])
@pytest.mark.parametrize("kind", [zarr.storage.MemoryStore, StoreOfMarkedBuffers])
def test_stores_are_asked_for_and_given_the_buffers_that_the_caller_wants(kind, shards):
    store = kind()
    array = zarr.create_array(store, shape=(8,), chunks=(2,), shards=shards, dtype="u2")
    inner = getattr(array, "async_array", None) or array._async_array
    assert zvcore.zarr3.explain(array)["native"]
    prototype = BufferPrototype(buffer=MarkedBuffer, nd_buffer=cpu.NDBuffer)
    sync = zarr.core.sync.sync
    sync(inner.setitem(slice(0, 8), np.arange(8, dtype="u2"), prototype=prototype))
    sync(inner.setitem(slice(1, 3), np.array([5, 6], "u2"), prototype=prototype))
    assert sync(inner.getitem(slice(0, 8), prototype=prototype)).tolist() == [0, 5, 6, 3, 4, 5, 6, 7]
    assert sync(inner.getitem(slice(3, 5), prototype=prototype)).tolist() == [3, 4]
    assert {type(value) for key, value in store._store_dict.items() if "json" not in key} == {MarkedBuffer}


@pytest.mark.skipif(not hasattr(zarr.abc.store.Store, "get_ranges"), reason="zarr-python 3.3 and later")
def test_how_far_apart_ranges_may_lie_is_what_the_array_says(tmp_path):
    asked = []

    class Asked(zarr.storage.WrapperStore):
        def get_ranges(self, key, byte_ranges, **options):
            asked.append((options["max_gap_bytes"], options["max_coalesced_bytes"]))
            return super().get_ranges(key, byte_ranges, **options)

    store = Asked(zarr.storage.LocalStore(tmp_path))
    with zarr.config.set({"array.sharding_coalesce_max_gap_bytes": 7}):
        for config, expected in [
            (None, (7, zarr.config.get("array.sharding_coalesce_max_bytes"))),
            ({"sharding_coalesce_max_gap_bytes": 99, "sharding_coalesce_max_bytes": 9999}, (99, 9999)),
        ]:
            array = zarr.create_array(
                store, name="a", shape=(8,), chunks=(2,), shards=(8,), dtype="u1", config=config, overwrite=True
            )
            array[...] = np.arange(8)
            assert array[1:5].tolist() == [1, 2, 3, 4]
            assert set(asked) == {expected}
            asked.clear()


@pytest.mark.parametrize("separator", ["/", "."])
@pytest.mark.parametrize("shards", [None, (8, 12)])
def test_reads_within_one_chunk_are_put_together_once(tmp_path, monkeypatch, shards, separator):
    """What is known of an array after its first read is enough for those within one chunk."""
    values = np.arange(30 * 40, dtype="u2").reshape(30, 40)
    array = zarr.create_array(
        tmp_path / "z", shape=values.shape, dtype="u2", chunks=(4, 6), shards=shards,
        chunk_key_encoding={"name": "default", "separator": separator},
    )  # fmt: skip
    array[...] = values
    np.testing.assert_array_equal(array[4:7, 6:9], values[4:7, 6:9])
    put_together = []
    pipeline = zvcore.zarr3.CodecPipeline
    original = pipeline._layout_of
    monkeypatch.setattr(pipeline, "_layout_of", lambda *a: put_together.append(1) or original(*a))
    for region in ((slice(8, 12), slice(12, 18)), (slice(9, 10), slice(13, 15)), (slice(28, 30), slice(36, 40))):
        np.testing.assert_array_equal(array[region], values[region])
    assert not put_together
    # All else is put together as before: steps, single items, several chunks.
    for region in ((slice(8, 12, 2), slice(12, 18)), (9, slice(12, 18)), (slice(2, 30), slice(3, 33)), (9, 13)):
        np.testing.assert_array_equal(array[region], values[region])
    assert len(put_together) == 4
    array[9, 13] = 7
    assert array[9:10, 13:14].item() == 7
    array.resize((60, 40))
    assert not array[50:52, 1:3].any()
    array[50:52, 1:3] = 5
    assert (array[50:52, 1:3] == 5).all()


def assigned(where: str, key: object, value: object, **options: object) -> np.ndarray:
    """What an array of 4 by 4 zeros is after an assignment to `array[...]`, `array.oindex[...]` and so on."""
    array = zarr.create_array({}, shape=(4, 4), dtype="i4", **options)
    assert zvcore.zarr3.explain(array)["native"]
    (getattr(array, where) if where else array)[key] = value
    return np.asarray(array[...])


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (4, 4)},
        {"chunks": (2, 2)},
        {"chunks": (2, 2), "shards": (4, 4)},
        {"chunks": (3, 2), "zarr_format": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4,), (1, 1), (1,), (), (1, 1, 4)], ids=str)
def test_values_are_repeated_as_numpy_repeats_them(options, shape):
    value = np.arange(1, 1 + int(np.prod(shape)), dtype="i4").reshape(shape)
    everywhere = np.zeros((4, 4), "i4")
    everywhere[...] = value
    np.testing.assert_array_equal(assigned("", ..., value, **options), everywhere)
    if value.ndim < 3:
        np.testing.assert_array_equal(assigned("blocks", slice(None), value, **options), everywhere)
    for where, key in (("", np.s_[1:3]), ("", np.s_[::2, 1:]), ("oindex", np.s_[[0, 3], :])):
        mirror, plain = np.zeros((4, 4), "i4"), key
        fitting = value[tuple(slice(0, 2 if n == 4 and axis == value.ndim - 2 else n)
                              for axis, n in enumerate(value.shape))]  # fmt: skip
        if key == np.s_[::2, 1:] and fitting.shape[-1:] == (4,):
            fitting = fitting[..., 1:]
        mirror[plain] = fitting
        np.testing.assert_array_equal(assigned(where, key, fitting, **options), mirror)


@pytest.mark.parametrize(
    "options", [{"chunks": (4, 4)}, {"chunks": (2, 2)}, {"chunks": (2, 2), "shards": (4, 4)}], ids=str
)
def test_values_that_do_not_fit(options):
    """Too few are an error before anything is written; of too many the first are taken, as zarr-python does."""
    array = zarr.create_array({}, shape=(4, 4), dtype="i4", **options)
    array[...] = 9
    for key, shape in ((..., (3, 4)), (..., (4, 3)), (np.s_[1:4], (2, 4)), (np.s_[2], (3,))):
        with pytest.raises(ValueError, match="broadcast"):
            array[key] = np.ones(shape, "i4")
        assert (array[...] == 9).all()
    array[1:3] = np.arange(12, dtype="i4").reshape(3, 4)
    np.testing.assert_array_equal(array[...], [[9] * 4, [0, 1, 2, 3], [4, 5, 6, 7], [9] * 4])


@pytest.mark.filterwarnings("ignore:The data type:zarr.errors.UnstableSpecificationWarning")
def test_a_short_text_fills_a_selection_of_longer_ones():
    array = zarr.create_array({}, shape=(4, 4), dtype="U5", chunks=(4, 4), shards=(4, 4), fill_value="")
    array.oindex[[0], [1, 3]] = "q"
    assert array[0].tolist() == ["", "q", "", "q"]
