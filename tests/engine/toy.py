"""Two formats in a few lines each: one object per chunk, and shards with a plain index in front.

They prove that a format is its layout and nothing else, and give the engine's tests every shape of chunk that the real
formats have: any axis order and byte order, whole and cropped edges, any chain of codecs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.array import Array
from zvcore.codecs.chain import CodecChain
from zvcore.engine import Buffers, Keys
from zvcore.errors import CorruptDataError
from zvcore.layout import ABSENT, ChunkForm, Layout, Sources
from zvcore.placement import UNKNOWN, Group, OneChunkPerObject, Shards
from zvcore.stores.indexes import Indexes

if TYPE_CHECKING:
    from collections.abc import Sequence


class Plain(Layout):
    """Chunk (i, j) is the object `c.i.j`."""

    def __init__(self, store, shape, form, codecs=(), fill_value=0, store_empty=False):
        self.store = store
        self.shape = tuple(shape)
        self.form = form
        self.fill_value = fill_value
        self.chains = (CodecChain(codecs),)
        self.store_empty = store_empty

    @property
    def placement(self):
        return OneChunkPerObject(self.store, self.keys)

    def keys(self, positions):
        ndim = len(self.shape)
        return Keys.format(positions, ["c." if ndim else "c", *["."] * (ndim - 1), *([""] if ndim else [])])

    def locate(self, positions):
        return Sources(keys=self.keys(positions))

    def chunk_name(self, position):
        return self.keys(np.array([position], np.int64).reshape(1, -1))[0]


class Boxes(Layout):
    """A shard is an index of (offset, length) for each of its chunks in C order, then the chunks."""

    def __init__(self, store, shape, form, per_shard, codecs=(), fill_value=0, store_empty=False):
        self.store = store
        self.shape = tuple(shape)
        self.form = form
        self.per_shard = np.array(per_shard, np.int64)
        self.shard_shape = tuple(int(n) for n in self.per_shard * form.shape)
        self.fill_value = fill_value
        self.chains = (CodecChain(codecs),)
        self.store_empty = store_empty
        self.slots = int(self.per_shard.prod())

    @property
    def placement(self):
        return InBoxes(self)

    def chunk_name(self, position):
        return self.placement.groups(np.array([position], np.int64))[0].key

    def index(self, key):
        return Indexes(self.store, (0, 16 * self.slots), self.read_index).of(key)

    def read_index(self, key, found):
        head = found.data
        if len(head) != 16 * self.slots:
            raise CorruptDataError("the index is cut short", key=key, expected=16 * self.slots, found=len(head))
        return (np.frombuffer(head, "<u8").reshape(-1, 2), found.stamp), 16 * self.slots

    def slot(self, positions):
        return np.ravel_multi_index(tuple((positions % self.per_shard).T), tuple(self.per_shard))

    def locate(self, positions):
        groups = self.placement.groups(positions)
        count = len(positions)
        key = np.zeros(count, np.int32)
        offset = np.zeros(count, np.uint64)
        length = np.full(count, ABSENT, np.uint64)
        stamps: list[Any] = []
        known = []
        for which, group in enumerate(groups):
            rows = group.rows
            key[rows] = which
            found = self.index(group.key)
            known.append(found)
            stamps.append(None if found is None else found[1])
            if found is not None:
                entries = found[0][self.slot(positions[rows])]
                offset[rows], length[rows] = entries[:, 0], entries[:, 1]
        keys = Keys.of([group.key for group in groups])
        return Sources(keys=keys, key=key, offset=offset, length=length, stamps=stamps, found=known)


class InBoxes(Shards):
    """How chunks are put into those shards."""

    def __init__(self, layout):
        self.layout = layout
        self.store = layout.store

    def groups(self, positions):
        boxes, inverse = np.unique(positions // self.layout.per_shard, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        return [Group("s" + ".".join(map(str, box)), np.flatnonzero(inverse == i)) for i, box in enumerate(boxes)]

    def replace(self, edit, group, positions, chunks: Buffers):
        slots = self.layout.slots
        found = self.layout.index(group.key) if group.found is UNKNOWN else group.found
        edit.made_from(None if found is None else found[1])
        parts: list[Any] = [None] * slots
        if found is not None:
            for slot, (offset, length) in enumerate(found[0].tolist()):
                if length != ABSENT:
                    parts[slot] = self.store.get_ranges(group.key, [(offset, length)], stamp=found[1])[0]
        for slot, row in zip(self.layout.slot(positions).tolist(), range(len(positions)), strict=True):
            parts[slot] = chunks[row]
        if all(part is None for part in parts) and edit.can_delete:
            edit.delete()
        else:
            at = 16 * slots
            index = []
            for part in parts:
                index.append(struct.pack("<QQ", *((0, ABSENT) if part is None else (at, len(part)))))
                at += 0 if part is None else len(part)
            edit.put([b"".join(index), *[part for part in parts if part is not None]])


def toy(
    store,
    shape: Sequence[int],
    chunks: Sequence[int],
    dtype: Any = "u2",
    per_shard: Sequence[int] | None = None,
    codecs: Sequence[Any] = (),
    fill_value: Any = 0,
    store_empty: bool = False,
    **form: Any,
) -> Array:
    chunk_form = ChunkForm(tuple(chunks), np.dtype(dtype), **form)
    if per_shard is None:
        layout: Layout = Plain(store, shape, chunk_form, codecs, fill_value, store_empty)
    else:
        layout = Boxes(store, shape, chunk_form, per_shard, codecs, fill_value, store_empty)
    return Array(layout, format="toy", codec=tuple(codecs))
