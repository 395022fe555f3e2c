"""Chunks of different lengths along one axis, as `rectilinear` grids have them: runs of equal ones, never one by one.

What a document claims costs nothing: a run of 10**18 chunks is one run.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from zvcore.documents.members import Place

__all__ = ["Edges", "Run"]

# What an index of 64 bits can still count.
_MOST = 2**62 - 1


class Run(NamedTuple):
    """So many chunks of this extent, one after the other: where the first begins, and its number in the grid."""

    extent: int
    chunks: int
    start: int
    first: int

    @property
    def stop(self) -> int:
        return self.start + self.extent * self.chunks


class Edges:
    """How one axis of this length is cut into chunks, which may reach over its end."""

    def __init__(self, runs: Sequence[tuple[int, int]], length: int) -> None:
        """`runs`: (extent, count) of neighbouring chunks."""
        self.length = length
        self.runs: list[Run] = []
        start = first = 0
        for extent, count in runs:
            if self.runs and self.runs[-1].extent == extent:
                last = self.runs.pop()
                extent, count, start, first = extent, count + last.chunks, last.start, last.first
            self.runs.append(Run(extent, count, start, first))
            start, first = start + extent * count, first + count
        self._starts = [run.start for run in self.runs]
        self._firsts = [run.first for run in self.runs]

    @classmethod
    def load(cls, said: Any, length: int, place: Place) -> Edges:
        """Out of a document: an integer for all, or a list of integers and of [extent, count]."""
        if isinstance(said, int):
            extent = _positive(said, place)
            return cls([(extent, max(1, -(-length // extent)))], length)
        if not isinstance(said, list) or not said:
            raise place.wrong("a positive integer, or a list of them that is not empty", said)
        runs = []
        total = 0
        for number, one in enumerate(said):
            if isinstance(one, list):
                if len(one) != 2:
                    raise place.item(number).wrong("[extent, count]", one)
                extent, count = (_positive(part, place.item(number)) for part in one)
            else:
                extent, count = _positive(one, place.item(number)), 1
            total += extent * count
            if total > _MOST:
                what = "chunks that reach further than can be counted"
                raise UnsupportedError(what, key=place.key, member=place.path)
            runs.append((extent, count))
        if total < length:
            raise place.error("the chunks end before the array does", expected=length, found=total)
        return cls(runs, length)

    def dump(self) -> list[Any]:
        """As a document has it."""
        return [run.extent if run.chunks == 1 else [run.extent, run.chunks] for run in self.runs]

    @property
    def stop(self) -> int:
        """Where the last chunk ends."""
        return self.runs[-1].stop

    @property
    def longest(self) -> int:
        return max(run.extent for run in self.runs)

    @property
    def count(self) -> int:
        """How many chunks lie in the array, at least in part."""
        if self.length == 0:
            return 0
        run = self.run_of(self.length - 1)
        return run.first + (self.length - 1 - run.start) // run.extent + 1

    @property
    def declared(self) -> int:
        """How many chunks there are, also behind the array."""
        return self.runs[-1].first + self.runs[-1].chunks

    def resized(self, length: int, step: int = 1) -> Edges:
        """The same chunks for another length; one more where they end before it, as zarr-python has it.

        `step` is what the extents are multiples of: the new chunk may reach over the array's end.
        """
        runs = [(run.extent, run.chunks) for run in self.runs]
        missing = -(-(length - self.stop) // step) * step
        return Edges(runs if missing <= 0 else [*runs, (missing, 1)], length)

    def run_of(self, index: int) -> Run:
        """The run in which an item lies."""
        return self.runs[bisect_right(self._starts, index) - 1]

    def number_of(self, index: int) -> int:
        """In which run that is."""
        return bisect_right(self._starts, index) - 1

    def span(self, number: int) -> tuple[int, int]:
        """Where a chunk begins and ends; it may end behind the array."""
        run = self.run_with(number)
        if not run.first <= number < run.first + run.chunks:
            raise MetadataError("there is no such chunk", expected=f"less than {run.first + run.chunks}", found=number)
        start = run.start + (number - run.first) * run.extent
        return start, start + run.extent

    def run_with(self, number: int) -> Run:
        """The run of a chunk."""
        return self.runs[bisect_right(self._firsts, number) - 1]

    def places(self, numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(where these chunks begin, their extents)."""
        import numpy as np

        of = np.maximum(np.searchsorted(np.array(self._firsts, np.int64), numbers, "right") - 1, 0)
        runs = np.array(self.runs, np.int64)[of]
        return runs[:, 2] + (numbers - runs[:, 3]) * runs[:, 0], runs[:, 0]

    def between(self, first: int, last: int) -> Iterator[Run]:
        """The runs from the one in which an item lies to that of another."""
        yield from self.runs[self.number_of(first) : self.number_of(last) + 1]


def _positive(value: Any, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise place.wrong("a positive integer", value)
    if value > _MOST:
        raise place.wrong(f"an integer of at most {_MOST}", value, UnsupportedError)
    return value
