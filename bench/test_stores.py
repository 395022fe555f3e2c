"""Local files through zvcore's store, beside plain Python, zarr-python's LocalStore and tensorstore's file driver.

    pytest bench/test_stores.py --benchmark-enable      times
    python -m bench.test_stores                         ratios, the competitors taking turns

Everything lies in the page cache: what is compared is what a call costs. zarr's store is asynchronous, so its calls run
in an event loop that is already running, as they do inside zarr.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore as ZarrLocalStore

from bench.contest import Contest
from bench.data import volume
from bench.interleaved import best_times
from zvcore.stores import LocalStore
from zvcore.stores.indexes import IndexCache, Indexes

Calls = dict[str, Callable[[], Any]]

SMALL, SHARD, LISTED = "a/small", "a/shard", 2000
FAR = [(i * 1_000_003, 4096) for i in range(16)]
NEAR = [(i * 8192 + 5, 4096) for i in range(16)]


class Bench:
    """A folder with a small object, a shard and a folder of many objects, and the libraries that read and write it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.store = LocalStore(folder)
        self.zarr = self.run(ZarrLocalStore.open(folder, mode="a"))
        self.prototype = default_buffer_prototype()
        self.tensorstore = tensorstore.KvStore.open({"driver": "file", "path": f"{folder}/"}).result()
        self.chunk = volume("em").tobytes()[:65536]
        self.store.put(SMALL, self.chunk)
        self.store.put(SHARD, np.tile(volume("em", (128, 128, 128)), (1, 2, 4)))
        for i in range(LISTED):
            self.store.put(f"many/{i // 100}/{i % 100}", b"x")
        self.numbers = itertools.count()
        # Until the shard's stamp is reliable.
        time.sleep(0.05)

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    def get(self) -> Calls:
        path = self.folder / SMALL

        def plain() -> bytes:
            with open(path, "rb") as file:
                return file.read()

        return {
            "zvcore": lambda: self.store.get(SMALL),
            "python": plain,
            "zarr": lambda: self.run(self.zarr.get(SMALL, self.prototype)),
            "tensorstore": lambda: self.tensorstore.read(SMALL).result().value,
        }

    def get_part(self) -> Calls:
        path = self.folder / SHARD

        def plain() -> bytes:
            with open(path, "rb", buffering=0) as file:
                file.seek(1_000_003)
                return file.read(4096)

        request = RangeByteRequest(1_000_003, 1_000_003 + 4096)
        return {
            "zvcore": lambda: self.store.get(SHARD, 1_000_003, 4096),
            "python": plain,
            "zarr": lambda: self.run(self.zarr.get(SHARD, self.prototype, request)),
        }

    def get_ranges(self, ranges: list[tuple[int, int]]) -> Calls:
        path = self.folder / SHARD

        def plain() -> list[bytes]:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                return [os.pread(descriptor, length, offset) for offset, length in ranges]
            finally:
                os.close(descriptor)

        requests = [(SHARD, RangeByteRequest(offset, offset + length)) for offset, length in ranges]
        return {
            "zvcore": lambda: self.store.get_ranges(SHARD, ranges),
            "python": plain,
            "zarr": lambda: self.run(self.zarr.get_partial_values(self.prototype, requests)),
        }

    def stamp(self) -> Calls:
        path = str(self.folder / SHARD)

        def plain() -> tuple[int, ...]:
            found = os.stat(path)
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

        return {"zvcore": lambda: self.store.stamp(SHARD), "python": plain}

    def cached_index(self) -> Calls:
        cache = IndexCache(1 << 20)
        cache.get(Indexes(self.store, (0, 1), lambda key, found: (self, 100)), SHARD)
        assert len(cache) == 1

        def fail(key: str, found: Any) -> tuple[Any, int]:
            raise AssertionError("was not kept")

        kept = Indexes(self.store, (0, 1), fail)

        path = str(self.folder / SHARD)
        return {"zvcore": lambda: cache.get(kept, SHARD), "one os.stat": lambda: os.stat(path)}

    def put(self) -> Calls:
        """New objects: the cost of replacing depends on the file system."""

        def plain() -> None:
            temporary = self.folder / f"new/{secrets.token_hex(8)}"
            with open(temporary, "wb") as file:
                file.write(self.chunk)
            os.rename(temporary, self.folder / f"new/{next(self.numbers)}")

        value = self.prototype.buffer.from_bytes(self.chunk)
        self.store.put("new/x", b"")
        return {
            "zvcore": lambda: self.store.put(f"new/{next(self.numbers)}", self.chunk),
            "python": plain,
            "zarr": lambda: self.run(self.zarr.set(f"new/{next(self.numbers)}", value)),
            "tensorstore": lambda: self.tensorstore.write(f"new/{next(self.numbers)}", self.chunk).result(),
        }

    def list(self) -> Calls:
        async def by_zarr() -> list[str]:
            return [key async for key in self.zarr.list_prefix("many/")]

        def plain() -> list[str]:
            return [f"{folder}/{name}" for folder, _, names in os.walk(self.folder / "many") for name in names]

        ours = list(self.store.list("many"))
        assert len(ours) == len(plain()) == len(self.run(by_zarr())) == LISTED
        return {
            "zvcore": lambda: list(self.store.list("many")),
            "python": plain,
            "zarr": lambda: self.run(by_zarr()),
            "tensorstore": lambda: self.tensorstore.list(tensorstore.KvStore.KeyRange("many/", "many0")).result(),
        }


