"""An open file of streamlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.cached import cached_property
from zvcore.exchange.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.exchange.lines import LineBatch
    from zvcore.stores import Store

__all__ = ["MILLIMETER", "Streamlines", "as_table"]

# In nanometers.
MILLIMETER = 1e6
# Rows of a table that are taken together for one long one.
_FOLDED = 512


class Streamlines(ABC):
    """The lines of a file, which are read in their order. They are in millimeters, in the world's coordinates.

    attributes  {name: (type, how many numbers)} of each vertex
    stated      how many lines the header says that there are, if it does
    notes       what the header leaves open, in words
    """

    kind = "streamlines"
    path = ""
    attributes: Mapping[str, tuple[np.dtype[Any], int]]
    stated: int | None
    notes: Sequence[str] = ()

    def __init__(self, format: str, store: Store) -> None:
        self.format = format
        self.store = store

    def __repr__(self) -> str:
        return f"<zvcore.Streamlines {self.format} of {self.store.root}>"

    @property
    def attrs(self) -> dict[str, Any]:
        from zvcore.exchange.tractogram_header import ATTRIBUTE

        return {ATTRIBUTE: self.header()}

    def children(self) -> dict[str, Any]:
        return {}

    @abstractmethod
    def header(self) -> dict[str, Any]:
        """The header and what else a store keeps for a file that is made of it, as JSON has it."""

    @abstractmethod
    def batches(self) -> Iterator[LineBatch]:
        """All lines, with the numbers 0, 1, ... as ids."""

    @property
    @abstractmethod
    def of_objects(self) -> Mapping[str, npt.NDArray[Any]]:
        """{name: a value for each line}"""

    @property
    def groups(self) -> Mapping[str, npt.NDArray[Any]]:
        return {}

    @cached_property
    def extent(self) -> tuple[int, int, int, Any]:
        """(lines, those without vertices, vertices, corners): all of the file is read for it."""
        count = empty = vertices = 0
        low, high = np.full(3, np.inf), np.full(3, -np.inf)
        for batch in self.batches():
            count, vertices = count + len(batch.ids), vertices + len(batch.positions)
            empty += int((np.diff(batch.offsets) == 0).sum())
            # Both pass over NaN.
            low = np.fmin(low, _along_columns(np.fmin, batch.positions))
            high = np.fmax(high, _along_columns(np.fmax, batch.positions))
        return count, empty, vertices, (low, high) if vertices and np.isfinite([low, high]).all() else None

    def lines(self) -> Lines:
        count, empty, vertices, bounds = self.extent
        return Lines(
            count, self.batches, dict(self.attributes), vertices, bounds, self.of_objects, nanometers=MILLIMETER,
            groups=self.groups, attrs=self.attrs, losses=self.doubts(count), notes=[*self.notes],
            empty=empty,
        )  # fmt: skip

    def doubts(self, count: int) -> list[str]:
        """What of the file is not so as its header says, or is not among its lines, in words: of all that were read."""
        if self.stated is None or count == self.stated:
            return []
        return [f"the header says that there are {self.stated} lines, and there are {count}"]


def _along_columns(ufunc: np.ufunc, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What is left of all rows of a table; NaN of none."""
    whole = len(table) // _FOLDED * _FOLDED
    # numpy goes through a few long rows many times as fast as through many of three numbers.
    folded = table[:whole].reshape(-1, _FOLDED * table.shape[1])
    rest = table[whole:]
    if whole:
        rest = np.concatenate([ufunc.reduce(folded, 0).reshape(_FOLDED, -1), rest])
    return ufunc.reduce(rest, 0) if len(rest) else np.full(table.shape[1], np.nan)


def as_table(values: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Values of so many things with a column for each of their numbers, of which there may be one."""
    return values.reshape(rows, -1) if rows else values.reshape(0, values.shape[1] if values.ndim > 1 else 1)
