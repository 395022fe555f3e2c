"""When somebody else changed an object meanwhile: the error, and the one rule for how often and when to begin again."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from zvcore.errors import ConflictError
from zvcore.logs import Log
from zvcore.stores.open_files import pool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from zvcore.stores.base import Stamp

__all__ = ["BEING_CHANGED", "BEING_REPLACED", "Attempt", "again", "changed"]

BEING_CHANGED = "other writers keep changing this object"
BEING_REPLACED = "the objects are being replaced faster than they can be read"

# About ten seconds in all. A writer that holds its turn for longer than that is not waited for.
_ATTEMPTS = 100
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.2

_log = Log("stores")

Errors = type[Exception] | tuple[type[Exception], ...]


class GivenUpError(ConflictError):
    """It was tried often enough: what is tried around it is not begun again for this."""


class Attempt:
    """A context manager that takes the errors after which it is worth beginning again, and keeps the last.

    One of these is that no more files can be opened, if some that were kept open could be closed.
    """

    def __init__(self, on: Errors) -> None:
        self._on = on
        self.error: Any = None

    def __enter__(self) -> None:
        self.error = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, GivenUpError):
            return False
        if not isinstance(error, self._on) and not (isinstance(error, OSError) and pool.makes_room(error)):
            return False
        self.error = error
        return True


def again(key: str, failure: str = BEING_CHANGED, on: Errors = ConflictError) -> Iterator[Attempt]:
    """Attempts until one goes well:

        for attempt in again(key):
            with attempt:
                ...

    In the end a `ConflictError` about the key says `failure`.
    """
    for number in range(_ATTEMPTS):
        attempt = Attempt(on)
        yield attempt
        if attempt.error is None:
            return
        _log.info("trying %s again, time %d: %s", key, number + 2, attempt.error)
        give_way(number)
    raise GivenUpError(failure, key=key) from attempt.error


def give_way(number: int) -> None:
    """Several that were in each other's way come back at different times, and ever later."""
    time.sleep(random.random() * min(_FIRST_WAIT * 2 ** min(number, 8), _LONGEST_WAIT))


def changed(key: str, expected: Stamp | None = None) -> ConflictError:
    """The error of an object that is not the one expected."""
    if expected is None:
        return ConflictError("the object exists already", key=key)
    return ConflictError("the object was changed by someone else in the meantime", key=key)
