"""Whole objects over connections of our own: read, found missing, stored. What does not go well is left to others."""

from __future__ import annotations

import os
import random
import shutil
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.stores.servers import QuickHandler, answering, encryption
from tests.stores.test_http_ranges import serving as sending
from zvcore import transfer
from zvcore.errors import ConflictError
from zvcore.stores import open_store, own_requests, range_requests, request_addresses
from zvcore.stores.http_answers import SENT_AT_ONCE, Outcome
from zvcore.stores.http_ranges import Ranges
from zvcore.stores.range_requests import Wanted, address_of, condition_of, fetch_parts, store_objects
from zvcore.stores.writing import ANYTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request

OK, MISSING = b"HTTP/1.1 200 OK", b"HTTP/1.1 404 Not Found"
CHUNKED = b"Transfer-Encoding: chunked"


def asked(task: str = "read") -> Ranges:
    address = address_of("http://127.0.0.1:1/x?y=z", "GET" if task == "read" else "PUT")
    return Ranges([Wanted(address, parts=None if task == "read" else [b"data"])])


def head(status: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join([status, *fields])


def chunked(*pieces: bytes, trailer: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces) + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize(
    ("given", "outcome", "announced"),
    [
        (head(OK, b"Content-Length: 7"), Outcome.GOING_ON, 7),
        (head(OK, b"content-length:0", b"ETag: x"), Outcome.GOING_ON, 0),
        (head(OK, b"Content-Length: 7", b"Connection: close"), Outcome.ENDED, 7),
        (head(OK, b"Content-Length: 7", b"Content-Encoding: gzip"), Outcome.GOING_ON, 7),
        (head(OK, b"Content-Length: 7", b"Content-Encoding: zstd"), Outcome.GOING_ON, 7),
        (head(OK, b"Content-Length: 7", b"Content-Length: 7"), Outcome.GOING_ON, 7),
        (head(MISSING, b"Content-Length: 7"), Outcome.GOING_ON, None),
        (head(MISSING, CHUNKED), Outcome.GOING_ON, None),
        (head(MISSING), Outcome.ENDED, None),
        (head(MISSING, b"Content-Length: 7", b"Content-Encoding: br"), Outcome.GOING_ON, None),
    ],
)
def test_what_an_answer_announces(given: bytes, outcome: Outcome, announced: int | None) -> None:
    ranges = asked()
    assert ranges.check(0, given) is outcome
    assert ranges.announced(0) == announced


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (head(OK), Outcome.UNEXPECTED),
        (head(OK, CHUNKED), Outcome.UNEXPECTED),
        (head(OK, b"Content-Length: 7", CHUNKED), Outcome.UNEXPECTED),
        (head(OK, b"Content-Length: 7", b"Content-Length: 8"), Outcome.UNEXPECTED),
        (head(OK, b"Content-Length: 7", b"Content-Encoding: br"), Outcome.UNEXPECTED),
        *[(head(OK, b"Content-Length: " + one), Outcome.UNEXPECTED) for one in (b"", b"-1", b"7 7", b"0x7", b"9" * 19)],
        (head(MISSING, b"Content-Length: 7", CHUNKED), Outcome.UNEXPECTED),
        (head(MISSING, b"Transfer-Encoding: gzip, chunked"), Outcome.UNEXPECTED),
        (head(b"HTTP/1.1 206 Partial Content", b"Content-Length: 7"), Outcome.REFUSED),
        (head(b"HTTP/1.0 200 OK", b"Content-Length: 7"), Outcome.REFUSED),
        (head(b"HTTP/1.1 301 Moved", b"Content-Length: 0"), Outcome.REFUSED),
        (head(b"HTTP/1.1 403 Forbidden", b"Content-Length: 0"), Outcome.REFUSED),
        *[(head(b"HTTP/1.1 " + code), Outcome.UNEXPECTED) for code in (b"409 x", b"412 x", b"429 x", b"500 x", b"503")],
        (b"", Outcome.REFUSED),
        (b"HTTP/1.1 2", Outcome.REFUSED),
    ],
)
def test_what_is_no_answer(given: bytes, outcome: Outcome) -> None:
    assert asked().check(0, given) is outcome


