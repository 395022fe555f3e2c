"""How fast a dataset of one's own can be read: the measurements behind `zvcore bench`.

All functions that take part read the same bytes and take turns, so that other load on the machine affects them alike.
"""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.commands import heeding_interrupts
from zvcore.format import get_format
from zvcore.stores.plain_files import drop_from_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zvcore.array import Array

__all__ = ["Result", "measure_array", "measure_vectors", "take_turns"]

Region = tuple[slice, ...]
# So many single reads make one turn.
_SINGLE = 64


@dataclass
class Result:
    """The times of one function at one task. `size` is what it gives, in bytes; a limit does less than the task."""

    task: str
    who: str
    threads: int
    size: int
    seconds: list[float] = field(default_factory=list)
    limit: bool = False

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "who": self.who,
            "threads": self.threads,
            "bytes": self.size,
            "best": self.best,
            "median": self.median,
            "turns": len(self.seconds),
            "limit": self.limit,
        }


def take_turns(
    functions: Mapping[str, Callable[[], Any]], seconds: float, before: Callable[[], Any] | None = None
) -> dict[str, list[float]]:
    """The times of each function, twice at least, all together for about `seconds`; `before` runs ahead, untimed."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    end = time.perf_counter() + seconds
    turn = 0
    while turn < 2 or time.perf_counter() < end:
        for name, function in functions.items():
            if before is not None:
                before()
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
        turn += 1
    return times


def some_of(array: Array, memory: int) -> Region:
    """As much of the middle of an array as fits, in whole chunks; all of it if that does."""
    counts = list(array.grid)
    chunk_bytes = prod(array.chunks) * array.dtype.itemsize
    # The longest axis gives way first, so that what is left is as near to a cube of chunks as the grid lets it.
    while prod(counts) * chunk_bytes > memory and max(counts) > 1:
        longest = counts.index(max(counts))
        counts[longest] = (counts[longest] + 1) // 2
    starts = [(whole - count) // 2 for whole, count in zip(array.grid, counts, strict=True)]
    return tuple(
        slice(start * extent, min((start + count) * extent, bound))
        for start, count, extent, bound in zip(starts, counts, array.chunks, array.shape, strict=True)
    )


def chunks_of(array: Array, region: Region, count: int, seed: int = 0) -> list[Region]:
    """Regions of whole chunks within a region, in an order that nothing foresees."""
    rng = np.random.default_rng(seed)
    spans = [range(part.start // n, -(-part.stop // n)) for part, n in zip(region, array.chunks, strict=True)]
    numbers = rng.integers(0, prod(map(len, spans)), count)
    found = []
    for position in np.stack(np.unravel_index(numbers, [len(span) for span in spans]), 1).tolist():
        corner = [span[i] * n for span, i, n in zip(spans, position, array.chunks, strict=True)]
        found.append(tuple(slice(at, min(at + n, b)) for at, n, b in zip(corner, array.chunks, array.shape)))
    return found


def boxes_of(array: Array, region: Region, count: int) -> list[Region]:
    """Boxes of a chunk's size that lie across chunks."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(count):
        box = []
        for part, extent in zip(region, array.chunks, strict=True):
            start = part.start + int(rng.integers(0, max(1, part.stop - part.start - extent + 1)))
            box.append(slice(start, min(start + extent, part.stop)))
        found.append(tuple(box))
    return found


def size_of(array: Array, regions: Sequence[Region]) -> int:
    return int(sum(prod(part.stop - part.start for part in region) for region in regions) * array.dtype.itemsize)


def measure_array(
    array: Array,
    path: str,
    seconds: float = 10.0,
    memory: int = 256 << 20,
    threads: Sequence[int] = (1,),
    peers: bool = True,
    cold: bool = False,
) -> Iterator[Result]:
    """Read a region as a whole, single chunks, and boxes across chunks; with zvcore and with other installed libraries.

    At most `memory` bytes are read at once. "codec alone" decodes the stored chunks of the region on as many threads,
    and "stored bytes alone" fetches them: no reader can do without either.
    """
    region = some_of(array, memory)
    # Chunks that come one at a time cost too much to be many.
    single = _SINGLE if prod(array.chunks) * array.dtype.itemsize <= 16 << 20 else 4
    tasks = {
        "region": [region],
        "chunk": chunks_of(array, region, single),
        "box": boxes_of(array, region, single),
    }
    reads = other_readers(array, path) if peers else {}
    share = seconds / (len(tasks) * len(threads))
    before = (lambda: drop_from_cache(path)) if cold else None
    for count in threads:
        for task, regions in tasks.items():
            functions: dict[str, Callable[[], Any]] = {"zvcore": each(partial(array.read, threads=count), regions)}
            sizes = {"zvcore": size_of(array, regions)}
            for name, (made, usable) in reads.items():
                if usable(count):
                    functions[name] = each(made(count), regions)
            limits = alone(array, region, count) if task == "region" and not cold else {}
            for found in functions.values():
                found()
            times = take_turns({**functions, **limits}, share, before=before)
            for name, taken in times.items():
                yield Result(task, name, count, sizes["zvcore"], taken, name in limits)


