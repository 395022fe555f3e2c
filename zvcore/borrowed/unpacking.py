"""Parts of a gzip stream, which can only be unpacked from its beginning: places to begin again are kept on the way, or
all of it where that is little.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.errors import CorruptDataError, NotFoundError, ZvcoreError

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Unpacked"]

# How much is read of the stream, and unpacked, at a time.
_STEP = 1 << 18
_OUT = 1 << 20
# How far apart places are from which unpacking can begin again. Each takes some 50 KB.
_APART = 32 << 20
# Streams that stand for no more bytes than these are unpacked at once, which is quicker, and kept.
_SHORT = 64 << 20
# What is read first of a file with a header in the stream.
_HEADER = 1 << 16
# Of what part of it a single read is quicker in steps, which end where that does.
_EARLY = 2 / 5


class Unpacked:
    """The bytes that a gzip stream stands for, which begins at a byte of an object and takes the rest of it. One thread
    at a time reads.

    expected  how many bytes these are, as far as anybody says
    """

    def __init__(self, store: Store, key: str, begin: int = 0, expected: int | None = None) -> None:
        self.store, self.key, self.expected = store, key, expected
        self._begin = begin
        # All of it, if that is little, once that was looked at.
        self._whole: memoryview | None = None
        self._was_looked_at = self._had_early_part = False
        self._guard = threading.Lock()
        self._marks: list[tuple[int, int, Any]] = [(begin, 0, zlib.decompressobj(31))]
        self._now: tuple[int, int, Any] | None = None
        # Whether it was read to its end, and nothing was wrong there.
        self._has_ended = False
        # What was unpacked last: who reads on most often begins within it.
        self._last = (0, b"")

    def read(self, start: int, length: int, short: bool = False) -> bytes | memoryview:
        """`length` bytes from `start` on. CorruptDataError if there are fewer, unless a `short` answer will do."""
        with self._guard:
            if not self._was_looked_at and start + length > _HEADER and not self._is_early(start + length):
                self._whole, self._was_looked_at = self._at_once(), True
            found = self._in_steps(start, length) if self._whole is None else self._whole[start : start + length]
        if len(found) != length and not short:
            raise CorruptDataError(
                "the gzip stream ends too early", key=self.key,
                expected=f"{start + length} bytes unpacked", found=start + len(found),
            )  # fmt: skip
        return found

    def _is_early(self, end: int) -> bool:
        """Whether to unpack no more than up to here: the first time only, since others may want other parts."""
        if self._had_early_part or self.expected is None:
            return False
        self._had_early_part = True
        return end <= self.expected * _EARLY

    def _at_once(self) -> memoryview | None:
        """All bytes of a short stream; None of others, and where something is wrong: in steps it is found out what."""
        size = self.store.size(self.key)
        if self.expected is None or size is None or max(self.expected, size - self._begin) > _SHORT:
            return None
        data = self.store.get(self.key, self._begin)
        try:
            found = memoryview(codecs.get("gzip").decode(data or b"", max_size=self.expected + _OUT))
        except ZvcoreError:
            return None
        return found if len(found) >= self.expected else None

    def _in_steps(self, start: int, length: int) -> bytes:
        parts = []
        for at, data in self._from(start):
            parts.append(memoryview(data)[max(0, start - at) : start + length - at])
            if at + len(data) >= start + length:
                break
        return b"".join(parts)

    def check_end(self) -> None:
        """Unpack what no read came to, so that the checksum of each member is seen, and what lies behind the last."""
        with self._guard:
            if self._whole is not None or self._has_ended:
                return
            begin = self._marks[-1][1] if self._now is None else self._now[1]
            for _ in self._from(begin):
                pass

    def _from(self, start: int) -> Any:
        """(place, bytes) of what is unpacked, in order, the first of them at or before `start`."""
        mark = self._marks[bisect_right([out for _, out, _ in self._marks], start) - 1]
        now, (place, data) = self._now, self._last
        if now is None or start < place or now[1] < mark[1]:
            now = (mark[0], mark[1], mark[2].copy())
        elif start < now[1]:
            yield place, data
        into, out, unpacker = now
        while True:
            waiting = unpacker.unconsumed_tail
            if not waiting:
                waiting = self._stored(into)
                into += len(waiting)
            if not waiting and not unpacker.eof:
                self._now = None
                raise CorruptDataError("the gzip stream is cut off: it has no end", key=self.key, offset=into)
            try:
                data = unpacker.decompress(waiting, _OUT)
            except zlib.error as error:
                self._now = None
                raise CorruptDataError(f"the gzip stream is damaged ({error})", key=self.key, offset=into) from error
            if unpacker.eof:
                # Several members may follow each other, and padding the last one.
                rest = unpacker.unused_data.lstrip(b"\0")
                unpacker = zlib.decompressobj(31)
                into = into - len(rest) if rest else self._behind_padding(into)
                if not rest and not self._stored(into):
                    self._now, self._has_ended = None, True
                    yield out, data
                    return
            place, out = out, out + len(data)
            self._now, self._last = (into, out, unpacker), (place, data)
            if out - self._marks[-1][1] >= _APART:
                self._marks.append((into, out, unpacker.copy()))
            yield place, data

    def _behind_padding(self, at: int) -> int:
        """Where something else than zeros comes, or the end."""
        while data := self._stored(at):
            rest = data.lstrip(b"\0")
            at += len(data) - len(rest)
            if rest:
                break
        return at

    def _stored(self, at: int) -> bytes:
        data = self.store.get(self.key, at, _STEP)
        if data is None:
            raise NotFoundError("the file is gone", key=self.store.root)
        return bytes(data)
