"""Zarr v3 with sharding: whole reads, whole writes and single inner chunks, beside the other implementations.

    pytest bench/test_zarr3.py --benchmark-enable            times (small arrays; ZVCORE_BENCH_SIDE=512 for real ones)
    ZVCORE_BENCH_SIDE=512 python -m bench.test_zarr3         ratios, the competitors taking turns
    python -m bench.test_zarr3 zstd write                    only contests with these words in their names

All read the same files. "bare" is the limit: the codec's own library decodes the same chunks on as many threads, and
the result is copied once. "zarr+zvcore" is zarr-python with our pipeline, "accelerated" with
`zvcore.zarr3.accelerate`. Where the name of a row says "cached", both tools keep decoded chunks, in 100 MB, which is
more than all of them take, and have read all before; in other rows nobody keeps any.
No tool syncs its writes, so the disk takes no part.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import tensorstore
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.pipelines import PIPELINES, opened, within
from bench.scale import pick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIDE = int(os.environ.get("ZVCORE_BENCH_SIDE", pick("128", "64")))
SHARD = SIDE // 2
POOL = 100_000_000
FOLDER = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=os.environ.get("ZVCORE_BENCH_DIR")))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

CODECS: dict[str, list[dict[str, Any]]] = {
    "raw": [],
    "gzip": [{"name": "gzip", "configuration": {"level": 5}}],
    "zstd": [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
    "blosc-lz4": [
        {
            "name": "blosc",
            "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 1, "blocksize": 0},
        }
    ],
}
Calls = dict[str, "Callable[[], Any]"]


@cache
def values() -> Any:
    """512^3 of electron microscopy; it repeats every 128, which no codec sees in chunks of at most 64^3."""
    tile = min(SIDE, 128)
    return np.ascontiguousarray(np.tile(volume("em", (tile, tile, tile)), [SIDE // tile] * 3))


def empty(name: str, codec: str, inner: int) -> Path:
    path = FOLDER / f"{name}-{codec}-{inner}"
    if not path.exists():
        zvcore.create(
            path, format="zarr3", shape=(SIDE,) * 3, dtype="u1", chunks=(inner,) * 3, shards=(SHARD,) * 3,
            codec=[zvcore.codecs.from_zarr3(one) for one in CODECS[codec]] or None, fill_value=0,
        )  # fmt: skip
    return path


@cache
def stored(codec: str, inner: int) -> Path:
    path = empty("data", codec, inner)
    zvcore.open(path, mode="r+")[...] = values()
    return path


def opened_by_tensorstore(path: Path, pool: int = 0, write: bool = False) -> Any:
    context = {"cache_pool": {"total_bytes_limit": pool}, "file_io_sync": False}
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path)},
        "context": context,
        "recheck_cached_data": "open",
    }
    return tensorstore.open(spec, open=True, read=True, write=write).result()


def accelerated(work: Callable[[], Any]) -> Callable[[], Any]:
    """Without zarr-python's event loop."""

    def run() -> Any:
        with zvcore.zarr3.accelerate():
            return work()

    return run


def bare(path: Path, codec: str) -> Callable[[], Any]:
    array = zvcore.open(path)
    encoded = [array.read_encoded(position) for position in np.ndindex(*array.grid)]
    chunk_bytes = int(np.prod(array.chunks))
    source, target = values(), np.empty_like(values())
    if not CODECS[codec]:
        return lambda: np.copyto(np.empty_like(source), source)
    decode = array.codec.decode
    count = len(os.sched_getaffinity(0))
    pool = ThreadPoolExecutor(count)
    scratch = [bytearray(chunk_bytes) for _ in range(count)]

    def some(number: int) -> None:
        for data in encoded[number::count]:
            decode(data, out=scratch[number])

    def run() -> None:
        list(pool.map(some, range(count)))
        np.copyto(target, source)

    return run


