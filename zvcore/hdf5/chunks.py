"""Where the chunks of an HDF5 data set lie in its file, and what the filters of HDF5 are called elsewhere."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore.codecs
from zvcore.borrowed.file import library, reading
from zvcore.borrowed.flat import FlatLayout, Values
from zvcore.borrowed.stored import ChunkIndex, StoredLayout
from zvcore.errors import CodecNotFoundError, CorruptDataError, UnsupportedError
from zvcore.exchange.virtual import Piece, Virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.hdf5.reading import DatasetBlocks

__all__ = ["flat_layout", "stored_layout", "virtual_of"]

_TITLE = "HDF5"
# So that the numbers of chunks fit into 64 bits.
_MOST_ITEMS = 1 << 62
# Chunks may skip any of them, and a column of chains has 8 bits.
_MOST_FILTERS = 8
# In the place of a length without a limit.
_ANY = (1 << 64) - 1
_GZIP, _SHUFFLE, _FLETCHER, _BZIP2, _ZSTD = 1, 2, 3, 307, 32015


def stored_layout(blocks: DatasetBlocks) -> StoredLayout | None:
    """The chunks of a data set as the engine reads them itself; None where only h5py can: then it does."""
    if blocks.chunks is None:
        return None
    try:
        _refuse_other_items(blocks)
        _refuse_untold_places(blocks)
        coders = _coders(blocks.dataset, blocks.name)
        codecs = [zvcore.codecs.from_zarr2(coder).for_dtype(blocks.dtype) for coder in coders]
    except (UnsupportedError, CodecNotFoundError):
        return None
    if len(codecs) > _MOST_FILTERS:
        return None
    read_index = partial(_index, blocks, len(codecs))
    return StoredLayout(
        blocks.place, blocks.shape, blocks.chunks, blocks.dtype, _fill(blocks), codecs, read_index, blocks
    )


def flat_layout(blocks: DatasetBlocks) -> FlatLayout | None:
    """The values of a data set that lie one after the other; None where they do not, or only h5py can read them."""
    if blocks.chunks is not None:
        return None
    try:
        _refuse_other_items(blocks)
    except UnsupportedError:
        return None
    with reading(blocks.name, _TITLE):
        start = blocks.dataset.id.get_offset()
    if start is None:
        return None
    return FlatLayout(blocks.place, str(blocks.place.file), Values(int(start), blocks.shape, blocks.dtype))


def virtual_of(blocks: DatasetBlocks) -> Virtual:
    """The chunks of a data set; a contiguous one is a single chunk."""
    dataset = blocks.dataset
    _refuse_other_items(blocks)
    if dataset.chunks:
        _refuse_untold_places(blocks)
    coders = _coders(dataset, blocks.name)
    chunks = tuple(max(1, n) for n in dataset.chunks or dataset.shape)
    pieces = _chunked(blocks, len(coders)) if dataset.chunks else _contiguous(blocks)
    return Virtual(blocks.shape, chunks, blocks.dtype, _fill(blocks), pieces, coders=coders)


def _fill(blocks: DatasetBlocks) -> Any:
    with reading(blocks.name, _TITLE):
        return np.asarray(blocks.dataset.fillvalue, blocks.dtype.newbyteorder("="))[()]


def _refuse_other_items(blocks: DatasetBlocks) -> None:
    """UnsupportedError for items that do not lie in the file as numpy has them in memory."""
    h5py = library("h5py", "hdf5", _TITLE)
    if math.prod(blocks.shape) > _MOST_ITEMS:
        raise UnsupportedError("more items than can be counted", key=blocks.name, found=blocks.shape)
    with reading(blocks.name, _TITLE):
        if blocks.file.id.get_create_plist().get_userblock():
            raise UnsupportedError("files that begin with a user block", key=blocks.name)
        same = blocks.dataset.id.get_type() == h5py.h5t.py_create(blocks.dtype, logical=True)
    if blocks.dtype.kind not in "biufcS" or not same:
        raise UnsupportedError(
            "items that are not stored as other formats store them", key=blocks.name, found=str(blocks.dtype)
        )


def _refuse_untold_places(blocks: DatasetBlocks) -> None:
    """UnsupportedError for chunks of which HDF5 2.0 tells permuted places, though it reads their values correctly.

    It does so where the index is an extensible array, in which the unlimited axis comes first. Files do not tell which
    version wrongs them, so that nothing can be put right here. Objects with a header of the first version are older
    than that index.
    """
    h5py = library("h5py", "hdf5", _TITLE)
    with reading(blocks.name, _TITLE):
        unlimited = [axis for axis, most in enumerate(blocks.dataset.maxshape) if most is None]
        if len(unlimited) == 1 and unlimited != [0] and h5py.h5o.get_info(blocks.dataset.id).hdr.version > 1:
            raise UnsupportedError(
                "HDF5 does not tell reliably where chunks are if one axis is unlimited and not the first",
                key=blocks.name, found=blocks.dataset.maxshape,
            )  # fmt: skip


def _coders(dataset: Any, where: str) -> list[dict[str, Any]]:
    """The filters in the order in which HDF5 writes, in the words of Zarr v2."""
    with reading(where, _TITLE):
        properties = dataset.id.get_create_plist()
        filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
    found: list[dict[str, Any]] = []
    for code, _, values, name in filters:
        if code == _GZIP:
            found.append({"id": "zlib", "level": int(values[0]) if values else 4})
        elif code == _SHUFFLE:
            found.append({"id": "shuffle", "elementsize": dataset.dtype.itemsize})
        elif code == _FLETCHER:
            found.append({"id": "fletcher32"})
        elif code == _ZSTD:
            found.append({"id": "zstd", "level": int(values[0]) if values else 3})
        elif code == _BZIP2:
            found.append({"id": "bz2", "level": int(values[0]) if values else 9})
        else:
            known = bytes(name).decode("utf-8", "backslashreplace").partition(";")[0]
            raise UnsupportedError(f"the filter {known or code} of HDF5 is not a codec of Zarr", key=where, found=code)
    return found


def _index(blocks: DatasetBlocks, filters: int) -> ChunkIndex:
    """Where all chunks are, as HDF5's own index says; of the masks only the bits of the filters that there are."""
    dataset, told = blocks.dataset, list[Any]()
    with reading(blocks.name, _TITLE):
        if hasattr(dataset.id, "chunk_iter"):
            dataset.id.chunk_iter(told.append)
        else:
            told += map(dataset.id.get_chunk_info, range(dataset.id.get_num_chunks()))
        most = dataset.maxshape
    chunks = np.array(dataset.chunks, np.uint64)
    grid = -(-np.array(blocks.shape, np.int64) // chunks.astype(np.int64))
    starts = np.array([one.chunk_offset for one in told], np.uint64).reshape(len(told), len(chunks))
    places = starts // chunks
    within = (places < grid.astype(np.uint64)).all(axis=1)
    # What lies beyond the shape, but within what it may grow to, is left from a larger shape.
    limits = np.array([_ANY if n is None else n for n in most], np.uint64)
    beyond = ~within & ((starts >= limits) & (limits != _ANY)).any(axis=1)
    if beyond.any():
        raise CorruptDataError(
            "a chunk lies beyond what the data set may grow to",
            key=blocks.name, expected=most, found=tuple(starts[int(np.argmax(beyond))].tolist()),
        )  # fmt: skip
    strides = np.array([math.prod(grid[axis + 1 :].tolist()) for axis in range(len(grid))], np.int64)
    columns = np.array([(one.byte_offset, one.size, one.filter_mask) for one in told], np.uint64).reshape(len(told), 3)
    numbers, rows = np.unique((places[within].astype(np.int64) * strides).sum(axis=1), return_index=True)
    columns = columns[within][rows]
    return ChunkIndex(numbers, columns[:, 0], columns[:, 1], columns[:, 2].astype(np.int64) & ((1 << filters) - 1))


def _chunked(blocks: DatasetBlocks, filters: int) -> Iterator[Piece]:
    index, key = _index(blocks, filters), str(blocks.place.file)
    grid = [-(-n // m) for n, m in zip(blocks.shape, blocks.dataset.chunks, strict=True)]
    if not len(index.numbers):
        return
    places = np.stack(np.unravel_index(index.numbers, grid), axis=1).tolist()
    for row, place in enumerate(places):
        unlike = "skips filters" if index.skipped[row] else ""
        yield Piece(tuple(place), key, int(index.offsets[row]), int(index.lengths[row]), unlike)


def _contiguous(blocks: DatasetBlocks) -> Iterator[Piece]:
    with reading(blocks.name, _TITLE):
        start = blocks.dataset.id.get_offset()
    key, zeros = str(blocks.place.file), (0,) * len(blocks.shape)
    if 0 in blocks.shape:
        return
    if start is None:
        if blocks.dataset.id.get_storage_size():
            raise UnsupportedError("values that lie in the header of a data set", key=blocks.name)
        return
    nbytes = int(np.prod(blocks.shape, dtype=object)) * blocks.dtype.itemsize
    yield Piece(zeros, key, int(start), nbytes)
