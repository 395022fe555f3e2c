"""Has anything become slower? Ratios to a limit or a peer measured in the same run, and instruction counts of kernels.

    python -m bench.check                    compare with bench/baseline.json; exit status 1 after a loss
    python -m bench.check --short            the instruction counts and a few ratios, as CI does
    python -m bench.check --update           make what is measured now the baseline
    ZVCORE_BENCH_PLANT=0.2 python -m bench.check     with everything of zvcore made 20 % slower: must fail

A ratio is zvcore's best time divided by the reference's, both taking turns in one process on one thread. Noise only
makes best times longer, so a case that looks slower is measured again, for longer, and only what stays slower counts.
Margins: a ratio may be 15 % above the baseline, a count of instructions 5 %. Ratios depend on the processor: on a
different one they may be 60 % above the baseline; counts depend on the compiler and on Python, and may be 15 % above it
if those differ. The plant is caught wherever it is larger than the margin that applies. A read may take two pages more
from the system than in the baseline (`faults.py`), whatever the machine.
"""

from __future__ import annotations

import argparse
import bz2
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.faults import MARGIN, count_faults

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RATIO_MARGIN", "judge", "main"]

BASELINE = Path(__file__).with_name("baseline.json")
RATIO_MARGIN, COUNT_MARGIN = 0.15, 0.05
FOREIGN_RATIO_MARGIN, FOREIGN_COUNT_MARGIN = 0.6, 0.15
PLANT = float(os.environ.get("ZVCORE_BENCH_PLANT", "0"))
ATTEMPTS = 6
SHORT = ("crc32c", "block", "zstd, ", "gzip, electron", "read a sharded array", "one chunk", "values by id")
Pair = tuple["Callable[[], Any]", "Callable[[], Any]"]


# --- ratios


