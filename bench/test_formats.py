"""N5, Zarr v2 and Neuroglancer volumes read and written in part, as `test_patterns.py` does it with Zarr v3.

    pytest bench/test_formats.py --benchmark-enable      times
    python -m bench.test_formats [word]                  ratios, the competitors taking turns

Electron microscopy of 8 or 16 bits, and labels; each competitor changes a copy of its own. Besides tensorstore there is
z5py for N5, zarr-python for Zarr v2 and CloudVolume for volumes, which all read the same files. What is written lies on
an ext4 with a journal (`journaled`).
"""

from __future__ import annotations

import shutil
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pytest
import tensorstore
import z5py
import zarr
from cloudvolume import CloudVolume

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.scratch import journaled, scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDE = pick(256, 64)
CHUNK = SIDE // 4
TINY = SIDE // 4
ALL = slice(None)
Calls = dict[str, "Callable[[], Any]"]
DRIVERS = {"n5": "n5", "zarr2": "zarr", "precomputed": "neuroglancer_precomputed"}
OTHERS = {"n5": "z5py", "zarr2": "zarr", "precomputed": "cloud-volume"}


class Kind(NamedTuple):
    """How an array is stored: its format, its values, and what it is made with."""

    format: str
    data: str
    options: dict[str, Any]


KINDS = {
    "n5 blosc": Kind(
        "n5", "em16", {"codec": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}}
    ),
    "n5 gzip": Kind("n5", "em16", {"codec": {"type": "gzip", "level": 5, "useZlib": False}}),
    "zarr2 blosc": Kind(
        "zarr2", "em16",
        {"codec": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
         "dimension_separator": "/"},
    ),
    "zarr2 zstd": Kind("zarr2", "em16", {"codec": {"id": "zstd", "level": 1}, "dimension_separator": "/"}),
    "volume raw": Kind("precomputed", "em", {"encoding": "raw", "codec": "raw"}),
    "volume jpeg": Kind("precomputed", "em", {"encoding": "jpeg", "codec": "raw"}),
    "volume labels": Kind("precomputed", "labels64", {"encoding": "compressed_segmentation", "codec": "raw"}),
    "volume shards": Kind("precomputed", "em", {"encoding": "raw", "shards": True}),
}  # fmt: skip


