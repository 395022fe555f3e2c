"""What lies in the shards of an array: live bytes, dead bytes, order, ratio."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.engine import ABSENT
from zvcore.zarr3.sharding import ShardLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.zarr3.array import Zarr3Array

__all__ = ["chunk_keys", "inspect_array"]


def chunk_keys(array: Zarr3Array) -> Iterator[str]:
    """The keys of the chunk (or shard) objects that the store has."""
    metadata = array.metadata
    separator = re.escape(metadata.separator)
    numbers = separator.join([r"\d+"] * len(metadata.shape))
    first = "" if metadata.key_prefix is None else metadata.key_prefix + (separator if metadata.shape else "")
    pattern = re.compile(first + (numbers if metadata.shape or metadata.key_prefix else "0"))
    for key in array.layout.store.list():
        if pattern.fullmatch(key):
            yield key


def inspect_array(array: Zarr3Array) -> dict[str, Any]:
    """Numbers for the whole array and, if it has shards, for each of them."""
    layout = array.layout
    answer: dict[str, Any] = {
        "format": "zarr3",
        "shape": array.shape,
        "dtype": str(array.dtype),
        "chunks": array.chunks,
        "shards": array.shards,
        "codecs": list(array.metadata.codecs),
        "fill_value": array.metadata.data_type.write_fill(array.fill_value),
        "objects": 0,
        "stored_bytes": 0,
    }
    found: dict[str, dict[str, Any]] = {}
    for key in chunk_keys(array):
        answer["objects"] += 1
        answer["stored_bytes"] += layout.store.size(key) or 0
        if isinstance(layout, ShardLayout) and layout.simple:
            found[key] = inspect_shard(layout, key)
    answer["ratio"] = array.nbytes / answer["stored_bytes"] if answer["stored_bytes"] else None
    if array.shards is not None:
        answer["shard_details"] = found
    return answer


def inspect_shard(layout: ShardLayout, key: str) -> dict[str, Any]:
    """chunks: present inner chunks; live, index, dead: bytes; order: "C", "morton" or "other"; ratio."""
    index = layout.index(key)
    if index is None:
        return {"chunks": 0, "live": 0, "index": 0, "dead": 0, "size": 0, "order": None, "ratio": None}
    present = np.flatnonzero(index.lengths != np.uint64(ABSENT))
    offsets, lengths = index.offsets[present].astype(object), index.lengths[present].astype(object)
    # Chunks may share bytes: those count once.
    live = 0
    end = 0
    for offset, length in sorted(zip(offsets, lengths, strict=True)):
        live += max(0, offset + length - max(offset, end))
        end = max(end, offset + length)
    form = layout.levels[0].sharding.index
    stored = present[np.argsort(index.offsets[present], kind="stable")]
    order = "other"
    for name in ("C", "morton"):
        wanted = layout.cell_order(name)
        if np.array_equal(stored, wanted[np.isin(wanted, present)]):
            order = name
            break
    decoded = len(present) * layout.chunk_nbytes
    return {
        "chunks": len(present),
        "slots": form.count,
        "live": int(live),
        "index": form.size,
        "dead": index.size - form.size - int(live),
        "size": index.size,
        "order": order,
        "ratio": decoded / live if live else None,
    }
