"""What the head of an answer says of an object."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from functools import lru_cache

from zvcore.stores.clients import Version

__all__ = ["version_in"]


def version_in(head: bytes, number: bytes, size: int) -> Version:
    """The version that such a head tells, as obstore reads it: of a date that is not told it says 1970.

    `number` is the field with the number of the version, in small letters.
    """
    told: dict[bytes, str] = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        told[name.strip().lower()] = value.strip().decode("latin-1")
    return Version(told.get(b"etag"), told.get(number), _seconds(told.get(b"last-modified", "")), size)


@lru_cache(256)
def _seconds(date: str) -> float:
    """Objects that are stored one after the other have the same dates."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return 0.0
