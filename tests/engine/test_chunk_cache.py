"""Decoded chunks that are kept for the next read: the same values as without a cache, whoever changes the file."""

from __future__ import annotations

import os
import pickle
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from tests.processes import PATIENCE
from zvcore.errors import CorruptDataError
from zvcore.stores.chunk_cache import ChunkCache, shared_cache
from zvcore.stores.open_files import pool

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.array import Array

SHAPE = (37, 30, 41)
DATA = np.random.default_rng(0).integers(1, 4000, SHAPE, np.uint16)
CHUNK = (slice(8, 16), slice(0, 8), slice(16, 24))
MANY = 1 << 24


def make(path: Path, codec: Any = "zstd", **options: Any) -> Array:
    array = zvcore.create(
        path, format="zarr3", shape=SHAPE, dtype="u2", chunks=(8, 8, 8), shards=(16, 16, 24), codec=codec, **options
    )
    array[...] = DATA
    return array


def cache_of(array: Array) -> ChunkCache:
    cache = array.layout.store.chunk_cache
    assert cache is not None
    return cache


def opened(path: Path, cache: int = MANY) -> Array:
    array: Array = zvcore.open(path, cache=cache)
    return array


def warm(array: Array, key: Any = CHUNK) -> None:
    """Read until the chunk is kept: not before its file is a few milliseconds old."""
    until = time.monotonic() + PATIENCE
    while not uses(array, key):
        assert time.monotonic() < until
        time.sleep(0.002)


def uses(array: Array, key: Any) -> bool:
    """Whether a read is answered by the cache."""
    cache = cache_of(array)
    for chunk, _, _ in cache._kept:
        chunk.used = False
    array[key]
    return any(chunk.used for chunk, _, _ in cache._kept)


@pytest.mark.parametrize("codec", ["raw", "gzip", "zstd", "blosc", ("gzip", "zstd")])
def test_what_is_kept_reads_as_what_is_stored(tmp_path: Path, codec: Any) -> None:
    make(tmp_path / "a", codec)
    array = opened(tmp_path / "a")
    warm(array)
    assert uses(array, CHUNK)
    for key in (
        CHUNK,
        np.s_[9, 3, 17],
        np.s_[8:16:3, 7, 16:24],
        np.s_[15:8:-1, 0:8, 16:24],
        np.s_[36, 24:30, 40],  # cut at the array's end
        np.s_[32:37, 24:30, 40:41],
    ):
        for _ in range(3):
            assert np.array_equal(array[key], DATA[key]), key
    out = np.zeros((8, 8, 8), np.uint16, order="F")
    array.read(CHUNK, out=out)
    assert np.array_equal(out, DATA[CHUNK])