SUBJECTS: dict[str, Callable[[Bench], Calls]] = {
    "get 64 KiB": Bench.get,
    "get 4 KiB of 16 MiB": Bench.get_part,
    "get 16 ranges, far": lambda bench: bench.get_ranges(FAR),
    "get 16 ranges, near": lambda bench: bench.get_ranges(NEAR),
    "stamp": Bench.stamp,
    "cached index": Bench.cached_index,
    "put 64 KiB": Bench.put,
    "list 2000": Bench.list,
}


WHO = {
    "stamp": ("zvcore", "python"),
    "cached index": ("zvcore", "one os.stat"),
    **dict.fromkeys(("get 64 KiB", "put 64 KiB", "list 2000"), ("zvcore", "python", "zarr", "tensorstore")),
}


def prepared(subject: str) -> Calls:
    folder = tempfile.mkdtemp(prefix="zvcore-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return SUBJECTS[subject](Bench(Path(folder)))


CONTESTS = [
    Contest(
        subject,
        WHO.get(subject, ("zvcore", "python", "zarr")),
        partial(prepared, subject),
        20,
        subject.startswith("put"),
    )
    for subject in SUBJECTS
]
PAIRS = [(subject, who) for subject in SUBJECTS for who in WHO.get(subject, ("zvcore", "python", "zarr"))]


@pytest.mark.parametrize(("subject", "who"), PAIRS)
def test_store(benchmark: Any, tmp_path: Path, subject: str, who: str) -> None:
    bench = Bench(tmp_path)
    try:
        benchmark.group = f"store: {subject}"
        benchmark.name = who
        benchmark(SUBJECTS[subject](bench)[who])
    finally:
        bench.loop.close()


def main() -> None:
    print("| what | zvcore, us | times as fast as |\n|---|---|---|")
    for subject, calls_of in SUBJECTS.items():
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder))
            times = best_times({name: many(call) for name, call in calls_of(bench).items()}, seconds=3.0)
            bench.loop.close()
        ours = times.pop("zvcore")
        ratios = ", ".join(f"{peer} {time / ours:.2f}" for peer, time in times.items())
        print(f"| {subject} | {ours / 20 * 1e6:.2f} | {ratios} |", flush=True)


def many(call: Callable[[], Any]) -> Callable[[], None]:
    """Short calls are timed twenty at a time."""

    def repeated() -> None:
        for _ in range(20):
            call()

    return repeated


if __name__ == "__main__":
    main()
