"""Shards that are replaced as a whole: written while their chunks are encoded, never read, old or new."""

from __future__ import annotations

import os
import resource
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.codecs import Codec
from zvcore.engine import Keys, Work
from zvcore.engine.packer import Ends, Packer
from zvcore.engine.prepared import Prepared
from zvcore.stores import LocalStore, MemoryStore
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from pathlib import Path

# Inner chunks of 16 KiB are gathered before they are written, those of 128 KiB are written as they are.
SHAPES = {"small": ((48, 70, 64), (16, 16, 64), (32, 64, 64)), "large": ((70, 256, 64), (8, 256, 64), (32, 256, 64))}


def noise(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 200, shape, np.uint8)


def files(path: Path) -> dict[str, bytes]:
    settle()
    return {
        os.path.relpath(os.path.join(folder, name), path): (path / folder / name).read_bytes()
        for folder, _, names in os.walk(path)
        for name in names
        if name != "zarr.json"
    }


def make(path: Any, size: str, **options: Any) -> zvcore.Array:
    shape, chunks, shards = SHAPES[size]
    return zvcore.create(
        path, format="zarr3", shape=shape, dtype="u1", chunks=chunks, shards=shards, **{"codec": None, **options}
    )


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("order", ["C", "morton"])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_bytes_do_not_depend_on_threads(tmp_path: Path, size: str, location: str, order: str, codec: Any) -> None:
    options = {"index_location": location, "order_in_shard": order, "codec": codec}
    values = noise(SHAPES[size][0])
    values[:20, :, :] = 0  # some chunks are not stored
    # The other way to write a shard: put together in memory.
    store = MemoryStore()
    make(store, size, **options)[...] = values
    expected = {key: bytes(store.get(key) or b"") for key in store.list() if key != "zarr.json"}
    for threads in (1, 2, 7):
        path = tmp_path / str(threads)
        make(path, size, **options).write(..., values, threads=threads)
        assert files(path) == expected
    np.testing.assert_array_equal(zvcore.open(tmp_path / "7")[...], values)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "7", mode="r")[...], values)


@given(data=st.data())
def test_regions_in_files_are_as_in_memory(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("a")
    shape = (11, 13)
    stores = [LocalStore(path), MemoryStore()]
    arrays = [
        zvcore.create(store, format="zarr3", shape=shape, dtype="u2", chunks=(2, 3), shards=(4, 6), fill_value=4)
        for store in stores
    ]
    for number in range(data.draw(st.integers(1, 4))):
        corners = [sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))) for n in shape]
        step = data.draw(st.integers(1, 3))
        key = (slice(*corners[0]), slice(*corners[1], step))
        for array in arrays:
            array.write(key, number + 4, threads=1 + number)
    keys = list(stores[1].list())
    assert list(stores[0].list()) == keys
    for key in keys:
        assert stores[0].get(key) == stores[1].get(key)


def test_what_was_there_is_not_read(tmp_path: Path) -> None:
    for where in (tmp_path / "a", MemoryStore()):
        array = make(where, "small")
        array[...] = 1
        store = array.layout.store
        for key in list(store.list()):
            if key != "zarr.json":
                store.put(key, b"broken")
        values = noise(array.shape, 1)
        array[...] = values
        np.testing.assert_array_equal(array[...], values)


def test_empty_shards_are_deleted_and_nothing_is_left_behind(tmp_path: Path) -> None:
    array = make(tmp_path, "small")
    array[...] = 1
    values = noise(array.shape)
    values[:32, :64] = 0
    array[...] = values
    assert sorted(files(tmp_path)) == ["c/0/1/0", "c/1/0/0", "c/1/1/0"]
    array[...] = 0
    assert files(tmp_path) == {}


