"""What the head of an answer says of an object."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from functools import lru_cache

from zvcore.stores.clients import Version

__all__ = ["version_in"]


def version_in(head: bytes, number: bytes, size: int) -> Version:
    """The version that such a head tells, as obstore reads it: of a date that is not told it says 1970.

    `number` is the field with the number of the version, in small letters.
    """
    told = {name.lower(): value.strip().decode("latin-1") for name, value in _fields(number).findall(head)}
    return Version(told.get(b"etag"), told.get(number), _seconds(told.get(b"last-modified", "")), size)


@lru_cache
def _fields(number: bytes) -> re.Pattern[bytes]:
    wanted = b"|".join([b"etag", b"last-modified", *([re.escape(number)] if number else [])])
    return re.compile(rb"\r\n[ \t]*(" + wanted + rb")[ \t]*:([^\r\n]*)", re.IGNORECASE)


@lru_cache(256)
def _seconds(date: str) -> float:
    """Objects that are stored one after the other have the same dates."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return 0.0
