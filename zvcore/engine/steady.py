"""Reads of what others may replace meanwhile: begun again until all that was read belongs to one version."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zvcore.engine.chunks import StaleSourcesError
from zvcore.errors import ConflictError
from zvcore.stores.again import BEING_REPLACED, again

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHANGED", "steadily"]

# What is raised when somebody else changed an object that was being read or replaced.
CHANGED = (ConflictError, StaleSourcesError)

T = TypeVar("T")


def steadily(read: Callable[[], T], key: str) -> T:
    """What `read` gives, begun again as long as what it reads changes under it; `key` is for the error in the end."""
    found: T
    for attempt in again(key, BEING_REPLACED, on=CHANGED):
        with attempt:
            found = read()
    return found
