"""From chunks to coarser values, without the finer ones in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.boxes import slices
from zvcore.engine.coarse import AXES, makes
from zvcore.engine.coarse import read_coarser as coarser_of
from zvcore.engine.selection import Selection
from zvcore.errors import CorruptDataError
from zvcore.transfer.batches import BATCH_CHUNKS, Steps, windows
from zvcore.transfer.reading import read_window, window_size
from zvcore.transfer.windows import position_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zvcore.boxes import Box
    from zvcore.engine.chunks import Chunks
    from zvcore.engine.sources import Sources
    from zvcore.engine.work import Work
    from zvcore.layout import Layout

__all__ = ["read_coarser", "reads_coarser"]


@dataclass(frozen=True)
class _Coarser:
    out: npt.NDArray[Any]
    first: list[int]
    factors: Sequence[int]
    modes: bool

    def narrowed(self, chunks: Chunks) -> Sources:
        assert chunks.sources is not None
        return chunks.sources

    def take(self, chunks: Chunks, work: Work) -> bool:
        coarser_of(chunks, self.out, self.first, self.factors, self.modes, work)
        return False


def reads_coarser(layout: Layout, box: Box, factors: Sequence[int], modes: bool, out: npt.NDArray[Any]) -> bool:
    """Whether `read_coarser` can do it: no box of voxels lies in two chunks, and `out` in memory as the chunks do."""
    form = layout.form
    if layout.value_codec is not None or not layout.regular:
        return False
    if form.dtype.newbyteorder("=") != out.dtype or not makes(out.dtype, modes):
        return False
    axes = form.axes or tuple(range(len(form.shape)))
    # The engine makes values coarser along the axes that are the fastest in the memory of chunks.
    if any(factors[axis] != 1 for axis in axes[:-AXES]):
        return False
    if not axes or out.strides[axes[-1]] != out.itemsize:
        return False
    return all(
        first % chunk == 0 and (stop == extent or stop % chunk == 0) and (chunk % factor == 0 or extent <= chunk)
        for (first, stop), chunk, factor, extent in zip(box, form.shape, factors, layout.shape, strict=True)
    )


def read_coarser(
    layout: Layout, box: Box, factors: Sequence[int], modes: bool, out: npt.NDArray[Any], work: Work
) -> None:
    """Read a box of whole chunks into `out`, made coarser by `factors`: the mean of each box of voxels, or with `modes`
    its most frequent value. `out` has an axis for each of the array.
    """
    selection = Selection.basic(slices(box), layout.shape)
    into = _Coarser(out, [start // factor for (start, _), factor in zip(box, factors, strict=True)], factors, modes)
    size = window_size(layout, work)
    steps = Steps(work, 0)
    try:
        for positions in position_windows(selection, layout.form.shape, BATCH_CHUNKS):
            for window in windows(len(positions), size):
                read_window(layout, positions[window], None, into, steps)
    except CorruptDataError as error:
        raise layout.store.explained(error)
