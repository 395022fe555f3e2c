"""What is known of one place behind a network by all that read and write there."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.stores.clients import Found
from zvcore.stores.request_threads import LIMIT, side_by_side

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from zvcore.stores.clients import Client, Version

__all__ = ["LookedAt", "Place"]

# What a request costs this machine, in seconds. Where answers come as fast, waiting for several at once gains nothing.
_OWN_WORK = 0.0002
# The same where a thread sends all requests itself; and how many it may have under way, few if they are large.
_SMALL_WORK = 0.00003
_FEW_SMALL, _MOST_SMALL = 8, 128
_BYTES_UNDER_WAY = 64 << 20
# How much slower the quickest answer is thought to have become with each one that is slower.
_SLOWER = 1.002
# What answers as fast as this is asked for many ranges by one call.
_NEAR = 0.005
_SETTLED_AFTER = 2.0
_MOST_SEEN = 4096

# Place -> how long answers took there, for the stores that are opened later.
_known_seconds: dict[int, float] = {}
_MOST_KNOWN = 1024
_NOTHING: Mapping[str, Any] = {}


class Place:
    """What all views of one place share: how long answers take, and what is being looked at."""

    def __init__(self, client: Client, place: Hashable) -> None:
        self.client = client
        self.place = place
        self._name = hash(place)
        self.seconds: float | None = _known_seconds.get(self._name)
        # Path -> a version, and when it was first seen.
        self.seen: dict[str, tuple[Version, float]] = {}
        # Thread -> what is there; see `looking_at`.
        self.looking: dict[int, LookedAt] = {}
        # Thread -> path -> what is answered without asking; see `telling`.
        self._told: dict[int, dict[str, Version | None]] = {}

    def took(self, seconds: float) -> None:
        """Keep to the quick answers: what takes long may only have waited for this machine, or for other requests."""
        known = self.seconds
        self.seconds = seconds if known is None else min(seconds, known * _SLOWER)
        if len(_known_seconds) >= _MOST_KNOWN:
            _known_seconds.clear()
        _known_seconds[self._name] = self.seconds

    def note(self, path: str, version: Version) -> None:
        known = self.seen.get(path)
        if known is None or known[0] != version:
            if len(self.seen) >= _MOST_SEEN:
                self.seen.clear()
            self.seen[path] = (version, time.monotonic())

    def is_settled(self, path: str, version: Version) -> bool:
        """Whether this version is so old that any later one is sure to have another time, which is in whole seconds."""
        known = self.seen.get(path)
        return (
            known is not None
            and known[0] == version
            and version.modified is not None
            and time.monotonic() - known[1] > _SETTLED_AFTER
        )

    @contextmanager
    def telling(self, versions: Mapping[str, Version | None]) -> Iterator[None]:
        me = threading.get_ident()
        before = self._told.get(me, {})
        self._told[me] = {**before, **versions}
        try:
            yield
        finally:
            if before:
                self._told[me] = before
            else:
                del self._told[me]

    def told(self) -> Mapping[str, Version | None]:
        """What this thread is to be answered without asking, by paths."""
        return self._told.get(threading.get_ident(), _NOTHING) if self._told else _NOTHING

    def forget_told(self, path: str) -> None:
        """It has turned out to be another."""
        for told in [*self._told.values()]:
            told.pop(path, None)

    def is_near(self) -> bool:
        return self.seconds is not None and self.seconds <= _NEAR

    def helpers(self) -> int:
        """How many requests should be under way at once."""
        if self.seconds is None:
            return LIMIT
        return max(1, min(LIMIT, int(self.seconds / _OWN_WORK)))

    def small_requests(self, longest: int) -> int:
        """The same for requests that cost little here, of at most so many bytes."""
        most = max(_FEW_SMALL, min(_MOST_SMALL, _BYTES_UNDER_WAY // max(1, longest)))
        return most if self.seconds is None else max(_FEW_SMALL, min(most, int(self.seconds / _SMALL_WORK)))


class LookedAt:
    """Objects that are asked for once; `beside` are those to fetch together with whatever comes first."""

    def __init__(self, place: Place, beside: Sequence[str], largest: int | None) -> None:
        self._place = place
        self._beside = beside
        self._largest = largest
        self._known: dict[str, Found | ZvcoreError | None] = {}

    def fetch(self, paths: Sequence[str]) -> bool:
        """Ask for objects at once: whether one of them may be there."""
        every = [*paths, *self._beside]
        self._beside = ()
        self._known.update(self._quickly(every))
        others = [path for path in every if path not in self._known]
        self._known.update(zip(others, side_by_side(self._ask, others), strict=True))
        return any(self._known[path] is not None for path in paths)

    def _quickly(self, paths: Sequence[str]) -> dict[str, Found | None]:
        """What came of these objects by one call, which costs less than threads that wait for them."""
        client = self._place.client
        if self._largest is not None:
            return {}
        begun = time.perf_counter()
        arrived = client.get_objects(paths, len(paths)) or ()
        if any(arrived):
            self._place.took(time.perf_counter() - begun)
        return {
            path: None if one.data is None else Found(one.data, client.version_of(one))
            for path, one in zip(paths, arrived, strict=False)
            if one is not None
        }

    def _ask(self, path: str) -> Found | ZvcoreError | None:
        most = self._largest
        begun = time.perf_counter()
        try:
            found = self._place.client.get(path, 0, None if most is None else most + 1, None)
            self._place.took(time.perf_counter() - begun)
        except ZvcoreError as error:
            # This does not matter unless the object is needed: buckets that cannot be listed refuse absent objects.
            return error
        if found is not None and most is not None and found.version.size > most:
            allowed = f"at most {most} bytes"
            return UnsupportedError("too much to be read at once", key=path, expected=allowed, found=found.version.size)
        return found

    def look(self, path: str) -> Found | None:
        if path not in self._known:
            self.fetch([path])
        found = self._known[path]
        if isinstance(found, ZvcoreError):
            raise found
        return found
