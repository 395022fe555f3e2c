"""Bytes that lie in several pieces, none of which is copied to put them together."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from zvcore.system.byte_blocks import ByteBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = ["Rope", "kept"]

# More pieces, or smaller ones, are not worth it.
_MOST_PIECES = 1024
_SMALLEST = 4096
# So many times as much may be kept in memory for the sake of the pieces.
_MOST_HELD = 2


class Rope:
    """Bytes that nobody changes, in pieces."""

    __slots__ = ("_ends", "_pieces")

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        self._pieces = pieces
        self._ends = [*accumulate(map(len, pieces))]

    def __len__(self) -> int:
        return self._ends[-1]

    def part(self, start: int, stop: int) -> memoryview:
        """The bytes from `start` to `stop`, both within them."""
        if start >= stop:
            return memoryview(b"")
        first = bisect_right(self._ends, start)
        begin = self._ends[first] - len(self._pieces[first])
        if stop <= self._ends[first]:
            return self._pieces[first][start - begin : stop - begin]
        last = bisect_right(self._ends, stop - 1)
        some = [*self._pieces[first : last + 1]]
        some[-1] = some[-1][: len(some[-1]) - (self._ends[last] - stop)]
        some[0] = some[0][start - begin :]
        return memoryview(b"".join(some))

    def joined(self) -> bytes:
        return b"".join(self._pieces)


def kept(parts: Sequence[Buffer]) -> bytes | memoryview | Rope:
    """The bytes of these parts one after the other, which need not be copied where nobody can change them."""
    pieces = [view for part in parts if (view := _constant(part)) is not None] if len(parts) <= _MOST_PIECES else []
    total = sum(map(len, pieces))
    # What pieces are cut out of stays in memory too.
    held = sum({id(view.obj): memoryview(view.obj).nbytes for view in pieces}.values())
    if not pieces or len(pieces) < len(parts) or held > _MOST_HELD * total:
        return b"".join(parts)
    if len(pieces) == 1:
        return pieces[0]
    return Rope(pieces) if total >= _SMALLEST * len(pieces) else b"".join(parts)


def _constant(part: Buffer) -> memoryview | None:
    """A view of our own, which nobody else releases, of bytes that nobody can change; None where somebody could."""
    if isinstance(part, bytes) or (isinstance(part, memoryview) and isinstance(part.obj, bytes | ByteBlock)):
        return memoryview(part)
    return None