def test_to_be_stored_is_not_found_or_missing() -> None:
    ranges = asked("store")
    assert ranges.check(0, head(OK, b"Content-Length: 0")) is Outcome.GOING_ON
    assert ranges.announced(0) is None
    assert ranges.check(0, head(MISSING, b"Content-Length: 0")) is Outcome.UNEXPECTED
    assert ranges.check(0, head(b"HTTP/1.1 100 Continue")) is Outcome.REFUSED


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.sampled_from([b"", b"X: y\r\n"]), st.data())
def test_an_excuse_ends_where_it_ends(pieces: list[bytes], trailer: bytes, data: st.DataObject) -> None:
    ranges = asked()
    ranges.check(0, head(MISSING, CHUNKED))
    body = chunked(*pieces, trailer=trailer)
    assert ranges.excuse_ends(0, body) is True
    assert ranges.excuse_ends(0, body[: data.draw(st.integers(0, len(body) - 1))]) is False
    assert ranges.excuse_ends(0, body + b"x") is None


@given(st.binary(max_size=80))
def test_any_bytes_may_be_an_excuse(body: bytes) -> None:
    for field_ in (CHUNKED, b"Content-Length: 20"):
        ranges = asked()
        ranges.check(0, head(MISSING, field_))
        assert ranges.excuse_ends(0, body) in (True, False, None)


@pytest.mark.parametrize("body", [b"x\r\n", b"5 \r\nhello", b"\r\n", b"fffffffff\r\n", b"-1\r\n\r\n"])
def test_what_is_no_excuse(body: bytes) -> None:
    ranges = asked()
    ranges.check(0, head(MISSING, CHUNKED))
    assert ranges.excuse_ends(0, body) is None


# --- over connections


@dataclass
class Served:
    """A server with some objects. `spoil(number)` names what goes wrong with the request of that number."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    clients: set[Any] = field(default_factory=set)
    spoil: Callable[[int], str | None] = lambda number: None
    excuse: str = "plain"

    def address(self, name: str, method: str = "GET") -> range_requests.Address:
        return address_of(f"{self.url}/{name}?signature=x", method)


class Handler(QuickHandler):
    served: Served

    def _begin(self) -> tuple[str, str | None]:
        served = self.served
        name = self.path.partition("?")[0].strip("/")
        served.asked.append((self.command, name, {key.lower(): value for key, value in self.headers.items()}))
        served.clients.add(self.client_address)
        return name, served.spoil(len(served.asked) - 1)

    def _answer(self, status: int, body: bytes, *fields: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in fields or [("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        name, fault = self._begin()
        data = self.served.objects.get(name)
        if fault == "reset":
            self.close_connection = True
        elif fault is not None:
            self._answer(int(fault), b"no")
        elif data is not None:
            self._answer(200, data)
        elif self.served.excuse == "chunked":
            self._answer(404, chunked(b"<Error>", b"<Code>NoSuchKey</Code></Error>"), ("Transfer-Encoding", "chunked"))
        elif self.served.excuse == "closing":
            self._answer(404, b"there is nothing", ("Connection", "close"))
            self.close_connection = True
        elif self.served.excuse == "long":
            self._answer(404, b"x" * 200_000)
        else:
            self._answer(404, b"there is nothing")

    def do_PUT(self) -> None:
        name, fault = self._begin()
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if fault == "reset":
            self.close_connection = True
            return
        if fault == "lost":
            self.served.objects[name] = data
            self.close_connection = True
            return
        if fault is not None:
            self._answer(int(fault), b"no")
            return
        self.served.objects[name] = data
        self._answer(200, b"")


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Served]:
    served = Served()
    with answering(type("Own", (Handler,), {"served": served}), context) as port:
        served.url = f"http://127.0.0.1:{port}" if context is None else f"https://localhost:{port}"
        try:
            yield served
        finally:
            range_requests.close_kept()


@pytest.fixture(params=["compiled", "encrypted"])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Both ways to ask; the one for encrypted connections on connections that are not."""
    if request.param == "encrypted":
        monkeypatch.setattr(range_requests, "_PlainBatch", range_requests._EncryptedBatch)
        monkeypatch.setattr(range_requests, "_shake_hands", lambda connection: setattr(connection, "is_open", True))
    with serving() as one:
        yield one


def some_objects() -> dict[str, bytes]:
    rng = np.random.default_rng(1)
    sizes = [0, 1, 4000, SENT_AT_ONCE, SENT_AT_ONCE + 1, 70_000, 1_000_000, *[300] * 40]
    return {f"object-{number}": rng.bytes(size) for number, size in enumerate(sizes)}


