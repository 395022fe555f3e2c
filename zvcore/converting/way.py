"""What the ways of filling an array from a view have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.coarse import CoarseView
    from zvcore.converting.view import View
    from zvcore.engine import Buffers
    from zvcore.report import Outcome

__all__ = ["Encoded", "Part", "Positions", "Way", "chosen"]

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """What is worked on at once.

    box        of the target, and
    positions  the grid positions of all chunks in it
    rows       of the chunks that are asked for; None: all
    needed     whether the values of the box are needed too
    """

    box: Box
    positions: Positions
    rows: Sequence[int] | None
    needed: bool
    threads: int | None

    @property
    def asked(self) -> Positions:
        return self.positions if self.rows is None else self.positions[np.array(self.rows, np.intp)]


@dataclass
class Encoded:
    """What became of a part.

    chunks  those that were asked for, as the target stores them
    nbytes  stored bytes read
    copied  how many chunks were taken over as they were stored
    made    how many were encoded
    values  of the whole box, where these were read
    """

    chunks: Buffers
    nbytes: int
    copied: int = 0
    made: int = 0
    values: npt.NDArray[Any] | None = None


class Way(ABC):
    """A way to fill an array from a view. What it cannot do of a part, it leaves to the `rest`.

    how      what a plan calls it
    encodes  whether what it makes is encoded, at least most of it
    passes   whether `write` keeps nothing of a box, however large, but what threads have done out of turn
    waiting  how many bytes of values may wait for one chunk, where threads share the chunks of a unit
    """

    how: ClassVar[str]
    encodes: ClassVar[bool] = True
    passes: ClassVar[bool] = False
    rest: Way | None
    waiting: int = 0

    @property
    @abstractmethod
    def applies(self) -> bool:
        """Whether it can be used for this view and this target."""

    def described(self, needed: bool) -> str:
        """What a plan calls it where values are `needed` for coarser levels, or not."""
        return self.how

    @abstractmethod
    def chunks(self, part: Part) -> Encoded:
        """The chunks of a part, encoded."""

    def write(self, box: Box, threads: int | None, outcome: Outcome) -> bool:
        """Write the objects of a box that holds them whole, without keeping their chunks; False if it cannot."""
        return False

    def write_through(self, box: Box, threads: int | None, outcome: Outcome) -> npt.NDArray[Any] | None:
        """Write the objects of a box that holds them whole, and return its values; None if it cannot."""
        return None

    def shares(self, grain: Sequence[int], local: bool) -> bool:
        """Whether threads can share the chunks of units of this grain, of which nothing is gathered.

        `local`: whether the target's objects are, or will be, files.
        """
        return False


def chosen(kinds: Sequence[type[Any]], view: View | CoarseView, target: Array, effort: bool, limit: int) -> Way:
    """The best way that applies; each leaves what it cannot do to the next one that does. The last always applies."""
    way: Way | None = None
    for kind in reversed(kinds):
        one: Way = kind(view, target, way, effort, limit)
        if one.applies:
            way = one
    assert way is not None
    return way
