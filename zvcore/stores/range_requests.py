"""Many objects, or ranges of them, over connections of our own: one thread sends all requests and takes the answers as
they come.

A library that speaks to object stores spends several times as much on a small range as the range itself costs, and has
as many under way as it sees fit. So what is asked for most is asked for here: `GET` of an address that the library has
signed, of whole objects or with `Range` and `If-Match`, and `PUT`, over HTTP/1.1. Whatever is not answered exactly as
expected is left to the library, which knows of retries, refusals and redirections.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import selectors
import socket
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from zvcore.stores.http_answers import SENT_AT_ONCE, Outcome
from zvcore.stores.http_ranges import SLOWEST, PlainLines, Ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "Address",
    "Wanted",
    "address_of",
    "close_kept",
    "condition_of",
    "fetch_parts",
    "fetch_ranges",
    "store_objects",
]

# Of an object, or a part of whatever version: the head of the answer, the bytes, or that there is no object, and the
# object's size.
Headed: TypeAlias = tuple[bytes, memoryview | None, int]
Got: TypeAlias = memoryview | Headed | None

# Seconds in which no byte comes from anywhere, after which nothing is waited for.
_PATIENCE = 20.0
# The same where what is to be stored may lie in buffers of this machine, on its way through a thin line.
_PATIENCE_STORING = 120.0
# Seconds that one request may take, besides those for its bytes at `SLOWEST`: a server could send them one by one.
_LONGEST = 60.0
# Seconds for which a connection is kept. A server that closed it earlier has said so, and it is not used.
_KEPT = 60.0
_MOST_KEPT = 128
_PIECE = 1 << 16
_LONGEST_HEAD = 1 << 15
_NOTHING = memoryview(b"")
_STORED = b"HTTP/1.1 200"


class Place(NamedTuple):
    """Where connections lead."""

    secure: bool
    host: str
    port: int


class Address(NamedTuple):
    """Where an object is, and how its requests begin."""

    place: Place
    request: bytes


class Wanted(NamedTuple):
    """A range of an object that has this entity tag and size; of one that may be there, in whatever version, where the
    tag is None, and then a `start` below zero counts from the end, and has no `stop`; all of such an object, where
    there is neither; the parts, one after the other, of what is to be stored, where `e_tag` is the field with the
    condition, if there is one.
    """

    address: Address
    start: int = 0
    stop: int | None = None
    e_tag: str | None = ""
    size: int = 0
    parts: Sequence[Buffer] | None = None


def address_of(url: str, method: str = "GET") -> Address:
    simple = _SIMPLE.fullmatch(url)
    if simple is None:
        parts = urlsplit(url)
        origin, target = (
            f"{parts.scheme}://{parts.netloc}",
            (parts.path or "/") + (f"?{parts.query}" * bool(parts.query)),
        )
    else:
        origin, target = simple.groups()
    place, fields = _origin(origin)
    return Address(place, f"{method} {target} HTTP/1.1{fields}".encode("ascii"))


# An address of which nothing has to be looked at more closely, as all that are signed.
_SIMPLE = re.compile(r"(https?://[^/?#\s\\]+)(/[!-\"$-~]*)")


@lru_cache(maxsize=64)
def _origin(origin: str) -> tuple[Place, str]:
    """Where connections lead, and what stands behind the first line of a request."""
    parts = urlsplit(origin)
    secure = parts.scheme == "https"
    fields = ("", f"Host: {parts.netloc.rpartition('@')[2]}", "User-Agent: zvcore", "Accept: */*", "")
    return Place(secure, parts.hostname or "", parts.port or (443 if secure else 80)), "\r\n".join(fields)


class _Connection:
    def __init__(self, place: Place, family: int, where: tuple[object, ...]) -> None:
        self.place = place
        self.where = where
        self.is_open = False
        self.has_answered = False
        self.idle_since = 0.0
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self.socket.connect_ex(where)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
        except BaseException:
            self.socket.close()
            raise
        self.descriptor = self.socket.fileno()

    def close(self) -> None:
        self.socket.close()


class _Batch(ABC):
    """Ranges in one place, on their way."""

    def __init__(self, place: Place, wanted: Sequence[Wanted], at_once: int) -> None:
        self.place = place
        self.ranges = Ranges(wanted)
        self.at_once = min(at_once, len(wanted))
        self.refused = False
        self.patience = _PATIENCE if wanted[0].parts is None else _PATIENCE_STORING
        self.open: dict[int, _Connection] = {}
        self.addresses: list[tuple[int, tuple[object, ...]]] | None = None

    def run(self) -> None:
        try:
            for connection in _take_kept(self.place, self.at_once):
                self._use(connection)
            while len(self.open) < self.at_once and self.ranges.left and self._begin():
                pass
            while self.open and self._wait():
                pass
        finally:
            for connection in self.open.values():
                connection.close()

    @abstractmethod
    def results(self) -> list[Got]: ...

    @abstractmethod
    def _put_to_work(self, connection: _Connection) -> None:
        """Ask for the next range over a connection."""

    @abstractmethod
    def _wait(self) -> bool:
        """Go on with what comes next. False if nothing comes for too long."""

    @abstractmethod
    def _let_go(self, connection: _Connection) -> None: ...

    def _begin(self) -> bool:
        """Put one more connection to work, a kept one or a new one."""
        kept = _take_kept(self.place, 1)
        connection = kept[0] if kept else self._connect()
        if connection is None:
            return False
        self._use(connection)
        return True

    def _use(self, connection: _Connection) -> None:
        self.open[connection.descriptor] = connection
        self._put_to_work(connection)

    def _connect(self) -> _Connection | None:
        if self.addresses is None:
            try:
                found = socket.getaddrinfo(self.place.host, self.place.port, type=socket.SOCK_STREAM)
            except OSError:
                found = []
            self.addresses = [(family, where) for family, _, _, _, where in found]
        while self.addresses:
            try:
                return _Connection(self.place, *self.addresses[0])
            except OSError:
                del self.addresses[0]
        return None

    def _over(self, connection: _Connection, outcome: Outcome, number: int) -> None:
        """With a connection that was to bring this range, nothing goes on."""
        self._let_go(connection)
        del self.open[connection.descriptor]
        if outcome is Outcome.AT_REST:
            _keep([connection])
            return
        connection.close()
        if outcome is Outcome.LOST:
            if not connection.is_open and self.addresses and self.addresses[0][1] == connection.where:
                del self.addresses[0]
            if self.ranges.put_back(number, connection.has_answered):
                self._begin()
        elif outcome is Outcome.ENDED:
            if self.ranges.left:
                self._begin()
        else:
            # What has been asked for already is still waited for.
            self.refused = self.refused or outcome is Outcome.REFUSED
            self.ranges.stop()


class _PlainBatch(_Batch):
    def __init__(self, place: Place, wanted: Sequence[Wanted], at_once: int) -> None:
        super().__init__(place, wanted, at_once)
        self.lines = PlainLines(self.ranges, self.at_once, _LONGEST)

    def results(self) -> list[Got]:
        return [self.ranges.received(number) for number in range(self.ranges.count)]

    def _put_to_work(self, connection: _Connection) -> None:
        self.lines.add(connection.descriptor, connection.is_open, connection.has_answered)

    def _wait(self) -> bool:
        found = self.lines.wait(self.patience)
        resting: list[_Connection] = []
        for descriptor, outcome, number, is_open, has_answered in found:
            connection = self.open[descriptor]
            connection.is_open, connection.has_answered = is_open, has_answered
            if outcome is Outcome.AT_REST:
                self.lines.remove(descriptor)
                resting.append(self.open.pop(descriptor))
            else:
                self._over(connection, outcome, number)
        _keep(resting)
        return bool(found)

    def _let_go(self, connection: _Connection) -> None:
        self.lines.remove(connection.descriptor)


class _Answer:
    """What is asked for over an encrypted connection, and what has come of it."""

    def __init__(self, number: int, request: bytes, given: memoryview) -> None:
        self.number = number
        self.request = memoryview(request)
        # What is to be stored, and does not go with the request.
        self.given = given
        self.head = b""
        # What has come of the body; None until the head is there.
        self.body: memoryview | None = None
        self.got = 0
        self.is_excuse = False
        self.excuse = b""
        self.ends = False
        self.begun = time.monotonic()

    def takes_too_long(self, now: float) -> bool:
        size = len(self.given) + (0 if self.body is None else len(self.body))
        return now - self.begun > _LONGEST + size / (1000 * SLOWEST)


class _EncryptedBatch(_Batch):
    def __init__(self, place: Place, wanted: Sequence[Wanted], at_once: int) -> None:
        super().__init__(place, wanted, at_once)
        self.wanted = wanted
        self.found: list[Got] = [None] * len(wanted)
        self.answers: dict[int, _Answer] = {}
        self.looked = time.monotonic()
        self.selector = selectors.DefaultSelector()

    def run(self) -> None:
        with self.selector:
            super().run()

    def results(self) -> list[Got]:
        return self.found

    def _put_to_work(self, connection: _Connection) -> None:
        self._ask(connection)
        self.selector.register(connection.descriptor, selectors.EVENT_WRITE, connection)

    def _wait(self) -> bool:
        ready = self.selector.select(self.patience)
        for key, _ in ready:
            self._advance(key.data)
        now = time.monotonic()
        if now - self.looked >= 1:
            self.looked = now
            if any(answer.takes_too_long(now) for answer in self.answers.values()):
                return False
        return bool(ready)

    def _let_go(self, connection: _Connection) -> None:
        self.selector.unregister(connection.descriptor)
        del self.answers[connection.descriptor]

    def _ask(self, connection: _Connection) -> None:
        number = self.ranges.take()
        self.answers[connection.descriptor] = _Answer(number, self.ranges.request(number), self._given(number))

    def _given(self, number: int) -> memoryview:
        given = memoryview(b"".join(self.wanted[number].parts or ()))
        return given if len(given) > SENT_AT_ONCE else _NOTHING

    def _advance(self, connection: _Connection) -> None:
        try:
            outcome = self._step(connection)
        except (BlockingIOError, ssl.SSLWantReadError):
            self.selector.modify(connection.descriptor, selectors.EVENT_READ, connection)
            return
        except ssl.SSLWantWriteError:
            self.selector.modify(connection.descriptor, selectors.EVENT_WRITE, connection)
            return
        except OSError:
            outcome = Outcome.LOST
        # A step may have brought one range and gone on to the next.
        self._over(connection, outcome, self.answers[connection.descriptor].number)

    def _step(self, connection: _Connection) -> Outcome:
        """Go on until there is something to wait for, which the library says by an error."""
        if not connection.is_open:
            _shake_hands(connection)
        while True:
            answer = self.answers[connection.descriptor]
            while answer.request:
                answer.request = answer.request[connection.socket.send(answer.request) :]
            while answer.given:
                answer.given = answer.given[connection.socket.send(answer.given[:_PIECE]) :]
            outcome = self._receive(connection, answer)
            if outcome is not Outcome.GOING_ON:
                return outcome
            if self._has_come(answer):
                connection.has_answered = True
                if answer.ends:
                    return Outcome.ENDED
                if not self.ranges.left:
                    return Outcome.AT_REST
                self._ask(connection)

    def _has_come(self, answer: _Answer) -> bool:
        """Whether all of an answer is there, which then is kept."""
        if answer.is_excuse:
            data = None
            # Of an answer with which the connection ends, nothing else is waited for.
            if not answer.ends and not self.ranges.excuse_ends(answer.number, answer.excuse):
                return False
        elif answer.body is None or answer.got < len(answer.body):
            return False
        else:
            data = answer.body.toreadonly()
        self.found[answer.number] = self.ranges.with_head(answer.number, answer.head, data)
        return True

    def _receive(self, connection: _Connection, answer: _Answer) -> Outcome:
        if answer.is_excuse:
            more = connection.socket.recv(_PIECE)
            answer.excuse += more
            return self._excuse_so_far(answer) if more else Outcome.LOST
        if answer.body is not None:
            got = connection.socket.recv_into(answer.body[answer.got :])
            answer.got += got
            return Outcome.GOING_ON if got else Outcome.LOST
        data = connection.socket.recv(_PIECE)
        answer.head += data
        end = answer.head.find(b"\r\n\r\n")
        if end < 0:
            if not data:
                return Outcome.LOST
            return Outcome.REFUSED if len(answer.head) > _LONGEST_HEAD else Outcome.GOING_ON
        arrived = answer.head[end + 4 :]
        answer.head = answer.head[:end]
        outcome = self.ranges.check(answer.number, answer.head)
        if outcome not in (Outcome.GOING_ON, Outcome.ENDED):
            return outcome
        answer.ends = outcome is Outcome.ENDED
        length = self.ranges.announced(answer.number)
        if length is None:
            answer.is_excuse = True
            answer.excuse = arrived
            return self._excuse_so_far(answer)
        if len(arrived) > length:
            return Outcome.REFUSED
        try:
            answer.body = memoryview(bytearray(length))
        except MemoryError:
            return Outcome.UNEXPECTED
        answer.got = len(arrived)
        answer.body[: answer.got] = arrived
        return Outcome.GOING_ON

    def _excuse_so_far(self, answer: _Answer) -> Outcome:
        """A long one is not heard out."""
        answer.ends = answer.ends or len(answer.excuse) > _LONGEST_HEAD
        if not answer.ends and self.ranges.excuse_ends(answer.number, answer.excuse) is None:
            return Outcome.REFUSED
        return Outcome.GOING_ON


def _shake_hands(connection: _Connection) -> None:
    """Go on with being connected; OSError where that cannot be."""
    if not isinstance(connection.socket, ssl.SSLSocket):
        code = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        connection.socket = _context().wrap_socket(
            connection.socket, server_hostname=connection.place.host, do_handshake_on_connect=False
        )
    assert isinstance(connection.socket, ssl.SSLSocket)
    connection.socket.do_handshake()
    connection.is_open = True


def fetch_ranges(wanted: Sequence[Wanted], at_once: int) -> tuple[list[memoryview | None], bool]:
    """(the bytes of each range, None where they did not come; whether the server refuses such requests).

    As many as `at_once` are asked for at the same time, in each place.
    """
    found, refused = _fetch(wanted, at_once)
    return cast("list[memoryview | None]", found), refused


def fetch_parts(wanted: Sequence[Wanted], at_once: int) -> tuple[list[Headed | None], bool]:
    """The same for whole objects and parts of them, whatever version is there: (the head of the answer, the bytes or
    None where there is no object, the object's size) of each, None where nothing came.
    """
    found, refused = _fetch(wanted, at_once)
    return cast("list[Headed | None]", found), refused


def store_objects(wanted: Sequence[Wanted], at_once: int) -> tuple[list[bytes | bool | None], bool]:
    """The same for objects to be stored: what was said of each that was; False, as its condition does not hold; None:
    who knows.
    """
    found, refused = _fetch(wanted, at_once)
    heads = [None if one is None else cast("Headed", one)[0] for one in found]
    return [head if head is None or head.startswith(_STORED) else False for head in heads], refused


def condition_of(e_tag: str | None) -> str:
    """The field that says that something is stored only if the object has this tag; None: if there is none."""
    return "If-None-Match: *\r\n" if e_tag is None else f"If-Match: {e_tag}\r\n"


def _fetch(wanted: Sequence[Wanted], at_once: int) -> tuple[list[Got], bool]:
    places: dict[Place, list[int]] = {}
    for number, one in enumerate(wanted):
        places.setdefault(one.address.place, []).append(number)
    if len(places) == 1:
        return _fetch_in(next(iter(places)), wanted, at_once)
    results: list[Got] = [None] * len(wanted)
    refused = False
    for place, numbers in places.items():
        found, refused_here = _fetch_in(place, [wanted[number] for number in numbers], at_once)
        refused = refused or refused_here
        for number, one_found in zip(numbers, found, strict=True):
            results[number] = one_found
    return results, refused


def _fetch_in(place: Place, wanted: Sequence[Wanted], at_once: int) -> tuple[list[Got], bool]:
    batch = (_EncryptedBatch if place.secure else _PlainBatch)(place, wanted, at_once)
    batch.run()
    return batch.results(), batch.refused


# --- what stays between batches

_guard = threading.Lock()
# Of all places, the one that was used last at the end.
_kept: deque[_Connection] = deque()
_trust: ssl.SSLContext | None = None


def _context() -> ssl.SSLContext:
    global _trust
    if _trust is None:
        _trust = ssl.create_default_context()
    return _trust


def _take_kept(place: Place, most: int) -> list[_Connection]:
    """So many of those that were used last, or as many as there are."""
    oldest = time.monotonic() - _KEPT
    stale = []
    found: list[_Connection] = []
    with _guard:
        while _kept and _kept[0].idle_since < oldest:
            stale.append(_kept.popleft())
        while len(found) < most and _kept and _kept[-1].place == place:
            found.append(_kept.pop())
        if len(found) < most and _kept:
            others = [one for one in reversed(_kept) if one.place == place][: most - len(found)]
            for one in others:
                _kept.remove(one)
            found += others
    for one in stale:
        one.close()
    return found


def _keep(connections: Sequence[_Connection]) -> None:
    now = time.monotonic()
    surplus = []
    with _guard:
        for connection in connections:
            connection.idle_since = now
            _kept.append(connection)
        while len(_kept) > _MOST_KEPT:
            surplus.append(_kept.popleft())
    for connection in surplus:
        connection.close()


def close_kept() -> None:
    """Close all connections that nobody uses now."""
    with _guard:
        closing = [*_kept]
        _kept.clear()
    for one in closing:
        one.close()


atexit.register(close_kept)


def _after_fork() -> None:
    # Connections are the parent's; that they are closed here says nothing to the server.
    global _guard
    _guard = threading.Lock()
    closing = [*_kept]
    _kept.clear()
    for one in closing:
        os.close(one.socket.detach())


os.register_at_fork(after_in_child=_after_fork)