@pytest.mark.parametrize("excuse", ["plain", "chunked", "closing", "long"])
@pytest.mark.parametrize("at_once", [1, 5, 64])
def test_objects_come_in_their_order_and_missing_ones_are_known(served: Served, excuse: str, at_once: int) -> None:
    served.objects, served.excuse = some_objects(), excuse
    names = [name for one in served.objects for name in (one, f"no-{one}")]
    found, refused = fetch_parts([Wanted(served.address(name)) for name in names], at_once)
    assert not refused
    for name, one in zip(names, found, strict=True):
        assert one is not None
        said, data, size = one
        assert data == served.objects.get(name)
        assert size == len(data or b"")
        assert said.startswith(b"HTTP/1.1 404" if data is None else b"HTTP/1.1 200")
    assert len(served.asked) == len(names)
    if excuse in ("plain", "chunked"):
        assert len(served.clients) <= at_once


def test_what_breaks_is_asked_for_again(served: Served) -> None:
    served.objects = some_objects()
    # Every fourth the first time. By numbers of requests, chance would break one object as often as it is asked for.
    breaking = {*[*served.objects][::4]}
    broken: set[str] = set()

    def spoil(number: int) -> str | None:
        name = served.asked[number][1]
        if name in broken or name not in breaking:
            return None
        broken.add(name)
        return "reset"

    served.spoil = spoil
    found, refused = fetch_parts([Wanted(served.address(name)) for name in served.objects], 4)
    assert not refused and broken == breaking
    assert [one and one[1] for one in found] == [*served.objects.values()]


@pytest.mark.parametrize(("fault", "refusal"), [("503", False), ("403", True)])
def test_other_answers_are_left_to_others(served: Served, fault: str, refusal: bool) -> None:
    served.objects = {str(number): b"%d" % number for number in range(500)}
    served.spoil = lambda number: fault if number == 20 else None
    found, refused = fetch_parts([Wanted(served.address(name)) for name in served.objects], 4)
    assert refused == refusal
    assert None in found
    assert all(one is None or one[1] == right for one, right in zip(found, served.objects.values(), strict=True))
    assert len(served.asked) < 500


def stored(wanted: list[Wanted], at_once: int) -> tuple[list[bool | None], bool]:
    """What `store_objects` says, without what the server has told of each object."""
    found, refused = store_objects(wanted, at_once)
    heads = [one for one in found if isinstance(one, bytes)]
    assert all(head.startswith(b"HTTP/1.1 200 ") and b"Content-Length: 0" in head for head in heads)
    return [True if isinstance(one, bytes) else one for one in found], refused


@pytest.mark.parametrize("at_once", [1, 5, 64])
def test_objects_are_stored(served: Served, at_once: int) -> None:
    given = some_objects()
    wanted = [Wanted(served.address(name, "PUT"), parts=[memoryview(data)]) for name, data in given.items()]
    assert stored(wanted, at_once) == ([True] * len(given), False)
    assert served.objects == given
    assert all("if-match" not in told and "if-none-match" not in told for _, _, told in served.asked)


def some_parts(seed: int) -> dict[str, list[bytes]]:
    """Few and many parts of objects, empty ones among them."""
    generator = random.Random(seed)
    sizes = [[], [0], [0, 5, 0], [4096], [4000, 97], [10] * 300, [0, 5000, 0, 0, 1]]
    sizes += [[generator.choice((0, 1, 100, 5000)) for _ in range(generator.randrange(200))] for _ in range(20)]
    return {f"{number}": [os.urandom(size) for size in own] for number, own in enumerate(sizes)}


@pytest.mark.parametrize("at_once", [1, 5])
def test_parts_are_stored_one_after_the_other(served: Served, at_once: int) -> None:
    given = some_parts(at_once)
    wanted = [Wanted(served.address(name, "PUT"), parts=parts) for name, parts in given.items()]
    assert stored(wanted, at_once) == ([True] * len(given), False)
    assert served.objects == {name: b"".join(parts) for name, parts in given.items()}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="nothing to make a certificate with")
