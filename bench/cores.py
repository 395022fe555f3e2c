"""What each processor more brings: whole reads and writes, chunks here and there, a conversion, on 1, 2, 4 ... of them.

    python -m bench --suite cores        on a machine that has the processors; says nothing new with two
    python -m bench.cores                the table alone

Each number of processors has a process of its own that may run on no others, and every tool may use as many threads
as that. The data lies in memory (/dev/shm), so no disk is waited for. "memcpy" copies as many values by so many
threads: nobody reads or writes faster than that.

Electron microscopy, 512^3 of 8 bits; shards of 128^3 hold chunks of 64^3.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["measure", "table"]

SIDE = int(os.environ.get("ZVCORE_BENCH_CORES_SIDE", "512"))
SHARD, CHUNK = 128, 64
CODECS: dict[str, list[dict[str, Any]]] = {
    "raw": [],
    "blosc": [
        {
            "name": "blosc",
            "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 1, "blocksize": 0},
        }
    ],
    "zstd": [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
    "gzip": [{"name": "gzip", "configuration": {"level": 5}}],
}
IDS = 20_000
ROUNDS = 5
SECONDS = float(os.environ.get("ZVCORE_BENCH_CORES_SECONDS", "0.5"))
Calls = dict[str, "Callable[[], Any]"]


def processors() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def counts(most: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return sorted({*(1 << n for n in range(most.bit_length()) if 1 << n <= most), most})


# --- in a process for each number of processors


class Machine:
    """The tools, each told to use so many threads, and the data that all of them read."""

    def __init__(self, folder: Path, threads: int) -> None:
        import tensorstore

        self.folder, self.threads = folder, threads
        limit = {"limit": threads}
        self.context = tensorstore.Context(
            {
                "data_copy_concurrency": limit,
                "file_io_concurrency": limit,
                "file_io_sync": False,
                "cache_pool": {"total_bytes_limit": 0},
            }
        )
        self.pool = ThreadPoolExecutor(threads)

    def values(self) -> Any:
        import numpy as np

        return np.load(self.folder / "values.npy")

    def by_tensorstore(self, path: Path, driver: str = "zarr3") -> Any:
        import tensorstore

        kvstore = {"driver": "file", "path": str(path)}
        spec = {"driver": driver, "kvstore": kvstore, "recheck_cached_data": "open"}
        return tensorstore.open(spec, open=True, read=True, write=True, context=self.context).result()

    def by_zarrs(self, path: Path, work: Callable[[Any], Any]) -> Calls:
        """Empty where there is no zarrs."""
        if find_spec("zarrs") is None:
            return {}
        import zarr

        from bench.pipelines import opened, within

        zarr.config.set({"threading.max_workers": self.threads, "async.concurrency": self.threads})
        return {"zarrs": within("zarrs", partial(work, opened(path, "zarrs", "r+")))}

    def memcpy(self, source: Any, target: Any) -> None:
        import numpy as np

        parts = 4 * self.threads
        spans = [slice(SIDE * n // parts, SIDE * (n + 1) // parts) for n in range(parts)]
        list(self.pool.map(lambda span: np.copyto(target[span], source[span]), spans))

    def read(self, codec: str) -> Calls:
        import numpy as np

        import zvcore

        path, values = stored(self.folder, codec), self.values()
        ours, theirs, target = zvcore.open(path), self.by_tensorstore(path), np.empty_like(values)
        return {
            "zvcore": lambda: ours.read(..., threads=self.threads),
            "memcpy": lambda: self.memcpy(values, target),
            "tensorstore": lambda: theirs.read().result(),
            **self.by_zarrs(path, lambda array: array[...]),
        }

    def write(self, codec: str) -> Calls:
        import zvcore

        values = self.values()
        paths = {who: empty(self.folder / f"{who}-{codec}", codec) for who in ("zvcore", "tensorstore")}
        ours, theirs = zvcore.open(paths["zvcore"], mode="r+"), self.by_tensorstore(paths["tensorstore"])
        return {
            "zvcore": lambda: ours.write(..., values, threads=self.threads),
            "tensorstore": lambda: theirs.write(values).result(),
            **self.by_zarrs(empty(self.folder / f"zarrs-{codec}", codec), lambda array: array.__setitem__(..., values)),
        }

    def blocks(self, codec: str) -> Calls:
        """Chunks here and there, asked for together."""
        import numpy as np
        import tensorstore

        import zvcore

        path = stored(self.folder, codec)
        grid = (SIDE // CHUNK,) * 3
        drawn = np.random.default_rng(7).choice(int(np.prod(grid)), int(np.prod(grid)) // 2, replace=False)
        positions = np.stack(np.unravel_index(drawn, grid), -1)
        regions = [tuple(slice(at * CHUNK, (at + 1) * CHUNK) for at in place) for place in positions.tolist()]
        ours, theirs = zvcore.open(path), self.by_tensorstore(path)

        def batch() -> list[Any]:
            with tensorstore.Batch() as together:
                reads = [theirs[region].read(batch=together) for region in regions]
            return [read.result() for read in reads]

        return {"zvcore": lambda: ours.read_blocks(positions, threads=self.threads), "tensorstore": batch}

    def n5_read(self) -> Calls:
        import zvcore

        ours, theirs = zvcore.open(self.folder / "n5", order="C"), self.by_tensorstore(self.folder / "n5", "n5").T
        return {"zvcore": lambda: ours.read(..., threads=self.threads), "tensorstore": lambda: theirs.read().result()}

    def n5_write(self) -> Calls:
        import zvcore

        values = self.values()
        zstd = {"type": "zstd", "level": 3}
        paths = {who: blocks(self.folder / f"n5-{who}", zstd) for who in ("zvcore", "tensorstore")}
        ours = zvcore.open(paths["zvcore"], mode="r+", order="C")
        theirs = self.by_tensorstore(paths["tensorstore"], "n5").T
        return {
            "zvcore": lambda: ours.write(..., values, threads=self.threads),
            "tensorstore": lambda: theirs.write(values).result(),
        }

    def ids(self) -> Calls:
        """Values of 400 bytes by their ids, gzip, in shards of uint64."""
        import numpy as np
        import tensorstore

        from zvcore.precomputed import ShardedStore

        base = {"driver": "file", "path": f"{self.folder}/ids/"}
        spec = {"driver": "neuroglancer_uint64_sharded", "metadata": id_spec().to_json(), "base": base}
        kv, theirs = ShardedStore(self.folder / "ids", id_spec()), tensorstore.KvStore.open(spec).result()
        wanted = np.random.default_rng(3).choice(IDS, 10_000, replace=False).tolist()

        def batch() -> list[bytes]:
            with tensorstore.Batch() as together:
                reads = [theirs.read(id.to_bytes(8, "big"), batch=together) for id in wanted]
            return [read.result().value for read in reads]

        return {"zvcore": lambda: kv.get_many(wanted), "tensorstore": batch}

    def convert(self) -> Calls:
        """Blocks of N5 become shards, gzip becomes zstd."""
        import zvcore

        source = self.folder / "n5"
        targets = {who: self.folder / f"converted-{who}" for who in ("zvcore", "tensorstore")}
        options: dict[str, Any] = {"format": "zarr3", "shards": (SHARD,) * 3, "codec": "zstd", "threads": self.threads}
        turned = self.by_tensorstore(source, "n5").T
        steps = range(0, SIDE, SHARD)
        boxes = [tuple(slice(n, n + SHARD) for n in place) for place in itertools.product(steps, repeat=3)]

        def theirs() -> None:
            out = self.by_tensorstore(empty(targets["tensorstore"], "zstd"))
            list(self.pool.map(lambda box: out[box].write(turned[box].read().result()).result(), boxes))

        return {"zvcore": lambda: zvcore.convert(source, targets["zvcore"], **options), "tensorstore": theirs}

    def clear(self) -> None:
        """What conversions have made goes, outside of the clock."""
        for made in self.folder.glob("converted-*"):
            shutil.rmtree(made)

    def tasks(self) -> Iterator[tuple[str, Callable[[], Calls]]]:
        for codec in CODECS:
            yield f"read all, {codec}", partial(self.read, codec)
        for codec in CODECS:
            yield f"write all, {codec}", partial(self.write, codec)
        for codec in ("raw", "zstd"):
            yield f"half of the chunks, in any order, {codec}", partial(self.blocks, codec)
        yield "read all, N5, gzip", self.n5_read
        yield "write all, N5, zstd", self.n5_write
        yield "10,000 values by their ids", self.ids
        yield "convert N5 of gzip to shards of zstd", self.convert


def empty(path: Path, codec: str) -> Path:
    import zvcore

    if not path.exists():
        zvcore.create(
            path, format="zarr3", shape=(SIDE,) * 3, dtype="u1", chunks=(CHUNK,) * 3, shards=(SHARD,) * 3,
            codec=[zvcore.codecs.from_zarr3(one) for one in CODECS[codec]] or None, fill_value=0,
        )  # fmt: skip
    return path


def blocks(path: Path, compression: dict[str, Any]) -> Path:
    import zvcore

    if not path.exists():
        zvcore.create(
            path, format="n5", shape=(SIDE,) * 3, dtype="u1", chunks=(CHUNK,) * 3, order="C", codec=compression
        )  # fmt: skip
    return path


def id_spec() -> Any:
    from zvcore.precomputed import ShardingSpec

    return ShardingSpec(0, "murmurhash3_x86_128", 6, 3, "gzip", "gzip")


def stored(folder: Path, codec: str) -> Path:
    return folder / f"data-{codec}"


def measure_here(folder: Path, count: int) -> None:
    """Print the best times of every tool, on so many of the processors."""
    os.sched_setaffinity(0, processors()[:count])
    from bench.interleaved import all_times, timed, turns_to_pass

    machine = Machine(folder, count)
    found = {}
    for name, prepare in machine.tasks():
        functions = prepare()
        once = {who: timed(function, machine.clear)() for who, function in functions.items()}
        times = all_times(functions, SECONDS, ROUNDS, turns_to_pass(once), machine.clear)
        found[name] = {who: min(each) for who, each in times.items()}
        print(count, name, found[name], file=sys.stderr, flush=True)
    print(json.dumps(found))


# --- all of them


def make(folder: Path) -> None:
    """What is read."""
    import numpy as np

    import zvcore
    from bench.data import volume
    from zvcore.precomputed import write_sharded

    tile = np.asarray(volume("em", (128,) * 3))
    values = np.ascontiguousarray(np.tile(tile, [SIDE // 128] * 3))
    np.save(folder / "values.npy", values)
    for codec in CODECS:
        zvcore.open(empty(stored(folder, codec), codec), mode="r+")[...] = values
    n5 = blocks(folder / "n5", {"type": "gzip", "level": 5, "useZlib": False})
    zvcore.open(n5, mode="r+", order="C")[...] = values
    plain = values.reshape(-1)
    write_sharded(folder / "ids", id_spec(), {id: plain[400 * id : 400 * id + 400].tobytes() for id in range(IDS)})


def measure() -> dict[str, Any]:
    """{"processors": numbers, "tasks": {name: for each of them {who: best seconds}}}."""
    from bench.thread_counts import scratch

    numbers = counts(len(processors()))
    by_number = []
    with scratch() as folder:
        make(folder)
        for count in numbers:
            command = [sys.executable, "-W", "ignore", "-m", "bench.cores", str(folder), str(count)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            by_number.append(json.loads(done.stdout.splitlines()[-1]))
    return {"processors": numbers, "tasks": {name: [one[name] for one in by_number] for name in by_number[0]}}


def table(found: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown: how many times as fast as on one processor, and as the others on as many."""
    from bench.report import duration

    numbers = found["processors"]
    yield "| what | who | one processor |" + "".join(f" {n} |" for n in numbers[1:])
    yield "|---|---|---|" + "---|" * len(numbers[1:])
    for name, by_number in found["tasks"].items():
        for who in by_number[0]:
            times = [one[who] for one in by_number]
            cells = [f"{times[0] / time:.1f}" for time in times[1:]]
            if who != "zvcore":
                cells = [
                    f"{cell}, {one[who] / one['zvcore']:.2f}" for cell, one in zip(cells, by_number[1:], strict=True)
                ]
            first = duration(times[0]) + ("" if who == "zvcore" else f", {times[0] / by_number[0]['zvcore']:.2f}")
            yield f"| {name if who == 'zvcore' else ''} | {who} | {first} | " + " | ".join(cells) + " |"


def main() -> None:
    if sys.argv[1:]:
        measure_here(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        print("\n".join(table(measure())))


if __name__ == "__main__":
    main()
