"""Parts of objects of whatever version, over connections of our own: what answers say, and what is left to others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.stores.servers import answering
from tests.stores.test_whole_objects import OK, Handler, Served, head
from zvcore.stores import open_store, range_requests
from zvcore.stores.http_answers import Outcome
from zvcore.stores.http_ranges import Ranges
from zvcore.stores.range_requests import Wanted, address_of, fetch_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.stores.servers import S3, Proxy, Request

ADDRESS = address_of("http://127.0.0.1:1/x")
PART = b"HTTP/1.1 206 Partial Content"
DATA = bytes(range(256))


def fields(span: bytes, length: int, *others: bytes) -> bytes:
    return head(PART, b"Content-Range: bytes " + span, b"Content-Length: %d" % length, *others)


@pytest.mark.parametrize(
    ("start", "stop", "given", "size"),
    [
        (10, 30, fields(b"10-29/100", 20), 100),
        (10, 30, fields(b"10-24/25", 15), 25),
        (0, 1, fields(b"0-0/1", 1), 1),
        (-20, None, fields(b"80-99/100", 20), 100),
        (-20, None, fields(b"0-9/10", 10), 10),
        (-20, None, fields(b"0-19/20", 20, b"ETag: W/x", b"Content-Encoding: identity"), 20),
    ],
)
def test_what_a_part_says(start: int, stop: int | None, given: bytes, size: int) -> None:
    ranges = Ranges([Wanted(ADDRESS, start, stop, None)])
    assert ranges.check(0, given) is Outcome.GOING_ON
    assert ranges.with_head(0, given, memoryview(b"x")) == (given, b"x", size)
    assert ranges.check(0, given + b"\r\nConnection: close") is Outcome.ENDED


@pytest.mark.parametrize(
    "span",
    [
        b"10-29/*", b"10-29/20", b"10-30/100", b"11-29/100", b"9-29/100", b"10-28/100", b"29-10/100", b"10-29",
        b"10/100", b"", b"-29/100", b"10-/100", b"10-29/", b" 10-29/100", b"010-29/100", b"10-29/100 ,", b"10-29/-1",
        b"10-29/1" + b"0" * 20,
    ],
)  # fmt: skip
def test_what_is_no_span(span: bytes) -> None:
    for length in (20, 21, 19):
        assert Ranges([Wanted(ADDRESS, 10, 30, None)]).check(0, fields(span, length)) is Outcome.REFUSED


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (fields(b"10-29/100", 19), Outcome.REFUSED),
        (fields(b"10-29/100", 20, b"Content-Length: 20"), Outcome.REFUSED),
        (fields(b"10-29/100", 20, b"Content-Range: bytes 10-29/100"), Outcome.REFUSED),
        (fields(b"10-29/100", 20, b"Content-Encoding: gzip"), Outcome.REFUSED),
        (fields(b"10-29/100", 20, b"Transfer-Encoding: chunked"), Outcome.REFUSED),
        (head(PART, b"Content-Length: 20"), Outcome.REFUSED),
        (head(PART, b"Content-Range: bytes 10-29/100"), Outcome.REFUSED),
        (head(OK, b"Content-Length: 100"), Outcome.REFUSED),
        (head(b"HTTP/1.1 416 x", b"Content-Length: 0"), Outcome.UNEXPECTED),
    ],
)
def test_what_is_no_part(given: bytes, outcome: Outcome) -> None:
    assert Ranges([Wanted(ADDRESS, 10, 30, None)]).check(0, given) is outcome


@pytest.mark.parametrize(
    ("start", "stop", "length", "covers"),
    [
        (0, 30, 30, True),
        (0, 30, 31, False),
        (1, 30, 10, False),
        (-20, None, 20, True),
        (-20, None, 21, False),
        (0, 9, 0, True),
    ],
)
def test_all_of_an_object_may_come_in_place_of_a_part_that_is_all_of_it(
    start: int, stop: int | None, length: int, covers: bool
) -> None:
    ranges = Ranges([Wanted(ADDRESS, start, stop, None)])
    given_ = head(OK, b"Content-Length: %d" % length)
    assert ranges.check(0, given_) is (Outcome.GOING_ON if covers else Outcome.REFUSED)
    if covers:
        assert ranges.announced(0) == length and ranges.with_head(0, given_, None) == (given_, None, length)


@pytest.mark.parametrize("wanted", [(5, 5), (-5, 5), (-1, 0), (1, None), (0, (1 << 62) + 1), (-(1 << 62) - 1, None)])
def test_what_cannot_be_asked_for(wanted: tuple[int, int | None]) -> None:
    with pytest.raises(ValueError, match="cannot be asked for"):
        Ranges([Wanted(ADDRESS, *wanted, None)])


@given(st.binary(max_size=120))
def test_any_bytes_may_be_a_head(data: bytes) -> None:
    for wanted in (Wanted(ADDRESS, 10, 30, None), Wanted(ADDRESS, -20, None, None)):
        for given_ in (data, PART + b"\r\nContent-Length: 20\r\nContent-Range: bytes " + data):
            ranges = Ranges([wanted])
            if ranges.check(0, given_) in (Outcome.GOING_ON, Outcome.ENDED) and ranges.announced(0) is not None:
                assert int(str(ranges.announced(0))) <= 20


# --- over connections


class Ranging(Handler):
    """Answers requests for parts of what it has, as servers of objects do."""

    def do_GET(self) -> None:
        span = self.headers.get("Range")
        data = self.served.objects.get(self.path.partition("?")[0].strip("/"))
        if span is None or data is None:
            super().do_GET()
            return
        self._begin()
        first, _, last = span.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(len(data), int(last) + 1) if first and last else len(data)
        if start >= stop:
            self._answer(416, b"no")
            return
        if self.served.excuse == "whole" and (start, stop) == (0, len(data)):
            self._answer(200, data)
            return
        said = ("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self._answer(206, data[start:stop], ("Content-Length", str(stop - start)), said)


@pytest.fixture(params=["compiled", "encrypted"])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Both ways to ask; the one for encrypted connections on connections that are not."""
    if request.param == "encrypted":
        monkeypatch.setattr(range_requests, "_PlainBatch", range_requests._EncryptedBatch)
        monkeypatch.setattr(range_requests, "_shake_hands", lambda connection: setattr(connection, "is_open", True))
    one = Served(objects={"x": DATA, "large": np.random.default_rng(1).bytes(3_000_000)})
    with answering(type("Own", (Ranging,), {"served": one})) as port:
        one.url = f"http://127.0.0.1:{port}"
        yield one
        range_requests.close_kept()


