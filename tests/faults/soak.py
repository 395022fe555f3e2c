"""Eight processes that read and write one store, every value checked.

    python -m tests.faults.soak --minutes 10

Each cell of each array belongs to one of the processes, which alone writes it, always with the next number of its own;
all of them share chunks and shards. A process knows what it wrote last, so its own cells must hold just that, whatever
the others do in the same chunk; of another's cells a value may only grow. In the end every cell is compared with what
its owner says. The values of a sharded store and the attributes of the arrays are handled in the same way.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import zvcore
from tests.faults.support import SPEC
from tests.processes import PATIENCE
from zvcore.precomputed import ShardedStore, write_sharded

SIDE, CELL = 64, 8  # eight by eight cells in each array; chunks and shards cut across the processes' cells
KINDS: dict[str, dict[str, Any]] = {
    "zarr-rewrite": {"format": "zarr3", "chunks": (16, 16), "shards": (32, 32), "codec": "zstd"},
    "zarr-append": {"format": "zarr3", "chunks": (16, 16), "shards": (64, 64), "codec": "gzip", "write_mode": "append"},
    # Chunks of 128 KiB: what is written at once is many pages, which readers could see some of.
    "zarr-append-deep": {
        "format": "zarr3",
        "shape": (SIDE, SIDE, 128),
        "chunks": (16, 16, 128),
        "shards": (64, 64, 128),
        "codec": "crc32c",
        "write_mode": "append",
    },
    "zarr-chunks": {"format": "zarr3", "chunks": (32, 32), "codec": "lz4"},
    "n5": {"format": "n5", "chunks": (32, 32), "codec": "gzip"},
}


def make(folder: Path, workers: int) -> None:
    for name, options in KINDS.items():
        zvcore.create(folder / name, **{"shape": (SIDE, SIDE), "dtype": "u4", **options})[...] = 0
    write_sharded(folder / "values", SPEC, dict.fromkeys(range(workers * 4), b"0"))


def open_all(folder: Path) -> dict[str, Any]:
    return {
        name: zvcore.open(
            folder / name, mode="r+", **({"write_mode": options["write_mode"]} if "write_mode" in options else {})
        )
        for name, options in KINDS.items()
    }


def cells_of(worker: int, workers: int) -> list[tuple[slice, slice]]:
    count = SIDE // CELL
    mine = [number for number in range(count * count) if number % workers == worker]
    return [
        (slice(n // count * CELL, n // count * CELL + CELL), slice(n % count * CELL, n % count * CELL + CELL))
        for n in mine
    ]


def one_value(values: Any, where: Any) -> int:
    low, high = int(values.min()), int(values.max())
    if low != high:
        raise AssertionError(f"{where} is torn: {low} to {high}")
    return low


def work(folder: Path, worker: int, workers: int, seconds: float, ready: Any, answers: Any) -> None:
    try:
        # On a busy machine processes take long to start; the time begins when all are there.
        ready.wait(PATIENCE)
        answers.put((worker, soak(folder, worker, workers, seconds), None))
    except BaseException:
        answers.put((worker, None, traceback.format_exc()))


def soak(folder: Path, worker: int, workers: int, seconds: float) -> dict[str, Any]:
    chance = random.Random(worker)
    arrays, kv = open_all(folder), ShardedStore(folder / "values", SPEC, mode="r+")
    cells = {number: cells_of(number, workers) for number in range(workers)}
    written: dict[Any, int] = {}
    seen: dict[Any, int] = {}
    counts = {"writes": 0, "reads": 0}
    value = 0
    # Opening may take as long, where much else runs.
    end = time.monotonic() + seconds
    while not counts["writes"] or time.monotonic() < end:
        name = chance.choice([*KINDS, "values", "attributes"])
        value += 1
        other = chance.randrange(workers)
        if name == "values":
            ids = [worker * 4 + i for i in range(4)]
            kv.update(dict.fromkeys(ids, b"%d" % value))
            written.update({("values", id): value for id in ids})
            found = kv.get_many(range(workers * 4))
            if len(found) != workers * 4:
                raise AssertionError(f"values are missing: {len(found)}")
            for id, data in found.items():
                check(("values", id), int(data), id // 4 == worker, written, seen)
        elif name == "attributes":
            array = arrays["n5"]
            array.attrs[f"worker {worker}"] = value
            written["attributes", worker] = value
            for number, given in dict(zvcore.open(folder / "n5").attrs).items():
                owner = int(number.split()[1])
                check(("attributes", owner), given, owner == worker, written, seen)
        else:
            if chance.random() < 0.05:
                arrays = open_all(folder)
            array, cell = arrays[name], chance.choice(cells[worker])
            array[cell] = value
            written[name, str(cell)] = value
            for owner in (worker, other):
                cell = chance.choice(cells[owner])
                found_value = one_value(array[cell], (name, cell))
                check((name, str(cell)), found_value, owner == worker, written, seen)
        counts["writes"] += 1
        counts["reads"] += 2
    return {"written": written, **counts}


def check(key: Any, found: int, own: bool, written: dict[Any, int], seen: dict[Any, int]) -> None:
    if own and found != written.get(key, 0):
        raise AssertionError(f"{key}: wrote {written.get(key, 0)}, read {found}")
    if found < seen.get(key, 0):
        raise AssertionError(f"{key}: read {seen[key]} before, and now {found}")
    seen[key] = found


def run(seconds: float, workers: int = 8) -> dict[str, int]:
    """How much was written and read; an AssertionError if anything was wrong."""
    folder = Path(tempfile.mkdtemp(prefix="zvcore-soak-"))
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    try:
        make(folder, workers)
        ready = context.Barrier(workers)
        processes = [
            context.Process(target=work, args=(folder, worker, workers, seconds, ready, answers))
            for worker in range(workers)
        ]
        for process in processes:
            process.start()
        results = [answers.get(timeout=seconds + PATIENCE) for _ in processes]
        for process in processes:
            process.join()
        faults = [f"process {worker}:\n{fault}" for worker, _, fault in results if fault]
        assert not faults, "\n".join(faults)
        compare(folder, [answer for _, answer, _ in results])
        return {what: sum(answer[what] for _, answer, _ in results) for what in ("writes", "reads")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(folder: Path, answers: list[dict[str, Any]]) -> None:
    """Every cell, value and attribute with what its owner wrote last."""
    written = {key: value for answer in answers for key, value in answer["written"].items()}
    arrays, workers = {name: zvcore.open(folder / name) for name in KINDS}, len(answers)
    for name, array in arrays.items():
        values = array[...]
        for worker in range(workers):
            for cell in cells_of(worker, workers):
                found = one_value(values[cell], (name, cell))
                assert found == written.get((name, str(cell)), 0), f"{name} {cell}: {found}"
    for id, data in ShardedStore(folder / "values", SPEC).items():
        assert int(data) == written.get(("values", id), 0), f"value {id}: {data!r}"
    attributes = dict(arrays["n5"].attrs)
    assert attributes == {f"worker {k[1]}": v for k, v in written.items() if k[0] == "attributes"}
    left = [name for _, _, names in os.walk(folder) for name in names if name.endswith((".zvtmp", ".zvlock"))]
    assert not left, f"left behind: {left}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    done = run(60 * options.minutes, options.processes)
    print(f"{options.processes} processes, {options.minutes:g} minutes: {done['writes']} writes, every value right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
