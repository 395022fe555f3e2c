"""How much of a data set may have to be in memory to show a part of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zvcore.errors import UnsupportedError
from zvcore.wording import human_size

if TYPE_CHECKING:
    from zvcore.array import Array

__all__ = ["LARGEST_READ", "LARGEST_UNIT", "refuse_if_too_large", "threads_for"]

# What is decoded as a whole, a chunk mostly, may be so large.
LARGEST_UNIT = 256 << 20
# And so much may be read of a file at once.
LARGEST_READ = 512 << 20
# Of larger chunks, one after the other is decoded.
_SEVERAL = 16 << 20


def refuse_if_too_large(array: Array) -> None:
    """UnsupportedError if one voxel of the array takes more memory than it is worth."""
    size = unit_of(array)
    if size > LARGEST_UNIT:
        raise UnsupportedError(f"chunks of {human_size(size)} are too large to be shown")


def unit_of(array: Array) -> int:
    """The bytes of the largest thing that is decoded as a whole: a chunk, an index of a shard, or a packed shard."""
    layout = array.layout
    chunk = layout.chunk_nbytes
    if layout.shard_shape is None:
        return chunk
    shard = math.prod(layout.shard_shape) * layout.form.dtype.itemsize
    index = 16 * math.prod(layout.shard_shape) // max(1, math.prod(layout.form.shape))
    return max(chunk, index) if getattr(layout, "ranged", True) else max(shard, index)


def threads_for(array: Array, threads: int | None) -> int | None:
    return threads if unit_of(array) <= _SEVERAL else 1
