"""Packed files for those who do not take them packed: unpacked as they are sent, into neither memory nor files."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.serving.turns import Busy, Turns

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from zvcore.serving.place import Found

__all__ = ["Unpacked"]

_PIECE = 1 << 18
# Chunks are smaller. More is sent to those only who unpack it themselves.
_MOST = 256 << 20
# A turn is one piece, so no client waits for those that are slow to take theirs.
_turns = Turns(4)


class Unpacked:
    """What a packed file holds. It is unpacked once for its size, and once more to be sent."""

    def __init__(self, packed: Found) -> None:
        self._packed = packed
        if packed.size > _MOST:
            raise UnsupportedError("too large to be sent without gzip")
        self.size = 0
        for piece in self._pieces():
            self.size += len(piece)
            if self.size > _MOST:
                raise UnsupportedError("too large to be sent without gzip")

    def send(self, connection: socket.socket, start: int, stop: int) -> int:
        """Send a range of it: how many bytes could be sent."""
        sent = 0
        try:
            for piece in self._part(start, stop):
                connection.sendall(piece)
                sent += len(piece)
        except (ZvcoreError, Busy):
            pass  # what has been promised cannot be taken back
        return sent

    def _part(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes of this range, piece by piece."""
        at = 0
        for piece in self._pieces():
            if at + len(piece) > start:
                yield piece[max(0, start - at) : stop - at]
            at += len(piece)
            if at >= stop:
                return

    def _pieces(self) -> Iterator[bytes]:
        with self._packed.file() as packed, gzip.GzipFile(fileobj=packed) as unpacked:
            while True:
                try:
                    with _turns.take():
                        piece = unpacked.read(_PIECE)
                except ZvcoreError:
                    raise
                except (OSError, EOFError, zlib.error) as error:
                    raise CorruptDataError(f"the stored gzip stream is broken: {error}") from error
                if not piece:
                    return
                yield piece
