"""Writing what another library holds into a new array, in parts that fit into memory."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.array import Array
from zvcore.borrowed.wrapping import as_array, is_array
from zvcore.boxes import box_of, count_of, slices
from zvcore.casting import refuse_missing
from zvcore.errors import ConflictError
from zvcore.exchange.target import grow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.boxes import Box
    from zvcore.stores import Store

__all__ = ["array_like", "fill", "refuse_own"]

# How many bytes of values are held at once, at least those of one shard.
_AT_ONCE = 256 << 20


def array_like(data: Any) -> Any:
    """What `create` is given as `data`, as an array of zvcore or of numpy."""
    refuse_missing(data)  # before there is an array for it
    if isinstance(data, Array | np.ndarray):
        return data
    return as_array(data) if is_array(data) else np.asarray(data)


def refuse_own(store: Store, data: Any) -> None:
    """Refuse to make an array where its own values are read from."""
    if not isinstance(data, Array):
        return
    ours, theirs = f"{store.root.rstrip('/')}/", f"{data.store.root.rstrip('/')}/"
    if ours.startswith(theirs) or theirs.startswith(ours):
        raise ConflictError("the values lie in the same place as the array, or one in the other", key=store.root)


def fill(array: Array, data: Any, as_asked: Callable[[Any, Box], Any]) -> None:
    """Write all of `data` to an array. Each of the array's objects is written once.

    as_asked  makes values of the array's type of those that lie in a box
    """
    # A volume has an axis of channels, which the shape of one channel need not name.
    widened = array.shape == (*data.shape, 1)
    if isinstance(data, np.ndarray):
        values = as_asked(data, ())
        array[...] = values[..., None] if widened else values
        return
    if tuple(data.shape) != array.shape and not widened:
        raise ValueError(f"the array has shape {array.shape}, its values {tuple(data.shape)}")
    extents = _extents(array, (*data.chunks, 1) if widened else data.chunks)
    for place in itertools.product(*map(range, count_of(array.shape, extents))):
        box = box_of(place, extents, array.shape)
        region = slices(box)
        values = as_asked(data[region[:-1]] if widened else data[region], box)
        array[region] = values[..., None] if widened else values
        del values  # before the next are made: there is room for one part


def _extents(array: Array, chunks: Sequence[int]) -> Sequence[int]:
    """The shape of parts that cut no object, and no chunk of the source either where such parts are small enough."""
    objects = array.shards or array.chunks
    both = [math.lcm(a, b) if a < n else a for a, b, n in zip(objects, chunks, array.shape, strict=True)]
    itemsize = array.dtype.itemsize
    fits = math.prod(min(a, n) for a, n in zip(both, array.shape, strict=True)) * itemsize <= _AT_ONCE
    return grow(both if fits else objects, array.shape, itemsize, _AT_ONCE)