@pytest.mark.parametrize("encrypted", [False, True])
def test_more_bytes_than_a_connection_takes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    context, certificate = encryption(tmp_path)
    monkeypatch.setattr(range_requests, "_trust", ssl.create_default_context(cafile=certificate))
    sizes = [[1 << 20] * 9, [300_000] * 70, [70_000, 0, 1] * 90, [20 << 20]]
    given = {f"{number}": [os.urandom(size) for size in own] for number, own in enumerate(sizes)} | some_parts(0)
    with serving(context if encrypted else None) as served:
        wanted = [Wanted(served.address(name, "PUT"), parts=parts) for name, parts in given.items()]
        assert stored(wanted, 3) == ([True] * len(given), False)
        assert served.objects == {name: b"".join(parts) for name, parts in given.items()}


def test_conditions_are_said(served: Served) -> None:
    fields = [condition_of('"tag"'), condition_of(None)]
    wanted = [Wanted(served.address("x", "PUT"), e_tag=one, parts=[b"data"]) for one in fields]
    assert stored(wanted, 1) == ([True, True], False)
    assert [told.get("if-match") for _, _, told in served.asked] == ['"tag"', None]
    assert [told.get("if-none-match") for _, _, told in served.asked] == [None, "*"]


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("fault", ["reset", "lost"])
def test_only_what_has_no_condition_is_stored_again(served: Served, size: int, fault: str) -> None:
    served.spoil = lambda number: fault if number == 0 else None
    data = os.urandom(size)
    assert stored([Wanted(served.address("x", "PUT"), parts=[data])], 1) == ([True], False)
    assert len(served.asked) == 2
    assert served.objects == {"x": data}
    served.asked.clear()
    conditional = Wanted(served.address("y", "PUT"), e_tag=condition_of(None), parts=[data])
    assert stored([conditional], 1) == ([None], False)
    assert len(served.asked) == 1


def test_a_condition_that_does_not_hold_is_no_refusal(served: Served) -> None:
    served.spoil = lambda number: "412" if number % 2 else None
    wanted = [Wanted(served.address("x", "PUT"), e_tag=condition_of(None), parts=[b"x"])] * 4
    assert stored(wanted, 1) == ([True, False, True, False], False)
    served.spoil = lambda number: "403"
    assert stored([Wanted(served.address("x", "PUT"), parts=[b"x"])], 1) == ([None], True)


def test_an_answer_that_promises_too_much_is_left_to_others() -> None:
    """Nothing is made ready for what only a server claims to send."""
    with sending(head(OK, b"Content-Length: 999999999999999999") + b"\r\n\r\nabc") as port:
        assert fetch_parts([Wanted(address_of(f"http://127.0.0.1:{port}/x"))], 1)[0] == [None]


# --- behind stores


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"whole-{os.urandom(8).hex()}")


def ours(proxy: Proxy) -> list[Request]:
    return [one for one in proxy.requests if one.headers.get("user-agent") == "zvcore"]


def test_a_store_reads_and_stores_many_objects(s3: S3, proxy: Proxy, url: str) -> None:
    store = open_store(url, "w", s3.options)
    given = {f"a/b c/{number}": os.urandom(number * 700) for number in range(40)}
    assert store.put_each([(key, data, ANYTHING) for key, data in given.items()]) == [True] * 40
    if s3.scheme == "s3":
        assert {one.method for one in ours(proxy)} == {"PUT"}
    proxy.forget()
    names = [name for key in given for name in (key, f"{key}-missing")]
    assert list(store.get_many(names)) == [given.get(name) for name in names]
    assert len(ours(proxy)) == (len(names) if s3.signs else 0)
    found = store.snapshots(names)
    for name, one in zip(names, found, strict=True):
        alone = store.snapshot(name)
        assert (one is None) == (alone is None)
        if one is not None and alone is not None:
            assert (one.data, one.size, one.stamp) == (alone.data, alone.size, alone.stamp)
            assert store.stamp(name) == one.stamp


def test_conditions_hold_for_many_objects(s3: S3, url: str) -> None:
    store = open_store(url, "w", s3.options)
    for number in range(8):
        store.put(f"old/{number}", b"old")
    stamps = [one and one.stamp for one in store.snapshots([f"old/{number}" for number in range(8)])]
    store.put("old/3", b"newer")
    wanted: list[Any] = [(f"old/{number}", b"mine", stamps[number]) for number in range(8)]
    wanted += [(f"new/{number}", b"mine", None) for number in range(4)] + [("old/7", b"mine", None)]
    assert store.put_each(wanted) == [number != 3 for number in range(12)] + [False]
    assert store.get("old/3") == b"newer"
    assert store.get("old/5") == b"mine"
    assert store.get("new/2") == b"mine"
    assert store.get("old/7") == b"mine"


