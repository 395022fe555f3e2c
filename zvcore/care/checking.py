"""Decoding in batches, and finding out which of a batch cannot be decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.engine.fetching import StaleSourcesError
from zvcore.errors import ConflictError, CorruptDataError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["WrongSizeError", "first_bad"]


class WrongSizeError(CorruptDataError):
    """A size that is known before anything is decoded is not what it must be."""

    kind = "size"


def first_bad(decode: Callable[[int, int], object], first: int, last: int) -> Iterator[tuple[int, ZvcoreError]]:
    """(row, error) of each row from `first` to `last` that `decode(first, last)` raises an error for.

    A batch with an error is halved until the bad rows stand alone, so one in 10,000 costs some 28 calls. That another
    writer came between is no fault of any row, and passes through.
    """
    waiting = [(first, last)]
    while waiting:
        first, last = waiting.pop()
        try:
            decode(first, last)
        except (ConflictError, StaleSourcesError):
            raise
        except ZvcoreError as error:
            if last - first <= 1:
                yield first, error
            else:
                middle = (first + last) // 2
                waiting += [(middle, last), (first, middle)]
