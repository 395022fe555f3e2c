"""Where the tiles and strips of a TIFF lie, for readers of Zarr."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnsupportedError
from zvcore.exchange.virtual import Piece, Virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.tiff.segments import Segments

__all__ = ["virtual_of"]

# Compressions of TIFF that Zarr has codecs for.
_CODERS: dict[int, list[dict[str, Any]]] = {
    1: [], 8: [{"id": "zlib", "level": 6}], 32946: [{"id": "zlib", "level": 6}], 50000: [{"id": "zstd", "level": 3}],
    34925: [{"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None}],
}  # fmt: skip


def virtual_of(segments: Segments) -> Virtual:
    """The tiles of one level, where they hold plain values under a codec that Zarr has."""
    page, where = segments.keyframe, segments.place.root
    code = int(page.compression)
    if code not in _CODERS:
        name = str(getattr(page.compression, "name", code))
        raise UnsupportedError("Zarr has no codec for this compression of TIFF", key=where, codec=name)
    wrong = {
        "a predictor": int(page.predictor) != 1,
        "bits in another order": int(page.fillorder) != 1,
        "samples that are not whole bytes": page.bitspersample != segments.dtype.itemsize * 8,
        "subsampled colours": int(page.photometric) == 6,
    }
    for what, is_so in wrong.items():
        if is_so:
            raise UnsupportedError(f"{what} cannot be expressed in Zarr", key=where)
    dtype = segments.dtype.newbyteorder(page.parent.byteorder)
    return Virtual(
        segments.shape, segments.tile, dtype, segments.dtype.type(0), _pieces(segments), coders=_CODERS[code]
    )


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
