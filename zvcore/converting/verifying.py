"""Reads both sides of a conversion back and compares their checksums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import transfer
from zvcore.boxes import box_of, count_of
from zvcore.codecs.small_numbers import kind_of
from zvcore.converting.parts import nbytes_of
from zvcore.converting.present import Units, compared_units
from zvcore.errors import ZvcoreError
from zvcore.exchange import grow
from zvcore.format import get_format
from zvcore.kernels import crc32c
from zvcore.report import Problem

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.coarse import CoarseView
    from zvcore.converting.view import View

__all__ = ["Comparison", "compare"]

_PART_BYTES = 32 << 20


@dataclass
class Comparison:
    """The parts of a view and of the array that was made of it. Picklable."""

    view: View | CoarseView
    target: Array
    name: str
    memory: int

    spread = False

    def __post_init__(self) -> None:
        itemsize = max(self.view.value_dtype.itemsize, self.view.array.dtype.itemsize)
        wanted = max(1, min(_PART_BYTES, self.memory // 8))
        self.cell = grow(self.target.chunks, self.target.shape, itemsize, wanted)

    @property
    def grid(self) -> tuple[int, ...]:
        return count_of(self.target.shape, self.cell)

    def __len__(self) -> int:
        lossy = get_format(self.target.format).exchange().is_lossy(self.target)
        return 0 if lossy else math.prod(self.grid)

    @property
    def unit_memory(self) -> int:
        return 3 * nbytes_of(self.cell, self.view.array.dtype)

    @property
    def units(self) -> Units:
        """The parts in which either side has something."""
        return compared_units(self.view, self.target, self.cell, len(self))

    def run(self, unit: int, threads: int | None) -> list[Problem]:
        place = np.unravel_index(unit, self.grid) if self.grid else ()
        box = box_of([int(i) for i in place], self.cell, self.target.shape)
        try:
            ours, _ = self.view.read(box, threads)
        except ZvcoreError as error:
            return [Problem.of(error, f"source of {self.name}", box)]
        return compare(ours, self.target, box, threads, self.name)


def compare(ours: npt.NDArray[Any], target: Array, box: Box, threads: int | None, name: str) -> list[Problem]:
    """What is wrong about a box of the destination, which should hold these values."""
    region = tuple(slice(first, stop) for first, stop in box)
    plain = not target.dtype.hasobject and target.dtype.kind != "T"
    try:
        if not plain:
            # With an ellipsis, a single item comes in an array: numpy drops NULs at the end of a bare text.
            theirs = np.asarray(target.read((*region, ...), threads=threads))
            same = bool(np.array_equal(ours, theirs))
            return [] if same else [Problem(name, f"values of {region} differ", box)]
        theirs = transfer.empty(ours.shape, target.dtype, "F" if target.order == "F" else "C")
        target.read(region, out=theirs, threads=threads)
    except ZvcoreError as error:
        return [Problem.of(error, name, box)]
    # Laid out alike, so that equal values are equal bytes.
    expected = np.asarray(ours, target.dtype, order="F" if target.order == "F" else "C")
    first, second = checksum(expected), checksum(theirs)
    if first == second:
        return []
    different = expected != theirs
    if kind_of(target.dtype) in "fc":
        different &= ~(np.isnan(expected) & np.isnan(theirs))
    at = np.argwhere(different)
    if not len(at):
        return []  # zeros of both signs, or the same NaN in other bits
    where = tuple(int(n) + start for n, (start, _) in zip(at[0], box, strict=True))
    chunk = tuple(n // extent for n, extent in zip(where, target.chunks, strict=True))
    key = target.layout.chunk_name(chunk)
    place = ", ".join(f"{start}:{stop}" for start, stop in box)
    return [
        Problem(
            f"{target.layout.store.root}/{key}",
            f"checksums of [{place}] differ (expected {first:08x}, found {second:08x}): {len(at)} values, the first at "
            f"{where}: expected {expected[tuple(at[0])]}, found {theirs[tuple(at[0])]}",
            chunk,
        )
    ]


def checksum(values: npt.NDArray[Any]) -> int:
    flat = values.reshape(-1, order="F" if values.flags.f_contiguous else "C")
    return crc32c(flat.view(np.uint8)) if flat.size else 0