def read_whole(codec: str, inner: int) -> Calls:
    path = stored(codec, inner)
    ours = zvcore.open(path)
    theirs = opened_by_tensorstore(path)
    calls: Calls = {"zvcore": lambda: ours[...], "bare": bare(path, codec)}
    calls["tensorstore"] = lambda: theirs.read().result()
    for who in PIPELINES:
        array = opened(path, who)
        calls[who] = within(who, partial(array.__getitem__, ...))
    return calls


def write_whole(codec: str, inner: int) -> Calls:
    data = values()
    ours = zvcore.open(empty("zvcore", codec, inner), mode="r+")
    theirs = opened_by_tensorstore(empty("tensorstore", codec, inner), write=True)
    calls: Calls = {"zvcore": lambda: ours.__setitem__(..., data)}
    calls["tensorstore"] = lambda: theirs.write(data).result()
    for who in PIPELINES:
        array = opened(empty(who, codec, inner), who, "r+")
        calls[who] = within(who, partial(array.__setitem__, ..., data))
    return calls


def random_starts(inner: int) -> tuple[list[list[int]], list[tuple[slice, ...]]]:
    """(where inner chunks begin, in an order to be repeated; their regions)."""
    count = SIDE // inner
    starts = (np.random.default_rng(5).integers(0, count, (2 * count**3, 3)) * inner).tolist()
    return starts, [tuple(slice(at, at + inner) for at in start) for start in starts]


def taking_turns(items: Any, work: Callable[[Any], Any]) -> Callable[[], Any]:
    endless = itertools.cycle(items)
    return lambda: work(next(endless))


def cached_chunks(codec: str, inner: int) -> Calls:
    """As `random_chunks`, by the tools that keep decoded chunks when asked to; all were read once before."""
    path = stored(codec, inner)
    _, regions = random_starts(inner)
    ours, theirs = zvcore.open(path, cache=POOL), opened_by_tensorstore(path, POOL)
    for region in regions:
        assert np.array_equal(ours[region], theirs[region].read().result())
    return {
        "zvcore": taking_turns(regions, ours.__getitem__),
        "tensorstore+cache": taking_turns(regions, lambda region: theirs[region].read().result()),
    }


