"""Writes of Zarr arrays, shards and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from tests.faults.powercut.kind import (
    DAMAGED,
    STEPS,
    TORN,
    Kind,
    array_of,
    by_unit,
    check_attributes,
    kinds_of_groups,
    new,
    opened,
    rewritten,
    step_attributes,
    value_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.stores import LocalStore

ARRAY = {"format": "zarr3", "shape": (32, 64), "chunks": (16, 16)}


def array_kinds() -> list[Kind]:
    part = (slice(16, 32), slice(16, 48))
    shards = ARRAY | {"shards": (32, 64)}
    large = {"format": "zarr3", "shape": (64, 96), "chunks": (32, 32), "shards": (64, 96), "codec": None}
    half = (slice(32, 64), slice(0, 64))
    many = {"format": "zarr3", "shape": (24, 24), "chunks": (1, 1), "shards": (24, 24), "codec": None}
    few = (slice(0, 1), slice(0, 5))
    # An index that is exactly one page, and behind which nothing tells that it is whole.
    page = {"format": "zarr3", "shape": (128, 128), "chunks": (8, 8), "shards": (128, 128), "codec": None}
    quarter = (slice(96, 128), slice(0, 128))
    unproved = {"index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    kinds = []
    for said, codec in (("raw", None), ("zstd", "zstd")):
        kinds.append(rewritten(f"zarr chunks, {said}", ARRAY | {"codec": codec}, (16, 16)))
        kinds.append(rewritten(f"zarr shards, {said}", ARRAY | {"codec": codec, "shards": (32, 32)}, (32, 32)))
    return [
        *kinds,
        new("zarr chunks, new", ARRAY | {"codec": None}, (16, 16)),
        new("zarr shards, new", ARRAY | {"codec": None, "shards": (32, 32)}, (32, 32)),
        rewritten("zarr shards, part", shards | {"codec": None}, (16, 16), part),
        rewritten("zarr shards, append, raw", shards | {"codec": None}, (16, 16), part, write_mode="append"),
        rewritten("zarr shards, append, zstd", shards, (16, 16), part, write_mode="append"),
        rewritten("zarr shards, append, pages", large, (32, 32), half, write_mode="append"),
        rewritten("zarr shards, append, long index", many, (1, 1), few, write_mode="append"),
        rewritten("zarr shards, append, no checksum", page | unproved, (8, 8), quarter, write_mode="append"),
        rewritten("zarr shards, append, long index, no checksum", many | unproved, (1, 1), few, write_mode="append"),
    ]


# --- chunks that are overwritten where they lie


def inplace_begin(path: Path) -> None:
    array = zvcore.create(
        path, format="zarr3", dtype="u4", shape=(32, 64), chunks=(16, 16), shards=(32, 64), codec=["zstd", "crc32c"]
    )
    array[...] = 1
    array[:16, :16] = np.random.default_rng(0).integers(0, 2**32, (16, 16), "u4")


def inplace_values(value: int) -> Any:
    """Values that take less and less room."""
    if value == 1:
        return np.random.default_rng(0).integers(0, 2**32, (16, 16), "u4")
    values = np.full(256, value, "u4")
    values[: 200 // value] = np.random.default_rng(0).integers(2**31, 2**32, 200 // value, "u4")
    return values.reshape(16, 16)


def inplace_step(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+", write_mode="inplace")[:16, :16] = inplace_values(value)


def inplace_check(path: Path) -> list[int]:
    """The chunk that is being written may be torn, which its checksum tells; a write that is over is there."""
    array = zvcore.open(path)
    values = np.concatenate([array[:16, 16:].ravel(), array[16:].ravel()])
    assert value_of(values) == 1
    try:
        found = array[:16, :16]
    except zvcore.errors.CorruptDataError as error:
        return [TORN if error.chunk == (0, 0) else DAMAGED]
    for value in (1, *STEPS):
        if np.array_equal(found, inplace_values(value)):
            return [value]
    raise AssertionError("neither old nor new")


def outgrown_values(value: int) -> Any:
    """Values that take less room, and then more than there is left."""
    return inplace_values({2: 3, 3: 2}.get(value, value))


def step_outgrown(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+", write_mode="inplace")[:16, :16] = outgrown_values(value)


def check_outgrown(path: Path) -> list[int]:
    return [{2: 3, 3: 2}.get(value, value) for value in inplace_check(path)]


# --- one array after the other


def step_writer(store: LocalStore, value: int) -> None:
    with zvcore.open(store, mode="r+").shard_writer() as writer:
        writer[...] = value


def step_resize(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").resize((32 if value == 2 else 16, 64))


def check_resize(path: Path) -> list[int]:
    array = zvcore.open(path)
    assert value_of(array[...]) == 1
    return [{64: 1, 32: 2, 16: 3}[array.shape[0]]]


def step_overwrite(store: LocalStore, value: int) -> None:
    shape = (16, 16 * value)
    zvcore.create(store, format="zarr3", shape=shape, dtype="u4", chunks=(16, 16), codec=None, overwrite=True)


def begin_overwritten(path: Path) -> None:
    array_of(format="zarr3", shape=(16, 16), chunks=(16, 16), codec=None)(path)


def check_overwritten(path: Path) -> list[int]:
    """Nothing while it is being replaced; what is there is whole."""
    array = opened(path)
    if array is None:
        return [TORN]
    value = array.shape[1] // 16
    assert value_of(array[...]) == (1 if value == 1 else 0)
    return [value]


def kinds() -> list[Kind]:
    shards = ARRAY | {"shards": (32, 32), "codec": None}
    return [
        *array_kinds(),
        Kind("zarr shards, inplace", inplace_begin, inplace_step, inplace_check),
        Kind("zarr shards, inplace, outgrown", inplace_begin, step_outgrown, check_outgrown),
        Kind("zarr shards, shard_writer", array_of(**shards), step_writer, by_unit((32, 32))),
        Kind("zarr resize", array_of(format="zarr3", shape=(64, 64), chunks=(16, 16)), step_resize, check_resize),
        Kind("zarr attributes", array_of(**shards), step_attributes, check_attributes),
        Kind("zarr array, overwritten", begin_overwritten, step_overwrite, check_overwritten),
        *kinds_of_groups("zarr", "zarr3"),
    ]
