"""Values gathered from the chunks of a source, and encoded as a target stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.engine import Buffers
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.converting.pyramids import CoarseView
    from zvcore.converting.view import Box, View

__all__ = ["Gather"]

Positions = npt.NDArray[np.int64]


class Gather:
    """From a view to the chunks of a target, whatever the chunks of the source are."""

    def __init__(self, view: View | CoarseView, target: Array) -> None:
        self.view = view
        self.target = target

    def encode(
        self, box: Box, positions: Positions, left: list[int], needed: bool, threads: int | None
    ) -> tuple[Buffers | None, int, npt.NDArray[Any] | None]:
        """(these rows of the chunks of a box, or None for no rows; stored bytes read; the box's values, if it was
        read as a whole, as it is where its values are `needed` or most chunks are `left`).
        """
        if not needed and 2 * len(left) < len(positions):
            made = [self._one(positions[row], threads) for row in left]
            return (Buffers.chain([one for one, _ in made]) if made else None), sum(n for _, n in made), None
        values, nbytes = self.view.read(box, threads)
        if not left:
            return None, nbytes, values
        selection = Selection.basic(tuple(slice(*span) for span in box), self.target.shape)
        rows = np.array(left, np.intp)
        return transfer.encode(self.target.layout, selection, positions, rows, values, Work(threads)), nbytes, values

    def _one(self, position: npt.NDArray[np.int64], threads: int | None) -> tuple[Buffers, int]:
        """A single chunk, decoded and encoded, and how many stored bytes were read."""
        target = self.target
        box = tuple(
            (int(i) * extent, min((int(i) + 1) * extent, bound))
            for i, extent, bound in zip(position, target.chunks, target.shape, strict=True)
        )
        fresh, nbytes, _ = self.encode(box, position[None, :], [0], True, threads)
        assert fresh is not None
        return fresh, nbytes
