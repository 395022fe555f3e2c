"""Many ranges of objects over connections of our own: one thread sends all requests and takes the answers as they come.

A library that speaks to object stores spends several times as much on a small range as the range itself costs, and has
as many under way as it sees fit. So what is asked for most is asked for here: `GET` of an address that the library has
signed, with `Range` and `If-Match`, over HTTP/1.1. Whatever is not answered exactly as expected is left to the library,
which knows of retries, refusals and redirections.
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
from collections import deque
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Address", "Wanted", "address_of", "close_kept", "fetch_ranges"]

# Seconds in which no byte comes from anywhere, after which nothing is waited for.
_PATIENCE = 20.0
# Seconds for which a connection is kept; servers do so for longer.
_KEPT = 8.0
_MOST_KEPT = 128
# How often a range is asked for whose connection breaks. One that has answered before may break at any time: servers
# close what has been open for long enough.
_ATTEMPTS = 3
_PIECE = 1 << 16
_LONGEST_HEAD = 1 << 15
_FIELD = re.compile(rb"\r\n([A-Za-z0-9-]+):[ \t]*([^\r\n]*?)[ \t]*(?=\r)")
_CONNECTING, _SHAKING, _SENDING, _RECEIVING = range(4)


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
    """A range of an object that has this entity tag and size."""

    address: Address
    start: int
    stop: int
    e_tag: str
    size: int


class _UnexpectedError(Exception):
    """An answer that is not the one that was asked for; `refusal`: such requests will not be answered another time."""

    def __init__(self, refusal: bool = True) -> None:
        self.refusal = refusal


def address_of(url: str) -> Address:
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (
        f"GET {target} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "User-Agent: zvcore",
        "Accept: */*",
        "",
    )
    return Address(Place(secure, host, parts.port or (443 if secure else 80)), "\r\n".join(lines).encode("ascii"))


class _Connection:
    def __init__(self, place: Place, family: int, where: tuple[object, ...]) -> None:
        self.place = place
        self.where = where
        self.state = _CONNECTING
        self.number = -1  # of the range that is asked for
        self.request = b""
        self.head = b""
        self.body: memoryview | None = None
        self.got = 0
        self.has_answered = False
        self.ends = False  # the server closes it after this answer
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

    def ask(self, number: int, wanted: Wanted) -> None:
        span = b"Range: bytes=%d-%d\r\nIf-Match: %s\r\n\r\n" % (wanted.start, wanted.stop - 1, wanted.e_tag.encode())
        self.number = number
        self.request = wanted.address.request + span
        self.head = b""
        self.body = None
        if self.state > _SHAKING:
            self.state = _SENDING

    def open(self) -> None:
        """Go on with being connected; OSError where that cannot be."""
        if self.state == _CONNECTING:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            if self.place.secure:
                self.socket = _context().wrap_socket(
                    self.socket, server_hostname=self.place.host, do_handshake_on_connect=False
                )
            self.state = _SHAKING
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket.do_handshake()
        self.state = _SENDING

    def send(self) -> bool:
        """Whether all is sent."""
        self.request = self.request[self.socket.send(self.request) :]
        if not self.request:
            self.state = _RECEIVING
        return not self.request

    def receive(self, wanted: Wanted) -> memoryview | None:
        """The bytes of the range, once they are all there."""
        length = wanted.stop - wanted.start
        if self.body is not None:
            got = self.socket.recv_into(self.body[self.got :])
            self.got += got
            if not got:
                raise ConnectionResetError
            return self.body.toreadonly() if self.got == length else None
        data = self.socket.recv(_PIECE)
        if not data:
            raise ConnectionResetError
        self.head += data
        end = self.head.find(b"\r\n\r\n")
        if end < 0:
            if len(self.head) > _LONGEST_HEAD:
                raise _UnexpectedError
            return None
        self.ends = _checked(self.head, end, wanted)
        arrived = memoryview(self.head)[end + 4 :]
        if len(arrived) > length:
            raise _UnexpectedError
        if len(arrived) == length:
            return arrived
        self.body = memoryview(bytearray(length))
        self.got = len(arrived)
        self.body[: self.got] = arrived
        return None

    def close(self) -> None:
        self.socket.close()


def _checked(head: bytes, end: int, wanted: Wanted) -> bool:
    """Whether this is the last answer on its connection; `_UnexpectedError` unless it has just what is wanted."""
    fields: dict[bytes, bytes] = {name.lower(): value for name, value in _FIELD.findall(head, 0, end + 2)}
    span = b"bytes %d-%d/%d" % (wanted.start, wanted.stop - 1, wanted.size)
    if (
        not head.startswith(b"HTTP/1.1 206")
        or fields.get(b"content-range") != span
        or fields.get(b"content-length") != b"%d" % (wanted.stop - wanted.start)
        or fields.get(b"etag") != wanted.e_tag.encode()
        or fields.get(b"content-encoding", b"identity") != b"identity"
        or b"transfer-encoding" in fields
    ):
        status = head[9:12]
        raise _UnexpectedError(status not in (b"404", b"412", b"429") and status[:1] != b"5")
    return fields.get(b"connection", b"").lower() == b"close"


class _Batch:
    """Ranges in one place, on their way."""

    def __init__(self, place: Place, wanted: Sequence[Wanted], at_once: int) -> None:
        self.place = place
        self.wanted = wanted
        self.results: list[memoryview | None] = [None] * len(wanted)
        self.left = deque(range(len(wanted)))
        self.attempts = [0] * len(wanted)
        self.at_once = min(at_once, len(wanted))
        self.refused = False
        self.ended = False
        self.selector = selectors.DefaultSelector()
        self.open: dict[int, _Connection] = {}
        self.addresses: list[tuple[int, tuple[object, ...]]] | None = None

    def run(self) -> None:
        try:
            while len(self.open) < self.at_once and self.left and self._begin():
                pass
            while self.open:
                ready = self.selector.select(_PATIENCE)
                if not ready:
                    return
                for key, _ in ready:
                    self._advance(key.data)
        finally:
            for connection in self.open.values():
                connection.close()
            self.selector.close()

    def _begin(self) -> bool:
        """Put one more connection to work, a kept one or a new one."""
        connection = _take_kept(self.place)
        if connection is None:
            connection = self._connect()
            if connection is None:
                return False
        self.open[connection.descriptor] = connection
        waits_for = selectors.EVENT_WRITE if connection.state == _CONNECTING else selectors.EVENT_READ
        self.selector.register(connection.descriptor, waits_for, connection)
        self._ask_next(connection)
        if connection.state == _SENDING:
            self._advance(connection)
        return True

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

    def _ask_next(self, connection: _Connection) -> None:
        number = self.left.popleft()
        self.attempts[number] += 1
        connection.ask(number, self.wanted[number])

    def _advance(self, connection: _Connection) -> None:
        try:
            self._step(connection)
        except (BlockingIOError, ssl.SSLWantReadError):
            self.selector.modify(connection.descriptor, selectors.EVENT_READ, connection)
        except ssl.SSLWantWriteError:
            self.selector.modify(connection.descriptor, selectors.EVENT_WRITE, connection)
        except _UnexpectedError as error:
            # What has been asked for already is still waited for.
            self.refused = self.refused or error.refusal
            self.ended = True
            self.left.clear()
            self._drop(connection)
        except OSError:
            self._lose(connection)

    def _step(self, connection: _Connection) -> None:
        if connection.state < _SENDING:
            connection.open()
            self.selector.modify(connection.descriptor, selectors.EVENT_READ, connection)
        while True:
            if connection.state == _SENDING and not connection.send():
                self.selector.modify(connection.descriptor, selectors.EVENT_WRITE, connection)
                return
            found = connection.receive(self.wanted[connection.number])
            if found is not None:
                self.results[connection.number] = found
                connection.has_answered = True
                if connection.ends or not self.left:
                    self._finish(connection)
                    return
                self._ask_next(connection)
            elif not self.place.secure:
                return  # what has come of it is read; there may be more in an encrypted connection

    def _finish(self, connection: _Connection) -> None:
        self._drop(connection, keep=not connection.ends)
        if self.left:
            self._begin()

    def _lose(self, connection: _Connection) -> None:
        """A connection that broke: its range is asked for again, over another one."""
        number = connection.number
        if connection.has_answered:
            self.attempts[number] -= 1
        if connection.state == _CONNECTING and self.addresses and self.addresses[0][1] == connection.where:
            del self.addresses[0]
        self._drop(connection)
        if self.attempts[number] < _ATTEMPTS and not self.ended:
            self.left.append(number)
            self._begin()

    def _drop(self, connection: _Connection, keep: bool = False) -> None:
        self.selector.unregister(connection.descriptor)
        del self.open[connection.descriptor]
        if keep:
            _keep(connection)
        else:
            connection.close()


def fetch_ranges(wanted: Sequence[Wanted], at_once: int) -> tuple[list[memoryview | None], bool]:
    """(the bytes of each range, None where they did not come; whether the server refuses such requests).

    As many as `at_once` are asked for at the same time, in each place.
    """
    results: list[memoryview | None] = [None] * len(wanted)
    places: dict[Place, list[int]] = {}
    for number, one in enumerate(wanted):
        places.setdefault(one.address.place, []).append(number)
    refused = False
    for place, numbers in places.items():
        batch = _Batch(place, [wanted[number] for number in numbers], at_once)
        batch.run()
        refused = refused or batch.refused
        for number, found in zip(numbers, batch.results, strict=True):
            results[number] = found
    return results, refused


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


def _take_kept(place: Place) -> _Connection | None:
    oldest = time.monotonic() - _KEPT
    stale = []
    with _guard:
        while _kept and _kept[0].idle_since < oldest:
            stale.append(_kept.popleft())
        found = next((one for one in reversed(_kept) if one.place == place), None)
        if found is not None:
            _kept.remove(found)
    for one in stale:
        one.close()
    return found


def _keep(connection: _Connection) -> None:
    connection.idle_since = time.monotonic()
    with _guard:
        _kept.append(connection)
        surplus = _kept.popleft() if len(_kept) > _MOST_KEPT else None
    if surplus is not None:
        surplus.close()


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
