"""Writing sharded stores: any order, any length, bounded memory, equal bytes every time, changes that lose nothing."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.precomputed.shards import Unlockable, minishard_index, put, shard, slow_values, zipped
from tests.processes import PATIENCE
from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded
from zvcore.precomputed.entries import Entries
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = ShardingSpec(1, "murmurhash3_x86_128", 3, 2, "gzip", "gzip")
PLAIN = ShardingSpec(0, "identity", 0, 0)


def sample(count: int, seed: int = 0) -> dict[int, bytes]:
    generator = np.random.default_rng(seed)
    ids = generator.permutation(np.unique(generator.integers(0, 2**63, count, np.uint64)))
    return {int(id): generator.bytes(int(generator.integers(0, 90))) + b"ab" * 20 for id in ids}


def files(folder: Path) -> dict[str, bytes]:
    settle()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_bytes_depend_on_nothing_but_the_values(tmp_path: Path) -> None:
    values = sample(3000)
    order = list(values.items())
    written = []
    for number, (threads, memory) in enumerate([(1, 1 << 30), (3, 1 << 30), (2, 20_000), (1, 1)]):
        random.Random(number).shuffle(order)
        folder = tmp_path / str(number)
        assert write_sharded(folder, SPEC, iter(order), threads=threads, memory=memory) == len(values)
        written.append(files(folder))
    assert slow_values(SPEC, tmp_path / "0") == values
    assert all(other == written[0] for other in written)


@pytest.mark.parametrize("memory", [1, 3000, 1 << 20])
def test_spilling_with_values_of_all_sizes(tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import zvcore.precomputed.external_sort as external_sort
    import zvcore.precomputed.shard_writer as shard_writer

    # Small steps, so that every border is met many times.
    monkeypatch.setattr(external_sort, "COLUMN_ROWS", 64)
    monkeypatch.setattr(external_sort, "PIECE_BYTES", 500)
    monkeypatch.setattr(shard_writer, "_BATCH_BYTES", 2000)
    generator = np.random.default_rng(1)
    values = {
        int(id): generator.bytes(int(generator.choice([0, 1, 10, 100, 5000]))) for id in generator.permutation(800)
    }
    spec = ShardingSpec(2, "identity", 2, 3, "raw", "raw")
    heads = {id: bytes([id % 256]) * (id % 7) for id in list(values)[::3]}
    write_sharded(tmp_path, spec, values, unindexed=heads, memory=memory)
    assert slow_values(spec, tmp_path) == values
    kv = ShardedStore(tmp_path, spec)
    for id, head in heads.items():
        assert kv.read_before(id, len(head)) == head
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n}.shard" for n in range(8)]


def test_ten_times_the_memory_it_may_use(tmp_path: Path) -> None:
    """A process of its own writes from a generator; its peak says what was held."""
    program = """
import resource, sys
import numpy as np
from zvcore.precomputed import ShardingSpec, write_sharded

def items(count):
    for id in range(count):
        yield (id * 2654435761) % count, block[id % 5000 : id % 5000 + 300]

block = np.random.default_rng(0).bytes(6000)
spec = ShardingSpec(0, "murmurhash3_x86_128", 4, 3, "gzip", "raw")
write_sharded(sys.argv[1] + "/small", spec, items(1000))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_sharded(sys.argv[1] + "/large", spec, items(300_000), memory=8 << 20)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64
    assert sum(path.stat().st_size for path in (tmp_path / "large").iterdir()) > 85_000_000


def test_ids_given_twice(tmp_path: Path) -> None:
    for memory in (1, 1 << 20):
        with pytest.raises(ValueError, match="id 7 is given more than once"):
            write_sharded(tmp_path, SPEC, [(1, b"a"), (7, b"b"), (2, b"c"), (7, b"b")], memory=memory)
    assert not list(tmp_path.iterdir())


