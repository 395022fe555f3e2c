"""Every public object, used by many threads at once: truly at once where Python has no global lock."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.at_once import run_threads
from zvcore.codecs import registry
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded
from zvcore.stores import LocalStore, MemoryStore
from zvcore.stores.chunk_cache import ChunkCache
from zvcore.stores.indexes import index_cache
from zvcore.system.waiting import _workers
from zvcore.zarr3.group import create_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THREADS = 8
VALUES = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
FORMATS = {
    "zarr3": {"shards": (32, 32)},
    "zarr2": {},
    "n5": {},
}


def hammer(work: Callable[[int], Any], turns: int = 6) -> list[Any]:
    """What `work(number)` gives, `turns` times in each of some threads that begin together, or the first error."""
    begin = threading.Barrier(THREADS)
    results: list[Any] = []

    def run(number: int) -> None:
        begin.wait()
        for _ in range(turns):
            results.append(work(number))

    run_threads([partial(run, number) for number in range(THREADS)])
    assert len(results) == THREADS * turns
    return results


@pytest.fixture(params=FORMATS)
def array(request: pytest.FixtureRequest, tmp_path: Path) -> zvcore.Array:
    made = zvcore.create(
        tmp_path / "a", format=request.param, shape=(64, 64), dtype="uint16", chunks=(16, 16), codec="zstd",
        **FORMATS[request.param],
    )  # fmt: skip
    made[...] = VALUES
    return made


def test_one_array_is_read_by_many(array: zvcore.Array) -> None:
    for found in hammer(lambda number: (number, array[number * 8 : number * 8 + 8], array[...])):
        number, lines, everything = found
        assert (lines == VALUES[number * 8 : number * 8 + 8]).all()
        assert (everything == VALUES).all()


def test_one_array_is_opened_by_many(array: zvcore.Array, tmp_path: Path) -> None:
    assert all((found == VALUES).all() for found in hammer(lambda _: zvcore.open(tmp_path / "a")[...]))


def test_threads_write_lines_of_shared_chunks_and_none_is_lost(array: zvcore.Array) -> None:
    """Lines 0 and 8, 1 and 9 ... lie in the same chunks."""

    def write(number: int) -> None:
        for line in range(number, 64, THREADS):
            array[line] = VALUES[line] + 1

    hammer(write, turns=1)
    assert (array[...] == VALUES + 1).all()


def test_attributes_that_many_set_all_arrive(array: zvcore.Array) -> None:
    def write(number: int) -> None:
        array.attrs[f"by {number}"] = number

    hammer(write)
    assert {f"by {number}": number for number in range(THREADS)}.items() <= dict(array.attrs).items()


def test_one_group_gets_arrays_from_many(tmp_path: Path) -> None:
    group = create_group(LocalStore(tmp_path))

    def make(number: int) -> list[str]:
        one = group.create_dataset(f"a{number}", shape=(16,), dtype="u2", chunks=(4,))
        one[...] = number
        return sorted(group)

    hammer(make, turns=1)
    assert {f"a{number}" for number in range(THREADS)} <= set(group)
    assert all((group[f"a{number}"][...] == number).all() for number in range(THREADS))


def test_one_shard_writer_takes_from_many(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "s", format="zarr3", shape=(64, 64), dtype="u2", chunks=(8, 8), shards=(64, 64), codec="zstd"
    )
    with array.shard_writer() as writer:

        def write(number: int) -> None:
            writer[number * 8 : number * 8 + 8] = VALUES[number * 8 : number * 8 + 8]

        hammer(write, turns=1)
    assert (array[...] == VALUES).all()


def test_one_sharded_store_is_read_and_changed_by_many(tmp_path: Path) -> None:
    spec = ShardingSpec.from_json({
        "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": 0, "minishard_bits": 1,
        "shard_bits": 1, "minishard_index_encoding": "gzip", "data_encoding": "gzip",
    })  # fmt: skip
    values = {one: bytes([one]) * 100 for one in range(64)}
    write_sharded(tmp_path / "kv", spec, values)
    store = ShardedStore(tmp_path / "kv", spec, mode="r+")

    def work(number: int) -> dict[int, bytes]:
        store.update({100 + number: b"new"})
        return {one: bytes(value) for one, value in store.get_many(range(64)).items()}

    assert all(found == values for found in hammer(work, turns=2))
    assert {100 + number for number in range(THREADS)} <= {int(one) for one in store.ids()}


def test_one_memory_store_is_filled_by_many() -> None:
    store = MemoryStore()
    hammer(lambda number: [store.put(f"{number}/{key}", b"x" * key) for key in range(20)])
    assert len([*store.list("")]) == THREADS * 20


def test_memories_of_one_name_are_one_memory() -> None:
    def fill(number: int) -> MemoryStore:
        store = MemoryStore("hammered")
        store.put(f"by {number}", b"x")
        return store

    (first, *_) = hammer(fill)
    assert len([*first.list("")]) == THREADS


@pytest.mark.parametrize("name", ["zstd", "gzip", "lz4", "blosc", "bzip2", "xz", "shuffle", "delta"])
def test_one_codec_encodes_and_decodes_for_many(name: str) -> None:
    codec = zvcore.codecs.get(name)
    data = VALUES.tobytes()
    for found in hammer(lambda _: bytes(codec.decode(codec.encode(data), max_size=len(data)))):
        assert found == data


def test_plugins_that_nobody_has_asked_for_yet_are_loaded_for_many() -> None:
    registry._plugins.rescan()
    classes = hammer(lambda _: type(zvcore.codecs.get("zstd")), turns=1)
    assert {one.name for one in classes} == {"zstd"}
    assert len({id(one) for one in classes}) == 1


def test_one_pool_waits_for_all_event_loops() -> None:
    assert len({id(pool) for pool in hammer(lambda _: _workers())}) == 1


def test_one_index_cache_serves_the_process() -> None:
    assert len({id(cache) for cache in hammer(lambda _: index_cache())}) == 1


def test_a_chunk_cache_holds_no_more_than_it_may() -> None:
    class Chunk:
        used = False
        nbytes = 1000

    cache = ChunkCache(50_000)
    home: dict[int, Any] = {}
    hammer(lambda number: [cache.keep(Chunk(), home, number * 1000 + place) for place in range(50)])
    assert cache.nbytes <= 50_000
    assert len(cache) == len(home)


def test_many_convert_and_verify_at_once(array: zvcore.Array, tmp_path: Path) -> None:
    def convert(number: int) -> bool:
        zvcore.convert(tmp_path / "a", tmp_path / f"to{number}", format=array.format, threads=2)
        return zvcore.verify(tmp_path / f"to{number}").ok

    assert all(hammer(convert, turns=1))
    assert (zvcore.open(tmp_path / "to3")[...] == VALUES).all()
