"""Lengthening a file so that readers of its end find the old one or the new one, whole.

The kernel lets others see what is written page by page: a file that grows by many pages briefly ends in the middle of
what is written, and remains so if the writer dies. What lies within one page, though, becomes visible together with the
new length. So the old end, if it is no longer than a page, is first copied to where it stays the end while everything
else is written before it; then the new end is written behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zvcore.kernels.crc32c import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Growth"]

# The least that any kernel shows at once.
PAGE = 4096


@dataclass(frozen=True)
class Growth:
    """How a file of `before` bytes grows by parts, of which the last is its end.

    copy_at  where the old end is copied to first; 0: nowhere
    last_at  where the last part lies; the others lie one after the other from `before` on
    """

    before: int
    parts: tuple[Buffer, ...]
    copy_at: int
    last_at: int

    @classmethod
    def planned(cls, before: int, parts: tuple[Buffer, ...], ending: bool) -> Growth:
        """With `ending`, the last part takes over from what the file ends with, which is as long."""
        parts = parts or (b"",)
        last = memoryview(parts[-1]).nbytes
        end = before + sum(memoryview(part).nbytes for part in parts[:-1])
        if not (ending and 0 < last <= min(PAGE, before)):
            return cls(before, parts, 0, end)
        copy_at = _within_a_page(end, last)
        return cls(before, parts, copy_at, _within_a_page(copy_at + last, last))

    @property
    def tail(self) -> int:
        return memoryview(self.parts[-1]).nbytes

    @property
    def body(self) -> int:
        return sum(memoryview(part).nbytes for part in self.parts[:-1])

    @property
    def after(self) -> int:
        return self.last_at + self.tail

    def check(self) -> int:
        """The checksum of all parts."""
        value = 0
        for part in self.parts:
            value = crc32c(part, value)
        return value


def _within_a_page(offset: int, size: int) -> int:
    """The first place from this one on where so many bytes do not cross the border of a page."""
    return offset if offset % PAGE + size <= PAGE else -(-offset // PAGE) * PAGE
