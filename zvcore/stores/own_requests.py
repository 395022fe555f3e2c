"""Requests over connections of our own: as long as they go well, and many at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

import obstore.store

from zvcore.stores.clients import Arrived, Version
from zvcore.stores.http_heads import version_in
from zvcore.stores.obstore_calls import threads_are_gone
from zvcore.stores.range_requests import (
    Wanted,
    condition_of,
    fetch_parts,
    fetch_ranges,
    store_objects,
)
from zvcore.stores.writing import Anything

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Span
    from zvcore.stores.range_requests import Address
    from zvcore.stores.request_addresses import Addresses, Method

__all__ = ["OwnRequests", "is_strong"]

T = TypeVar("T")

# So often in a row may nothing get through, as from behind a firewall, before it is left for so many seconds: twice as
# many each time.
_MOST_IN_VAIN = 4
_CLOSED, _MOST_CLOSED = 60.0, 3600.0
# Larger objects are stored in parts, which obstore does.
_LARGEST_STORED = 32 << 20

_MISSING = b"HTTP/1.1 404"

# In what field each service numbers its versions.
_NUMBERS = {
    obstore.store.S3Store: b"x-amz-version-id",
    obstore.store.GCSStore: b"x-goog-generation",
    obstore.store.AzureStore: b"x-ms-version-id",
    obstore.store.HTTPStore: b"",
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
        # Where obstore answers nothing, there is no other.
        return self.possible and (threads_are_gone() or time.monotonic() >= self._closed_until)

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
    request goes well or not by itself. `addresses`: an address of theirs is all that requests need; None: it is not.
    """

    def __init__(self, store: Any, addresses: Addresses | None) -> None:
        self.store = store
        self._at = addresses
        self.possible = possible = addresses is not None
        self.ranges = _Way(possible)
        self.objects = _Way(possible)
        self.parts = _Way(possible)
        # Azure knows no ranges that are counted from the end: it gives others.
        self.ends = _Way(possible and not isinstance(store, obstore.store.AzureStore))
        self.heads = _Way(possible)
        # Other services want more than a signature and a body.
        self.puts = _Way(possible and isinstance(store, obstore.store.S3Store))

    def get_each(self, wanted: Sequence[tuple[str, int, int, Version]], at_once: int) -> list[memoryview | None] | None:
        asked = [place for place, one in enumerate(wanted) if is_strong(one[3])]
        addresses = self._addresses(self.ranges, "GET", {wanted[place][0] for place in asked})
        if addresses is None:
            return None
        requests = [
            Wanted(addresses[path], start, stop, cast("str", version.e_tag), version.size)
            for path, start, stop, version in (wanted[place] for place in asked)
        ]
        found, refused = fetch_ranges(requests, at_once)
        self.ranges.went(any(data is not None for data in found), refused)
        return found if len(asked) == len(wanted) else _in_places(asked, found, len(wanted))

    def get_objects(
        self, paths: Sequence[str], at_once: int, spans: Sequence[Span] | None = None
    ) -> list[Arrived | None] | None:
        way = self.objects if spans is None else self.parts
        return self._arrived(way, "GET", paths, at_once, spans)

    def get_heads(self, paths: Sequence[str], at_once: int) -> dict[str, Arrived | None]:
        """What the server says of objects, None where there is none; without those of which nothing came."""
        found = self._arrived(self.heads, "HEAD", paths, at_once) or ()
        return {
            path: None if one.head.startswith(_MISSING) else one
            for path, one in zip(paths, found, strict=False)
            if one is not None
        }

    def _arrived(
        self, way: _Way, method: Method, paths: Sequence[str], at_once: int, spans: Sequence[Span] | None = None
    ) -> list[Arrived | None] | None:
        addresses = self._addresses(way, method, {*paths})
        if addresses is None:
            return None
        wanted = [
            Wanted(addresses[path], start, None if length is None else start + length, None)
            for path, (start, length) in zip(paths, spans or [(0, None)] * len(paths), strict=True)
        ]
        found, refused = fetch_parts(wanted, at_once)
        way.went(any(found), refused)
        return [None if one is None else Arrived(*one) for one in found]

    def get_part(self, path: str, start: int, stop: int | None) -> Arrived | None:
        """Of whatever version is there: from `start` up to `stop`, so many bytes of the end, or all. None where nothing
        came.
        """
        way = self.ends if start < 0 else self.objects if stop is None else self.parts
        found = self._arrived(way, "GET", [path], 1, [(start, None if stop is None else stop - start)])
        return None if found is None else found[0]

    def version_of(self, arrived: Arrived) -> Version:
        return version_in(arrived.head, _NUMBERS[type(self.store)], arrived.size)

    def put_each(
        self, wanted: Sequence[tuple[str, Sequence[Buffer], Version | Anything | None]], at_once: int
    ) -> list[Version | bool | None] | None:
        sizes = [sum(memoryview(part).nbytes for part in parts) for _, parts, _ in wanted]
        asked = [
            place
            for place, ((_, _, version), size) in enumerate(zip(wanted, sizes, strict=True))
            if size < _LARGEST_STORED and (not isinstance(version, Version) or is_strong(version))
        ]
        addresses = self._addresses(self.puts, "PUT", {wanted[place][0] for place in asked})
        if addresses is None:
            return None
        requests = [
            Wanted(addresses[path], e_tag=_condition(version), parts=_flat(parts))
            for path, parts, version in (wanted[place] for place in asked)
        ]
        stored, refused = store_objects(requests, at_once)
        self.puts.went(any(one is not None for one in stored), refused)
        result: list[Version | bool | None] = [False] * len(wanted)
        for place, head in zip(asked, stored, strict=True):
            result[place] = self._stored(head, sizes[place]) if isinstance(head, bytes) else head
        return result

    def _stored(self, head: bytes, size: int) -> Version | bool:
        """What the server says of an object of this size that it has stored."""
        version = version_in(head, _NUMBERS[type(self.store)], size)
        return version if is_strong(version) else True

    def _addresses(self, way: _Way, method: Method, paths: Collection[str]) -> dict[str, Address] | None:
        """The addresses of these objects; None where nothing is to be asked this way."""
        # Of a path that cannot be asked for, obstore says why.
        if self._at is None or not way.goes or not paths or not all(map(str.isprintable, paths)):
            return None
        found = self._at.of(method, paths)
        if found is None:
            way.possible = False
        elif self._at.is_slow:
            way.close()
        return found


def _in_places(places: Sequence[int], found: Sequence[T | None], count: int) -> list[T | None]:
    """A list of so many with these in these places, and None in the others."""
    result: list[T | None] = [None] * count
    for place, one in zip(places, found, strict=True):
        result[place] = one
    return result


def is_strong(version: Version) -> bool:
    """Whether the server can be asked for just this version."""
    return version.e_tag is not None and not version.e_tag.startswith("W/")


def _flat(parts: Sequence[Buffer]) -> list[memoryview]:
    """The bytes of buffers of any kind. Of those without any, not every one can be seen as bytes."""
    return [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]


def _condition(version: Version | Anything | None) -> str:
    """The field that says it; nothing where there is no condition."""
    if isinstance(version, Anything):
        return ""
    return condition_of(None if version is None else version.e_tag)
