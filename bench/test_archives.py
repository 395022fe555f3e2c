"""Zarr v3 in zip archives, read as a whole and in part, beside tensorstore's zip and zarr-python's.

    pytest bench/test_archives.py --benchmark-enable      times
    python -m bench.test_archives [word]                  ratios, the competitors taking turns

Electron microscopy as 16 bits, written by zarr-python; entries are stored as they are. Of a whole chunk zvcore compares
the checksum that the archive has of it, as zarr-python does. tensorstore (0.1.86) never comes back from reading parts
of shards in an archive.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr
import zarr.storage

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDE = pick(256, 64)
CHUNK = SIDE // 8
CODECS: dict[str, Any] = {
    "raw": None,
    "blosc": zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=2),
    "zstd": zarr.codecs.ZstdCodec(level=1),
}
SHARDS = {"chunks": None, "shards": (SIDE // 2,) * 3}
WHOLE, AT = slice(None), SIDE // 3
ONE = (slice(5, 6),) * 3
Calls = dict[str, "Callable[[], Any]"]
READS = {
    "read whole": (WHOLE,),
    "read a plane across z": (AT,),
    "read a plane across x": (WHOLE, WHOLE, AT),
    "read a box": (slice(AT, AT + SIDE // 3),) * 3,
    "read one item": ONE,
}


@cache
def archive(codec: str, kind: str) -> Path:
    path = scratch() / f"{codec} {kind}.zip"
    tile = min(SIDE, 128)
    values = np.tile(volume("em", (tile,) * 3), [SIDE // tile] * 3).astype("<u2") * 16
    store = zarr.storage.ZipStore(path, mode="w")
    zarr.create_array(
        store=store, shape=values.shape, chunks=(CHUNK,) * 3, shards=SHARDS[kind], dtype=values.dtype,
        compressors=CODECS[codec],
    )[...] = values  # fmt: skip
    store.close()
    return path


def by_tensorstore(path: Path) -> Any:
    base = {"driver": "file", "path": str(path)}
    spec = {"driver": "zarr3", "kvstore": {"driver": "zip", "base": base}, "recheck_cached_data": "open"}
    return tensorstore.open(spec).result()


def by_zarr(path: Path) -> Any:
    return zarr.open_array(zarr.storage.ZipStore(path, mode="r"), mode="r")


def names(kind: str, key: tuple[Any, ...]) -> tuple[str, ...]:
    return ("zvcore", "zarr") if kind == "shards" and key != (WHOLE,) else ("zvcore", "tensorstore", "zarr")


def only(calls: Calls, kind: str, key: tuple[Any, ...]) -> Calls:
    return {name: calls[name] for name in names(kind, key)}


def reading(codec: str, kind: str, key: tuple[Any, ...]) -> Calls:
    path = archive(codec, kind)
    ours, theirs, array = zvcore.open(path), by_tensorstore(path), by_zarr(path)
    np.testing.assert_array_equal(ours[key], array[key])
    calls: Calls = {
        "zvcore": lambda: ours[key],
        "tensorstore": lambda: theirs[key].read().result(),
        "zarr": lambda: array[key],
    }
    return only(calls, kind, key)


def opening(codec: str, kind: str, key: tuple[Any, ...]) -> Calls:
    path = archive(codec, kind)
    calls: Calls = {
        "zvcore": lambda: zvcore.open(path)[key],
        "tensorstore": lambda: by_tensorstore(path)[key].read().result(),
        "zarr": lambda: by_zarr(path)[key],
    }
    return only(calls, kind, key)


def writing(codec: str, kind: str) -> Calls:
    """A new archive in the place of the one before."""
    path = archive(codec, kind)
    original = by_zarr(path)
    values = original[...]
    size = {"shape": values.shape, "chunks": (CHUNK,) * 3, "shards": SHARDS[kind], "dtype": values.dtype}
    made = {who: path.with_name(f"{path.stem} of {who}.zip") for who in ("zvcore", "zarr")}
    # The codecs of zarr-python's document, in its words.
    told = CODECS[codec] and CODECS[codec].to_dict()

    def ours() -> None:
        made["zvcore"].unlink(missing_ok=True)
        array = zvcore.create(made["zvcore"], format="zarr3", codec=told, **size)
        array[...] = values
        array.store.finish()

    def theirs() -> None:
        made["zarr"].unlink(missing_ok=True)
        store = zarr.storage.ZipStore(made["zarr"], mode="w")
        zarr.create_array(store=store, compressors=CODECS[codec], **size)[...] = values
        store.close()

    ours()
    np.testing.assert_array_equal(by_zarr(made["zvcore"])[...], values)
    return {"zvcore": ours, "zarr": theirs}


KINDS = [(codec, kind) for kind in SHARDS for codec in CODECS]
CONTESTS = [
    *(
        Contest(f"{what}, {kind} {codec}", names(kind, key), partial(reading, codec, kind, key))
        for what, key in READS.items()
        for codec, kind in KINDS
    ),
    *(
        Contest(f"open and read one item, {kind} {codec}", names(kind, ONE), partial(opening, codec, kind, ONE))
        for codec, kind in KINDS
    ),
    *(
        Contest(f"write an archive, {kind} {codec}", ("zvcore", "zarr"), partial(writing, codec, kind), writes=True)
        for codec, kind in KINDS
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
