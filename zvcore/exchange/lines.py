"""Lines on their way from one format to another: in batches, with ids and a value of each attribute for each vertex."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

__all__ = ["LineBatch", "Lines"]


@dataclass
class LineBatch:
    """Some lines: the vertices of the i-th are positions[offsets[i] : offsets[i + 1]]."""

    ids: npt.NDArray[np.int64]
    positions: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    attributes: dict[str, npt.NDArray[Any]]


@dataclass
class Lines:
    """What a format gives of its lines.

    count        how many there are
    vertices     how many vertices they have together, if that is known
    bounds       (lowest corner, highest corner), if they are known
    attributes   {name: (type of its numbers, how many each vertex has)}
    of_objects   {name: a value for each line}, in the order of the batches
    losses       what could not be given
    nanometers   how many there are in one unit of the coordinates
    groups       {name: ids of lines}
    attrs        what the source tells of all lines together, as JSON has it; formats take of it what they know
    notes        what else to know of them
    numbered     whether their ids are 0, 1, 2, ... in this order, so that formats without ids lose nothing
    empty        how many lines have no vertices
    """

    count: int
    batches: Callable[[], Iterator[LineBatch]]
    attributes: dict[str, tuple[np.dtype[Any], int]]
    vertices: int | None = None
    bounds: tuple[Any, Any] | None = None
    of_objects: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    nanometers: float = 1.0
    groups: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    numbered: bool = True
    empty: int = 0

    def position_type(self) -> np.dtype[Any]:
        """Of which type coordinates are; the first batch is read for it."""
        import numpy as np

        for batch in self.batches():
            return batch.positions.dtype
        return np.dtype(np.float32)
