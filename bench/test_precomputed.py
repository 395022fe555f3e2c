"""Sharded stores, volumes and labels beside tensorstore and CloudVolume, on the same bytes.

    pytest bench/test_precomputed.py --benchmark-enable      times
    python -m bench.test_precomputed [word]                  ratios, the competitors taking turns
    python -m bench.test_precomputed memory                  10 million values from a generator: time and memory

The values are skeletons: 0.1 to 2 kB, 20000 of them, gzip, murmurhash3_x86_128.
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import compressed_segmentation
import numpy as np
import pytest
import tensorstore
from cloudvolume import CloudVolume
from cloudvolume.cacheservice import CacheService
from cloudvolume.cloudvolume import SharedConfiguration
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification, ShardReader

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.scratch import scratch
from zvcore.kernels.compressed_segmentation import decode_compressed_segmentation, encode_compressed_segmentation
from zvcore.precomputed import ShardedStore, ShardingSpec, Skeleton, write_sharded

if TYPE_CHECKING:
    from pathlib import Path

SPEC = ShardingSpec(0, "murmurhash3_x86_128", 6, 3, "gzip", "gzip")
COUNT = pick(20_000, 3000)
Functions = dict[str, Callable[[], Any]]


@lru_cache
def values() -> dict[int, bytes]:
    """Skeletons: paths that wander, each vertex joined to the one before."""
    generator = np.random.default_rng(0)
    ids = np.unique(generator.integers(2**58, 2**60, COUNT, np.uint64))
    made = {}
    for id in ids.tolist():
        count = int(generator.integers(5, 100))
        steps = generator.integers(-3, 4, (count, 3)) * 8
        vertices = (generator.integers(0, 10**5, 3) + np.cumsum(steps, 0)).astype("f4")
        edges = np.stack([np.arange(1, count), np.arange(count - 1)], 1).astype("u4")
        made[id] = Skeleton(vertices, edges).to_bytes()
    return made


@lru_cache
def stored() -> Path:
    folder = scratch() / "stored"
    write_sharded(folder, SPEC, values())
    return folder


@lru_cache
def wanted() -> tuple[int, ...]:
    return tuple(np.random.default_rng(1).choice(np.array([*values()], np.uint64), 2000, replace=False).tolist())


def key(id: int) -> bytes:
    return id.to_bytes(8, "big")


def by_tensorstore(folder: Path) -> Any:
    base = {"driver": "file", "path": f"{folder}/"}
    return tensorstore.KvStore.open(
        {"driver": "neuroglancer_uint64_sharded", "metadata": SPEC.to_json(), "base": base}
    ).result()


class Meta:
    def __init__(self, folder: Path) -> None:
        self.cloudpath = f"file://{folder}"


def by_cloud_volume(folder: Path) -> ShardReader:
    config = SharedConfiguration(
        cdn_cache=False, compress=None, compress_level=None, green=False, mip=0, parallel=1, progress=False,
        secrets=None, spatial_index_db=None, cache_locking=False, codec_threads=2,
    )  # fmt: skip
    cache = CacheService(f"file://{folder}", False, config, Meta(folder))
    return ShardReader(f"file://{folder}", cache, ShardingSpecification.from_dict(SPEC.to_json()))


def write_contest() -> Functions:
    def ours() -> None:
        write_sharded(scratch() / "ours", SPEC, values(), overwrite=True)

    def theirs() -> None:
        folder = scratch() / "theirs"
        shutil.rmtree(folder, ignore_errors=True)
        store = by_tensorstore(folder)
        with tensorstore.Transaction() as transaction:
            writer = store.with_transaction(transaction)
            for id, value in values().items():
                writer[key(id)] = value

    def cloud() -> None:
        folder = scratch() / "cloud"
        folder.mkdir(exist_ok=True)
        for name, data in ShardingSpecification.from_dict(SPEC.to_json()).synthesize_shards(values()).items():
            (folder / name).write_bytes(data)

    return {"zvcore": ours, "tensorstore": theirs, "cloud-volume": cloud}


def get_many_contest() -> Functions:
    kv, theirs, cloud = ShardedStore(stored(), SPEC), by_tensorstore(stored()), by_cloud_volume(stored())

    def batch() -> list[bytes]:
        with tensorstore.Batch() as batch:
            reads = [theirs.read(key(id), batch=batch) for id in wanted()]
        return [read.result().value for read in reads]

    return {
        "zvcore": lambda: kv.get_many(wanted()),
        "tensorstore": batch,
        "cloud-volume": lambda: cloud.get_data(wanted()),
    }


def columns_contest() -> Functions:
    kv, ids = ShardedStore(stored(), SPEC), np.array(wanted(), np.uint64)
    return {**get_many_contest(), "zvcore": lambda: kv.get_columns(ids)}


def get_contest() -> Functions:
    kv, theirs, cloud = ShardedStore(stored(), SPEC), by_tensorstore(stored()), by_cloud_volume(stored())
    ids = wanted()[:50]

    return {
        "zvcore": lambda: [kv[id] for id in ids],
        "tensorstore": lambda: [theirs.read(key(id)).result().value for id in ids],
        "cloud-volume": lambda: [cloud.get_data(id) for id in ids],
    }


def ids_contest() -> Functions:
    kv, theirs, cloud = ShardedStore(stored(), SPEC), by_tensorstore(stored()), by_cloud_volume(stored())

    def listing() -> Any:
        fresh = by_cloud_volume(stored())
        return np.concatenate([fresh.list_labels(path.name) for path in sorted(stored().glob("*.shard"))])

    assert len(kv.ids()) == len(listing()) == len(values())
    del cloud
    return {"zvcore": kv.ids, "tensorstore": lambda: theirs.list().result(), "cloud-volume": listing}


@lru_cache
def stored_volume() -> Path:
    folder = scratch() / "volume"
    size = pick(320, 128)
    a = zvcore.create(
        folder,
        format="precomputed",
        shape=(size,) * 3,
        dtype="uint8",
        chunks=(64, 64, 64),
        shards=(pick(256, 128),) * 3,
    )
    a[...] = np.tile(volume("em", (size // 2,) * 3), (2, 2, 2)).transpose(2, 1, 0)[..., None]
    return folder


def cutout_contest() -> Functions:
    folder = stored_volume()
    ours = zvcore.open(folder, format="precomputed", scale=0)
    context = tensorstore.Context({"data_copy_concurrency": {"limit": 2}})
    theirs = tensorstore.open(
        {"driver": "neuroglancer_precomputed", "kvstore": {"driver": "file", "path": str(folder)}}, context=context
    ).result()
    cloud = CloudVolume(f"file://{folder}", progress=False, fill_missing=True)
    box = (slice(20, pick(276, 108)),) * 3
    return {
        "zvcore": lambda: ours[box],
        "tensorstore": lambda: theirs[box].read().result(),
        "cloud-volume": lambda: cloud[box],
    }


def labels_contest(kind: str, decode: bool) -> Functions:
    labels = np.array(volume(kind).transpose(2, 1, 0)[..., None], order="F")
    block = (8, 8, 8)
    packed = encode_compressed_segmentation(labels, block)
    if decode:
        return {
            "zvcore": lambda: decode_compressed_segmentation(packed, labels.shape, block, labels.dtype),
            "cloud-volume": lambda: compressed_segmentation.decompress(
                packed, labels.shape, labels.dtype, block_size=block, order="F"
            ),
        }
    return {
        "zvcore": lambda: encode_compressed_segmentation(labels, block),
        "cloud-volume": lambda: compressed_segmentation.compress(labels, block_size=block, order="F"),
    }


PEERS = ("zvcore", "tensorstore", "cloud-volume")
CONTESTS = [
    Contest("write 20000 values", PEERS, write_contest, writes=True),
    Contest("get 2000 of them at once", PEERS, get_many_contest),
    Contest("get 2000 of them as columns", PEERS, columns_contest),
    Contest("get 50 one by one, warm", PEERS, get_contest),
    Contest("list their ids", PEERS, ids_contest),
    Contest("cut 256^3 out of a volume", PEERS, cutout_contest),
    *(
        Contest(f"{'unpack' if decode else 'pack'} {kind}", PEERS[::2], partial(labels_contest, kind, decode))
        for kind in ("labels32", "labels64")
        for decode in (False, True)
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


def ten_million() -> None:
    """What issue after issue asks for: more values than memory holds, straight from a generator."""
    block = np.random.default_rng(0).bytes(6000)
    count = 10_000_000

    def items() -> Iterator[tuple[int, bytes]]:
        for i in range(count):
            yield (i * 2654435761) % count, block[i % 5000 : i % 5000 + 20 + i % 80]

    spec = ShardingSpec.advise(count=count, bytes=80 * count, max_id=count - 1)
    start = time.perf_counter()
    write_sharded(scratch() / "ten", spec, items())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{count} values in {time.perf_counter() - start:.0f} s, {memory} MiB")
    start = time.perf_counter()
    assert len(ShardedStore(scratch() / "ten", spec).ids()) == count
    print(f"ids() in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        ten_million()
    else:
        run_alone(CONTESTS, seconds=8.0)
