"""Work that costs memory or time is done for a few requests at once; the others wait their turn."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Busy", "Turns"]

_PATIENCE = 60.0


class Busy(Exception):
    """The turn did not come in time."""


class Turns:
    """At most so many at once."""

    def __init__(self, most: int, patience: float = _PATIENCE) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._patience = patience

    @contextmanager
    def take(self) -> Iterator[None]:
        if not self._free.acquire(timeout=self._patience):
            raise Busy
        try:
            yield
        finally:
            self._free.release()
