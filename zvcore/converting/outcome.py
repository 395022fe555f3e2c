"""Storing what units of a conversion have made, and counting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import transfer
from zvcore.converting.parts import nbytes_of
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.layout import ABSENT
from zvcore.placement import OneChunkPerObject

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.way import Positions
    from zvcore.engine import Buffers
    from zvcore.report import Outcome
    from zvcore.transfer import Written

__all__ = ["count", "put", "slices", "store_values"]


def store_values(target: Array, box: Box, values: npt.NDArray[Any], threads: int | None, outcome: Outcome) -> None:
    """Write a box of whole objects."""
    layout = target.layout
    written = transfer.write(layout, Selection.basic(slices(box), target.shape), values, Work(threads))
    count(target, box, written, outcome)


def count(target: Array, box: Box, written: Written, outcome: Outcome) -> None:
    """Add what has been written of a box of whole objects."""
    placement = target.layout.placement
    positions = Selection.basic(slices(box), target.shape).positions(target.chunks)
    nbytes = placement.stored_nbytes(positions, written.nbytes)
    chunks = written.chunks
    if not written.known:
        # No reading: the sizes of files.
        assert isinstance(placement, OneChunkPerObject)
        found = [size for size in placement.store.sizes(placement.keys(positions)) if size is not None]
        chunks, nbytes = len(found), sum(found)
    outcome.values += nbytes_of([stop - first for first, stop in box], target.dtype)
    outcome.encoded += chunks
    outcome.empty += len(positions) - chunks
    outcome.bytes_out += nbytes


def put(target: Array, positions: Positions, encoded: Buffers, outcome: Outcome) -> None:
    """Store encoded chunks: all of an object's at once."""
    layout = target.layout
    transfer.put(layout, positions, encoded)
    outcome.empty += int((encoded.sizes == ABSENT).sum())
    outcome.bytes_out += layout.placement.stored_nbytes(positions, encoded.nbytes)


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(first, stop) for first, stop in box)
