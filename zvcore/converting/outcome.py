"""Storing what units of a conversion have made, and counting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import transfer
from zvcore.converting.parts import nbytes_of
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.layout import ABSENT

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.way import Positions
    from zvcore.engine import Buffers
    from zvcore.report import Outcome

__all__ = ["count", "put", "slices", "store_values"]


def store_values(target: Array, box: Box, values: npt.NDArray[Any], threads: int | None, outcome: Outcome) -> None:
    """Write a box of whole objects."""
    layout = target.layout
    transfer.write(layout, Selection.basic(slices(box), target.shape), values, Work(threads))
    count(target, box, outcome)


def count(target: Array, box: Box, outcome: Outcome) -> None:
    """Add what has been written of a box of whole objects."""
    positions = Selection.basic(slices(box), target.shape).positions(target.chunks)
    outcome.values += nbytes_of([stop - first for first, stop in box], target.dtype)
    present, nbytes = stored(target, positions)
    outcome.encoded += present
    outcome.empty += len(positions) - present
    outcome.bytes_out += nbytes


def stored(target: Array, positions: Positions) -> tuple[int, int]:
    """(how many of these chunks are stored, how many bytes their objects have)."""
    layout = target.layout
    store = layout.store
    sources = layout.locate(positions)
    found = [size for size in store.sizes(sources.keys) if size is not None]
    if sources.length is not None:
        present = int((sources.length != ABSENT).sum())
    elif sources.blobs is not None:
        present = sum(blob is not None for blob in sources.blobs)
    else:
        present = len(found)
    return present, sum(found)


def put(target: Array, positions: Positions, encoded: Buffers, outcome: Outcome) -> None:
    """Store encoded chunks: all of an object's at once."""
    layout = target.layout
    transfer.put(layout, positions, encoded)
    outcome.empty += int((encoded.sizes == ABSENT).sum())
    outcome.bytes_out += layout.placement.stored_nbytes(positions, encoded)


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(first, stop) for first, stop in box)