def test_what_fails_half_way_leaves_nothing_half(tmp_path: Path) -> None:
    def items() -> Iterator[tuple[int, bytes]]:
        yield from sample(100).items()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_sharded(tmp_path, SPEC, items(), memory=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("item", "error"),
    [((-1, b""), ValueError), ((1.5, b""), TypeError), ((1, "text"), TypeError), ((1, None), TypeError)],
)
def test_wrong_items(tmp_path: Path, item: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        write_sharded(tmp_path, SPEC, [item])
    assert not list(tmp_path.iterdir())


def test_any_buffer_is_a_value(tmp_path: Path) -> None:
    array = np.arange(6, dtype="<u4").reshape(2, 3)
    write_sharded(tmp_path, SPEC, [(1, bytearray(b"x")), (np.uint64(2), memoryview(b"yz")[1:]), (3, array)])
    assert dict(ShardedStore(tmp_path, SPEC)) == {1: b"x", 2: b"z", 3: array.tobytes()}
    write_sharded(tmp_path / "raw", PLAIN, [(1, bytearray(b"x")), (3, array)])
    assert dict(ShardedStore(tmp_path / "raw", PLAIN)) == {1: b"x", 3: array.tobytes()}


def test_nothing_at_all(tmp_path: Path) -> None:
    assert write_sharded(tmp_path / "none", SPEC, []) == 0
    kv = ShardedStore(tmp_path / "none", SPEC)
    assert len(kv) == 0
    assert dict(kv) == {}


def test_existing_shards(tmp_path: Path) -> None:
    write_sharded(tmp_path, SPEC, sample(50))
    put(tmp_path, "info", b"{}")
    before = files(tmp_path)
    with pytest.raises(ConflictError, match="overwrite"):
        write_sharded(tmp_path, SPEC, {1: b"x"})
    assert files(tmp_path) == before
    write_sharded(tmp_path, SPEC, {1: b"x"}, overwrite=True)
    assert len(files(tmp_path)) == 2
    assert dict(ShardedStore(tmp_path, SPEC)) == {1: b"x"}


def test_given_as_stored(tmp_path: Path) -> None:
    stored = {id: zipped(value) for id, value in sample(30).items()}
    write_sharded(tmp_path, SPEC, stored, encoded=True)
    kv = ShardedStore(tmp_path, SPEC, "r+")
    assert dict(kv) == sample(30)
    assert {id: kv.read_encoded(id) for id in stored} == stored
    kv.update({5: zipped(b"five")}, encoded=True)
    assert kv[5] == b"five"


def test_levels(tmp_path: Path) -> None:
    values = {id: b"some words, some more words, %d" % (id * 7919) * 20 for id in range(50)}
    sizes = []
    for level in (1, 6, 9):
        folder = tmp_path / str(level)
        write_sharded(folder, SPEC, values, level=level)
        assert dict(ShardedStore(folder, SPEC)) == values
        sizes.append(sum(path.stat().st_size for path in folder.iterdir()))
    assert sizes[0] != sizes[1]
    with pytest.raises(ValueError, match="level"):
        write_sharded(tmp_path / "x", SPEC, values, level=99)


def test_progress(tmp_path: Path) -> None:
    told: list[int] = []
    write_sharded(tmp_path, SPEC, sample(100), progress=told.append)
    assert told[-1] == 100


def test_an_index_too_large_to_write(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="shard index"):
        write_sharded(tmp_path, ShardingSpec(0, "identity", 40, 0), {1: b""})
    assert not list(tmp_path.iterdir())


# Bytes that no index mentions


def test_unindexed_bytes(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 1, 1, "gzip", "raw")
    write_sharded(tmp_path, spec, [(1, b"one", b"fragments"), (2, b"two"), (5, b"five", b"")], unindexed={2: b"before"})
    kv = ShardedStore(tmp_path, spec)
    assert kv.read_before(1, 9) == b"fragments"
    assert kv.read_before(1, 9, 4, 3) == b"men"
    assert kv.read_before(2, 6) == b"before"
    assert kv.read_before(5, 0) == b""
    assert dict(kv) == {1: b"one", 2: b"two", 5: b"five"}
    with pytest.raises(CorruptDataError, match="no 1000 bytes"):
        kv.read_before(1, 1000)
    with pytest.raises(ValueError):
        kv.read_before(1, 5, 3, 3)
    with pytest.raises(ValueError, match="id 9"):
        write_sharded(tmp_path / "x", spec, {1: b""}, unindexed={9: b"x"})


def test_unindexed_bytes_stay_with_their_values(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 1, 0, "gzip", "raw")
    write_sharded(
        tmp_path, spec, {id: b"m%d" % id for id in range(6)}, unindexed={id: b"frag%d" % id for id in range(6)}
    )
    kv = ShardedStore(tmp_path, spec, "r+")
    kv.update({9: b"new"})
    kv.update({1: b"longer manifest"})
    kv.update({2: b"m2"}, unindexed={2: b"other"})
    kv.delete([3])
    assert sorted(kv) == [0, 1, 2, 4, 5, 9]
    for id in (0, 1, 4, 5):
        assert kv.read_before(id, 5) == b"frag%d" % id
    assert kv.read_before(2, 5) == b"other"
    assert kv[1] == b"longer manifest"
    data = (tmp_path / "0.shard").read_bytes()
    assert b"frag3" not in data
    assert b"frag2" not in data


def test_bytes_that_precede_no_value_are_kept(tmp_path: Path) -> None:
    # value, loose bytes, index, more loose bytes
    index = minishard_index([(1, 2, 1)])
    put(tmp_path, "0.shard", shard(PLAIN, {0: (8, 8 + len(index))}, b"..A" + b"loose" + index + b"end"))
    kv = ShardedStore(tmp_path, PLAIN, "r+")
    kv.update({0: b"B"})
    assert kv.read_before(1, 2) == b".."
    data = (tmp_path / "0.shard").read_bytes()
    assert data[16:].startswith(b"B..Alooseend")


# Changes


def test_update_and_delete(tmp_path: Path) -> None:
    values = sample(300)
    write_sharded(tmp_path, SPEC, values)
    kv = ShardedStore(tmp_path, SPEC, "r+")
    some = list(values)
    kv.update({some[0]: b"changed", 12: b"added"})
    kv.update([(13, b"pair")])
    values.update({some[0]: b"changed", 12: b"added", 13: b"pair"})
    assert dict(kv) == values == slow_values(SPEC, tmp_path)
    kv.delete(some[100:])
    kv.delete([4444])
    kv.delete([])
    kv.update({})
    for id in some[100:]:
        del values[id]
    assert dict(kv) == values == slow_values(SPEC, tmp_path)
    kv.delete(list(values))
    assert files(tmp_path) == {}
    kv.update({5: b"again"})
    assert dict(kv) == {5: b"again"}
    with pytest.raises(ValueError, match="more than once"):
        kv.update([(1, b""), (1, b"")])


def test_shards_and_values_that_are_not_touched_stay_as_they_are(tmp_path: Path) -> None:
    # The values are not gzip at all: decoding them would fail.
    spec = ShardingSpec(0, "identity", 1, 2, "gzip", "gzip")
    write_sharded(tmp_path, spec, {id: b"not gzip %d" % id for id in range(16)}, encoded=True)
    # As if it was long ago: within a tick of the clock the new file may have the same time.
    for path in tmp_path.iterdir():
        os.utime(path, ns=(5, 5))
    kv = ShardedStore(tmp_path, spec, "r+")
    kv.update({2: b"new", 10: b"new"})
    kv.delete([3])
    kv.delete([12345])
    settle()
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_mtime_ns != 5} == {"1.shard"}
    assert kv[10] == b"new"
    assert kv.read_encoded(11) == b"not gzip 11"


