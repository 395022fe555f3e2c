"""Values gathered from the chunks of a source, and encoded as a target stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import transfer
from zvcore.casting import as_dtype
from zvcore.converting.outcome import slices, store_values
from zvcore.converting.way import Encoded, Part, Positions, Way
from zvcore.engine import Buffers
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.layout import ABSENT

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.coarse import CoarseView
    from zvcore.converting.view import View
    from zvcore.report import Outcome

__all__ = ["Gather"]


class Gather(Way):
    """From a view to the chunks of a target, whatever the chunks of the source are."""

    how = "gather"
    applies = True

    def __init__(
        self, view: View | CoarseView, target: Array, rest: Way | None = None, effort: bool = False, limit: int = 0
    ) -> None:
        self.view = view
        self.target = target
        self.rest = rest

    def chunks(self, part: Part) -> Encoded:
        """The whole box is read where its values are needed, or most of its chunks."""
        asked = part.asked
        if not part.needed and 2 * len(asked) < len(part.positions):
            made = [self._one(position, part.threads) for position in asked]
            return Encoded(Buffers.chain([one for one, _ in made]), sum(n for _, n in made), made=_present(made))
        values, nbytes = self._values(part.box, part.threads)
        chunks = self._encode(part.box, part.positions, part.rows, values, part.threads)
        return Encoded(chunks, nbytes, made=int((chunks.sizes != ABSENT).sum()), values=values)

    def write(self, box: Box, threads: int | None, outcome: Outcome) -> bool:
        self.write_through(box, threads, outcome)
        return True

    def write_through(self, box: Box, threads: int | None, outcome: Outcome) -> npt.NDArray[Any]:
        values, outcome.bytes_in = self._values(box, threads)
        store_values(self.target, box, values, threads, outcome)
        return values

    def _values(self, box: Box, threads: int | None) -> tuple[npt.NDArray[Any], int]:
        values, nbytes = self.view.read(box, threads)
        if values.dtype != self.target.dtype:
            # Records, each of whose fields may have an order of bytes of its own.
            values = as_dtype(values, self.target.dtype)
        return values, nbytes

    def _encode(self, box: Box, positions: Positions, rows: Any, values: Any, threads: int | None) -> Buffers:
        selection = Selection.basic(slices(box), self.target.shape)
        chosen = np.arange(len(positions)) if rows is None else np.array(rows, np.intp)
        return transfer.encode(self.target.layout, selection, positions, chosen, values, Work(threads))

    def _one(self, position: Positions, threads: int | None) -> tuple[Buffers, int]:
        """A single chunk, decoded and encoded, and how many stored bytes were read."""
        target = self.target
        box = tuple(
            (int(i) * extent, min((int(i) + 1) * extent, bound))
            for i, extent, bound in zip(position, target.chunks, target.shape, strict=True)
        )
        values, nbytes = self._values(box, threads)
        return self._encode(box, position[None, :], None, values, threads), nbytes


def _present(made: list[tuple[Buffers, int]]) -> int:
    return sum(int((one.sizes != ABSENT).sum()) for one, _ in made)