def pairs(folder: Path) -> dict[str, Callable[[], Pair]]:
    """(zvcore, reference) by name; each is made on its turn."""
    import google_crc32c
    import zstandard

    import zvcore
    from bench.data import volume
    from zvcore import codecs, kernels
    from zvcore.kernels import blocks
    from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded

    grey, labels = volume("microscopy"), volume("labels64")
    data = grey.tobytes()

    def crc() -> Pair:
        return (lambda: kernels.crc32c(data)), (lambda: google_crc32c.value(data))

    def block() -> Pair:
        room = np.empty(grey.shape, grey.dtype)
        return (lambda: blocks.copy(room.T, grey)), (lambda: np.copyto(room.T, grey))

    def minishard() -> Pair:
        rng = np.random.default_rng(0)
        ids, sizes = np.sort(rng.integers(0, 2**48, 50_000, np.uint64)), rng.integers(1, 9999, 50_000).astype(np.uint64)
        raw = kernels.encode_minishard_index(ids, np.cumsum(sizes) - sizes, sizes)
        table = np.frombuffer(raw, "<u8").reshape(3, -1)
        return (lambda: kernels.decode_minishard_index(raw)), table.copy

    def zstd() -> Pair:
        codec, out = codecs.get("zstd", level=3), bytearray(len(data))
        stored = codec.encode(data)
        return (lambda: codec.decode(stored, out=out)), (lambda: zstandard.ZstdDecompressor().decompress(stored))

    def zstd_encode() -> Pair:
        codec, theirs = codecs.get("zstd", level=3), zstandard.ZstdCompressor(level=3)
        return (lambda: codec.encode(data)), (lambda: theirs.compress(data))

    def gzip() -> Pair:
        codec, out = codecs.get("gzip", level=6), bytearray(len(data))
        stored = codec.encode(data)
        return (lambda: codec.decode(stored, out=out)), (lambda: zlib.decompress(stored, 31))

    def small_gzip() -> Pair:
        codec, values = codecs.get("gzip", level=6), [data[i * 1000 : i * 1000 + 1000] for i in range(200)]
        return (lambda: [codec.encode(one) for one in values]), (lambda: [zlib.compress(one, 6) for one in values])

    def noise_gzip() -> Pair:
        codec, noise = codecs.get("gzip", level=6), volume("em").tobytes()
        return (lambda: codec.encode(noise)), (lambda: zlib.compress(noise, 6))

    def bzip2() -> Pair:
        codec, noise = codecs.get("bzip2"), volume("em").tobytes()
        out, stored = bytearray(len(noise)), bz2.compress(noise)
        return (lambda: codec.decode(stored, out=out)), (lambda: bz2.decompress(stored))

    def bzip2_encode() -> Pair:
        codec, some = codecs.get("bzip2"), labels[:16].tobytes()
        return (lambda: codec.encode(some)), (lambda: bz2.compress(some))

    def array(name: str, values: Any, **options: Any) -> Any:
        made = zvcore.create(folder / name, shape=values.shape, dtype=values.dtype, overwrite=True, **options)
        made[...] = values
        return zvcore.open(folder / name, mode="r+")

    def bare(opened: Any) -> Callable[[], Any]:
        """Decodes all chunks of an array and copies the result once."""
        encoded = [opened.read_encoded(position) for position in np.ndindex(*opened.grid)]
        room = bytearray(int(np.prod(opened.chunks)) * opened.dtype.itemsize)
        decode, whole = opened.codec.decode, opened[...]

        def run() -> None:
            for stored in encoded:
                decode(stored, out=room)
            np.array(whole)

        return run

    def sharded() -> Pair:
        opened = array("sharded", grey, format="zarr3", chunks=(16, 16, 16), shards=(64, 64, 64), codec="zstd")
        return (lambda: opened.read(..., threads=1)), bare(opened)

    def raw() -> Pair:
        opened = array("raw", grey, format="zarr3", chunks=(32, 32, 32), shards=(64, 64, 64), codec=None)
        path = folder / "raw" / "c" / "0" / "0" / "0"
        return (lambda: opened.read(..., threads=1)), (lambda: np.fromfile(path, "u2").copy())

    def labels_by_blosc() -> Pair:
        opened = array("blosc", labels, format="zarr3", chunks=(32, 32, 32), codec="blosc")
        return (lambda: opened.read(..., threads=1)), bare(opened)

    def one_chunk() -> Pair:
        opened = array("one", grey, format="zarr3", chunks=(16, 16, 16), shards=(64, 64, 64), codec=None)
        path = os.open(folder / "one" / "c" / "0" / "0" / "0", os.O_RDONLY)
        region = (slice(16, 32),) * 3
        time.sleep(0.05)
        return (lambda: [opened.read(region, threads=1) for _ in range(50)]), (
            lambda: [np.frombuffer(os.pread(path, 8192, 8192), "u2").reshape(16, 16, 16).copy() for _ in range(50)]
        )

    def raw_plane() -> Pair:
        opened = array("raw plane", grey, format="zarr3", chunks=grey.shape, codec=None)
        path = os.open(folder / "raw plane" / "c" / "0" / "0" / "0", os.O_RDONLY)
        size = grey[0].nbytes
        return (lambda: [opened.read(at, threads=1) for at in range(16)]), (
            lambda: [np.frombuffer(os.pread(path, size, at * size), "u2").copy() for at in range(16)]
        )

    def zstd_plane() -> Pair:
        opened = array("zstd plane", grey, format="zarr3", chunks=grey.shape, codec="zstd")
        stored = bytes(opened.read_encoded((0, 0, 0)))
        return (lambda: opened.read(3, threads=1)), (lambda: zstandard.ZstdDecompressor().decompress(stored))

    def n5() -> Pair:
        opened = array("n5", grey, format="n5", chunks=(32, 32, 32), codec={"name": "gzip", "level": 5})
        stored = [zlib.compress(grey[:32, :32, :32].tobytes(), 5) for _ in range(8)]
        return (lambda: opened.read(..., threads=1)), (lambda: [zlib.decompress(one) for one in stored])

    def write() -> Pair:
        opened = array("write", grey, format="zarr3", chunks=(32, 32, 32), shards=(64, 64, 64), codec="zstd")
        theirs, chunk = zstandard.ZstdCompressor(level=3), grey[:32, :32, :32].tobytes()
        return (lambda: opened.write(..., grey, threads=1)), (lambda: [theirs.compress(chunk) for _ in range(8)])

    def values() -> Pair:
        spec = ShardingSpec(0, "murmurhash3_x86_128", 2, 0, "gzip", "gzip")
        content = {id * 7919: data[id * 40 : id * 40 + 400] for id in range(4000)}
        write_sharded(folder / "values", spec, content, overwrite=True)
        kv, wanted = ShardedStore(folder / "values", spec), np.array([*content][::4], np.uint64)
        stored = [zlib.compress(content[int(id)]) for id in wanted]
        return (lambda: kv.get_many(wanted)), (lambda: [zlib.decompress(one) for one in stored])

    def manifests() -> Pair:
        rng = np.random.default_rng(0)
        lists = [[(tuple(rng.integers(-5, 5, 3).tolist()), int(rng.integers(0, 99)))] * 3 for _ in range(5000)]
        blobs = zvcore.zvf.encode_manifests(lists, 3)
        return (lambda: zvcore.zvf.decode_manifests(blobs, 3)), (
            lambda: [np.frombuffer(blob, "<i8", len(blob) // 8) for blob in blobs]
        )

    return {
        "crc32c of 512 KiB / google-crc32c": crc,
        "block with axes reversed / numpy": block,
        "minishard index / copying it": minishard,
        "zstd, decoded / zstandard": zstd,
        "zstd, encoded / zstandard": zstd_encode,
        "gzip, decoded / zlib": gzip,
        "gzip, small values encoded / zlib": small_gzip,
        "gzip, electron microscopy encoded / zlib": noise_gzip,
        "bzip2, electron microscopy decoded / bz2": bzip2,
        "bzip2, labels encoded / bz2": bzip2_encode,
        "read a sharded array, zstd / decoding alone": sharded,
        "read a sharded array, raw / numpy.fromfile": raw,
        "read labels, blosc / decoding alone": labels_by_blosc,
        "one chunk at a time / pread": one_chunk,
        "a plane of a raw chunk / pread": raw_plane,
        "a plane of a zstd chunk / zstandard, all of it": zstd_plane,
        "read N5, gzip / zlib": n5,
        "write a shard, zstd / compressing alone": write,
        "values by id / zlib": values,
        "manifests / numpy.frombuffer": manifests,
    }


def planted(function: Callable[[], Any]) -> Callable[[], Any]:
    """The same, but slower by `PLANT`."""

    def run() -> None:
        start = time.perf_counter()
        function()
        end = time.perf_counter() + PLANT * (time.perf_counter() - start)
        while time.perf_counter() < end:
            pass

    return run if PLANT else function


def compare_ratios(
    names: list[str] | None, expected: dict[str, float], margin: float, seconds: float
) -> dict[str, float]:
    """The ratio of each case; one that is above what it may be is measured again, and the best times of all count."""
    from bench.interleaved import best_times

    folder = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
    found = {}
    try:
        made = pairs(folder)
        for name in made if names is None else [name for name in made if any(part in name for part in names)]:
            ours, theirs = made[name]()
            functions = {"ours": planted(ours), "theirs": theirs}
            best = dict.fromkeys(functions, float("inf"))
            for attempt in range(ATTEMPTS):
                times = best_times(functions, seconds * (1 + attempt), rounds=5)
                best = {who: min(best[who], times[who]) for who in best}
                found[name] = best["ours"] / best["theirs"]
                # Without a baseline this becomes one: by then both have found their best times.
                if name in expected and found[name] <= expected[name] * (1 + margin):
                    break
            print(f"  {name:48} {found[name]:8.3f}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


# --- instructions


def count_instructions() -> dict[str, float]:
    """Millions of instructions of each kernel, by callgrind."""
    folder = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
    command = ["valgrind", "-q", "--tool=callgrind", "--zero-before=getppid", "--dump-after=getpgrp"]
    command += [f"--callgrind-out-file={folder}/out", sys.executable, "-W", "ignore", "-m", "bench.kernel_counts"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": "pymalloc", "OPENBLAS_NUM_THREADS": "1"}
    root = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    try:
        names = subprocess.run(
            [*command[command.index(sys.executable) :], "--names"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"callgrind failed:\n{done.stderr[-2000:]}")
        found = {}
        for number, name in enumerate(names, 3):
            totals = re.search(r"^summary: (\d+)", (folder / f"out.{number}").read_text(), re.MULTILINE)
            assert totals is not None
            found[name] = round(int(totals[1]) / 1e6, 4)
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def have_valgrind() -> bool:
    if shutil.which("valgrind"):
        return True
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "valgrind"]
        subprocess.run(install, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    return shutil.which("valgrind") is not None


# --- what is printed


def surroundings() -> dict[str, Any]:
    from bench.machine import processor
    from zvcore import _build
    from zvcore.kernels import cpu

    return {
        "processor": processor(),
        "simd": cpu.simd_path(),
        "python": sys.version.split()[0],
        "compiler": _build.compiler,
        "libraries": dict(_build.libraries),
        "numpy": importlib.metadata.version("numpy"),
    }


def judge(kind: str, found: dict[str, float], expected: dict[str, float], margin: float) -> list[str]:
    """A line for each case that lost more than the margin."""
    losses = []
    for name, value in found.items():
        if name in expected and value > expected[name] * (1 + margin):
            loss = value / expected[name] - 1
            losses.append(
                f"{kind}: {name}: {value:.4g}, baseline {expected[name]:.4g}: {loss:+.0%}, allowed {margin:+.0%}"
            )
    return losses


def judge_faults(found: dict[str, float], expected: dict[str, float]) -> list[str]:
    return [
        f"pages: {name}: {value:.1f}, baseline {expected[name]:.1f}, allowed {MARGIN:+.0f}"
        for name, value in found.items()
        if name in expected and value > expected[name] + MARGIN
    ]


def margins(here: dict[str, Any], there: dict[str, Any]) -> tuple[float, float]:
    same_machine = all(here[name] == there.get(name) for name in ("processor", "simd"))
    same_tools = all(here[name] == there.get(name) for name in ("python", "compiler", "libraries", "numpy"))
    return (
        RATIO_MARGIN if same_machine and same_tools else FOREIGN_RATIO_MARGIN,
        COUNT_MARGIN if same_tools else FOREIGN_COUNT_MARGIN,
    )


def expected_ratios(baseline: dict[str, Any], simd: str) -> dict[str, float]:
    """Those of a processor with this path of the kernels: what it has no instructions for it cannot be as fast in."""
    ratios: dict[str, float] = baseline.get("ratios", {})
    return {**ratios, **baseline.get("ratios of paths", {}).get(simd, {})}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="make what is measured now the baseline")
    parser.add_argument("--short", action="store_true", help="the instruction counts and a few ratios")
    parser.add_argument("--only", choices=["ratios", "instructions"])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each ratio")
    options = parser.parse_args()
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    here = surroundings()
    ratio_margin, count_margin = margins(here, baseline.get("machine", {}))
    expected = {} if options.update else baseline
    ratios: dict[str, float] = {}
    counts: dict[str, float] = {}
    if options.only != "instructions":
        print(f"ratios, of which each may be {ratio_margin:.0%} above the baseline:")
        seconds = options.seconds / 2 if options.short else options.seconds
        names = list(SHORT) if options.short else None
        ratios = compare_ratios(names, expected_ratios(expected, here["simd"]), ratio_margin, seconds)
    faults: dict[str, float] = {}
    if options.only != "ratios":
        print("pages that the system gives for a read:")
        faults = count_faults()
        for name, count in faults.items():
            print(f"  {name:48} {count:8.1f}")
        if have_valgrind():
            print(f"instructions, of which each may be {count_margin:.0%} above the baseline:")
            counts = count_instructions()
            for name, count in counts.items():
                print(f"  {name:48} {count:8.3f} million")
        else:
            print("there is no valgrind here: instructions are not counted")
    if options.update:
        document = {"machine": here, "ratios": ratios or baseline.get("ratios", {})}
        document["ratios"] = {name: round(value, 4) for name, value in document["ratios"].items()}
        document["ratios of paths"] = baseline.get("ratios of paths", {})
        document["instructions"] = counts or baseline.get("instructions", {})
        document["faults"] = faults or baseline.get("faults", {})
        BASELINE.write_text(json.dumps(document, indent=1) + "\n")
        print(f"wrote {BASELINE}")
        return 0
    losses = judge("ratio", ratios, expected_ratios(baseline, here["simd"]), ratio_margin)
    losses += judge("instructions", counts, baseline.get("instructions", {}), count_margin)
    losses += judge_faults(faults, baseline.get("faults", {}))
    print("\n".join(losses) if losses else f"nothing lost in {len(ratios)} ratios and {len(counts)} counts")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
