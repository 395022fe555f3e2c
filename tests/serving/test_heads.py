"""Heads that are read quickly say what Python's own server reads in them; all others are left to it."""

from __future__ import annotations

import io
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zvcore.serving.heads import Fields, lines_of, read_quickly


class Pythons(BaseHTTPRequestHandler):
    """What `http.server` makes of a request, without a connection."""

    protocol_version = "HTTP/1.1"

    def __init__(self, request: bytes) -> None:
        self.refused: int | None = None
        self.rfile: Any = io.BufferedReader(io.BytesIO(request))
        self.raw_requestline = self.rfile.readline(65537)
        self.is_request = self.parse_request()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.refused = code


def quickly(request: bytes) -> Any:
    file = io.BufferedReader(io.BytesIO(request))
    first = file.readline(65537)
    return read_quickly(first, lines_of(file))


USUAL = (
    b"GET /a.zarr/c/0/0?x=y HTTP/1.1\r\nHost: localhost:1\r\nRange: bytes=0-9\r\nIf-None-Match: \"a\", W/\"b\"\r\n"
    b"accept:*/*\r\nX-Empty:\r\nX-Empty: \t\r\nhost:  other \r\n\r\n"
)  # fmt: skip
LINES = st.lists(
    st.one_of(
        st.sampled_from([
            b"Host: a", b"host:b ", b"Connection: close", b"connection: Close", b"Connection: keep-alive",
            b"Range: bytes=1-", b"Expect: 100-continue", b" folded", b"\tfolded", b"no colon", b": empty", b"A : space",
            b"A:\x00", b"A: \xe4", b"A: \x0b", b"A: b\rc", b"A: b\nC: d", b"From someone", b"", b"Content-Length: 3",
            b"A:  b  ",
        ]),
        st.binary(max_size=20),
    ),
    max_size=6,
)  # fmt: skip
FIRSTS = st.sampled_from([
    b"GET /x HTTP/1.1", b"HEAD /x?y HTTP/1.1", b"GET //x HTTP/1.1", b"GET /x HTTP/1.0", b"GET /x HTTP/2.0", b"GET /x",
    b"GET  /x HTTP/1.1", b"POST /x HTTP/1.1", b"get /x HTTP/1.1", b"GET x HTTP/1.1", b"GET http://a/x HTTP/1.1",
    b"GET /\xe4 HTTP/1.1", b"GET / x HTTP/1.1", b"GET /\x00 HTTP/1.1", b"", b"GET /x HTTP/1.1 ", b"GET /x\tHTTP/1.1",
])  # fmt: skip


@given(FIRSTS, LINES, st.sampled_from([b"\r\n", b"\n"]), st.booleans())
@example(b"GET /x HTTP/1.1", [b"A: b"] * 101, b"\r\n", True)
@example(b"GET /x HTTP/1.1", [b"A: " + b"b" * 65536], b"\r\n", True)
def test_a_head_says_the_same_to_both(first: bytes, lines: list[bytes], end: bytes, ends: bool) -> None:
    request = end.join([first, *lines, *([b"", b""] if ends else [])])
    quick = quickly(request)
    if quick is None:
        return
    python = Pythons(request)
    assert python.is_request and python.refused is None
    assert (quick.method, quick.target) == (python.command, python.path)
    assert python.request_version == "HTTP/1.1"
    assert ((quick.fields.get("Connection") or "").lower() == "close") == python.close_connection
    theirs = Fields.of(python.headers)
    assert theirs.sound
    names = {name.lower() for name in python.headers}
    assert {name: quick.fields.all(name) for name in names} == {name: theirs.all(name) for name in names}


def test_usual_heads_are_read_quickly() -> None:
    quick = quickly(USUAL)
    assert (quick.method, quick.target) == ("GET", "/a.zarr/c/0/0?x=y")
    assert quick.fields.all("HOST") == ["localhost:1", "other "] and quick.fields.get("Accept") == "*/*"
    assert quick.fields.all("x-empty") == ["", ""] and "range" in quick.fields and "If-Range" not in quick.fields
    quick.fields.put("Host", "third")
    assert quick.fields.all("host") == ["third"]


@pytest.mark.parametrize(
    "request_",
    [
        USUAL.replace(b"HTTP/1.1", b"HTTP/1.0"), USUAL.replace(b"GET /", b"GET //"), USUAL.replace(b"GET", b"PUT"),
        USUAL.replace(b"accept:", b"accept :"), USUAL.replace(b"*/*", b"\xe4"), USUAL.replace(b"*/*", b"\r\n x"),
        USUAL.replace(b"accept:*/*", b"Expect: 100-continue"), USUAL[:-2],
        USUAL.replace(b"\r\n", b"\n"), b"", b"\r\n",
    ],
)  # fmt: skip
def test_others_are_left_to_python(request_: bytes) -> None:
    assert quickly(request_) is None
