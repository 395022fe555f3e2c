"""What a conversion will make, before anything is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zvcore.report import Problem, What

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.converting.companions import Companion
    from zvcore.converting.view import View
    from zvcore.format import Format
    from zvcore.images import Described
    from zvcore.images.levels import Factors

__all__ = ["Draft", "DraftArray", "DraftFolder", "DraftImage"]


@dataclass
class DraftFolder:
    path: str
    attrs: dict[str, Any]


@dataclass
class DraftArray:
    """One array.

    path     below the destination
    name     of the steps that fill it
    options  of the format's `create`
    view     what of the source it will hold, or for a coarser level nothing: it is made
    factors  so much coarser than the level below it
    """

    path: str
    name: str
    options: dict[str, Any]
    attrs: dict[str, Any]
    view: View | None = None
    factors: Factors = ()


@dataclass
class DraftImage:
    """Levels of an image.

    image    what is said of it
    levels   the arrays to make
    by       the method by which coarser levels are made
    folder   whether it has a folder of its own to make
    base     the array that these stand on, where it is there already
    """

    path: str
    image: Described
    levels: list[DraftArray]
    by: str
    folder: bool = False
    base: Array | None = None


@dataclass
class Draft:
    """All that a conversion will make, in this order, what is copied beside, what has no place there, and what else to
    know.
    """

    format: Format
    entries: list[DraftFolder | DraftArray | DraftImage] = field(default_factory=list)
    losses: list[Problem] = field(default_factory=list)
    companions: list[Companion] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def note(self, where: str, what: str) -> None:
        found = Problem(where, what, fatal=False)
        if found not in self.notes:
            self.notes.append(found)

    def lose(self, where: str, what: str, kind: What = What.DATA) -> None:
        self.losses.append(Problem(where, what, fatal=False, kind=kind))