@cache
def values(data: str) -> Any:
    """They repeat after 128, which no codec of these chunks can see."""
    tile = min(SIDE, 128)
    found = np.ascontiguousarray(np.tile(volume(data.removesuffix("16"), (tile,) * 3), [SIDE // tile] * 3))
    return found.astype("<u2") * 16 if data == "em16" else found


@cache
def stored(kind: str, side: int, edge: int, filled: bool) -> Path:
    """Where a corner of the data lies, in chunks of this edge length."""
    format, data, options = KINDS[kind]
    path = scratch() / f"{kind} {side} {edge} {filled}" / "d"
    cut = values(data)[:side, :side, :side]
    array: Any
    made: dict[str, Any] = {"shape": cut.shape, "dtype": cut.dtype, "chunks": (edge,) * 3, **options}
    if format == "n5":
        array = zvcore.open(path.parent, "w", format="n5", order="C").create_dataset("d", **made)
    else:
        if "shards" in made:
            made["shards"] = (min(4 * edge, side),) * 3
        array = zvcore.create(path, format=format, **made)
    if filled:
        array[...] = cut[..., None] if format == "precomputed" else cut
    return path


def by_zvcore(format: str, path: Path, mode: Literal["r", "r+"]) -> Any:
    if format == "precomputed":
        return zvcore.open(path, mode=mode, scale=0)
    return zvcore.open(path, mode=mode, order="C") if format == "n5" else zvcore.open(path, mode=mode)


def by_tensorstore(format: str, path: Path, **options: Any) -> Any:
    spec = {
        "driver": DRIVERS[format], "kvstore": {"driver": "file", "path": f"{path}/"}, "recheck_cached_data": "open",
    }  # fmt: skip
    opened = tensorstore.open(spec, context=tensorstore.Context({"file_io_sync": False}), **options).result()
    return {"n5": lambda: opened.T, "zarr2": lambda: opened, "precomputed": lambda: opened[..., 0]}[format]()


def by_other(format: str, path: Path, mode: str) -> Any:
    if format == "n5":
        found = z5py.File(str(path.parent), mode="r" if mode == "r" else "a")["d"]
        found.n_threads = 2
        return found
    if format == "zarr2":
        return zarr.open_array(path, mode=mode)
    options = {"progress": False, "compress": False, "lru_bytes": 0, "fill_missing": True, "non_aligned_writes": True}
    return CloudVolume(f"file://{path}", **options)


def ours_at(format: str, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The region in an array that may have an axis for channels."""
    return (*key, 0) if format == "precomputed" else key


def at_other(format: str, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """CloudVolume keeps all axes, and takes numbers for slices of one."""
    return tuple(slice(k, k + 1) if isinstance(k, int) else k for k in key) if format == "precomputed" else key


def reading(kind: str, edge: int, side: int, key: tuple[Any, ...], filled: bool = True) -> Calls:
    path, format = stored(kind, side, edge, filled), KINDS[kind].format
    ours, theirs, other = by_zvcore(format, path, "r"), by_tensorstore(format, path), by_other(format, path, "r")
    # Each in the order in which the chunks lie, which is the fastest for all.
    order = "F" if format == "precomputed" else "C"
    at, at_others = ours_at(format, key), at_other(format, key)
    np.testing.assert_array_equal(ours[at], theirs[key].read().result())
    calls: Calls = {"zvcore": lambda: ours[at], "tensorstore": lambda: theirs[key].read(order=order).result()}
    if has_other(kind, key):
        calls[OTHERS[format]] = lambda: other[at_others]
    return calls


def writing(kind: str, edge: int, side: int, key: tuple[Any, ...]) -> Calls:
    """The same values each time."""
    format, data, _ = KINDS[kind]
    paths = {}
    for name in ("zvcore", "tensorstore", OTHERS[format]):
        copy = journaled() / f"{kind} of {name}"
        shutil.rmtree(copy, ignore_errors=True)
        # With the folder that it lies in, where z5py looks.
        shutil.copytree(stored(kind, side, edge, True).parent, copy)
        paths[name] = copy / "d"
    ours = by_zvcore(format, paths["zvcore"], "r+")
    theirs = by_tensorstore(format, paths["tensorstore"], read=True, write=True)
    given = np.ascontiguousarray(values(data)[:side, :side, :side][key])
    at, at_others = ours_at(format, key), at_other(format, key)
    calls: Calls = {
        "zvcore": lambda: ours.__setitem__(at, given),
        "tensorstore": lambda: theirs[key].write(given).result(),
    }
    if has_other(kind, key, writes=True):
        other = by_other(format, paths[OTHERS[format]], "r+")
        whole = values(data)[:side, :side, :side][at_others]
        ready = whole[..., None] if format == "precomputed" else whole
        calls[OTHERS[format]] = lambda: other.__setitem__(at_others, ready)
    return calls


def has_other(kind: str, key: tuple[Any, ...], writes: bool = False) -> bool:
    """z5py and CloudVolume know no steps, and CloudVolume writes shards only as wholes."""
    format = KINDS[kind].format
    if format != "zarr2" and any(isinstance(k, slice) and k.step not in (None, 1) for k in key):
        return False
    return not (writes and kind == "volume shards")


def names(kind: str, key: tuple[Any, ...], writes: bool = False) -> tuple[str, ...]:
    format = KINDS[kind].format
    return ("zvcore", "tensorstore", *((OTHERS[format],) if has_other(kind, key, writes) else ()))


AT = SIDE // 3 - 8
BOX = (slice(SIDE // 16 + 1, SIDE // 16 + 1 + 2 * SIDE // 5),) * 3
# What is read, the edge length of chunks, the array's, and where.
READS: list[tuple[str, int, int, tuple[Any, ...]]] = [
    ("a plane across the slowest axis", CHUNK, SIDE, (AT, ALL, ALL)),
    ("a plane across the fastest axis", CHUNK, SIDE, (ALL, ALL, AT)),
    ("a line", CHUNK, SIDE, (5, 5, ALL)),
    ("a box", CHUNK, SIDE, BOX),
    ("a small box in a chunk", CHUNK, SIDE, (slice(SIDE // 16 + 1, SIDE // 16 + 11),) * 3),
    ("every 4th item", CHUNK, SIDE, (slice(None, None, 4),) * 3),
    ("tiny chunks", 8, TINY, (ALL, ALL, ALL)),
]
WRITES: list[tuple[str, int, int, tuple[Any, ...]]] = [
    ("a plane across the slowest axis", CHUNK, SIDE, (AT, ALL, ALL)),
    ("a box", CHUNK, SIDE, BOX),
    ("tiny chunks", 8, TINY, (ALL, ALL, ALL)),
    ("all but the edges of tiny chunks", 8, TINY, (slice(4, TINY - 4),) * 3),
]
CONTESTS = [
    *(
        Contest(f"read {what}, {kind}", names(kind, key), partial(reading, kind, edge, side, key))
        for kind in KINDS
        for what, edge, side, key in READS
    ),
    *(
        Contest(
            f"read what is not there, {kind}", names(kind, (ALL,)),
            partial(reading, kind, CHUNK // 2, SIDE, (ALL, ALL, ALL), filled=False),
        )
        for kind in ("n5 blosc", "zarr2 zstd", "volume raw", "volume shards")
    ),
    *(
        Contest(f"write {what}, {kind}", names(kind, key, True), partial(writing, kind, edge, side, key), writes=True)
        for kind in KINDS
        for what, edge, side, key in WRITES
    ),
]  # fmt: skip


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
