"""Where the values lie behind a header, and how they are put there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zvcore import codecs
from zvcore.codecs import CodecChain
from zvcore.engine import ABSENT, Keys, Sources
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError
from zvcore.headed.header import Header, read_header
from zvcore.layout import ChunkForm, Layout
from zvcore.placement import Group, Placement, Shards

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from zvcore.engine.buffers import Buffers
    from zvcore.headed.format import HeadedFormat
    from zvcore.stores import Store
    from zvcore.stores.base import Stamp
    from zvcore.stores.editing import Edit

__all__ = ["HeadedLayout"]

# About how many bytes of raw values are one chunk.
_SLAB = 1 << 20


class HeadedLayout(Layout):
    """Raw values are read slab by slab along the slowest axis; a compressed stream is one chunk.

    A file that ends with its header has not been written to yet: it reads as 0.
    """

    store_empty = True

    def __init__(self, format: HeadedFormat, store: Store, header: Header) -> None:
        assert store.file is not None
        self.format, self.store, self.key, self.header = format, store, store.file, header
        self.shape = self.shard_shape = header.shape
        self.codec = None if header.codec is None else codecs.get(header.codec)
        axes = tuple(range(len(header.shape)))
        axes = axes if header.order == "C" else axes[::-1]
        chunk = list(header.shape)
        self.row = header.nbytes // max(1, chunk[axes[0]])
        if self.codec is None:
            chunk[axes[0]] = max(1, min(chunk[axes[0]], _SLAB // max(1, self.row)))
        self.slow = axes[0]
        self.slab = self.row * chunk[self.slow]
        self.form = ChunkForm(tuple(chunk), header.dtype, header.swapped, axes, "cropped")
        self.fill_value = np.zeros((), header.dtype)[()]

    @property
    def chains(self) -> tuple[CodecChain, ...]:
        return (CodecChain(() if self.codec is None else (self.codec,)),)

    @property
    def placement(self) -> Placement:
        return _BehindHeader(self)

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.key

    def present(self) -> tuple[Header, int, Stamp]:
        """(the header, the size, the stamp) of the file as it is now: its values may have moved since it was opened."""
        stamp, size = self.store.stamp(self.key), self.store.size(self.key)
        if stamp is None or size is None:
            raise NotFoundError("the file is gone", key=self.store.root)
        return self.checked(read_header(self.format, self.store)), size, stamp

    def checked(self, header: Header) -> Header:
        if header.form != self.header.form:
            raise ConflictError("the file holds another array by now; open it again", key=self.store.root)
        return header

    def spans(self, positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """(first byte, length) of some chunks among the raw values."""
        first = positions[:, self.slow].astype(np.uint64) * np.uint64(self.slab)
        return first, np.minimum(np.uint64(self.slab), np.uint64(self.header.nbytes) - first)

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        header, size, stamp = self.present()
        count = len(positions)
        if size <= header.start:
            offset, length = np.zeros(count, np.uint64), np.full(count, ABSENT, np.uint64)
        elif self.codec is not None:
            offset = np.full(count, header.start, np.uint64)
            length = np.full(count, size - header.start, np.uint64)
        else:
            first, length = self.spans(positions)
            offset = first + np.uint64(header.start)
        keys = Keys.of([self.key])
        return Sources(keys=keys, key=np.zeros(count, np.int32), offset=offset, length=length, stamps=[stamp])


class _BehindHeader(Shards):
    def __init__(self, layout: HeadedLayout) -> None:
        self.layout, self.store = layout, layout.store

    def groups(self, positions: npt.NDArray[np.int64]) -> Iterable[Group]:
        return [Group(self.layout.key, np.arange(len(positions)))]

    def replace(self, edit: Edit, group: Group, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        layout, raw = self.layout, edit.get()
        if raw is None:
            raise NotFoundError("the file is gone", key=self.store.root)
        header = layout.checked(layout.format.parse(bytes(raw), group.key))
        if layout.codec is not None:
            edit.put([bytes(raw[: header.start]), b"" if chunks[0] is None else chunks[0]])
            return
        values = bytearray(raw[header.start :]) or bytearray(header.nbytes)
        if len(values) < header.nbytes:
            raise CorruptDataError(
                "the file is cut off", key=group.key, offset=header.start, expected=header.nbytes, found=len(values)
            )
        for row, (first, length) in enumerate(zip(*layout.spans(positions), strict=True)):
            data = chunks[row]
            values[int(first) : int(first + length)] = bytes(int(length)) if data is None else data
        edit.put([bytes(raw[: header.start]), values])
