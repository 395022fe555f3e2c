"""Answers to requests for ranges, as servers of all kinds write them, and pieces in which they come."""

from __future__ import annotations

import select
import signal
import socket
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.processes import PATIENCE
from zvcore.stores import range_requests
from zvcore.stores.http_answers import Outcome
from zvcore.stores.http_ranges import PlainLines, Ranges
from zvcore.stores.range_requests import Wanted, address_of, fetch_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TAG = '"tag"'
DATA = bytes(range(100, 200))
FIELDS = [b"Content-Range: bytes 10-29/100", b"Content-Length: 20", b'ETag: "tag"']


def wanted(count: int, port: int = 1) -> list[Wanted]:
    return [Wanted(address_of(f"http://127.0.0.1:{port}/x?y=z"), 10, 30, TAG, 100)] * count


def head(*fields: bytes, status: bytes = b"HTTP/1.1 206 Partial Content") -> bytes:
    return b"\r\n".join([status, *fields])


def answer(*fields: bytes) -> bytes:
    return head(*FIELDS, *fields) + b"\r\n\r\n" + DATA[10:30]


def test_a_request_names_the_range_and_the_version() -> None:
    request = Ranges(wanted(1)).request(0)
    assert request.startswith(b"GET /x?y=z HTTP/1.1\r\nHost: 127.0.0.1:1\r\n")
    assert request.endswith(b'Range: bytes=10-29\r\nIf-Match: "tag"\r\n\r\n')


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (head(*FIELDS), Outcome.GOING_ON),
        (head(b"CONTENT-RANGE: bytes 10-29/100", b"content-length: 20", b'eTag: "tag"'), Outcome.GOING_ON),
        (head(*[one.replace(b": ", b":\t ") + b" \t" for one in FIELDS]), Outcome.GOING_ON),
        (head(*FIELDS, b"content-encoding: identity", b"X: a: b", b"no field at all"), Outcome.GOING_ON),
        (head(*FIELDS, b"Connection: Close"), Outcome.ENDED),
        (head(b"connection: close", *FIELDS), Outcome.ENDED),
        (head(*FIELDS, b"Connection: keep-alive"), Outcome.GOING_ON),
        (head(*FIELDS, status=b"HTTP/1.0 206 Partial Content"), Outcome.REFUSED),
        (head(*FIELDS, status=b"HTTP/1.1 200 OK"), Outcome.REFUSED),
        (head(*FIELDS, status=b"HTTP/1.1 302 Found"), Outcome.REFUSED),
        (head(*FIELDS, status=b"HTTP/1.1 403 Forbidden"), Outcome.REFUSED),
        *[(head(status=b"HTTP/1.1 " + code), Outcome.UNEXPECTED) for code in (b"404", b"412 No", b"429", b"503")],
        *[(head(*(one for one in FIELDS if one is not left_out)), Outcome.REFUSED) for left_out in FIELDS],
        (head(*FIELDS, b"Content-Length: 21"), Outcome.REFUSED),
        (head(b"Content-Length: 020", *FIELDS), Outcome.REFUSED),
        (head(*FIELDS, b"Content-Range: bytes 10-29/101"), Outcome.REFUSED),
        (head(*FIELDS, b'ETag: W/"tag"'), Outcome.REFUSED),
        (head(*FIELDS, b"Transfer-Encoding: chunked"), Outcome.REFUSED),
        (head(*FIELDS, b"Content-Encoding: gzip"), Outcome.REFUSED),
        (b"", Outcome.REFUSED),
        (b"HTTP/1.1 ", Outcome.REFUSED),
        (b"\x00\xff" * 50, Outcome.REFUSED),
        (head(*[one + b"\x00" for one in FIELDS]), Outcome.REFUSED),
        (head(*[one.replace(b":", b"") for one in FIELDS]), Outcome.REFUSED),
    ],
)  # fmt: skip
def test_only_the_answer_that_was_asked_for_is_taken(given: bytes, outcome: Outcome) -> None:
    assert Ranges(wanted(1)).check(0, given) is outcome


def test_a_range_is_asked_for_three_times_at_most() -> None:
    ranges = Ranges(wanted(2))
    assert [ranges.take(), ranges.take()] == [0, 1]
    assert ranges.put_back(0, has_answered=True)
    for _ in range(2):
        assert ranges.take() == 0
        again = ranges.put_back(0, has_answered=False)
    assert again
    assert ranges.take() == 0
    assert not ranges.put_back(0, has_answered=False)
    assert ranges.put_back(1, has_answered=False)
    ranges.stop()
    assert not ranges.left
    assert not ranges.put_back(1, has_answered=True)


@pytest.mark.parametrize(("start", "stop", "size"), [(5, 5, 9), (5, 4, 9), (-1, 4, 9), (5, 10, 9)])
def test_ranges_that_are_none_are_not_asked_for(start: int, stop: int, size: int) -> None:
    with pytest.raises(ValueError, match="cannot be asked for"):
        Ranges([Wanted(address_of("http://x/"), start, stop, TAG, size)])


def test_ranges_have_numbers() -> None:
    ranges = Ranges(wanted(1))
    for number in (-1, 1, 2**40):
        for ask in (ranges.request, ranges.received, lambda number: ranges.check(number, b"")):
            with pytest.raises(IndexError):
                ask(number)
    ranges.take()
    with pytest.raises(IndexError):
        ranges.take()


