"""Lines on their way from one format to another: in batches, with ids and a value of each attribute for each vertex."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import numpy.typing as npt

__all__ = ["LineBatch", "Lines"]


@dataclass
class LineBatch:
    """Some lines: the vertices of the i-th are positions[offsets[i] : offsets[i + 1]], in nanometers."""

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
    """

    count: int
    batches: Callable[[], Iterator[LineBatch]]
    attributes: dict[str, tuple[np.dtype[Any], int]]
    vertices: int | None = None
    bounds: tuple[Any, Any] | None = None
    of_objects: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
