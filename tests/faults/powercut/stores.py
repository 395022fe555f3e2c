"""Conversions, levels, repairs and compaction: writes of whole stores."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import zvcore
from tests.faults.powercut.kind import STEPS, TORN, Kind, array_of, by_unit, in_order, opened, value_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zvcore.stores import LocalStore


def begin_source(path: Path) -> None:
    array_of(format="n5", shape=(32, 32), chunks=(16, 16), codec=None)(path / "source")


def step_convert(format: str) -> Callable[[LocalStore, int], Any]:
    def step(store: LocalStore, value: int) -> None:
        options = {"chunks": (8, 8), "shards": (16, 32)} if format == "zarr3" else {"chunks": (8, 8)}
        zvcore.convert(store.child("source"), store.child(f"to/{value}"), format=format, codec=None, **options)

    return step


def is_unfinished(place: Path) -> bool:
    """Whether it is said that not all of a conversion is there."""
    if not (place / ".zvcore-convert.json").exists():
        return False
    assert not zvcore.verify(place).ok, "an unfinished conversion that looks sound"
    return True


def check_convert(path: Path) -> list[int]:
    """Each copy is there and complete, or unfinished and said to be."""
    done = {}
    for value in STEPS:
        place = path / "to" / str(value)
        array = None if is_unfinished(place) else opened(place)
        done[value] = array is not None and value_of(array[...]) == 1
    return [in_order(done)]


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
    done = {}
    for value in STEPS:
        array = zvcore.open(path / str(value))
        assert value_of([array[:16, :16], array[16:, :16], array[16:, 16:]]) == 1
        try:
            assert value_of(array[:16, 16:]) == 0
            done[value] = True
        except zvcore.errors.CorruptDataError:
            done[value] = False
    return [in_order(done)]


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


def kinds() -> list[Kind]:
    return [
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
