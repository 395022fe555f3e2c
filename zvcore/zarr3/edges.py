"""Chunks of different lengths along one axis, as `rectilinear` grids have them: runs of equal ones, never one by one.

What a document claims costs nothing: a run of 10**18 chunks is one run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class _Runs(Sequence[Run]):
    """Many runs, as columns: objects for a hundred thousand of them would keep Python's collector of garbage busy."""

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        """`runs`: (extent, count), of which equal neighbours become one."""
        same = [(extent, sum([count for _, count in ones])) for extent, ones in groupby(runs, itemgetter(0))]
        self.extents: list[int] = [extent for extent, _ in same]
        self.chunks = [count for _, count in same]
        self.starts = [0, *accumulate(extent * count for extent, count in same)][:-1]
        self.firsts = [0, *accumulate(self.chunks)][:-1]

    def __len__(self) -> int:
        return len(self.extents)

    @overload
    def __getitem__(self, number: int) -> Run: ...
    @overload
    def __getitem__(self, number: slice) -> list[Run]: ...
    def __getitem__(self, number: int | slice) -> Run | list[Run]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return Run(self.extents[number], self.chunks[number], self.starts[number], self.firsts[number])

    def __iter__(self) -> Iterator[Run]:
        return map(Run, self.extents, self.chunks, self.starts, self.firsts)


class Edges:
    """How one axis of this length is cut into chunks, which may reach over its end."""

    def __init__(self, runs: Sequence[tuple[int, int]], length: int) -> None:
        """`runs`: (extent, count) of neighbouring chunks."""
        self.length = length
        self.runs = _Runs(runs)
        self._starts, self._firsts = self.runs.starts, self.runs.firsts

    @classmethod
    def load(cls, said: Any, length: int, place: Place) -> Edges:
        """Out of a document: an integer for all, or a list of integers and of [extent, count]."""
        if isinstance(said, int):
            extent = _positive(said, place)
            return cls([(extent, max(1, -(-length // extent)))], length)
        if not isinstance(said, list) or not said:
            raise place.wrong("a positive integer, or a list of them that is not empty", said)
        try:
            runs = [_run(one, place) for one in said]
        except ZvcoreError:
            # Once more, to say which: a place for each of many edges would take longer than the edges.
            runs = [_run(one, place.item(number)) for number, one in enumerate(said)]
        total = sum([extent * count for extent, count in runs])
        if total > _MOST:
            what = "chunks that reach further than can be counted"
            raise UnsupportedError(what, key=place.key, member=place.path)
        if total < length:
            raise place.error("the chunks end before the array does", expected=length, found=total)
        return cls(runs, length)

    def dump(self) -> list[Any]:
        """As a document has it."""
        said = zip(self.runs.extents, self.runs.chunks, strict=True)
        return [extent if count == 1 else [extent, count] for extent, count in said]

    @property
    def stop(self) -> int:
        """Where the last chunk ends."""
        return self.runs[-1].stop

    @property
    def longest(self) -> int:
        return max(self.runs.extents)

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
        runs = [*zip(self.runs.extents, self.runs.chunks, strict=True)]
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

        columns = [np.array(one, np.int64) for one in (self._firsts, self._starts, self.runs.extents)]
        of = np.maximum(np.searchsorted(columns[0], numbers, "right") - 1, 0)
        firsts, starts, extents = (column[of] for column in columns)
        return starts + (numbers - firsts) * extents, extents

    def between(self, first: int, last: int) -> Iterator[Run]:
        """The runs from the one in which an item lies to that of another."""
        yield from self.runs[self.number_of(first) : self.number_of(last) + 1]


def _run(said: Any, place: Place) -> tuple[int, int]:
    """(extent, how many chunks)."""
    if type(said) is int and 0 < said <= _MOST:
        return said, 1
    if not isinstance(said, list):
        return _positive(said, place), 1
    if len(said) != 2:
        raise place.wrong("[extent, count]", said)
    return _positive(said[0], place), _positive(said[1], place)


def _positive(value: Any, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise place.wrong("a positive integer", value)
    if value > _MOST:
        raise place.wrong(f"an integer of at most {_MOST}", value, UnsupportedError)
    return value
