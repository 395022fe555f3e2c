"""Which part of a large work one process of several does."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

__all__ = ["MOST", "Share"]

# How many parts there may be. Each of a conversion has a note of its own, all of which are read in the end.
MOST = 100_000


class Share(NamedTuple):
    """The part of a process: the number-th of so many, counted from 1."""

    number: int
    total: int

    @classmethod
    def of(cls, part: Any) -> Share | None:
        """From what a user says: (3, 64), or "3/64"."""
        if part is None:
            return None
        given = part.split("/") if isinstance(part, str) else part
        try:
            number, count = (int(one) for one in given)
        except (TypeError, ValueError):
            raise ValueError(f"part is the number of a part and how many there are, (3, 64), not {part!r}") from None
        if not 1 <= number <= count <= MOST:
            raise ValueError(f"parts are counted from 1, and there are at most {MOST}, not {number} of {count}")
        return cls(number, count)

    def among(self, units: int) -> range:
        """Which ones of so many units are its own: neighbours, as they read the same chunks."""
        return range(units * (self.number - 1) // self.total, units * self.number // self.total)

    def has(self, key: str) -> bool:
        """Whether an object is its own: any process comes to the same answer, whatever else there is."""
        return zlib.crc32(key.encode("utf-8", "surrogatepass")) % self.total == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"