def test_one_item_brings_the_whole_chunk(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = opened(tmp_path / "a")
    warm(array, np.s_[8, 0, 16])
    assert cache_of(array).nbytes >= 8**3 * 2
    assert uses(array, np.s_[15, 7, 23])
    assert not uses(array, np.s_[16, 7, 23])


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZVCORE_CACHE", raising=False)
    make(tmp_path / "a")
    assert zvcore.open(tmp_path / "a").layout.store.chunk_cache is None
    monkeypatch.setenv("ZVCORE_CACHE", "1000000")
    array = zvcore.open(tmp_path / "a")
    assert cache_of(array) is shared_cache()
    assert cache_of(array).max_bytes == 1_000_000
    assert zvcore.open(tmp_path / "a", cache=0).layout.store.chunk_cache is None
    monkeypatch.setenv("ZVCORE_CACHE", "much")
    with pytest.raises(ValueError, match="ZVCORE_CACHE"):
        zvcore.open(tmp_path / "a")


def test_a_cache_is_a_number_of_bytes_of_a_store_in_a_folder(tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(ValueError, match="-1"):
        zvcore.open(tmp_path / "a", cache=-1)
    wrongs: tuple[Any, ...] = ("100", 1.5, True)
    for wrong in wrongs:
        with pytest.raises(TypeError, match="number of bytes"):
            zvcore.open(tmp_path / "a", cache=wrong)
    zvcore.create("memory://chunk-cache", format="zarr3", shape=(4,), dtype="u1", chunks=(2,), shards=(4,))
    with pytest.raises(ValueError, match="folders"):
        zvcore.open("memory://chunk-cache", cache=100)


def test_members_of_a_group_share_its_cache(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    for name in "ab":
        array = group.create_dataset(name, shape=SHAPE, dtype="u2", chunks=(8, 8, 8), shards=(16, 16, 24), codec="zstd")
        array[...] = DATA
    both = zvcore.open(tmp_path / "g", cache=MANY)
    one, other = both["a"], both["b"]
    assert cache_of(one) is cache_of(other)
    warm(one)
    warm(other)
    assert uses(one, CHUNK)


@pytest.mark.parametrize("write_mode", ["rewrite", "append", "inplace"])
def test_what_we_write_is_seen(tmp_path: Path, write_mode: str) -> None:
    writer = make(tmp_path / "a", write_mode=write_mode)
    array = opened(tmp_path / "a")
    for number in range(5):
        warm(array)
        writer[CHUNK] = number + 5000
        assert (array[CHUNK] == number + 5000).all()


def test_a_writer_of_its_own_is_seen(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a", "r+", cache=MANY)
    warm(array)
    array[CHUNK] = 7
    assert (array[CHUNK] == 7).all()
    array.delete_block((1, 0, 2))
    assert (array[CHUNK] == 0).all()


def test_what_others_write_is_seen(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = opened(tmp_path / "a")
    theirs = zarr.open_array(tmp_path / "a", mode="r+")
    for number in range(5):
        warm(array)
        theirs[CHUNK] = number + 6000
        assert (array[CHUNK] == number + 6000).all()


def test_damage_that_comes_later_is_found(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = opened(tmp_path / "a")
    warm(array)
    shard = tmp_path / "a" / "c" / "0" / "0" / "0"
    shard.write_bytes(shard.read_bytes()[:-8])
    with pytest.raises(CorruptDataError):
        array[CHUNK]


def test_a_shard_that_is_removed_is_gone(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = opened(tmp_path / "a")
    warm(array)
    (tmp_path / "a" / "c" / "0" / "0" / "0").unlink()
    assert (array[CHUNK] == 0).all()


def test_a_cache_is_bounded_and_what_is_used_stays(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = opened(tmp_path / "a", 8 * (8**3 * 2 + 256))
    cache = cache_of(array)
    warm(array)
    for place in np.ndindex(4, 3, 5):
        key = tuple(slice(8 * at, 8 * at + 8) for at in place)
        for _ in range(2):
            assert np.array_equal(array[key], DATA[key])
            assert np.array_equal(array[CHUNK], DATA[CHUNK])
        assert cache.nbytes <= cache.max_bytes
        assert len(cache) <= 8
    assert uses(array, CHUNK)
    cache.clear()
    assert cache.nbytes == len(cache) == 0
    assert not uses(array, CHUNK)


def test_a_shard_whose_file_was_closed_keeps_its_chunks(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = opened(tmp_path / "a")
    warm(array)
    pool.clear()
    assert np.array_equal(array[0, 0, 0], DATA[0, 0, 0])
    assert uses(array, CHUNK)


def test_threads_share_a_cache(tmp_path: Path) -> None:
    writer = make(tmp_path / "a")
    array = opened(tmp_path / "a", 6 * (8**3 * 2 + 256))
    wrong: list[Any] = []
    stop = threading.Event()

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            key = tuple(slice(int(at), int(at) + 3) for at in rng.integers(0, 24, 3) // 8 * 8)
            found = array[key]
            if not ((found == DATA[key]) | (found >= 5000)).all():
                wrong.append(key)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for number in range(40):
        writer[CHUNK] = 5000 + number
        assert (array[CHUNK] == 5000 + number).all()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache_of(array).nbytes <= cache_of(array).max_bytes


def test_another_process_begins_with_nothing(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = opened(tmp_path / "a")
    assert np.array_equal(pickle.loads(pickle.dumps(array))[CHUNK], DATA[CHUNK])
    warm(array)
    child = os.fork()
    if child == 0:
        empty = len(cache_of(array)) == 0 and cache_of(array).nbytes == 0
        os._exit(0 if empty and np.array_equal(array[CHUNK], DATA[CHUNK]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert uses(array, CHUNK)