@pytest.mark.parametrize("way", ["plain", "whole"])
def test_parts_come_with_the_size_of_all(served: Served, way: str) -> None:
    served.excuse = way
    asked = [(0, 1), (10, 30), (250, 300), (-7, None), (-300, None), (0, None), (0, 1 << 62)]
    wanted = [Wanted(served.address("x"), start, stop, None) for start, stop in asked]
    found, refused = fetch_parts([*wanted, Wanted(served.address("large"), -2_000_000, None, None)], 3)
    assert not refused
    for (start, stop), one in zip(asked, found, strict=False):
        assert one is not None and one[1:] == (DATA[start:stop], len(DATA))
    assert found[-1] is not None and found[-1][1:] == (served.objects["large"][-2_000_000:], 3_000_000)
    assert len(served.clients) <= 3


@pytest.mark.parametrize("excuse", ["plain", "chunked", "closing"])
def test_parts_of_missing_objects_are_missing(served: Served, excuse: str) -> None:
    served.excuse = excuse
    wanted = [Wanted(served.address(name), *span, None) for name in ("no", "x") for span in ((3, 9), (-4, None))]
    found, refused = fetch_parts(wanted, 1)
    assert not refused
    assert [None if one is None else one[1:] for one in found] == [
        (None, 0), (None, 0), (DATA[3:9], len(DATA)), (DATA[-4:], len(DATA))
    ]  # fmt: skip


def test_what_is_beyond_the_end_is_left_to_others(served: Served) -> None:
    found, refused = fetch_parts([Wanted(served.address("x"), 256, 300, None)], 1)
    assert found == [None] and not refused


# --- of stores


def only_own(proxy: Proxy) -> list[Request]:
    """What was asked for by others than the connections of our own, which sign in the address."""
    return [one for one in proxy.requests if "X-Amz-Signature" not in one.path]


@pytest.fixture
def place(s3: S3) -> Any:
    store = open_store(s3.url("parts"), "w", s3.options)
    store.put("x", DATA)
    store.put("empty", b"")
    return store


