"""Packed files for those who do not take them packed: unpacked as they are sent, into neither memory nor files."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import TYPE_CHECKING

from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.serving.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Unpacked"]

_PIECE = 1 << 18
# Chunks are smaller. More is sent to those only who unpack it themselves.
_MOST = 256 << 20
# A turn is one piece, so no client waits for those that are slow to take theirs.
_turns = Turns(4)


class Unpacked:
    """What a packed file holds. It is unpacked once for its size, and once more to be sent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if os.fstat(descriptor).st_size > _MOST:
            raise UnsupportedError("too large to be sent without gzip")
        self.size = 0
        for piece in self._pieces():
            self.size += len(piece)
            if self.size > _MOST:
                raise UnsupportedError("too large to be sent without gzip")

    def part(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes of this range, piece by piece."""
        at = 0
        for piece in self._pieces():
            if at + len(piece) > start:
                yield piece[max(0, start - at) : stop - at]
            at += len(piece)
            if at >= stop:
                return

    def _pieces(self) -> Iterator[bytes]:
        # With a place in the file of its own: parts of it may be sent one after the other.
        with open(self._descriptor, "rb", closefd=False) as packed, gzip.GzipFile(fileobj=packed) as unpacked:
            packed.seek(0)
            while True:
                try:
                    with _turns.take():
                        piece = unpacked.read(_PIECE)
                except (OSError, EOFError, zlib.error) as error:
                    raise CorruptDataError(f"the stored gzip stream is broken: {error}") from error
                if not piece:
                    return
                yield piece
