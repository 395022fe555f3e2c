"""Shard files put together by hand, byte by byte, for tests of what other writers may do and of what nobody should."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zvcore.stores import MemoryStore, Store

if TYPE_CHECKING:
    from zvcore.precomputed import ShardingSpec

Rows = Sequence[tuple[int, int, int]]
MASK = 2**64 - 1


def minishard_index(rows: Rows) -> bytes:
    """From (id, start, size); starts count from the end of the shard index."""
    columns: list[list[int]] = [[], [], []]
    last_id = end = 0
    for id, start, size in rows:
        columns[0].append((id - last_id) & MASK)
        columns[1].append((start - end) & MASK)
        columns[2].append(size)
        last_id, end = id, start + size
    return b"".join(struct.pack(f"<{len(column)}Q", *column) for column in columns)


def shard(spec: ShardingSpec, minishards: dict[int, tuple[int, int]], rest: bytes) -> bytes:
    """A shard file from the ranges in its index and all that follows."""
    index = b"".join(struct.pack("<QQ", *minishards.get(number, (0, 0))) for number in range(spec.minishard_count))
    return index + rest


def simple_shard(spec: ShardingSpec, values: dict[int, bytes]) -> bytes:
    """One minishard (`minishard_bits` is 0), its values first, all as they are."""
    rows, data = [], b""
    for id, value in values.items():
        rows.append((id, len(data), len(value)))
        data += value
    index = minishard_index(rows)
    return shard(spec, {0: (len(data), len(data) + len(index))}, data + index)


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def slow_values(spec: ShardingSpec, folder: Path) -> dict[int, bytes]:
    """Every value of a store, read as the format's description reads."""
    found = {}
    for path in sorted(folder.glob("*.shard")):
        data = path.read_bytes()
        base = 16 * spec.minishard_count
        for number in range(spec.minishard_count):
            start, end = struct.unpack_from("<QQ", data, 16 * number)
            if start == end:
                continue
            raw = data[base + start : base + end]
            assert len(raw) == end - start
            if spec.minishard_index_encoding == "gzip":
                raw = gzip.decompress(raw)
            count = len(raw) // 24
            numbers = struct.unpack(f"<{3 * count}Q", raw)
            id = at = 0
            for i in range(count):
                id = (id + numbers[i]) & MASK
                at = (at + numbers[count + i]) & MASK
                size = numbers[2 * count + i]
                value = data[base + at : base + at + size]
                assert len(value) == size
                assert id not in found
                shards, minishards = spec.locate([id])
                assert (spec.shard_name(shards[0]), minishards[0]) == (path.name, number)
                found[id] = gzip.decompress(value) if spec.data_encoding == "gzip" else value
                at += size
    return found


class Counting(MemoryStore):
    """Memory that counts how often it is asked for bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, str]] = []

    def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
        self.reads.append(("get", key))
        return super().get(key, *args, **kwargs)

    def get_ranges(self, key: str, ranges: Any, **kwargs: Any) -> Any:
        self.reads.append(("get_ranges", key))
        return super().get_ranges(key, ranges, **kwargs)


class Unlockable(MemoryStore):
    """Objects that cannot be locked, as in an object store: changes go through conditional replacement."""

    can_lock = False

    def lock(self, key: str, timeout: float | None = None) -> Any:
        raise AssertionError("nobody shall lock this")


def put(store: Store | Path, name: str, data: bytes) -> None:
    if isinstance(store, Path):
        store.mkdir(exist_ok=True, parents=True)
        (store / name).write_bytes(data)
    else:
        store.put(name, data)
