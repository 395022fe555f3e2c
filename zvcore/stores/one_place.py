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
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

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
# So much of a file tells what most of them say of themselves.
_BEGINNING = 1 << 16
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
        if self.client.answers_itself:
            return
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

    @contextmanager
    def looking_by(self, near: LookedAt) -> Iterator[None]:
        """Within this, this thread's questions are answered by what was looked at."""
        me = threading.get_ident()
        self.looking[me] = near
        try:
            yield
        finally:
            del self.looking[me]

    def knows_all(self) -> bool:
        """Whether this thread's questions are answered by what it knows, and nobody is asked."""
        return bool(self.looking) and (near := self.looking.get(threading.get_ident())) is not None and near.is_all

    def stored(self, paths: Iterable[str]) -> None:
        """What this thread has looked at of these is no longer what is there."""
        if self.looking and (near := self.looking.get(threading.get_ident())) is not None:
            near.forget(paths)

    def is_looking(self) -> bool:
        """Whether this thread's questions are answered so."""
        return bool(self.looking) and threading.get_ident() in self.looking

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
    """Objects that are asked for once; `beside` are those to fetch together with whatever comes first.

    file       of this one only the beginning is asked for; what else is read of it has to be of the same version
    known      what is known already,
    all_below  and is all that there is whose path begins so; None: others may be there
    """

    def __init__(
        self,
        place: Place,
        beside: Sequence[str],
        largest: int | None,
        file: str | None = None,
        *,
        known: Mapping[str, Found] | None = None,
        all_below: str | None = None,
    ) -> None:
        self._place = place
        self._beside = beside
        self._largest = largest
        self._file = file
        self._known: dict[str, Found | ZvcoreError | None] = {**(known or {})}
        self._all_below = all_below
        # The versions of what was looked at without them.
        self._named: dict[str, Version | None] = {}
        # What has been stored or removed since.
        self._changed: set[str] = set()

    @property
    def is_all(self) -> bool:
        return self._all_below is not None

    def forget(self, paths: Iterable[str]) -> None:
        """These are to be asked for anew."""
        for path in paths:
            self._known.pop(path, None)
            self._named.pop(path, None)
            self._changed.add(path)

    def used(self) -> AbstractContextManager[None]:
        """Within this, this thread's questions are answered by it."""
        return self._place.looking_by(self)

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
        spans = None if self._file is None else [(0, self._length(path)) for path in paths]
        arrived = client.look_at(paths, spans) or ()
        if any(arrived):
            self._place.took(time.perf_counter() - begun)
        return {
            path: None if one.data is None else Found(one.data, client.version_of(one))
            for path, one in zip(paths, arrived, strict=False)
            if one is not None
        }

    def has_file(self) -> bool:
        return self._file is not None and self.look(self._file) is not None

    def _length(self, path: str) -> int | None:
        """How many bytes of an object are asked for; None: all."""
        return _BEGINNING if path == self._file else None

    def _ask(self, path: str) -> Found | ZvcoreError | None:
        most = self._largest if self._length(path) is None else None
        begun = time.perf_counter()
        try:
            found = self._place.client.get(path, 0, self._length(path) if most is None else most + 1, None)
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
            if self._all_below is not None and path.startswith(self._all_below) and path not in self._changed:
                return None
            self.fetch([path])
        found = self._known[path]
        if isinstance(found, ZvcoreError):
            raise found
        return found

    def version(self, path: str, *, named: bool) -> Version | None:
        """What is there; `named`: so that another version can be told from it."""
        found = self.look(path)
        if found is None or not named or found.version.is_named:
            return None if found is None else found.version
        if path not in self._named:
            self._named[path] = self._place.client.head(path)
        return self._named[path]

    def part(self, path: str, start: int, stop: int | None, *, named: bool) -> tuple[Found | None, Version | None]:
        """(bytes of an object, None), or (None, a version): they are to be asked for, and to be of that. `named`: what
        version they are of has to be known.
        """
        found = self.look(path)
        if named and found is not None and not found.version.is_named:
            self.forget([path])
            found = self._known[path] = self._place.client.get(path, 0, None, None)
        if found is None:
            return None, None
        data = found.data
        if len(data) < found.version.size and not (start >= 0 and stop is not None and stop <= len(data)):
            return None, found.version
        return found._replace(data=data[start:] if stop is None else data[start:stop]), None
