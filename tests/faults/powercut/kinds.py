"""Every kind of write that power may cut off, done step by step, and how what is found later is judged.

Each step gives what it changes one value: 2, then 3; what was there before has 1. A check gives the values that it
finds, one for each unit that is old or new as a whole (0 where nothing is stored), and fails for anything else.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from tests.faults.powercut.recording import MARKS
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

SPEC = ShardingSpec(0, "murmurhash3_x86_128", 1, 1, "raw", "raw")
IDS = range(24)
STEPS = (2, 3)


@dataclass(frozen=True)
class Kind:
    """A kind of write.

    begin   makes what is there before, in a folder
    step    one write, into a store in that folder: the write of this value
    check   the values of what the writes change; it sees to the rest itself
    """

    name: str
    begin: Callable[[Path], Any]
    step: Callable[[LocalStore, int], Any]
    check: Callable[[Path], list[int]]


def value_of(values: Any) -> int:
    """The one value of a unit: that of a step, or 0 for what is not stored."""
    found = np.unique(np.asarray(values))
    assert len(found) == 1 and found[0] in (0, 1, *STEPS), f"neither old nor new: {found[:8]}"
    return int(found[0])


def nothing(path: Path) -> None:
    path.mkdir()


def opened(path: Path) -> Any:
    """The array that is there, or None."""
    try:
        found = zvcore.open(path)
    except (NotFoundError, UnsupportedError):
        return None
    if isinstance(found, zvcore.precomputed.Volume):
        return found[0] if len(found) else None
    return found if isinstance(found, zvcore.Array) else None


# --- arrays whose values are all of one unit each


def array_of(**options: Any) -> Callable[[Path], Any]:
    def make(path: Path) -> Any:
        array = zvcore.create(path, dtype="u4", **options)
        array[...] = 1
        return array

    return make


def assign(region: Any = ..., **options: Any) -> Callable[[LocalStore, int], Any]:
    def step(store: LocalStore, value: int) -> None:
        zvcore.open(store, mode="r+", **options)[region] = value

    return step


def by_unit(side: tuple[int, ...], region: Any = None, **options: Any) -> Callable[[Path], list[int]]:
    """One value for each cell of this size; those outside of the region, if there is one, were never changed."""

    def check(path: Path) -> list[int]:
        values = zvcore.open(path, **options)[...]
        found = []
        for at in np.ndindex(*(n // s for n, s in zip(values.shape, side, strict=True))):
            cell = tuple(slice(i * s, i * s + s) for i, s in zip(at, side, strict=True))
            value = value_of(values[cell])
            if region is None or all(c.start < r.stop and r.start < c.stop for c, r in zip(cell, region, strict=True)):
                found.append(value)
            else:
                assert value == 1, f"what nobody changed has the value {value}"
        return found

    return check


def array_kinds() -> list[Kind]:
    zarr = {"format": "zarr3", "shape": (32, 64), "chunks": (16, 16)}
    n5 = {"format": "n5", "shape": (48, 32), "chunks": (16, 16)}
    volume = {"format": "precomputed", "shape": (32, 32, 16), "chunks": (16, 16, 8)}
    part = (slice(16, 32), slice(16, 48))
    kinds = []

    def kind(name: str, options: dict[str, Any], unit: tuple[int, ...], region: Any = None, **how: Any) -> None:
        opening = {"scale": 0} if options["format"] == "precomputed" else {}
        step = assign(... if region is None else region, **opening, **how)
        kinds.append(Kind(name, array_of(**options), step, by_unit(unit, region, **opening)))

    def new(name: str, options: dict[str, Any], unit: tuple[int, ...]) -> None:
        opening = {"scale": 0} if options["format"] == "precomputed" else {}

        def begin(path: Path) -> None:
            zvcore.create(path, dtype="u4", **options)

        kinds.append(Kind(name, begin, assign(**opening), by_unit(unit, **opening)))

    for codec in (None, "zstd"):
        coded = {"codec": codec}
        said = "raw" if codec is None else codec
        kind(f"zarr chunks, {said}", zarr | coded, (16, 16))
        kind(f"zarr shards, {said}", zarr | coded | {"shards": (32, 32)}, (32, 32))
        kind(f"n5 blocks, {said}", n5 | coded, (16, 16))
    new("zarr chunks, new", zarr | {"codec": None}, (16, 16))
    new("zarr shards, new", zarr | {"codec": None, "shards": (32, 32)}, (32, 32))
    new("n5 blocks, new", n5 | {"codec": None}, (16, 16))
    new("precomputed chunks, new", volume | {"codec": None}, (16, 16, 8, 1))
    new("precomputed shards, new", volume | {"codec": None, "shards": (32, 32, 16)}, (32, 32, 16, 1))
    kind("precomputed chunks", volume | {"codec": None}, (16, 16, 8, 1))
    kind("precomputed shards", volume | {"codec": None, "shards": (32, 32, 16)}, (32, 32, 16, 1))
    shards = zarr | {"shards": (32, 64)}
    kind("zarr shards, part", shards | {"codec": None}, (16, 16), part)
    kind("zarr shards, append, raw", shards | {"codec": None}, (16, 16), part, write_mode="append")
    kind("zarr shards, append, zstd", shards, (16, 16), part, write_mode="append")
    large = {"format": "zarr3", "shape": (64, 96), "chunks": (32, 32), "shards": (64, 96), "codec": None}
    half = (slice(32, 64), slice(0, 64))
    kind("zarr shards, append, pages", large, (32, 32), half, write_mode="append")
    many = {"format": "zarr3", "shape": (24, 24), "chunks": (1, 1), "shards": (24, 24), "codec": None}
    few = (slice(0, 1), slice(0, 5))
    kind("zarr shards, append, long index", many, (1, 1), few, write_mode="append")
    return kinds


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


# What a chunk that was being overwritten may be, and none that is written.
TORN = -1
DAMAGED = -2


# --- one array after the other


def step_writer(store: LocalStore, value: int) -> None:
    with zvcore.open(store, mode="r+").shard_writer() as writer:
        writer[...] = value


def step_block(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").write_block((1, 1), np.full((16, 16), value, "u4"))


def step_delete_block(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").delete_block((value, 0))


def check_deleted(path: Path) -> list[int]:
    values = zvcore.open(path)[...]
    return [3 if value_of(values[48:64]) == 0 else 2 if value_of(values[32:48]) == 0 else 1]


def step_attributes(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").attrs.update({f"a{i}": value for i in range(20)})


def check_attributes(path: Path) -> list[int]:
    attrs = dict(zvcore.open(path).attrs)
    return [value_of([attrs.get(f"a{i}", 1) for i in range(20)])]


def step_resize(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").resize((32 if value == 2 else 16, 64))


def check_resize(path: Path) -> list[int]:
    array = zvcore.open(path)
    assert value_of(array[...]) == 1
    return [{64: 1, 32: 2, 16: 3}[array.shape[0]]]


def begin_group(format: str) -> Callable[[Path], Any]:
    def begin(path: Path) -> None:
        zvcore.open(path, mode="w", format=format).create_group("kept")

    return begin


def step_deep(store: LocalStore, value: int) -> None:
    group = zvcore.open(store, mode="r+")
    group.create_dataset(f"a{value}/b/c", shape=(8,), dtype="u4", chunks=(8,), codec=None)[...] = 1


def check_deep(path: Path) -> list[int]:
    group = zvcore.open(path)
    assert "kept" in group
    found = []
    for value in STEPS:
        name = f"a{value}/b/c"
        there = f"a{value}" in group and f"a{value}/b" in group and name in group
        member = group[name] if there else None
        # In N5, a folder without attributes is a group.
        found.append(value_of(member[...]) * value if isinstance(member, zvcore.Array) else 1)
    return [max(found)]


def step_create(format: str) -> Callable[[LocalStore, int], Any]:
    def step(store: LocalStore, value: int) -> None:
        place = store.child(f"deep/er/{value}")
        zvcore.create(place, format=format, shape=(8, 8, 8), dtype="u4", chunks=(8, 8, 8))[...] = 1

    return step


def check_create(path: Path) -> list[int]:
    found = 1
    for value in STEPS:
        array = opened(path / "deep" / "er" / str(value))
        if array is not None and value_of(array[...]) == 1:
            found = value
    return [found]


def begin_members(format: str) -> Callable[[Path], Any]:
    def begin(path: Path) -> None:
        group = zvcore.open(path, mode="w", format=format)
        for name in ("kept", "a/2", "a/3"):
            group.create_dataset(name, shape=(16, 16), dtype="u4", chunks=(8, 8), codec=None)[...] = 1

    return begin


def step_delete_member(store: LocalStore, value: int) -> None:
    group = zvcore.open(store, mode="r+")
    del group[f"a/{value}"]


def check_members(path: Path) -> list[int]:
    """A member that is there is whole."""
    group = zvcore.open(path)
    assert (group["kept"][...] == 1).all()
    found = 1
    for value in STEPS:
        member = group.get(f"a/{value}", None)
        # In N5, a folder without attributes is a group.
        if isinstance(member, zvcore.Array):
            assert (member[...] == 1).all(), "a part of a member that was removed"
        else:
            found = value
    return [found]


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


# --- values by id


def begin_values(path: Path) -> None:
    write_sharded(path, SPEC, dict.fromkeys(IDS, b"1" * 60))


def step_update(store: LocalStore, value: int) -> None:
    ShardedStore(store, SPEC, mode="r+").update(dict.fromkeys(IDS, b"%d" % value * (60 + value)))


def step_write_sharded(store: LocalStore, value: int) -> None:
    write_sharded(store, SPEC, dict.fromkeys(IDS, b"%d" % value * (60 + value)), overwrite=True)


def check_values(path: Path) -> list[int]:
    store = ShardedStore(path, SPEC)
    found: dict[int, list[int]] = {0: [], 1: []}
    for id in IDS:
        data = store.get(id)
        shard = int(SPEC.locate(np.array([id], np.uint64))[0][0])
        if data is None:
            found[shard].append(0)
            continue
        assert len(set(data)) == 1 and data.isdigit() and len(data) in (60, 62, 63), "neither old nor new"
        found[shard].append(int(chr(data[0])))
        assert len(data) == 60 + (found[shard][-1] if found[shard][-1] > 1 else 0)
    return [value_of(values) for values in found.values()]


def step_delete_values(store: LocalStore, value: int) -> None:
    ShardedStore(store, SPEC, mode="r+").delete([value])


def check_delete_values(path: Path) -> list[int]:
    store = ShardedStore(path, SPEC)
    for id in IDS:
        if id not in STEPS:
            assert store[id] == b"1" * 60
    return [3 if 3 not in store else 2 if 2 not in store else 1]


# --- vectors


def lines(value: int) -> list[Any]:
    return [np.full((3 + i, 3), value, "f4") + i for i in range(4)]


BOUNDS = ([0] * 3, [100] * 3)


def begin_lines(path: Path) -> None:
    zvcore.zvf.write_polylines(path, lines(1), chunk_shape=(16.0,) * 3, bounds=BOUNDS)


def step_append_lines(store: LocalStore, value: int) -> None:
    zvcore.zvf.write_polylines(store, lines(value), append=True)


def step_new_lines(store: LocalStore, value: int) -> None:
    place = store.child(str(value))
    zvcore.zvf.write_polylines(place, lines(1), chunk_shape=(16.0,) * 3, bounds=BOUNDS)


def batches_of_lines(path: Path) -> int:
    """How many whole batches of four lines there are, each of its own value."""
    store = zvcore.zvf.open(path)
    level = store.level(0)
    ids = level.object_ids(present_only=True)
    assert len(ids) % 4 == 0
    for start in range(0, len(ids), 4):
        vectors = level.read_objects(ids[start : start + 4])
        for i, line in enumerate(lines(start // 4 + 1)):
            np.testing.assert_array_equal(vectors[i], line)
    assert zvcore.zvf.validate(path).ok
    return len(ids) // 4


def check_lines(path: Path) -> list[int]:
    return [batches_of_lines(path)]


def check_new_lines(path: Path) -> list[int]:
    found = 1
    for value in STEPS:
        if (path / str(value) / "zarr.json").exists():
            assert batches_of_lines(path / str(value)) == 1
            found = value
    return [found]


def step_shard_lines(store: LocalStore, value: int) -> None:
    if value == 2:
        zvcore.zvf.shard_store(store, shard_shape=2)
    else:
        zvcore.zvf.reshard(store, 4)


def check_shard_lines(path: Path) -> list[int]:
    """Whatever its arrays are packed in, all is there; each array is replaced for itself."""
    assert batches_of_lines(path) == 1
    info = zvcore.zvf.get_shard_info(path)
    return [{None: 1, 2: 2, 4: 3}[(one["shard_shape"] or [None])[0]] for one in info["arrays"]]


# --- whole stores


def begin_source(path: Path) -> None:
    array_of(format="n5", shape=(32, 32), chunks=(16, 16), codec=None)(path / "source")


def step_convert(format: str) -> Callable[[LocalStore, int], Any]:
    def step(store: LocalStore, value: int) -> None:
        options = {"chunks": (8, 8), "shards": (16, 32)} if format == "zarr3" else {"chunks": (8, 8)}
        zvcore.convert(store.child("source"), store.child(f"to/{value}"), format=format, codec=None, **options)

    return step


def check_convert(path: Path) -> list[int]:
    """Each copy is there and complete, or unfinished and said to be."""
    found = 1
    for value in STEPS:
        place = path / "to" / str(value)
        if (place / ".zvcore-convert.json").exists():
            assert not zvcore.verify(place).ok, "an unfinished conversion that looks sound"
            continue
        array = opened(place)
        if array is not None and value_of(array[...]) == 1:
            found = value
    return [found]


def begin_damaged(path: Path) -> None:
    for value in STEPS:
        place = path / str(value)
        array_of(format="zarr3", shape=(32, 32), chunks=(16, 16), shards=(32, 32), codec="crc32c")(place)
        shard = place / "c" / "0" / "0"
        raw = bytearray(shard.read_bytes())
        raw[1100] ^= 1
        shard.write_bytes(raw)


def step_repair(store: LocalStore, value: int) -> None:
    zvcore.repair(store.child(str(value)))


def check_repair(path: Path) -> list[int]:
    """All chunks but one are always there; that one is reported, or left out."""
    found = 1
    for value in STEPS:
        array = zvcore.open(path / str(value))
        assert value_of([array[:16, :16], array[16:, :16], array[16:, 16:]]) == 1
        try:
            assert value_of(array[:16, 16:]) == 0
        except zvcore.errors.CorruptDataError:
            continue
        found = value
    return [found]


def begin_loose(path: Path) -> None:
    for value in STEPS:
        array_of(format="zarr3", shape=(32, 32), chunks=(16, 16), shards=(32, 32), codec=None)(path / str(value))
        zvcore.open(path / str(value), mode="r+", write_mode="append")[:16, :16] = 1


def step_compact(store: LocalStore, value: int) -> None:
    zvcore.compact(store.child(str(value)))


def check_compact(path: Path) -> list[int]:
    sizes = []
    for value in STEPS:
        assert value_of(zvcore.open(path / str(value))[...]) == 1
        sizes.append((path / str(value) / "c" / "0" / "0").stat().st_size)
    return [3 if sizes[1] < sizes[0] or sizes == [4164, 4164] else 2 if sizes[0] < sizes[1] else 1]


def begin_cut_append(path: Path) -> None:
    """A shard to which a writer has appended, and died: its note is there, and a part of the new bytes."""
    array_of(format="zarr3", shape=(32, 64), chunks=(16, 16), shards=(32, 64), codec="crc32c")(path)
    shard = path / "c" / "0" / "0"
    size = shard.stat().st_size
    pid = os.fork()
    if pid == 0:
        from zvcore.stores import file_writes

        def dies(where: bytes, parts: Any, *_: Any) -> None:
            with open(where, "r+b") as file:
                file.seek(0, 2)
                file.write(bytes(parts[0])[:500])
            os._exit(0)

        file_writes.extend = dies
        zvcore.open(path, mode="r+", write_mode="append")[:16, :16] = 9
    os.waitpid(pid, 0)
    assert shard.stat().st_size == size + 500


def step_mend(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+", write_mode="append")[:16, :16] = value


def step_downsample(store: LocalStore, value: int) -> None:
    zvcore.downsample(store, levels=1)


def begin_volume(path: Path) -> None:
    array_of(format="precomputed", shape=(32, 32, 16), chunks=(8, 8, 8), codec=None)(path)


def check_volume(path: Path) -> list[int]:
    """Levels that are not listed are not there; those that are complete, or the store is told to be unfinished."""
    volume = zvcore.open(path)
    assert value_of(volume[0][...]) == 1
    if (path / ".zvcore-convert.json").exists():
        return [TORN]
    for level in range(1, len(volume)):
        assert value_of(volume[level][...]) == 1, "a level without its chunks"
    return [len(volume)]


def other_kinds() -> list[Kind]:
    rows = {"format": "n5", "shape": (64, 16), "chunks": (16, 16), "codec": None}
    shards = {"format": "zarr3", "shape": (32, 64), "chunks": (16, 16), "shards": (32, 32), "codec": None}
    blocks = {"format": "n5", "shape": (32, 32), "chunks": (16, 16), "codec": None}
    corner = (slice(16, 32), slice(16, 32))
    return [
        Kind("zarr shards, inplace", inplace_begin, inplace_step, inplace_check),
        Kind("zarr shards, inplace, outgrown", inplace_begin, step_outgrown, check_outgrown),
        Kind("zarr shards, shard_writer", array_of(**shards), step_writer, by_unit((32, 32))),
        Kind("zarr resize", array_of(format="zarr3", shape=(64, 64), chunks=(16, 16)), step_resize, check_resize),
        Kind("zarr attributes", array_of(**shards), step_attributes, check_attributes),
        Kind("zarr dataset deep in groups", begin_group("zarr3"), step_deep, check_deep),
        Kind("zarr array, created", nothing, step_create("zarr3"), check_create),
        Kind("zarr array, overwritten", begin_overwritten, step_overwrite, check_overwritten),
        Kind("zarr member, removed", begin_members("zarr3"), step_delete_member, check_members),
        Kind("n5 write_block", array_of(**blocks), step_block, by_unit((16, 16), corner)),
        Kind("n5 delete_block", array_of(**rows), step_delete_block, check_deleted),
        Kind("n5 attributes", array_of(**rows), step_attributes, check_attributes),
        Kind("n5 dataset deep in groups", begin_group("n5"), step_deep, check_deep),
        Kind("n5 array, created", nothing, step_create("n5"), check_create),
        Kind("n5 member, removed", begin_members("n5"), step_delete_member, check_members),
        Kind("precomputed array, created", nothing, step_create("precomputed"), check_create),
        Kind("precomputed values, updated", begin_values, step_update, check_values),
        Kind("precomputed values, deleted", begin_values, step_delete_values, check_delete_values),
        Kind("precomputed values, write_sharded", begin_values, step_write_sharded, check_values),
        Kind("precomputed values, write_sharded new", nothing, step_write_sharded, check_values),
        Kind("vectors, written", nothing, step_new_lines, check_new_lines),
        Kind("vectors, appended", begin_lines, step_append_lines, check_lines),
        Kind("vectors, shard_store and reshard", begin_lines, step_shard_lines, check_shard_lines),
        Kind("convert to zarr", begin_source, step_convert("zarr3"), check_convert),
        Kind("convert to n5", begin_source, step_convert("n5"), check_convert),
        Kind("downsample", begin_volume, step_downsample, check_volume),
        Kind("repair", begin_damaged, step_repair, check_repair),
        Kind("compact", begin_loose, step_compact, check_compact),
        Kind(
            "append after a killed append", begin_cut_append, step_mend,
            by_unit((16, 16), (slice(0, 16), slice(0, 16))),
        ),
    ]  # fmt: skip


KINDS = {kind.name: kind for kind in (*array_kinds(), *other_kinds())}


def folder_of(name: str) -> str:
    """Where the store of a kind is made."""
    return f"{list(KINDS).index(name)}/store"


def main(folder: Path, fsync: bool, names: list[str]) -> None:
    with open(folder / MARKS, "w") as marks:

        def mark(*words: object) -> None:
            print(*words, file=marks, flush=True)

        for name in names:
            path = folder / folder_of(name)
            path.parent.mkdir()
            KINDS[name].begin(path)
            mark("begin", name)
            for value in STEPS:
                mark("write", value)
                KINDS[name].step(LocalStore(path, fsync=fsync), value)
                mark("written", value)
            mark("end", name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "1", sys.argv[3:])
