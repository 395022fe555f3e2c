"""Everything but whole reads and whole chunks: planes, lines, boxes, steps, frames, tiny chunks, what is not there.

    pytest bench/test_patterns.py --benchmark-enable      times
    python -m bench.test_patterns [word]                  ratios, the competitors taking turns

Electron microscopy as 16 bits in Zarr v3, written by zarr-python; each competitor changes a copy of its own, on an
ext4 with a journal (`journaled`).
"""

from __future__ import annotations

import shutil
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import tensorstore
import zarr

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
Calls = dict[str, "Callable[[], Any]"]

CODECS: dict[str, Any] = {
    "raw": None,
    "blosc": zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=2),
    "zstd": zarr.codecs.ZstdCodec(level=1),
}


class Kind(NamedTuple):
    """How an array lies: its shape, the shapes of its chunks and shards, its type."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None = None
    dtype: str = "<u2"
    stored: bool = True


WHOLE = (SIDE,) * 3
KINDS = {
    "chunks": Kind(WHOLE, (CHUNK,) * 3),
    "shards": Kind(WHOLE, (CHUNK // 2,) * 3, (SIDE // 2,) * 3),
    "frames": Kind(WHOLE, (1, SIDE, SIDE)),
    "slabs": Kind(WHOLE, (CHUNK // 4, CHUNK, CHUNK)),
    "tiny chunks": Kind((TINY,) * 3, (8,) * 3),
    "tiny chunks in shards": Kind((2 * TINY,) * 3, (8,) * 3, (TINY,) * 3),
    "floats": Kind(WHOLE, (CHUNK,) * 3, dtype="<f4"),
    "truth values": Kind(WHOLE, (CHUNK,) * 3, dtype="bool"),
    "a series": Kind((CHUNK, CHUNK, CHUNK, 32), (CHUNK, CHUNK, CHUNK, 1), dtype="<f4"),
    "colours": Kind((8 * SIDE, 8 * SIDE, 3), (SIDE, SIDE, 1), dtype="u1"),
    "nothing in files": Kind((2 * SIDE,) * 3, (CHUNK // 2,) * 3, stored=False),
    "nothing in shards": Kind((2 * SIDE,) * 3, (CHUNK // 4,) * 3, (SIDE,) * 3, stored=False),
}


@cache
def values(kind: str) -> Any:
    """They repeat after 128, which no codec of these chunks can see."""
    tile = min(SIDE, 128)
    found = np.ascontiguousarray(np.tile(volume("em", (tile,) * 3), [SIDE // tile] * 3)).astype("<u2") * 16
    wanted = KINDS[kind]
    if len(wanted.shape) == 4:
        found = np.stack([found[n : n + CHUNK, :CHUNK, :CHUNK] for n in range(wanted.shape[3])], axis=-1)
    if wanted.shape[2] == 3:
        found = found.reshape(-1, wanted.shape[1], 1) + np.arange(3, dtype="<u2")
    cut = found[tuple(map(slice, wanted.shape))]
    return np.ascontiguousarray(cut % 1024 == 0 if wanted.dtype == "bool" else cut.astype(wanted.dtype))


@cache
def stored(kind: str, codec: str) -> Path:
    wanted = KINDS[kind]
    path = scratch() / f"{kind} {codec}"
    array = zarr.create_array(
        path, shape=wanted.shape, chunks=wanted.chunks, shards=wanted.shards, dtype=wanted.dtype,
        compressors=CODECS[codec],
    )  # fmt: skip
    if wanted.stored:
        array[...] = values(kind)
    return path


def by_tensorstore(path: Path, **options: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}, "recheck_cached_data": "open"}
    return tensorstore.open(spec, context=tensorstore.Context({"file_io_sync": False}), **options).result()


def reading(kind: str, codec: str, key: Any) -> Calls:
    path = stored(kind, codec)
    ours, theirs = zvcore.open(path), by_tensorstore(path)
    array = zarr.open_array(path, mode="r")
    return {
        "zvcore": lambda: ours[key],
        "tensorstore": lambda: theirs[key].read().result(),
        "zarr": lambda: array[key],
    }


def writing(kind: str, codec: str, *keys: Any) -> Calls:
    """The same values each time, into each of several regions."""
    paths = {who: journaled() / f"{kind} {codec} of {who}" for who in ("zvcore", "tensorstore", "zarr")}
    for path in paths.values():
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(stored(kind, codec), path)
    ours = zvcore.open(paths["zvcore"], mode="r+")
    theirs = by_tensorstore(paths["tensorstore"], read=True, write=True)
    array = zarr.open_array(paths["zarr"], mode="r+")
    given = np.ascontiguousarray(values(kind)[keys[0]])
    return {
        "zvcore": partial(for_each, keys, lambda key: ours.__setitem__(key, given)),
        "tensorstore": partial(for_each, keys, lambda key: theirs[key].write(given).result()),
        "zarr": partial(for_each, keys, lambda key: array.__setitem__(key, given)),
    }


def for_each(keys: tuple[Any, ...], write: Callable[[Any], Any]) -> None:
    for key in keys:
        write(key)


ALL = slice(None)
AT = SIDE // 3 - 8
BOX = (slice(SIDE // 16 + 1, SIDE // 16 + 1 + 2 * SIDE // 5),) * 3
BOX_OF_CHUNK = (slice(CHUNK // 16, CHUNK // 16 + 3 * CHUNK // 5),) * 3
WITHIN = (slice(SIDE // 16 + 1, SIDE // 16 + 11),) * 3
READS: list[tuple[str, str, Any]] = [
    ("a plane across z", "chunks", (AT,)),
    ("a plane across y", "chunks", (ALL, AT)),
    ("a plane across x", "chunks", (ALL, ALL, AT)),
    ("a line along x", "chunks", (5, 5)),
    ("a line along z", "chunks", (ALL, 5, 5)),
    ("a box", "chunks", BOX),
    ("a small box in a chunk", "chunks", WITHIN),
    ("every 4th item", "chunks", (slice(None, None, 4),) * 3),
    ("a plane across z of shards", "shards", (AT,)),
    ("a line along x of shards", "shards", (5, 5)),
    ("a box of shards", "shards", BOX),
    ("a frame", "frames", (AT,)),
    ("a trace through frames", "frames", (ALL, AT, AT)),
    ("tiny chunks", "tiny chunks", ALL),
    ("tiny chunks in shards", "tiny chunks in shards", ALL),
    ("floats", "floats", ALL),
    ("truth values", "truth values", ALL),
    ("a series whose chunks are volumes", "a series", ALL),
    ("a box of a series whose chunks are volumes", "a series", BOX_OF_CHUNK),
    ("an image whose chunks are colours", "colours", ALL),
]
WRITES: list[tuple[str, str, tuple[Any, ...]]] = [
    ("a plane across z", "chunks", ((AT,),)),
    ("a plane across x", "chunks", ((ALL, ALL, AT),)),
    ("a box", "chunks", (BOX,)),
    ("a plane across z of shards", "shards", ((AT,),)),
    ("a box of shards", "shards", (BOX,)),
    ("32 frames, each by itself", "frames", tuple((number,) for number in range(pick(32, 4)))),
    ("8 planes of slabs, each by itself", "slabs", tuple((number,) for number in range(pick(8, 2)))),
    ("tiny chunks", "tiny chunks", (ALL,)),
    ("all but the edges of tiny chunks", "tiny chunks", ((slice(4, TINY - 4),) * 3,)),
    ("tiny chunks in shards", "tiny chunks in shards", (ALL,)),
    ("truth values", "truth values", (ALL,)),
    ("a series whose chunks are volumes", "a series", (ALL,)),
    ("an image whose chunks are colours", "colours", (ALL,)),
]
WHO = ("zvcore", "tensorstore", "zarr")
CONTESTS = [
    *(
        Contest(f"read {what}, {codec}", WHO, partial(reading, kind, codec, key))
        for what, kind, key in READS
        for codec in CODECS
    ),
    *(
        Contest(f"read what is not there, {kind}", WHO, partial(reading, kind, "zstd", ALL))
        for kind in ("nothing in files", "nothing in shards")
    ),
    *(
        Contest(f"write {what}, {codec}", WHO, partial(writing, kind, codec, *keys), writes=True)
        for what, kind, keys in WRITES
        for codec in CODECS
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
