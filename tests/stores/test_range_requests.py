"""Ranges over connections of our own: what comes is right, and what does not come is left to others."""

from __future__ import annotations

import os
import shutil
import ssl
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.stores.servers import QuickHandler, answering, encryption
from zvcore.stores import open_store, range_requests
from zvcore.stores.range_requests import Wanted, address_of, fetch_ranges
from zvcore.stores.remote import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request

DATA = np.random.default_rng(3).bytes(1 << 20)
TAG = '"tag"'


class Served:
    """What a server was asked, and how it is to answer: `spoil(number)` names a fault of the answer to that request."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.clients: Counter[Any] = Counter()
        self.spoil: Callable[[int], str | None] = lambda number: None
        self.url = ""


class Handler(QuickHandler):
    served: Served

    def do_GET(self) -> None:
        served = self.served
        number = len(served.asked)
        served.asked.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
        served.clients[self.client_address] += 1
        fault = served.spoil(number)
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = DATA[first : last + 1]
        status, fields = 206, {"Content-Range": f"bytes {first}-{last}/{len(DATA)}", "ETag": TAG}
        if fault == "reset":
            self.close_connection = True
            return
        if fault in ("status", "refused", "changed"):
            status, body = {"status": 503, "refused": 403, "changed": 412}[fault], b"no"
        if fault == "whole":
            status, body = 200, DATA
        if fault == "other":
            fields["Content-Range"] = f"bytes {first + 1}-{last + 1}/{len(DATA)}"
        if fault == "longer":
            fields["Content-Range"] = f"bytes {first}-{last}/{len(DATA) + 1}"
        if fault == "tag":
            fields["ETag"] = '"another"'
        if fault == "encoded":
            fields["Content-Encoding"] = "gzip"
        if fault == "last":
            fields["Connection"] = "close"
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        self.close_connection = self.close_connection or fault in ("cut", "last", "silently")


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Served]:
    served = Served()
    with answering(type("Own", (Handler,), {"served": served}), context) as port:
        name = "http://127.0.0.1" if context is None else "https://localhost"
        served.url = f"{name}:{port}/a/b%20c?signature=x"
        try:
            yield served
        finally:
            range_requests.close_kept()


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as one:
        yield one


def wanted(served: Served, count: int, length: int = 3000) -> list[Wanted]:
    address = address_of(served.url)
    starts = np.random.default_rng(0).integers(0, len(DATA) - length, count).tolist()
    return [Wanted(address, start, start + length, TAG, len(DATA)) for start in starts]


def expected(ranges: list[Wanted]) -> list[bytes]:
    return [DATA[one.start : one.stop] for one in ranges]


@pytest.mark.parametrize(("count", "at_once"), [(1, 1), (7, 3), (100, 8), (100, 128)])
@pytest.mark.parametrize("length", [1, 3000, 300_000])
def test_all_ranges_come_in_their_order(served: Served, count: int, at_once: int, length: int) -> None:
    ranges = wanted(served, count, length)
    found, refused = fetch_ranges(ranges, at_once)
    assert not refused
    assert found == expected(ranges)
    assert all(one is not None and one.readonly for one in found)
    assert len(served.clients) <= at_once
    assert {(one["path"], one["if-match"]) for one in served.asked} == {("/a/b%20c?signature=x", TAG)}
    assert sorted(one["range"] for one in served.asked) == sorted(f"bytes={one.start}-{one.stop - 1}" for one in ranges)


def test_connections_are_kept_from_one_batch_to_the_next(served: Served) -> None:
    for _ in range(3):
        ranges = wanted(served, 20)
        assert fetch_ranges(ranges, 4)[0] == expected(ranges)
    assert len(served.clients) <= 4


def test_a_kept_connection_that_the_server_has_closed_costs_nothing_but_time(served: Served) -> None:
    served.spoil = lambda number: "silently"
    ranges = wanted(served, 20)
    for _ in range(2):
        assert fetch_ranges(ranges, 4) == (expected(ranges), False)


@pytest.mark.parametrize("fault", ["reset", "cut", "last"])
def test_what_breaks_once_is_asked_for_again(served: Served, fault: str) -> None:
    served.spoil = lambda number: fault if number % 5 == 0 else None
    ranges = wanted(served, 40)
    assert fetch_ranges(ranges, 4) == (expected(ranges), False)


@pytest.mark.parametrize(
    ("fault", "refusal"),
    [("status", False), ("changed", False), ("refused", True), ("whole", True), ("other", True), ("longer", True),
     ("tag", True), ("encoded", True)],
)  # fmt: skip
def test_other_answers_are_left_to_others(served: Served, fault: str, refusal: bool) -> None:
    served.spoil = lambda number: fault if number == 10 else None
    ranges = wanted(served, 1000)
    found, refused = fetch_ranges(ranges, 4)
    assert refused == refusal
    assert None in found
    assert all(one in (None, right) for one, right in zip(found, expected(ranges), strict=True))
    assert len(served.asked) < 1000  # a server that answers so is not asked on and on


def test_what_always_breaks_is_given_up(served: Served) -> None:
    served.spoil = lambda number: "reset"
    assert fetch_ranges(wanted(served, 5), 2) == ([None] * 5, False)
    assert len(served.asked) <= 15


def test_nobody_listens() -> None:
    with serving() as served:
        ranges = wanted(served, 5)
    assert fetch_ranges(ranges, 2) == ([None] * 5, False)
    nowhere = [one._replace(address=address_of("http://does-not-exist.invalid/x")) for one in ranges]
    assert fetch_ranges(nowhere, 2) == ([None] * 5, False)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="nothing to make a certificate with")
def test_connections_are_encrypted_where_the_address_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, certificate = encryption(tmp_path)
    with serving(context) as served:
        ranges = wanted(served, 60, 50_000)
        # Nobody vouches for it.
        assert fetch_ranges(ranges, 4) == ([None] * 60, False)
        monkeypatch.setattr(range_requests, "_trust", ssl.create_default_context(cafile=certificate))
        for _ in range(2):
            assert fetch_ranges(ranges, 4) == (expected(ranges), False)
        assert len(served.clients) <= 4


def test_a_child_leaves_the_connections_of_its_parent_alone(served: Served) -> None:
    ranges = wanted(served, 8)
    assert fetch_ranges(ranges, 2)[0] == expected(ranges)
    child = os.fork()
    if child == 0:
        os._exit(0 if not range_requests._kept and fetch_ranges(ranges, 2)[0] == expected(ranges) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fetch_ranges(ranges, 2)[0] == expected(ranges)
    assert len(served.clients) <= 4


@pytest.mark.parametrize("fault", [500, 403, "reset", "lost", "cut"])
def test_an_array_is_read_whatever_becomes_of_such_requests(s3: S3, proxy: Proxy, fault: int | str) -> None:
    url = s3.url(f"ranges-{os.urandom(8).hex()}")
    array = zvcore.create(
        url, format="zarr3", shape=(64, 64), dtype="u2", chunks=(8, 8), shards=(64, 64), codec=None,
        storage_options=s3.options,
    )  # fmt: skip
    values = np.random.default_rng(0).integers(1, 60000, (64, 64)).astype("u2")
    array[...] = values

    def spoil(request: Request) -> int | str | None:
        return fault if request.headers.get("user-agent") == "zvcore" and len(proxy.requests) % 3 == 0 else None

    proxy.spoil = spoil
    # Chunks that lie apart: no request gets two of them.
    blocks = [(i, j) for i in range(8) for j in range(8)]
    store = open_store(url, "r", s3.options)
    store_gap = pytest.MonkeyPatch()
    store_gap.setattr("zvcore.stores.remote._GAP", 0)
    try:
        found = zvcore.open(store).read_blocks(blocks[::2])
    finally:
        store_gap.undo()
    for (i, j), block in zip(blocks[::2], found, strict=True):
        assert np.array_equal(block, values[8 * i : 8 * i + 8, 8 * j : 8 * j + 8])
    assert any(one.headers.get("user-agent") == "zvcore" for one in proxy.requests)


def test_small_parts_pay_unless_answers_come_at_once() -> None:
    client: Any = SimpleNamespace(atomic=True, answers_itself=False)
    store = RemoteStore(client, "s3://nobody", read_only=True)
    assert store.small_parts_pay(), "nothing is known yet"
    store._shared.took(0.002)
    assert store.small_parts_pay()
    store._shared.took(0.0003)
    assert not store.small_parts_pay()
    assert not store.child("folder").small_parts_pay()
    # What a client knows itself says nothing of the place that it asks.
    client.answers_itself = True
    store = RemoteStore(client, "reference://nobody", read_only=True)
    store._shared.took(0.0003)
    assert store.small_parts_pay()
