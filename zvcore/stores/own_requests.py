"""Requests over connections of our own, at addresses that obstore signs: as long as they go well, and many at once."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import obstore
import obstore.store
from obstore import exceptions

from zvcore.stores.clients import Arrived, Version
from zvcore.stores.http_heads import version_in
from zvcore.stores.obstore_calls import with_threads
from zvcore.stores.range_requests import (
    Address,
    Wanted,
    address_of,
    condition_of,
    fetch_objects,
    fetch_ranges,
    store_objects,
)
from zvcore.stores.writing import Anything

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from typing_extensions import Buffer

__all__ = ["OwnRequests", "is_strong"]

T = TypeVar("T")

_SIGNED_FOR = timedelta(minutes=10)
_MOST_SIGNED = 4096
# So often in a row may nothing get through, as from behind a firewall, before it is left for so many seconds: twice as
# many each time.
_MOST_IN_VAIN = 4
_CLOSED, _MOST_CLOSED = 60.0, 3600.0
# Who signs by asking a service, as a machine of Google's without a key does, takes longer, and would for each object.
_SLOW_TO_SIGN = 0.03
# Larger objects are stored in parts, which obstore does.
_LARGEST_STORED = 32 << 20

# In what field each service numbers its versions.
_NUMBERS = {
    obstore.store.S3Store: b"x-amz-version-id",
    obstore.store.GCSStore: b"x-goog-generation",
    obstore.store.AzureStore: b"x-ms-version-id",
}


class _Way:
    """Whether one kind of request is made: not for a while after it was refused."""

    def __init__(self, possible: bool) -> None:
        self.possible = possible
        self._in_vain = 0
        self._closed_until = 0.0
        self._closed_for = _CLOSED

    @property
    def goes(self) -> bool:
        return self.possible and time.monotonic() >= self._closed_until

    def went(self, came: bool, refused: bool) -> None:
        self._in_vain = 0 if came else self._in_vain + 1
        if refused or self._in_vain >= _MOST_IN_VAIN:
            self.close()

    def close(self) -> None:
        self._in_vain = 0
        self._closed_until = time.monotonic() + self._closed_for
        self._closed_for = min(2 * self._closed_for, _MOST_CLOSED)


class OwnRequests:
    """`get_each`, `get_objects` and `put_each` as a `Client` has them, of what `store` reaches, while they go well.

    Who may not list a bucket is refused what is not there, and a bucket may be for reading only: so each kind of
    request goes well or not by itself. `signs`: a signed address is all that they need.
    """

    def __init__(self, store: Any, signs: bool) -> None:
        self.store = store
        self.ranges = _Way(signs)
        self.objects = _Way(signs)
        # Other services want more than a signature and a body.
        self.puts = _Way(signs and isinstance(store, obstore.store.S3Store))
        # The first signature may wait for credentials, whoever signs.
        self._has_signed = False
        # Method -> path -> its signed address, and until when that is used.
        self._signed: dict[str, dict[str, tuple[Address, float]]] = {"GET": {}, "PUT": {}}

    def get_each(self, wanted: Sequence[tuple[str, int, int, Version]], at_once: int) -> list[memoryview | None] | None:
        asked = [place for place, (_, _, _, version) in enumerate(wanted) if is_strong(version)]
        addresses = self._addresses(self.ranges, "GET", {wanted[place][0] for place in asked})
        if addresses is None:
            return None
        requests = [
            Wanted(addresses[path], start, stop, cast("str", version.e_tag), version.size)
            for path, start, stop, version in (wanted[place] for place in asked)
        ]
        found, refused = fetch_ranges(requests, at_once)
        self.ranges.went(any(data is not None for data in found), refused)
        return _in_places(asked, found, len(wanted))

    def get_objects(self, paths: Sequence[str], at_once: int) -> list[Arrived | None] | None:
        addresses = self._addresses(self.objects, "GET", {*paths})
        if addresses is None:
            return None
        found, refused = fetch_objects([addresses[path] for path in paths], at_once)
        self.objects.went(any(found), refused)
        return [None if one is None else Arrived(one[1], one[0]) for one in found]

    def version_of(self, arrived: Arrived) -> Version:
        assert arrived.data is not None
        return version_in(arrived.head, _NUMBERS[type(self.store)], len(arrived.data))

    def put_each(
        self, wanted: Sequence[tuple[str, Buffer, Version | Anything | None]], at_once: int
    ) -> list[bool | None] | None:
        asked = [
            place
            for place, (_, data, version) in enumerate(wanted)
            if memoryview(data).nbytes < _LARGEST_STORED and (not isinstance(version, Version) or is_strong(version))
        ]
        addresses = self._addresses(self.puts, "PUT", {wanted[place][0] for place in asked})
        if addresses is None:
            return None
        requests = [
            Wanted(addresses[path], e_tag=_condition(version), data=memoryview(data).cast("B"))
            for path, data, version in (wanted[place] for place in asked)
        ]
        stored, refused = store_objects(requests, at_once)
        self.puts.went(any(one is not None for one in stored), refused)
        return _in_places(asked, stored, len(wanted))

    def _addresses(self, way: _Way, method: Literal["GET", "PUT"], paths: Collection[str]) -> dict[str, Address] | None:
        """The signed addresses of these objects; None where nothing is to be asked this way."""
        # Of a path that cannot be asked for, obstore says why.
        if not way.goes or not paths or not all(map(str.isprintable, paths)):
            return None
        with_threads(next(iter(paths)))
        now = time.monotonic()
        signed = self._signed[method]
        known = {path: one[0] for path in paths if (one := signed.get(path)) is not None and one[1] > now}
        missing = [path for path in paths if path not in known]
        if not missing:
            return known
        if len(signed) + len(missing) > _MOST_SIGNED:
            signed.clear()
        try:
            urls = obstore.sign(self.store, method, missing, _SIGNED_FOR)
        except (exceptions.BaseError, OSError, ValueError, NotImplementedError):
            way.possible = False  # nothing to sign with, or no way to
            return None
        if self._has_signed and time.monotonic() - now > _SLOW_TO_SIGN:
            way.close()
        self._has_signed = True
        for path, url in zip(missing, urls, strict=True):
            known[path] = address_of(url, method)
            signed[path] = (known[path], now + _SIGNED_FOR.total_seconds() / 2)
        return known


def _in_places(places: Sequence[int], found: Sequence[T | None], count: int) -> list[T | None]:
    """A list of so many with these in these places, and None in the others."""
    result: list[T | None] = [None] * count
    for place, one in zip(places, found, strict=True):
        result[place] = one
    return result


def is_strong(version: Version) -> bool:
    """Whether the server can be asked for just this version."""
    return version.e_tag is not None and not version.e_tag.startswith("W/")


def _condition(version: Version | Anything | None) -> str:
    """The field that says it; nothing where there is no condition."""
    if isinstance(version, Anything):
        return ""
    return condition_of(None if version is None else version.e_tag)
