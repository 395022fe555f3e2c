"""What the head of an answer says of an object."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

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
    date = told.get(b"last-modified")
    try:
        modified = 0.0 if date is None else parsedate_to_datetime(date).timestamp()
    except ValueError:
        modified = 0.0
    return Version(told.get(b"etag"), told.get(number), modified, size)