@contextmanager
def serving(*pieces: bytes) -> Iterator[int]:
    """The port of a server that sends these pieces, one after the other, whatever it is asked, to each who comes."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    try:
                        connection.recv(1 << 16)
                        for piece in pieces:
                            connection.sendall(piece)
                        connection.recv(1)
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            range_requests.close_kept()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(params=["compiled", "encrypted"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to take answers; the one for encrypted connections on connections that are not."""
    if request.param == "encrypted":
        monkeypatch.setattr(range_requests, "_PlainBatch", range_requests._EncryptedBatch)
        monkeypatch.setattr(range_requests, "_shake_hands", lambda connection: setattr(connection, "is_open", True))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("step", [1, 2, 3, 50, 1000])
def test_an_answer_may_come_in_any_pieces(step: int) -> None:
    whole = answer(b"X: " + b"y" * 600)
    with serving(*[whole[at : at + step] for at in range(0, len(whole), step)]) as port:
        assert fetch_ranges(wanted(1, port), 4) == ([DATA[10:30]], False)


@pytest.mark.usefixtures("way")
def test_a_head_of_many_fields_is_still_a_head() -> None:
    with serving(answer(*[b"X-%d: %s" % (i, b"y" * 100) for i in range(250)])) as port:
        assert fetch_ranges(wanted(1, port), 4) == ([DATA[10:30]], False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("given", [head(b"X: " + b"y" * (1 << 20)), answer() + b"more", b"\r\n\r\n", b"\r" * (1 << 17)])
def test_what_does_not_end_where_it_should_is_refused(given: bytes) -> None:
    with serving(given) as port:
        assert fetch_ranges(wanted(1, port), 4) == ([None], True)


@pytest.mark.usefixtures("way")
def test_a_range_that_was_asked_for_when_the_server_had_hung_up_already_is_asked_for_again() -> None:
    with serving(answer()) as port:
        with closing(socket.create_server(("127.0.0.1", 0))) as listening:
            ranges = wanted(2, port)
            connection = range_requests._Connection(ranges[0].address.place, socket.AF_INET, listening.getsockname())
            theirs, _ = listening.accept()
        connection.is_open = connection.has_answered = True
        # All that comes is there from the start: one answer, and that there is no other.
        with theirs:
            theirs.sendall(answer())
            theirs.shutdown(socket.SHUT_WR)
            arrived = select.poll()
            arrived.register(connection.descriptor, select.POLLRDHUP)
            assert arrived.poll(PATIENCE * 1000)
            range_requests._keep([connection])
            assert fetch_ranges(ranges, 1) == ([DATA[10:30]] * 2, False)


@pytest.mark.usefixtures("way")
def test_a_server_that_sends_a_byte_now_and_then_is_not_heard_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_requests, "_LONGEST", 0.2)
    sent = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                for number in range(len(answer())):
                    connection.sendall(answer()[number : number + 1])
                    sent.append(number)
                    time.sleep(0.05)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        assert fetch_ranges(wanted(1, listening.getsockname()[1]), 4) == ([None], False)
        thread.join()
    assert len(sent) < len(answer()) - 10


@contextmanager
def silent() -> Iterator[tuple[PlainLines, socket.socket]]:
    """A connection over which a range was asked for, and its other end, which does not answer."""
    lines = PlainLines(Ranges(wanted(1)), 1, PATIENCE)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        lines.add(ours.fileno(), True, False)
        yield lines, theirs


@contextmanager
def handling(handle: Callable[[], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handle())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signals_do_not_make_it_wait_longer() -> None:
    over = threading.Event()
    main = threading.get_ident()
    with silent() as (lines, theirs), handling(lambda: None):

        def disturb() -> None:
            for _ in range(int(PATIENCE / 0.02)):
                if over.wait(0.02):
                    return
                signal.pthread_kill(main, signal.SIGUSR1)
            theirs.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            assert not lines.wait(0.3)
        finally:
            over.set()
            thread.join()


def test_signals_that_interrupt_nothing_are_handled_while_it_waits() -> None:
    waiting, handled = threading.Event(), threading.Event()
    in_time = []
    with silent() as (lines, theirs), handling(handled.set):

        def signal_oneself() -> None:
            waiting.wait()
            time.sleep(0.5)  # until it waits; one that comes earlier would prove nothing
            # As one that comes just before the wait: the system call of the other thread goes on.
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            in_time.append(handled.wait(PATIENCE))
            theirs.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=signal_oneself)
        thread.start()
        waiting.set()
        assert lines.wait(2 * PATIENCE)
        thread.join()
    assert in_time == [True]


def test_more_connections_than_there_is_room_for_are_not_taken() -> None:
    lines = PlainLines(Ranges(wanted(3)), 1, PATIENCE)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        lines.add(ours.fileno(), True, False)
        with pytest.raises(ValueError, match="more than 1 connections"):
            lines.add(ours.fileno(), True, False)
        assert not lines.wait(0.0)
        lines.remove(ours.fileno())
        lines.remove(ours.fileno())
        assert not lines.wait(0.0)


def test_what_came_before_a_connection_broke_is_not_taken_for_the_range() -> None:
    ranges = Ranges(wanted(1))
    lines = PlainLines(ranges, 1, PATIENCE)
    for given, outcome, data in [(answer()[:-1], Outcome.LOST, None), (answer(), Outcome.AT_REST, DATA[10:30])]:
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            theirs.sendall(given)
            theirs.shutdown(socket.SHUT_WR)
            lines.add(ours.fileno(), True, False)
            assert lines.wait(20.0) == [(ours.fileno(), outcome, 0, True, outcome is Outcome.AT_REST)]
            assert ranges.received(0) == data
            lines.remove(ours.fileno())
            if outcome is Outcome.LOST:
                assert ranges.put_back(0, has_answered=False)
        theirs.close()
    assert ranges.received(0) is None