def random_chunks(codec: str, inner: int) -> Calls:
    """One inner chunk at a time, in an order that repeats; indexes are warm in the tools that keep them."""
    path = stored(codec, inner)
    starts, regions = random_starts(inner)
    ours = zvcore.open(path)
    encoded = [ours.read_encoded([at // inner for at in start]) for start in starts]
    decode = ours.codec.decode if CODECS[codec] else bytearray
    arrays: dict[str, Any] = {"zvcore": ours}
    calls: Calls = {}
    calls["zvcore"] = taking_turns(regions, arrays["zvcore"].__getitem__)
    calls["bare"] = taking_turns(encoded, decode)
    theirs = opened_by_tensorstore(path)
    calls["tensorstore"] = taking_turns(regions, lambda region: theirs[region].read().result())
    for who in PIPELINES:
        array = opened(path, who)
        calls[who] = within(who, taking_turns(regions, array.__getitem__))
    with zvcore.zarr3.accelerate():
        array = zarr.open_array(path, mode="r")
    calls["zarr+zvcore, accelerated"] = accelerated(taking_turns(regions, lambda region: array[region]))
    return calls


def random_points(codec: str, count: int) -> Calls:
    """Single items here and there, asked for together."""
    path = stored(codec, 32 if SIDE >= 256 else 16)
    points = tuple(np.random.default_rng(6).integers(0, SIDE, (3, count)))
    ours, theirs = zvcore.open(path), opened_by_tensorstore(path)
    calls: Calls = {"zvcore": lambda: ours.vindex[points], "tensorstore": lambda: theirs.vindex[points].read().result()}
    for who in PIPELINES:
        calls[who] = within(who, partial(opened(path, who).vindex.__getitem__, points))
    return calls


def random_blocks(codec: str, count: int) -> Calls:
    """Inner chunks here and there, asked for together."""
    inner = 32 if SIDE >= 256 else 16
    path = stored(codec, inner)
    positions = np.random.default_rng(7).integers(0, SIDE // inner, (count, 3))
    regions = [tuple(slice(at * inner, (at + 1) * inner) for at in place) for place in positions.tolist()]
    ours, theirs = zvcore.open(path), opened_by_tensorstore(path)

    def batch() -> list[Any]:
        with tensorstore.Batch() as together:
            reads = [theirs[region].read(batch=together) for region in regions]
        return [read.result() for read in reads]

    return {
        "zvcore": lambda: ours.read_blocks(positions),
        "zvcore, one by one": lambda: [ours[region] for region in regions],
        "tensorstore, Batch": batch,
    }


def change_next(array: Any, turns: Iterator[Any], block: Any) -> None:
    array[next(turns)] = block


def one_chunk_of_a_shard() -> Calls:
    """One inner chunk of 8^3 changed in a full shard, the next one each time: what does it cost besides the chunk?"""
    shard, inner = max(SHARD, 128), 8
    data = np.resize(values(), (shard,) * 3)
    calls: Calls = {}

    def made(name: str, mode: Literal["append", "inplace", "rewrite"]) -> Any:
        array = zvcore.create(
            FOLDER / f"one-{name}", format="zarr3", shape=(shard,) * 3, dtype="u1", chunks=(inner,) * 3,
            shards=(shard,) * 3, codec=None, write_mode=mode, dead_bytes_threshold=1.0, overwrite=True,
        )  # fmt: skip
        array[...] = data
        return array

    regions = [
        tuple(slice(at * inner, (at + 1) * inner) for at in place) for place in np.ndindex(*(shard // inner,) * 3)
    ]
    block = np.ones((inner,) * 3, np.uint8)
    arrays: dict[str, Any] = {"zvcore": made("append", "append"), "inplace": made("inplace", "inplace")}
    arrays["rewrite"] = made("rewrite", "rewrite")
    for name, array in arrays.items():
        calls[name] = partial(change_next, array, itertools.cycle(regions), block)
    made("tensorstore", "rewrite")
    theirs = opened_by_tensorstore(FOLDER / "one-tensorstore", write=True)
    turns = itertools.cycle(regions)
    calls["tensorstore"] = lambda: theirs[next(turns)].write(block).result()
    return calls


WHOLE = ("zvcore", "tensorstore", *PIPELINES)
CONTESTS = (
    [
        contest
        for codec in CODECS
        for inner in ((32, 64) if SIDE >= 256 else (16, 32))
        for contest in (
            Contest(f"read {codec} {inner}", ("zvcore", "bare", *WHOLE[1:]), partial(read_whole, codec, inner)),
            Contest(f"write {codec} {inner}", WHOLE, partial(write_whole, codec, inner), writes=True),
            Contest(
                f"random {codec} {inner}",
                ("zvcore", "bare", "tensorstore", *PIPELINES, "zarr+zvcore, accelerated"),
                partial(random_chunks, codec, inner),
                64 if SIDE >= 256 else 8,
            ),
            Contest(
                f"random {codec} {inner}, cached",
                ("zvcore", "tensorstore+cache"),
                partial(cached_chunks, codec, inner),
                64 if SIDE >= 256 else 8,
            ),
        )
    ]
    + [
        # "zvcore" appends; the other two ways to write a shard beside it.
        Contest(
            "write one chunk of a shard",
            ("zvcore", "inplace", "rewrite", "tensorstore"),
            one_chunk_of_a_shard,
            writes=True,
        )
    ]
    + [
        contest
        for codec in ("raw", "zstd")
        for contest in (
            Contest(f"1000 random points, {codec}", WHOLE, partial(random_points, codec, 1000)),
            Contest(
                f"200 random blocks at once, {codec}",
                ("zvcore", "zvcore, one by one", "tensorstore, Batch"),
                partial(random_blocks, codec, 200),
            ),
        )
    ]
)


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_zarr3(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
