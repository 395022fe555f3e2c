"""An open file of streamlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.cached import cached_property
from zvcore.exchange.lines import LineBatch, Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from zvcore.stores import Store

__all__ = ["MILLIMETER", "Streamlines", "as_table", "gathered"]

# In nanometers.
MILLIMETER = 1e6
# Lines, and about how many vertices, that are read at once.
_BATCH, _MOST = 2048, 1 << 20


class Streamlines(ABC):
    """The lines of a file, which are read in their order. They are in millimeters, in the world's coordinates.

    attributes  {name: (type, how many numbers)} of each vertex
    stated      how many lines the header says that there are, if it does
    """

    kind = "streamlines"
    path = ""
    attributes: Mapping[str, tuple[np.dtype[Any], int]]
    stated: int | None

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
            if len(batch.positions):
                with np.errstate(invalid="ignore"):
                    low = np.minimum(low, np.nanmin(batch.positions, 0, initial=np.inf))
                    high = np.maximum(high, np.nanmax(batch.positions, 0, initial=-np.inf))
        return count, empty, vertices, (low, high) if vertices and np.isfinite([low, high]).all() else None

    def lines(self) -> Lines:
        count, empty, vertices, bounds = self.extent
        disagreement = self.disagreement(count)
        return Lines(
            count, self.batches, dict(self.attributes), vertices, bounds, self.of_objects, nanometers=MILLIMETER,
            groups=self.groups, attrs=self.attrs, losses=[] if disagreement is None else [disagreement],
            empty=empty,
        )  # fmt: skip

    def disagreement(self, count: int) -> str | None:
        """What the header says of the number of lines, in words, if there are others: of a file that was cut off."""
        if self.stated is None or count == self.stated:
            return None
        return f"the header says that there are {self.stated} lines, and there are {count}"


def gathered(lines: Iterable[tuple[npt.NDArray[Any], Mapping[str, Any]]], names: Iterable[str]) -> Iterator[LineBatch]:
    """Batches of lines that are given one by one, each with its values of attributes."""
    names = list(names)
    parts: list[npt.NDArray[Any]] = []
    values: dict[str, list[Any]] = {name: [] for name in names}
    first = size = 0
    for positions, of_points in lines:
        parts.append(positions)
        size += len(positions)
        for name in names:
            values[name].append(of_points[name])
        if len(parts) == _BATCH or size >= _MOST:
            yield _batch(first, parts, values)
            first, parts, values, size = first + len(parts), [], {name: [] for name in names}, 0
    if parts:
        yield _batch(first, parts, values)


def _batch(first: int, parts: list[Any], values: Mapping[str, list[Any]]) -> LineBatch:
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    ids = np.arange(first, first + len(parts), dtype=np.int64)
    return LineBatch(ids, np.concatenate(parts), offsets, {name: np.concatenate(one) for name, one in values.items()})


def as_table(values: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Values of so many things with a column for each of their numbers, of which there may be one."""
    return values.reshape(rows, -1) if rows else values.reshape(0, values.shape[1] if values.ndim > 1 else 1)
