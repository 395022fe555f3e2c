"""What the store has of an array: the objects that are there, and the chunks in them, by their places in the grid."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.zarr3.sharding import ShardLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.zarr3.layout import ChunkLayout

__all__ = ["most_chunks", "sorted_numbers", "stored_chunks", "stored_objects"]

Ints = npt.NDArray[np.int64]

_NUMBER = r"(?:0|-?[1-9][0-9]{0,17})"


def stored_objects(layout: ChunkLayout | ShardLayout) -> Ints:
    """The places of the chunks, or of the shards, that exist, int64[n, ndim] in numeric order, as the store lists them.

    Objects outside the array's grid are left out.
    """
    store, metadata = layout.store, layout.metadata
    head, separator, ndim = metadata.key_head, metadata.separator, len(metadata.shape)
    if not ndim:
        return np.zeros((int(store.exists(head)), 0), np.int64)
    if store.local_root is not None and separator == "/":
        folder = os.path.join(store.local_root, os.fsencode(head)).rstrip(b"/")
        names = list(_nested_names(folder, "", ndim))
    else:
        names = [key[len(head) :] for key in store.list(head.rpartition("/")[0]) if key.startswith(head)]
    found = sorted_numbers(names, separator, ndim)
    return found[((found >= 0) & (found < np.array(metadata.grid, np.int64))).all(1)]


def stored_chunks(layout: ChunkLayout | ShardLayout) -> Ints:
    """The places in the grid of the chunks that are stored, int64[n, ndim] in numeric order."""
    objects = stored_objects(layout)
    if not isinstance(layout, ShardLayout):
        return objects
    found = layout.store.each(layout.stored_in, list(objects))
    chunks = np.concatenate([np.zeros((0, len(layout.shape)), np.int64), *found])
    bounds = -(-np.array(layout.shape, np.int64) // np.array(layout.form.shape, np.int64))
    chunks = chunks[(chunks < bounds).all(1)]
    return chunks[np.lexsort(chunks.T[::-1])]


def most_chunks(layout: ChunkLayout | ShardLayout) -> int:
    """How many chunks can be stored at most, by what the store lists: a shard has 16 bytes for each that it has."""
    keys = list(layout.metadata.keys(stored_objects(layout)))
    if not isinstance(layout, ShardLayout):
        return len(keys)
    per_shard: int = math.prod(layout.per_shard.tolist())
    if any(level.codecs.compressors for level in layout.levels):
        return len(keys) * per_shard
    return sum(min((layout.store.size(key) or 0) // 16, per_shard) for key in keys)


def _nested_names(folder: bytes, above: str, depth: int) -> Iterator[str]:
    """The paths of what lies `depth` folders deep, without asking of each what it is: there may be a million."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    if depth == 1:
        yield from [above + name.decode("utf-8", "replace") for name in names]
        return
    for name in names:
        if name.isdigit():
            yield from _nested_names(folder + b"/" + name, f"{above}{name.decode()}/", depth - 1)


def sorted_numbers(names: Sequence[str], separator: str, count: int) -> Ints:
    """int64[n, count] in numeric order from names like "3.-1.2"; those that are none are left out."""
    pattern = rf"{_NUMBER}(?:{re.escape(separator)}{_NUMBER}){{{count - 1}}}"
    text = "\n".join(names)
    if not re.fullmatch(rf"(?:{pattern}\n)*{pattern}", text):
        text = "\n".join(name for name in names if re.fullmatch(pattern, name))
    numbers = np.array(text.replace(separator, " ").split(), np.int64).reshape(-1, count)
    if len(numbers) > 1 and not _in_order(numbers):
        numbers = numbers[np.lexsort(numbers.T[::-1])]
    return numbers


def _in_order(numbers: Ints) -> bool:
    """Whether rows do not decrease, compared column by column."""
    before, after = numbers[:-1], numbers[1:]
    decided = np.zeros(len(before), bool)
    for column in range(numbers.shape[1]):
        if (~decided & (after[:, column] < before[:, column])).any():
            return False
        decided |= after[:, column] > before[:, column]
    return True