def test_a_broken_shard_is_not_rewritten(tmp_path: Path) -> None:
    index = minishard_index([(1, 0, 1), (2, 0, 500)])
    put(tmp_path, "0.shard", shard(PLAIN, {0: (1, 1 + len(index))}, b"A" + index))
    before = files(tmp_path)
    kv = ShardedStore(tmp_path, PLAIN, "r+")
    with pytest.raises(CorruptDataError, match="outside the file"):
        kv.update({3: b"x"})
    spec = ShardingSpec(0, "identity", 1, 0)
    index = minishard_index([(1, 0, 1)])
    put(tmp_path, "0.shard", shard(spec, {0: (1, 1 + len(index))}, b"A" + index))
    with pytest.raises(CorruptDataError, match="another minishard"):
        ShardedStore(tmp_path, spec, "r+").update({4: b"x"})
    assert len(files(tmp_path)) == len(before)


def test_stores_without_locks(tmp_path: Path) -> None:
    store = Unlockable()
    write_sharded(store, SPEC, sample(50))
    kv = ShardedStore(store, SPEC, "r+")
    kv.update({5: b"five"})
    kv.delete(list(sample(50))[:10])
    assert dict(kv) == {**dict(list(sample(50).items())[10:]), 5: b"five"}


def test_another_writer_of_an_unlockable_store_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Unlockable()
    spec = ShardingSpec(0, "identity", 1, 0)
    write_sharded(store, spec, {1: b"one"})
    kv, other = ShardedStore(store, spec, "r+"), ShardedStore(store, spec, "r+")
    original = Unlockable.put_if_unchanged
    rounds = []

    def interrupted(self: Unlockable, *args: Any, **kwargs: Any) -> None:
        if len(rounds) < 3:
            rounds.append(1)
            with monkeypatch.context() as context:
                context.setattr(Unlockable, "put_if_unchanged", original)
                other.update({10 + len(rounds): b"other"})
        original(self, *args, **kwargs)

    monkeypatch.setattr(Unlockable, "put_if_unchanged", interrupted)
    kv.update({2: b"two"})
    assert dict(kv) == {1: b"one", 2: b"two", 11: b"other", 12: b"other", 13: b"other"}


def _add(folder: str, start: int, step: int) -> None:
    kv = ShardedStore(folder, ShardingSpec(0, "identity", 2, 1, "gzip", "gzip"), "r+")
    for id in range(start, 60, step):
        kv.update({id: b"%d" % id})


def test_processes_that_change_the_same_shards_lose_nothing(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 2, 1, "gzip", "gzip")
    write_sharded(tmp_path, spec, {1000: b"there"})
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(str(tmp_path), start, 3)) for start in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
        assert worker.exitcode == 0
    assert dict(ShardedStore(tmp_path, spec)) == {**{id: b"%d" % id for id in range(60)}, 1000: b"there"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.shard", "1.shard"]


def test_where_values_lie_is_added_up_once_however_many_shards_they_go_to(tmp_path, monkeypatch):
    """Each shard's values were looked for among all of them, which took minutes where there are many shards."""
    asked = []
    spans = Entries.spans.fget
    assert spans is not None
    monkeypatch.setattr(Entries, "spans", property(lambda entries: (asked.append(len(entries)), spans(entries))[1]))
    spec = ShardingSpec(0, "identity", 0, 6, "raw", "raw")
    values = {number: b"%d" % number for number in range(640)}
    write_sharded(tmp_path, spec, values)
    assert slow_values(spec, tmp_path) == values
    # To sort them, and to cut them for 64 shards.
    assert sum(rows == len(values) for rows in asked) == 2
