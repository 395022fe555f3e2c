"""Gathers what is written in slices or single chunks, and writes each shard once."""

from __future__ import annotations

import itertools
import math
import threading
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.boxes import box_of, slices, without
from zvcore.engine.selection import Selection
from zvcore.stores.request_threads import LIMIT
from zvcore.transfer.batches import BATCH_BYTES

if TYPE_CHECKING:
    from types import TracebackType

    from zvcore.array import Array
    from zvcore.boxes import Box

__all__ = ["ShardWriter"]


class _Gathered:
    """One shard's values so far, and which part of it is still to come."""

    def __init__(self, box: Box, array: Array) -> None:
        self.box = box
        self.values = np.empty([stop - start for start, stop in box], array.dtype, order=array.order)
        self.missing: list[Box] = [box]

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def put(self, box: Box, values: npt.NDArray[Any]) -> None:
        self.values[slices(box, self.box)] = values
        self.missing = [rest for one in self.missing for rest in without(one, box)]


class ShardWriter:
    """`with array.shard_writer(memory=...) as w: w[region] = values`

    Assigned values are kept until the shard that they belong to is complete, or until all that is kept takes more than
    `memory` bytes: then the shard that was not written to for the longest time goes first. A complete shard is written
    without reading it; of an incomplete one only the chunks that were written to are changed. What is left is written
    when the `with` block ends; if it ends by an exception, it is thrown away, and what was written before stays.
    After the block it takes no more values. One that goes away with values that nobody had it write warns of them.

    Threads that share it take turns. Reads of the array do not see what is still kept; `flush` writes it.
    """

    def __init__(self, array: Array, memory: int = 1 << 30) -> None:
        if memory < 0:
            raise ValueError(f"memory must not be negative, not {memory}")
        self._array = array
        self._memory = memory
        self._unit = array.shards or array.chunks
        self._gathered: OrderedDict[tuple[int, ...], _Gathered] = OrderedDict()
        self._held = 0
        self._turn = threading.Lock()
        self._closed = self._failed = False
        self.flushed = 0

    def __del__(self) -> None:
        # Of what failed an error has told.
        if getattr(self, "_gathered", None) and not self._failed:
            what = f"values of {len(self._gathered)} shards were never written: use the shard writer in a `with` block"
            warnings.warn(f"{self._array.store.root}: {what}, or call flush()", RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Self:
        self._array._check_writable()
        self._closed = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if kind is None:
            self.flush()
        else:
            with self._turn:
                self._gathered.clear()
                self._held = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._closed:
            # Nobody would write what it kept.
            raise ValueError("the block of this shard writer has ended: it takes no more values")
        array = self._array
        selection = Selection.basic(key, array.shape)
        region = _region(key, array.shape)
        shape = tuple(stop - start for start, stop in region)
        values = array._as_values(value, selection.result_shape).reshape(shape)
        if values.size == 0:
            return
        spans = [range(start // unit, -(-stop // unit)) for (start, stop), unit in zip(region, self._unit, strict=True)]
        places = np.ndindex(*(len(span) for span in spans))
        shards = (tuple(span[i] for span, i in zip(spans, place, strict=True)) for place in places)
        while some := [*itertools.islice(shards, self._at_once)]:
            with self._turn:
                for shard in some:
                    self._put(shard, region, values)
                self._write([shard for shard in some if self._is_complete(shard)])

    def _put(self, shard: tuple[int, ...], region: Box, values: npt.NDArray[Any]) -> None:
        gathered = self._gathered.get(shard)
        if gathered is None:
            gathered = self._gathered[shard] = _Gathered(box_of(shard, self._unit, self._array.shape), self._array)
            self._held += gathered.nbytes
        self._gathered.move_to_end(shard)
        part = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(region, gathered.box, strict=True))
        gathered.put(part, values[slices(part, region)])
        while self._held > self._memory and self._gathered:
            complete = [*filter(self._is_complete, self._gathered)][: self._at_once]
            self._write(complete or [next(iter(self._gathered))])

    def _is_complete(self, shard: tuple[int, ...]) -> bool:
        gathered = self._gathered.get(shard)
        return gathered is not None and not gathered.missing

    def flush(self) -> None:
        """Write everything that is kept."""
        with self._turn:
            while some := [*itertools.islice(self._gathered, self._at_once)]:
                self._write(some)

    @property
    def _at_once(self) -> int:
        """How many shards are written at once: where that means to wait, several."""
        store, nbytes = self._array.store, math.prod(self._unit) * self._array.dtype.itemsize
        return max(1, min(LIMIT, BATCH_BYTES // max(1, nbytes))) if store.parts_ahead() else 1

    def _write(self, shards: list[tuple[int, ...]]) -> None:
        if not shards:
            return
        self._failed = True
        self._array._check_current()
        self._array.store.each(self._write_one, shards)
        self._failed = False
        for shard in shards:
            self._held -= self._gathered.pop(shard).nbytes
            self.flushed += 1

    def _write_one(self, shard: tuple[int, ...]) -> None:
        gathered, array = self._gathered[shard], self._array
        transfer.write_gathered(array.layout, gathered.box, gathered.values, gathered.missing, array._work)


def _region(key: Any, shape: tuple[int, ...]) -> Box:
    """A selection of integers and slices with step 1, as a box."""
    items = list(key) if isinstance(key, tuple) else [key]
    if any(item is Ellipsis for item in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    items += [slice(None)] * (len(shape) - len(items))
    box = []
    for item, bound in zip(items, shape, strict=True):
        if isinstance(item, slice):
            start, stop, step = item.indices(bound)
            if step != 1:
                raise IndexError("a shard writer takes slices with step 1")
            box.append((start, max(start, stop)))
        else:
            place = int(item) + (bound if int(item) < 0 else 0)
            box.append((place, place + 1))
    return tuple(box)
