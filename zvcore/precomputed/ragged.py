"""A column whose rows have different lengths: all values one after the other, and where each row begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

__all__ = ["Ragged"]


class Ragged(Sequence[npt.NDArray[Any]]):
    """Row i is `values[offsets[i]:offsets[i + 1]]`; rows are views.

    related = annotations.get_many(ids)["segments"]
    related[0]                           # the ids related to the first annotation
    related.values, related.offsets      # all of them, without Python for each row
    """

    def __init__(self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> None:
        self.values = values
        self.offsets = np.ascontiguousarray(offsets, np.int64)
        bounds = self.offsets
        if bounds.ndim != 1 or not len(bounds) or bounds[0] != 0 or bounds[-1] != len(values):
            raise ValueError(f"offsets must lead from 0 to {len(values)}, the number of values")
        if (bounds[1:] < bounds[:-1]).any():
            raise ValueError("offsets cannot descend")

    @classmethod
    def of(cls, rows: Any, dtype: npt.DTypeLike | None = None, width: int | None = None) -> Ragged:
        """From a list of rows; `width`: rows are arrays [n, width]. A `Ragged` stays as it is."""
        if isinstance(rows, Ragged):
            return rows if dtype is None else Ragged(rows.values.astype(dtype, copy=False), rows.offsets)
        none = np.empty(0 if width is None else (0, width), dtype)
        arrays = [np.asarray(row, dtype) if len(row) else none for row in rows]
        offsets = np.zeros(len(arrays) + 1, np.int64)
        np.cumsum([len(row) for row in arrays], out=offsets[1:])
        return cls(np.concatenate(arrays) if arrays else none, offsets)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    def take(self, rows: npt.NDArray[np.intp]) -> Ragged:
        """Some of the rows, in any order."""
        lengths = self.lengths[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Ragged(self.values[places], offsets)

    def rows(self, first: int, last: int) -> Ragged:
        """Neighbouring rows, as views of the values."""
        offsets = self.offsets[first : last + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    @staticmethod
    def join(parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, one after the other."""
        offsets = np.zeros(1 + sum(map(len, parts)), np.int64)
        np.cumsum(np.concatenate([part.lengths for part in parts]), out=offsets[1:])
        return Ragged(np.concatenate([part.values for part in parts]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[npt.NDArray[Any]]: ...
    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        number = int(row)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no row {number}; there are {len(self)}")
        number %= len(self)
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        for number in range(len(self)):
            yield self[number]

    def tolist(self) -> list[list[Any]]:
        return [row.tolist() for row in self]

    def __repr__(self) -> str:
        return f"<Ragged: {len(self)} rows of {len(self.values)} {self.values.dtype} values>"
