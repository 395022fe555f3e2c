"""An image, or a region of an array, as it is written into one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.array import Array

__all__ = ["WholeImage"]


def _nothing(count: int) -> None:
    """Tell nobody how many values have been read."""


@dataclass
class WholeImage:
    """What formats are given whose files are written as a whole.

    levels    arrays of the same thing, the finest first; files that hold one take the first
    region    what of the first is meant, an entry for each axis; of the others, all
    order     the axes that are ranges, from the slowest to the fastest
    names     of all axes, and
    sizes     (size of a voxel of the region, or None; its unit, or None), and
    offsets   where the region's first voxel lies, in these units; the number of it where sizes are not known
    channels  names of channels
    attrs     the user's attributes
    losses    what of the source is left out
    threads   to read with
    watch     is told how many more values have been read
    """

    levels: Sequence[Array]
    region: list[Any]
    order: list[int]
    names: list[str]
    sizes: list[tuple[float | None, str | None]]
    offsets: list[float]
    name: str | None = None
    channels: list[str] = field(default_factory=list)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    threads: int | None = None
    watch: Callable[[int], Any] = _nothing

    @property
    def array(self) -> Array:
        return self.levels[0]

    def length(self, axis: int) -> int:
        """Of the region along one of the axes that are ranges."""
        return len(range(self.array.shape[axis])[self.region[axis]])
