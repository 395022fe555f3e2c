"""Whole arrays at once, from untrusted documents: a shape is only a number in a file.

Chunks that are not stored may read as fill values, but not so many that a number takes all memory: before anything of
the claimed size is made, there must be stored chunks to show for it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import codecs, transfer
from zvcore.engine import ABSENT, Keys, Selection, Sources, Work, encode_many, fetch
from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.kernels import vlen
from zvcore.transfer import OrderedWriter
from zvcore.zarr3.listing import most_chunks

if TYPE_CHECKING:
    from zvcore.zarr3.layout import ChunkLayout
    from zvcore.zarr3.sharding import ShardLayout

__all__ = ["read_numbers", "read_row_chunk", "read_rows", "write_numbers", "write_rows"]

Ints = npt.NDArray[np.int64]
# (bytes, where each row begins, how long it is)
Rows = tuple[npt.NDArray[np.uint8], Ints, Ints]

# As many items may be missing.
_HOLLOW_ITEMS = 2**24


def read_numbers(layout: ChunkLayout | ShardLayout, stop: int | None = None) -> npt.NDArray[Any]:
    """All numbers, in native byte order; of the first axis only `stop` rows."""
    metadata = layout.metadata
    dtype = metadata.data_type.dtype
    if metadata.data_type.kind != "fixed" or dtype.kind not in "biuf":
        raise UnsupportedError(f"data type {metadata.data_type.json!r}, where numbers are expected", key=metadata.where)
    shape = layout.shape if stop is None else (min(stop, layout.shape[0]), *layout.shape[1:])
    most = min(codecs.max_decoded_size, layout.store.largest or codecs.max_decoded_size)
    if layout.chunk_nbytes > most:
        raise CorruptDataError(
            "chunks that are too large to be decoded", key=metadata.where, expected=f"at most {most} bytes",
            found=layout.chunk_nbytes,
        )  # fmt: skip
    _refuse_hollow(layout, prod(shape))
    if layout.store.largest is not None and prod(shape) * dtype.itemsize > layout.store.largest:
        raise UnsupportedError("more than may be decoded at once", key=metadata.where, expected=f"at most {most} bytes")
    out = np.empty(shape, dtype)
    region = ... if stop is None else slice(stop)
    transfer.read(layout, Selection.basic(region, layout.shape), out, Work())
    return out


def read_rows(layout: ChunkLayout | ShardLayout, stop: int | None = None) -> Rows:
    """All byte strings of a one-dimensional array. Chunks that are not stored give empty ones."""
    rows = layout.shape[0] if stop is None else min(stop, layout.shape[0])
    extent = layout.form.shape[0]
    _refuse_hollow(layout, rows)
    buffers = transfer.read_decoded(layout, np.arange(-(-rows // extent), dtype=np.int64).reshape(-1, 1))
    pool, begins = buffers.joined()
    # 4 bytes of each row at least.
    _refuse_unbacked(layout, rows, 2 * len(pool))
    starts, lengths = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for chunk in np.flatnonzero(buffers.sizes != ABSENT).tolist():
        first = chunk * extent
        taken = min(extent, rows - first)
        at, sizes = _split(layout, pool[begins[chunk] : begins[chunk + 1]], chunk, taken)
        starts[first : first + taken] = at[:taken] + begins[chunk]
        lengths[first : first + taken] = sizes[:taken]
    return pool, starts, lengths


def read_row_chunk(layout: ChunkLayout | ShardLayout, chunk: int, stored: bytes | memoryview | None = None) -> Rows:
    """One chunk of a one-dimensional array of byte strings; of what is `stored` of it, where that has been read."""
    taken = min(layout.form.shape[0], layout.shape[0] - chunk * layout.form.shape[0])
    if stored is None:
        buffers = transfer.read_decoded(layout, np.array([[chunk]], np.int64))
    else:
        sources = Sources(Keys.of([layout.chunk_name((chunk,))]), blobs=[memoryview(stored)])
        buffers = fetch(layout.store, sources, layout.chains)
    pool, _ = buffers.joined()
    if buffers.sizes[0] == ABSENT:
        _refuse_unbacked(layout, taken, 0)
        return pool, np.zeros(taken, np.int64), np.zeros(taken, np.int64)
    at, sizes = _split(layout, pool, chunk, taken)
    return pool, at[:taken], sizes[:taken]


def _split(
    layout: ChunkLayout | ShardLayout, data: npt.NDArray[np.uint8], chunk: int, wanted: int
) -> tuple[Ints, Ints]:
    """Where the rows of one decoded chunk lie in it."""
    key = layout.chunk_name((chunk,))
    try:
        at, sizes = vlen.split_rows(data.data)
    except ZvcoreError as error:
        raise error.located(key=key, chunk=chunk) from None
    if not wanted <= len(at) <= layout.form.shape[0]:
        raise CorruptDataError(
            "a chunk with another number of rows", key=key, chunk=chunk, expected=layout.form.shape[0], found=len(at)
        )
    return at, sizes


def _refuse_hollow(layout: ChunkLayout | ShardLayout, items: int) -> None:
    """By what the store lists: before a position is made for each of very many chunks."""
    if items > _HOLLOW_ITEMS:
        _refuse_unbacked(layout, items, most_chunks(layout) * prod(layout.form.shape))


def _refuse_unbacked(layout: ChunkLayout | ShardLayout, items: int, backed: int) -> None:
    if items > backed + _HOLLOW_ITEMS:
        raise CorruptDataError(
            "an array of which almost nothing is stored", key=layout.metadata.where, expected=f"{items} items",
            found=backed,
        )  # fmt: skip


def write_numbers(layout: ChunkLayout | ShardLayout, values: npt.NDArray[Any]) -> None:
    """Fill an array with numbers; chunks that hold nothing but the fill value are stored too."""
    layout.store_empty = True
    transfer.write(layout, Selection.basic(..., layout.shape), values.astype(layout.form.dtype, copy=False), Work())


def write_rows(layout: ChunkLayout | ShardLayout, data: Any, offsets: Ints) -> None:
    """Fill a one-dimensional array with byte strings: the i-th is `data[offsets[i] : offsets[i + 1]]`."""
    extent = layout.form.shape[0]
    with OrderedWriter(layout) as writer:
        for number in range(-(-(len(offsets) - 1) // extent)):
            part = offsets[number * extent : (number + 1) * extent + 1]
            # Chunks at the end are as long as all others.
            padded = np.concatenate([part, np.full(extent + 1 - len(part), part[-1])]).astype(np.int64)
            encoded = encode_many([vlen.join_rows(data, padded)], layout.chains[0])
            writer.add(np.array([[number]], np.int64), encoded)
