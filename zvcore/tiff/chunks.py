"""Where the tiles and strips of a TIFF lie, and what its compressions are called elsewhere."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import zvcore.codecs
from zvcore.borrowed.file import reading
from zvcore.borrowed.stored import ChunkIndex, EndingLayout, StoredLayout
from zvcore.errors import CodecNotFoundError, CorruptDataError, UnsupportedError
from zvcore.exchange.virtual import Piece, Virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.codecs import Codec
    from zvcore.tiff.segments import Segments

__all__ = ["stored_layout", "virtual_of"]

# Compressions of TIFF that Zarr has codecs for.
_CODERS: dict[int, list[dict[str, Any]]] = {
    1: [], 8: [{"id": "zlib", "level": 6}], 32946: [{"id": "zlib", "level": 6}], 50000: [{"id": "zstd", "level": 3}],
    34925: [{"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None}],
}  # fmt: skip


# So that the numbers of chunks fit into 64 bits.
_MOST_ITEMS = 1 << 62
_PLAIN, _DIFFERENCES = 1, 2


def stored_layout(segments: Segments) -> StoredLayout | None:
    """The tiles of one level as the engine reads them itself; None where only tifffile can: then it does."""
    page = segments.keyframe
    dtype = segments.dtype.newbyteorder(page.parent.byteorder)
    try:
        coders = _coders(segments, {_PLAIN, _DIFFERENCES})
        codecs: list[Codec] = [zvcore.codecs.from_zarr2(coder).for_dtype(dtype) for coder in coders]
    except (UnsupportedError, CodecNotFoundError):
        return None
    if not segments.in_order or math.prod(segments.shape) > _MOST_ITEMS:
        return None
    rows = segments.extents[2]
    if (
        coders
        and not page.is_tiled
        and any(n % rows for at, n in zip(segments.axes, segments.frame, strict=True) if at == 2)
    ):
        # Some programs write the last strip whole, and others as much of it as there is: tifffile takes both.
        return None
    if int(page.predictor) == _DIFFERENCES:
        if dtype.kind not in "iu":
            return None
        _, _, _, width, samples = segments.extents
        turned = dtype.newbyteorder("=") != dtype
        codecs.insert(
            0, zvcore.codecs.get("horizontal_difference", itemsize=dtype.itemsize, row=width * samples,
                                 samples=samples, turned=turned),
        )  # fmt: skip
    kind = StoredLayout if page.is_tiled else EndingLayout
    return kind(
        segments.place, segments.shape, segments.tile, dtype, segments.dtype.type(0), codecs,
        partial(_index, segments, not codecs), segments,
    )  # fmt: skip


def _index(segments: Segments, plain: bool) -> ChunkIndex:
    """Where all tiles are. What is not compressed may have bytes behind it."""
    each = math.prod(segments.grid)
    offsets, lengths = [], []
    with reading(segments.place.root, "TIFF"):
        for page in segments.pages:
            ours, theirs = page.dataoffsets, page.databytecounts
            if min(len(ours), len(theirs)) < each:
                raise CorruptDataError(
                    "a page has fewer tiles or strips than its shape needs", key=segments.place.root,
                    expected=each, found=min(len(ours), len(theirs)),
                )  # fmt: skip
            offsets.append(ours[:each])
            lengths.append(theirs[:each])
    try:
        offset, length = np.array(offsets, np.uint64).ravel(), np.array(lengths, np.uint64).ravel()
    except OverflowError as error:
        raise CorruptDataError("a tile or strip lies nowhere", key=segments.place.root, found=str(error)) from error
    (numbers,) = np.nonzero((offset != 0) & (length != 0))
    offset, length = offset[numbers], length[numbers]
    if plain:
        length = np.minimum(length, _values_in(segments, numbers) * segments.dtype.itemsize).astype(np.uint64)
    return ChunkIndex(numbers.astype(np.int64), offset, length, np.zeros(len(numbers), np.int64))


def _values_in(segments: Segments, numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """How many values the segments of these numbers have; only the last strip of a page has fewer than the others."""
    found = np.full(len(numbers), math.prod(segments.tile), np.uint64)
    if not segments.keyframe.is_tiled:
        grid = [-(-n // extent) for n, extent in zip(segments.shape, segments.tile, strict=True)]
        places = np.stack(np.unravel_index(numbers, grid), axis=1)
        left = np.array(segments.shape, np.int64) - places * np.array(segments.tile, np.int64)
        found = np.minimum(left, np.array(segments.tile, np.int64)).prod(axis=1).astype(np.uint64)
    return found


def virtual_of(segments: Segments) -> Virtual:
    """The tiles of one level, where they hold plain values under a codec that Zarr has."""
    coders = _coders(segments, {_PLAIN})
    dtype = segments.dtype.newbyteorder(segments.keyframe.parent.byteorder)
    return Virtual(segments.shape, segments.tile, dtype, segments.dtype.type(0), _pieces(segments), coders=coders)


def _coders(segments: Segments, predictors: set[int]) -> list[dict[str, Any]]:
    """The compression in the words of Zarr v2; UnsupportedError where values are not stored as numpy has them."""
    page, where = segments.keyframe, segments.place.root
    code = int(page.compression)
    if code not in _CODERS:
        name = str(getattr(page.compression, "name", code))
        raise UnsupportedError("Zarr has no codec for this compression of TIFF", key=where, codec=name)
    wrong = {
        "a predictor": int(page.predictor) not in predictors,
        "bits in another order": int(page.fillorder) != 1,
        "samples that are not whole bytes": page.bitspersample != segments.dtype.itemsize * 8,
        "subsampled colours": int(page.photometric) == 6,
    }
    for what, is_so in wrong.items():
        if is_so:
            raise UnsupportedError(f"{what} cannot be expressed in Zarr", key=where)
    return _CODERS[code]


def _pieces(segments: Segments) -> Iterator[Piece]:
    key = str(segments.place.file)
    rank = len(segments.outer)
    for outer in itertools.product(*map(range, segments.outer)):
        page = segments.pages[int(np.ravel_multi_index(outer, segments.outer)) if outer else 0]
        offsets, counts = page.dataoffsets, page.databytecounts
        for number in range(min(len(offsets), len(counts), int(np.prod(segments.grid, dtype=object)))):
            if not offsets[number] or not counts[number]:
                continue
            full = np.unravel_index(number, segments.grid)
            place = (*outer, *(int(full[axis]) for axis in segments.axes))
            short = not segments.keyframe.is_tiled and any(
                (n + 1) * extent > size
                for n, extent, size in zip(place[rank:], segments.tile[rank:], segments.shape[rank:], strict=True)
            )
            yield Piece(place, key, int(offsets[number]), int(counts[number]), "is cut at the end" if short else "")