@pytest.mark.parametrize("fault", [500, 403, "reset", "lost", "cut"])
def test_chunks_are_written_changed_and_read_whatever_becomes_of_such_requests(
    s3: S3, proxy: Proxy, url: str, fault: int | str
) -> None:
    count = 0

    def spoil(request: Request) -> int | str | None:
        nonlocal count
        if request.headers.get("user-agent") != "zvcore":
            return None
        count += 1
        return fault if count % 3 == 0 else None

    proxy.spoil = spoil
    values = np.random.default_rng(0).integers(1, 60000, (64, 64)).astype("u2")
    array = zvcore.create(
        url, format="zarr3", shape=(64, 64), dtype="u2", chunks=(8, 8), codec=None, storage_options=s3.options
    )
    array[...] = values
    values[3:61, 3:61] += 1
    # Of the chunks at the rim a part stays as it was, if nobody else changes them.
    zvcore.open(url, "r+", storage_options=s3.options)[3:61, 3:61] = values[3:61, 3:61]
    assert np.array_equal(zvcore.open(url, storage_options=s3.options)[...], values)
    assert count


def test_writers_of_the_same_chunks_lose_nothing(s3: S3, url: str) -> None:
    zvcore.create(url, format="zarr3", shape=(64,), dtype="i8", chunks=(8,), codec=None, storage_options=s3.options)

    def write(first: int) -> None:
        array = zvcore.open(url, "r+", storage_options=s3.options)
        for turn in range(5):
            array[first::4] = np.arange(first, 64, 4) + 100 * turn

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert np.array_equal(zvcore.open(url, storage_options=s3.options)[...], np.arange(64) + 400)


def test_a_refusal_is_remembered_for_a_while_by_all_who_ask_alike(s3: S3, proxy: Proxy, url: str) -> None:
    store = open_store(url, "w", s3.options)
    given = {f"x/{number}": b"%d" % number for number in range(6)}
    for key, data in given.items():
        store.put(key, data)
    proxy.spoil = lambda request: 403 if request.headers.get("user-agent") == "zvcore" else None
    assert list(store.get_many(given)) == [*given.values()]
    assert ours(proxy)
    proxy.forget()
    another: Any = open_store(url, "r", s3.options)
    assert list(another.get_many(given)) == [*given.values()]
    assert not ours(proxy)
    another._client._own.objects._closed_until = 0.0
    proxy.spoil = None
    assert list(store.get_many(given)) == [*given.values()]
    assert len(ours(proxy)) == len(given)


def test_what_is_not_asked_for_so_says_nothing_of_how_long_answers_take(proxy: Proxy, s3: S3, url: str) -> None:
    store: Any = open_store(url, "w", {**s3.options, "user_agent": "somebody", "http2_only": False})
    assert not store._client._own.objects.goes
    store._shared.seconds = None
    with store.looking_at(["a", "b"]):
        pass
    assert store._shared.seconds > 0.0001


def test_a_store_that_refuses_a_write_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(8,), dtype="u1", chunks=(4,), codec=None)
    placement = array.layout.placement
    chunks = array.read_encoded((0,))
    assert chunks is None
    array[:] = 1
    encoded = transfer.read_encoded(array.layout, np.array([[0], [1]]))
    monkeypatch.setattr(type(array.layout.store), "put_each", lambda self, wanted: [True, False])
    with pytest.raises(ConflictError):
        placement.put(np.array([[0], [1]]), encoded)


def test_slow_signatures_are_not_asked_for_again_and_again(s3: S3, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a service has to be asked for each."""
    store: Any = open_store(url, "w", s3.options)
    own = store._client._own
    sign, asked = request_addresses.obstore.sign, []

    def slowly(*given: Any) -> Any:
        asked.append(given)
        time.sleep(2 * request_addresses._SLOW_TO_SIGN)
        return sign(*given)

    monkeypatch.setattr(request_addresses.obstore, "sign", slowly)
    for turn in range(5):
        assert list(store.get_many([f"{turn}/{number}" for number in range(5)])) == [None] * 5
    # The first may have waited for credentials, which is no reason.
    assert len(asked) == 2
    assert not own.objects.goes
    own.objects._closed_until = 0.0
    assert list(store.get_many(["x", "y"])) == [None] * 2
    assert len(asked) == 3
    assert own.objects._closed_until > time.monotonic() + 1.5 * own_requests._CLOSED
