"""Writing shards slice by slice, looking into them, and making them smaller."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import ReadOnlyError, UnsupportedError
from zvcore.stores import MemoryStore


def make(store, shape=(70, 50, 40), chunks=(8, 8, 8), shards=(32, 32, 32), **options):
    return zvcore.create(store, format="zarr3", shape=shape, dtype="u2", chunks=chunks, shards=shards, **options)


class Counting(MemoryStore):
    """Counts what is written and read under each key."""

    def __init__(self):
        super().__init__()
        self.puts = []
        self.gets = []

    def put(self, key, data):
        self.puts.append(key)
        super().put(key, data)

    def get_ranges(self, key, ranges, *, stamp=None):
        self.gets.append(key)
        return super().get_ranges(key, ranges, stamp=stamp)


@pytest.mark.parametrize("shards", [None, (32, 32, 32)])
def test_a_stream_of_slices_writes_each_shard_once_and_reads_nothing(shards):
    store = Counting()
    array = make(store, shards=shards)
    values = np.random.default_rng(0).integers(0, 1000, array.shape).astype("u2")
    store.puts.clear()
    with array.shard_writer() as writer:
        for z in range(array.shape[0]):
            writer[z] = values[z]
    assert len(store.puts) == len(set(store.puts)) == (12 if shards else 9 * 7 * 5)
    assert not store.gets
    assert (array[...] == values).all()


def test_little_memory_means_more_writes_but_the_same_values():
    array = make(MemoryStore())
    values = np.random.default_rng(0).integers(0, 1000, array.shape).astype("u2")
    array[...] = values
    with array.shard_writer(memory=100_000) as writer:
        for z in range(3, 60, 5):
            writer[z : z + 3, 5:40] = z
            values[z : z + 3, 5:40] = z
    assert writer.flushed > 12
    assert (array[...] == values).all()


@given(data=st.data())
def test_any_order_of_boxes(data):
    array = make(MemoryStore(), (20, 18), (4, 3), data.draw(st.sampled_from([None, (8, 9)])))
    mirror = np.zeros((20, 18), "u2")
    if data.draw(st.booleans()):
        array[...] = mirror[...] = 77
    with array.shard_writer(memory=data.draw(st.sampled_from([0, 500, 1 << 20]))) as writer:
        for number in range(data.draw(st.integers(0, 8))):
            key = tuple(
                slice(*sorted((data.draw(st.integers(0, bound)), data.draw(st.integers(0, bound)))))
                for bound in mirror.shape
            )
            writer[key] = number
            mirror[key] = number
    assert (array[...] == mirror).all()


def test_only_touched_chunks_of_an_incomplete_shard_change():
    array = make(MemoryStore(), (64, 64), (8, 8), (64, 64))
    array[...] = 5
    before = {(i, j): array.read_encoded((i, j)) for i in range(8) for j in range(8)}
    with array.shard_writer() as writer:
        writer[0:3, 0:3] = 9
    changed = [place for place, data in before.items() if array.read_encoded(place) != data]
    assert changed == [(0, 0)]


def test_a_writer_takes_nothing_after_its_block_that_nobody_would_write():
    array = make(MemoryStore())
    with array.shard_writer() as writer:
        writer[0] = 1
    with pytest.raises(ValueError, match="ended"):
        writer[1] = 1
    with writer:
        writer[1] = 1
    assert (array[:2] == 1).all()


def test_a_failed_block_of_writes_is_thrown_away():
    array = make(MemoryStore())
    with pytest.raises(RuntimeError), array.shard_writer() as writer:
        writer[0] = 1
        raise RuntimeError
    assert (array[0] == 0).all()
    with pytest.raises(IndexError, match="step"), array.shard_writer() as writer:
        writer[::2] = 1


def test_a_writer_needs_a_writable_array(tmp_path):
    make(tmp_path)
    with pytest.raises(ReadOnlyError), zvcore.open(tmp_path).shard_writer():
        pass


def test_inspection_and_compaction(tmp_path):
    array = make(tmp_path, (64, 64), (8, 8), (64, 64), write_mode="append", dead_bytes_threshold=1.0)
    array[...] = np.arange(64 * 64).reshape(64, 64) + 1
    details = array.inspect()["shard_details"]["c/0/0"]
    assert (details["chunks"], details["slots"], details["dead"], details["order"]) == (64, 64, 0, "C")
    for value in range(5):
        array[0:8, 0:8] = value + 1
    details = array.inspect()["shard_details"]["c/0/0"]
    assert details["dead"] > 0
    assert (
        details["size"] == details["live"] + details["dead"] + details["index"] == (tmp_path / "c/0/0").stat().st_size
    )
    expected = array[...]
    assert array.compact(threshold=0.99) == 0
    assert array.compact() == details["dead"]
    assert array.inspect()["shard_details"]["c/0/0"]["dead"] == 0
    assert (zarr.open_array(tmp_path)[...] == expected).all()


def test_a_damaged_shard_hinders_no_look_at_the_others(tmp_path, capsys):
    array = make(tmp_path, (64, 64), (8, 8), (32, 32))
    array[...] = 1
    with (tmp_path / "c" / "0" / "1").open("r+b") as file:
        file.truncate(30)
    found = zvcore.inspect(tmp_path)
    assert "too small" in found["shard_details"].pop("c/0/1")["error"]
    assert {one["chunks"] for one in found["shard_details"].values()} == {16}
    for command in ("info", "tree", "ls -l"):
        assert main([*command.split(), str(tmp_path)]) == 1, command
        assert "1 of 4 shards, such as c/0/1: the shard is too small" in "".join(capsys.readouterr())


@pytest.mark.parametrize("command", ["info", "tree"])
def test_a_damaged_shard_is_told_by_the_exit_status_of_a_look_at_json_too(tmp_path, capsys, command):
    """It was 0, which told programs that all is well."""
    make(tmp_path / "sound.zarr", (64, 64), (8, 8), (32, 32))[...] = 1
    make(tmp_path / "cut.zarr", (64, 64), (8, 8), (32, 32))[...] = 1
    assert main([command, "--json", str(tmp_path)]) == 0
    os.truncate(tmp_path / "cut.zarr" / "c" / "0" / "1", 30)
    assert main([command, "--json", str(tmp_path / "sound.zarr")]) == 0
    capsys.readouterr()
    assert main([command, "--json", str(tmp_path / "cut.zarr")]) == 1
    assert "too small" in json.loads(capsys.readouterr().out)["shard_details"]["c/0/1"]["error"]
    # What lies in a folder of several is looked at as if it were named.
    assert main([command, "--json", str(tmp_path)]) == 1
    assert main([command, str(tmp_path)]) == 1
    assert "damaged" in capsys.readouterr().out


def test_appending_compacts_by_itself(tmp_path):
    array = make(tmp_path, (64, 64), (8, 8), (64, 64), write_mode="append", codec=None)
    array[...] = 1
    for value in range(300):
        array[0:8, 0:8] = value + 1
        details = array.inspect()["shard_details"]["c/0/0"]
        assert details["dead"] <= 0.5 * details["size"] + 200
    assert (array[0:8, 0:8] == 300).all()


def test_the_cost_of_changing_one_chunk_is_the_chunk(tmp_path):
    """Bytes written, not seconds: append and inplace do not rewrite the shard."""
    for mode in ("append", "inplace"):
        array = make(
            tmp_path / mode, (256, 256), (8, 8), (256, 256), write_mode=mode, codec=None, index_location="end",
            write_empty_chunks=True,
        )  # fmt: skip
        array[...] = 1
        before = os.stat(tmp_path / mode / "c/0/0")
        array[0:8, 0:8] = 2
        after = os.stat(tmp_path / mode / "c/0/0")
        assert after.st_ino == before.st_ino
        assert after.st_size - before.st_size == (0 if mode == "inplace" else 128 + 1024 * 16 + 4)


class Requests(MemoryStore):
    """Notes every request for bytes."""

    def __init__(self):
        super().__init__()
        self.made = []

    def get(self, key, start=0, length=None, *, stamp=None):
        self.made.append((key, start, length))
        return super().get(key, start, length, stamp=stamp)

    def get_ranges(self, key, ranges, *, stamp=None):
        self.made.append((key, list(ranges)))
        return super().get_ranges(key, ranges, stamp=stamp)


def test_a_warm_read_of_one_chunk_is_one_request():
    store = Requests()
    array = make(store, (64, 64), (8, 8), (64, 64), codec=None)
    array[...] = np.arange(64 * 64).reshape(64, 64) + 1
    array = zvcore.open(store)
    store.made.clear()
    assert array[0, 0] == 1
    assert store.made == [("c/0/0", -1028, None), ("c/0/0", [(0, 128)])]
    store.made.clear()
    assert array[8, 8] == 8 * 64 + 9
    assert store.made == [("c/0/0", [(9 * 128, 128)])]
    store.made.clear()
    assert (array[...] == np.arange(64 * 64).reshape(64, 64) + 1).all()
    assert len(store.made) == 1


def test_a_shard_writer_that_goes_away_unwritten_warns(tmp_path):
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(8, 8), dtype="u1", chunks=(2, 2), shards=(4, 4))
    writer = array.shard_writer()
    writer[0, 0] = 1
    with pytest.warns(RuntimeWarning, match="values of 1 shards were never written"):
        del writer
    writer = array.shard_writer()
    writer[0, 0] = 1
    writer.flush()
    del writer  # a warning would be an error here
    writer = array.shard_writer()
    with pytest.raises(ZeroDivisionError), writer:
        writer[1, 1] = 2
        raise ZeroDivisionError
    del writer
    assert array[:2, :2].tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("mode", ["append", "inplace"])
def test_a_write_mode_that_cannot_work_is_refused_before_anything_is_written(tmp_path, mode):
    """The first write of a shard replaces it as a whole: only the second told that it cannot be changed so."""
    options = {"format": "zarr3", "shape": (16,), "dtype": "u1", "chunks": (4,), "shards": (16,)}
    archive = tmp_path / "a.zip"
    with pytest.raises(UnsupportedError, match=f"write_mode '{mode}': objects of this store cannot be changed"):
        zvcore.create(archive, write_mode=mode, **options)
    zvcore.create(archive, **options)[...] = 1
    with pytest.raises(UnsupportedError, match=f"write_mode '{mode}': objects of this store cannot be changed"):
        zvcore.open(archive, "r+", write_mode=mode)
    assert (zvcore.open(archive, write_mode=mode)[...] == 1).all()
    if mode == "append":
        first = {**options, "index_location": "start"}
        with pytest.raises(UnsupportedError, match="'append' needs the index at the end of the shard"):
            zvcore.create(tmp_path / "a", write_mode=mode, **first)
        assert not (tmp_path / "a").exists()
        zvcore.create(tmp_path / "a", **first)[...] = 1
        with pytest.raises(UnsupportedError, match="'append' needs the index at the end of the shard"):
            zvcore.open(tmp_path / "a", "r+", write_mode=mode)
        assert (zvcore.open(tmp_path / "a", write_mode=mode)[...] == 1).all()
