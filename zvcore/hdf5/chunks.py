"""Where the chunks of a data set of HDF5 lie in its file, and what the filters of HDF5 are called elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.file import reading
from zvcore.errors import UnsupportedError
from zvcore.exchange.virtual import Piece, Virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.hdf5.reading import DatasetBlocks

__all__ = ["virtual_of"]

_TITLE = "HDF5"
_GZIP, _SHUFFLE, _FLETCHER, _BZIP2, _ZSTD = 1, 2, 3, 307, 32015


def virtual_of(blocks: DatasetBlocks) -> Virtual:
    """The chunks of a data set; one that lies in one piece is one chunk, if it is not cut further."""
    dataset, where = blocks.dataset, blocks.name
    with reading(where, _TITLE):
        if dataset.file.userblock_size:
            raise UnsupportedError("files with a block of their user before them", key=where)
        coders = _coders(dataset, where)
        chunks = dataset.chunks or dataset.shape
        fill = np.asarray(dataset.fillvalue, blocks.dtype.newbyteorder("="))[()]
    if blocks.dtype.kind not in "biufcSV":
        raise UnsupportedError("items of this type are not referred to", key=where, found=str(blocks.dtype))
    if blocks.dtype.fields is not None or blocks.dtype.subdtype is not None:
        raise UnsupportedError("items of several parts are not referred to", key=where, found=str(blocks.dtype))
    pieces = _chunked(blocks, len(coders)) if dataset.chunks else _contiguous(blocks)
    return Virtual(blocks.shape, tuple(max(1, n) for n in chunks), blocks.dtype, fill, pieces, coders=coders)


def _coders(dataset: Any, where: str) -> list[dict[str, Any]]:
    """The filters in the order in which HDF5 writes, in the words of Zarr v2."""
    properties = dataset.id.get_create_plist()
    found: list[dict[str, Any]] = []
    for number in range(properties.get_nfilters()):
        code, _, values, name = properties.get_filter(number)
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
            raise UnsupportedError(f"the filter {known or code} of HDF5 is no codec of Zarr", key=where, found=code)
    return found


def _chunked(blocks: DatasetBlocks, filters: int) -> Iterator[Piece]:
    dataset, key = blocks.dataset, str(blocks.place.file)
    with reading(blocks.name, _TITLE):
        count = dataset.id.get_num_chunks()
    for number in range(count):
        with reading(blocks.name, _TITLE):
            found = dataset.id.get_chunk_info(number)
        place = tuple(int(at) // int(n) for at, n in zip(found.chunk_offset, dataset.chunks, strict=True))
        unlike = "skips filters" if found.filter_mask & ((1 << filters) - 1) else ""
        yield Piece(place, key, int(found.byte_offset), int(found.size), unlike)


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