def test_single_reads_of_a_store_are_parts(place: Any, s3: S3, proxy: Proxy) -> None:
    store = open_store(s3.url("parts"), "r", s3.options)
    proxy.forget()
    for start, length in [(0, None), (3, 9), (250, 100), (-5, None), (-500, None)]:
        stop = None if length is None else start + length
        found = store.snapshot("x", start, length)
        assert found is not None and found.data == DATA[start:stop] and found.size == len(DATA)
        assert found.stamp == place.stamp("x")
        assert store.get("x", start, length) == DATA[start:stop]
        assert store.get("no", start, length) is None and store.snapshot("no", start, length) is None
    asked = [one for one in only_own(proxy) if one.method == "GET"]
    assert not asked
    for start, length in [(256, 5), (1000, None), (1 << 62, 5), ((1 << 62) - 1, 9), (0, 1 << 62)]:
        assert store.get("x", start, length) == DATA[start : None if length is None else start + length]
        assert store.get("empty", start, length) == b""
    assert store.get("empty", -(1 << 70)) == b"" and store.get("x", -(1 << 70)) == DATA


def test_indexes_of_shards_come_by_one_request_each(s3: S3, proxy: Proxy) -> None:
    values = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    url = s3.url("parts-of-shards")
    for where in ("start", "end"):
        zvcore.create(
            f"{url}-{where}", format="zarr3", data=values, shards=(32, 32), chunks=(8, 8), codec="zstd",
            index_location=where, storage_options=s3.options,
        )  # fmt: skip
        array = zvcore.open(f"{url}-{where}", storage_options=s3.options)
        proxy.forget()
        np.testing.assert_array_equal(array[:32, :8], values[:32, :8])
        assert len(proxy.requests) <= 2 + 4 and not only_own(proxy)


def test_many_threads_read_parts(place: Any, s3: S3) -> None:
    store = open_store(s3.url("parts"), "r", s3.options)
    starts = [*range(200)] * 3
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda start: store.get("x", start, 20), starts))
    assert found == [DATA[start : start + 20] for start in starts]


# --- what is said of objects


def question() -> Ranges:
    return Ranges([Wanted(address_of("http://127.0.0.1:1/x", "HEAD"))])


@pytest.mark.parametrize(
    ("given", "outcome", "size"),
    [
        (head(OK, b"Content-Length: 7"), Outcome.GOING_ON, 7),
        (head(OK, b"Content-Length: 7", b"Content-Encoding: br"), Outcome.GOING_ON, 7),
        (head(OK, b"Content-Length: 7", b"Connection: close"), Outcome.ENDED, 7),
        (head(b"HTTP/1.1 404 x", b"Content-Length: 7"), Outcome.GOING_ON, 0),
        (head(b"HTTP/1.1 404 x", b"Transfer-Encoding: chunked"), Outcome.GOING_ON, 0),
        (head(b"HTTP/1.1 404 x"), Outcome.GOING_ON, 0),
        (head(OK), Outcome.UNEXPECTED, None),
        (head(OK, b"Transfer-Encoding: chunked"), Outcome.UNEXPECTED, None),
        (head(OK, b"Content-Length: 7", b"Content-Length: 8"), Outcome.UNEXPECTED, None),
        (head(b"HTTP/1.1 405 x", b"Content-Length: 7"), Outcome.REFUSED, None),
        (head(PART, b"Content-Length: 7"), Outcome.REFUSED, None),
    ],
)
def test_what_the_answer_to_a_question_says(given: bytes, outcome: Outcome, size: int | None) -> None:
    ranges = question()
    assert ranges.check(0, given) is outcome
    if size is not None:
        assert ranges.announced(0) is None and ranges.with_head(0, given, None) == (given, None, size)
        assert ranges.excuse_ends(0, b"") is True and ranges.excuse_ends(0, b"x") is None


def test_sizes_are_asked_for_many_at_once(s3: S3, proxy: Proxy) -> None:
    url = s3.url("parts-heads")
    store = open_store(url, "w", s3.options)
    sizes = {f"{number}": number * 10 for number in range(1, 20)}
    for name, size in sizes.items():
        store.put(name, bytes(size))
    store = open_store(url, "r", s3.options)
    proxy.forget()
    asked = [name for one in sizes for name in (one, f"no-{one}")]
    assert list(store.sizes(asked[:20])) == [sizes.get(name) for name in asked[:20]]
    assert [one.method for one in proxy.requests] == ["HEAD"] * 20 and not only_own(proxy)
    stamp = store.stamp("7")
    found = store.snapshot("7")
    assert found is not None and found.stamp == stamp and store.stamp("no") is None
    assert not only_own(proxy)
    proxy.spoil = lambda request: 500 if request.method == "HEAD" and "X-Amz-Signature" in request.path else None
    assert list(store.sizes(asked)) == [sizes.get(name) for name in asked]