def each(read: Callable[[Region], Any], regions: Sequence[Region]) -> Callable[[], None]:
    def run() -> None:
        for region in regions:
            read(region)

    return run


def alone(array: Array, region: Region, threads: int) -> dict[str, Callable[[], Any]]:
    """Fetching the stored chunks of a region, and decoding them."""
    spans = [range(part.start // n, -(-part.stop // n)) for part, n in zip(region, array.chunks, strict=True)]
    positions = [tuple(span[i] for span, i in zip(spans, at, strict=True)) for at in np.ndindex(*map(len, spans))]
    encoded = [data for position in positions if (data := array.read_encoded(position)) is not None]
    if not encoded:
        return {}
    room = prod(array.chunks) * array.dtype.itemsize
    codecs = array.codecs
    functions: dict[str, Callable[[], Any]] = {
        "stored bytes alone": lambda: [array.read_encoded(position) for position in positions]
    }
    if len(codecs) == 1:
        codec = codecs[0]
        # What stands around the compressed bytes differs between formats: only where there is nothing is it a limit.
        with suppress(Exception):
            codec.decode(encoded[0], out=bytearray(room))
            pool = ThreadPoolExecutor(threads)

            def some(number: int) -> None:
                scratch = bytearray(room)
                for data in encoded[number::threads]:
                    codec.decode(data, out=scratch)

            functions["codec alone"] = lambda: list(pool.map(some, range(threads)))
    return functions


def other_readers(array: Array, path: str) -> dict[str, tuple[Callable[[int], Any], Callable[[int], bool]]]:
    """Other installed libraries that read the same: how to make a reader for some threads, and whether it has so many.

    Those that read other values than zvcore are not asked for their times.
    """
    found: dict[str, tuple[Callable[[int], Any], Callable[[int], bool]]] = {}
    if os.path.isdir(path):
        for name, make, usable in (
            ("tensorstore", tensorstore_reader, lambda count: True),
            ("zarr-python", zarr_reader, lambda count: count > 1),
        ):
            with heeding_interrupts(), suppress(Exception):
                corner = tuple(slice(0, min(n, b)) for n, b in zip(array.chunks, array.shape, strict=True))
                if np.array_equal(make(array, path, 1)(corner), array.read(corner), equal_nan=array.dtype.kind == "f"):
                    found[name] = (partial(make, array, path), usable)
    return found


def tensorstore_reader(array: Array, path: str, threads: int) -> Callable[[Region], Any]:
    import tensorstore

    driver = get_format(array.format).tensorstore_driver
    if driver is None:
        raise ValueError(f"tensorstore does not read {array.format}")
    context = {
        "data_copy_concurrency": {"limit": threads},
        "file_io_concurrency": {"limit": max(threads, 1)},
        "cache_pool": {"total_bytes_limit": 0},
    }
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": path}, "context": context}
    opened = tensorstore.open(spec, open=True, read=True).result()
    opened = opened[tensorstore.d[:].translate_to[0]]
    return lambda region: opened[region].read().result()


def zarr_reader(array: Array, path: str, threads: int) -> Callable[[Region], Any]:
    import zarr

    if not get_format(array.format).zarr_python:
        raise ValueError(f"zarr-python does not read {array.format}")
    opened: Any = zarr.open_array(path, mode="r")
    return lambda region: opened[region]


def measure_vectors(level: Any, seconds: float = 10.0) -> Iterator[Result]:
    """A level of a Zarr Vectors store: whole, and a hundred objects."""
    functions: dict[str, Callable[[], Any]] = {"level": level.read}
    sizes = {"level": int(level.read().positions.nbytes)}
    if level.objects is not None:
        ids = level.object_ids(present_only=True)
        wanted = np.random.default_rng(0).choice(ids, min(100, len(ids)), replace=False)
        if len(wanted):
            functions["objects"] = lambda: level.read_objects(wanted)
            sizes["objects"] = int(level.read_objects(wanted).positions.nbytes)
    for task, function in functions.items():
        times = take_turns({"zvcore": function}, seconds / len(functions))
        yield Result(task, "zvcore", 0, sizes[task], times["zvcore"])