class Fails(Codec):
    """Encodes until it is told not to."""

    name = "tests.fails"
    left = [1 << 30]
    lock = threading.Lock()

    def _encode(self, data: memoryview) -> bytes:
        with self.lock:
            self.left[0] -= 1
            if self.left[0] < 0:
                raise ValueError("no more")
        return bytes(data)

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        return bytes(data)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("encoded", [0, 1, 9, 14])
def test_a_failure_leaves_what_was_there(tmp_path: Path, encoded: int, threads: int) -> None:
    zvcore.codecs.register("tests.fails", Fails)
    array = make(tmp_path, "small", codec=Fails())
    Fails.left[0] = 1 << 30
    array[...] = values = noise(array.shape)
    before = files(tmp_path)
    Fails.left[0] = encoded
    with pytest.raises(zvcore.errors.ZvcoreError, match="no more"):
        array.write(..., 7, threads=threads)
    assert files(tmp_path) == before
    np.testing.assert_array_equal(array[...], values)


@pytest.mark.parametrize("size", SHAPES)
def test_a_file_that_cannot_grow_is_an_error_that_names_the_shard(tmp_path: Path, size: str) -> None:
    array = make(tmp_path, size)
    array[...] = 1
    before = files(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="c/0/0/0"):
            array.write(..., noise(array.shape), threads=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(tmp_path) == before


@pytest.mark.parametrize("threads", [1, 5])
def test_a_shard_that_cannot_take_its_place_is_named(tmp_path: Path, threads: int) -> None:
    """The others do; what was written of it goes."""
    array = make(tmp_path, "small")
    array[...] = 1
    (tmp_path / "c/1/0/0").unlink()
    (tmp_path / "c/1/0/0/folder").mkdir(parents=True)
    with pytest.raises(OSError, match="c/1/0/0"):
        array.write(..., noise(array.shape), threads=threads)
    assert not [name for name in files(tmp_path) if name.endswith("zvtmp")]
    (tmp_path / "c/1/0/0/folder").rmdir()
    (tmp_path / "c/1/0/0").rmdir()
    array.write(..., noise(array.shape, 2), threads=threads)
    np.testing.assert_array_equal(array[...], noise(array.shape, 2))


@pytest.mark.parametrize("location", ["start", "end"])
def test_indexes_are_held_for_some_shards_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    values = noise(SHAPES["small"][0])
    values[:32, :64] = 0  # a shard that becomes empty
    make(tmp_path / "a", "small", index_location=location)[...] = values
    array = make(tmp_path / "b", "small", index_location=location)
    array[...] = 1
    monkeypatch.setattr("zvcore.transfer.packing.END_BYTES", 1)
    array[...] = values
    assert files(tmp_path / "b") == files(tmp_path / "a")


def test_an_interrupted_write_leaves_what_was_there(tmp_path: Path) -> None:
    array = make(tmp_path, "small")
    array[...] = 1
    before = files(tmp_path)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        array.write(..., noise(array.shape), progress=stop)
    for key, data in files(tmp_path).items():
        assert not key.endswith("zvtmp")
        assert before[key] == data or len(data) > 64 * 1024


def test_a_packer_checks_what_it_is_given(tmp_path: Path) -> None:
    prepared = Prepared(None, (), os.fsencode(tmp_path))
    keys = Keys.of(["a", "b"])
    for order, bounds in (([0, 1], [0, 1]), ([0, 1], [0, 1, 3]), ([0, 0], [0, 1, 2]), ([0, 1], [0, 3, 2])):
        with pytest.raises(ValueError, match=r"bounds|twice"):
            Packer(keys, prepared, np.array(order), np.array(bounds), 0)
    packer = Packer(keys, prepared, np.array([0, 1]), np.array([0, 1, 2]), 3)
    with pytest.raises(RuntimeError, match="not all"):
        packer.finish({0: Ends(b"abc", b"")}, Work())
    with pytest.raises(ValueError, match="room was left for 3"):
        packer.finish({0: Ends(b"", b"")}, Work())
    with pytest.raises(IndexError):
        packer.finish({2: Ends(b"abc", b"")}, Work())
    del packer
    assert files(tmp_path) == {}
