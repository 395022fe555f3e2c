"""Requests that mean harm: another name for this server, bodies that are requests, pages among the data, bombs."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import threading
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from tests.serving.conftest import Client
from zvcore.commands import cli
from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.serving import make_server
from zvcore.serving.heads import Fields
from zvcore.serving.requests import Hosts
from zvcore.serving.turns import Busy, Turns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zvcore.serving.server import DataServer


@contextmanager
def served(root: Path, **options: Any) -> Iterator[DataServer]:
    with make_server(root, **options) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def raw(server: DataServer, request: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE) as connection:
        connection.sendall(request.replace(b"PORT", b"%d" % server.server_port))
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# --- the name of the server


@pytest.mark.parametrize("host", ["localhost:PORT", "127.0.0.1:PORT", "[::1]:PORT", "LocalHost:PORT"])
def test_names_of_this_machine(server: DataServer, host: str) -> None:
    answer = raw(server, b"GET /plain.txt HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode())
    assert status(answer) == 200


@pytest.mark.parametrize(
    "host",
    ["rebind.evil.example:PORT", "rebind.evil.example", "localhost", "localhost:1", "localhost.evil.example:PORT",
     "evil.example@localhost:PORT", "localhost:PORT@evil.example", "localhost:PORT,evil.example", "", ":PORT",
     "8.8.8.8:PORT", "[::]:PORT", "0.0.0.0:PORT", "localhost:PORT:PORT", "localhost:0PORT", "127.1:PORT"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_other_names_are_refused(server: DataServer, method: str, host: str) -> None:
    """A page of another site whose name leads to this machine by now (DNS rebinding) is same-origin with us."""
    for path in (b"/plain.txt", b"/", b"/.zvcore/datasets.json"):
        answer = raw(server, b"%s %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (method.encode(), path, host.encode()))
        assert status(answer) == 421
        assert b"evil" not in answer
        assert b"\0\1\2" not in answer


@pytest.mark.parametrize(
    "head",
    [b"", b"Host: localhost:PORT\r\nHost: localhost:PORT\r\n", b"Host: localhost:PORT\r\nhOST: evil.example\r\n",
     b"X: y\r\n", b"Host : localhost:PORT\r\n", b" Host: localhost:PORT\r\n"],
)  # fmt: skip
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_request_has_one_host(server: DataServer, version: bytes, head: bytes) -> None:
    assert status(raw(server, b"GET /plain.txt HTTP/%s\r\n%s\r\n" % (version, head))) == 400


def test_names_that_were_allowed(shelf: Path) -> None:
    with served(shelf, hosts=["proxy.example:443", "other.example"]) as server:
        for host, expected in (
            ("proxy.example:443", 200), ("other.example:PORT", 200), ("proxy.example:PORT", 421),
            ("localhost:PORT", 200),
        ):  # fmt: skip
            request = b"GET /plain.txt HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode()
            assert status(raw(server, request)) == expected


def test_a_server_for_all_addresses_answers_to_addresses(shelf: Path) -> None:
    with served(shelf, host="0.0.0.0") as server:
        for host, expected in (
            ("10.1.2.3:PORT", 200), ("[fe80::1]:PORT", 200), ("localhost:PORT", 200),
            (f"{socket.gethostname()}:PORT", 200),
            ("rebind.evil.example:PORT", 421), ("[fe80::1%<b>]:PORT", 421), ("10.1.2.3", 421), ("[10.1.2.3]:PORT", 421),
        ):  # fmt: skip
            request = b"GET /plain.txt HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode()
            assert status(raw(server, request)) == expected


@pytest.mark.parametrize(
    ("target", "host", "expected"),
    [("http://localhost:PORT/plain.txt", "localhost:PORT", 200), ("HTTP://LocalHost:PORT/plain.txt", "a", 200),
     ("http://[::1]:PORT//plain.txt", "evil.example", 200), ("http://127.0.0.1:PORT?x", "a", 200),
     ("http://localhost:PORT", "localhost:PORT", 200), ("http://localhost:PORT/none", "localhost:PORT", 404),
     ("http://localhost:PORT/../plain.txt", "localhost:PORT", 404),
     ("http://evil.example/plain.txt", "localhost:PORT", 421), ("http:///plain.txt", "localhost:PORT", 421),
     ("http://evil.example:PORT/plain.txt", "localhost:PORT", 421),
     ("http://evil.example@localhost:PORT/plain.txt", "localhost:PORT", 421),
     ("http://localhost:PORT@evil.example/plain.txt", "localhost:PORT", 421),
     ("http://evil.example?http://localhost:PORT/plain.txt", "localhost:PORT", 421),
     ("https://localhost:PORT/plain.txt", "localhost:PORT", 404), ("http:/plain.txt", "localhost:PORT", 404)],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_whole_url_is_asked_for_by_the_host_in_it(
    server: DataServer, method: str, target: str, host: str, expected: int
) -> None:
    """As RFC 9112 has it, 3.2.2: what `Host` says is ignored."""
    request = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert status(raw(server, request.encode())) == expected


@pytest.mark.parametrize("name", ["größe.txt", "数据.txt", b"\xff\xfe.txt"])
@pytest.mark.parametrize("start", [b"/", b"http://localhost:PORT/"])
def test_names_may_be_sent_as_the_bytes_that_they_are(shelf: Path, server: DataServer, name: Any, start: bytes) -> None:
    """As curl does, and others that are given no escapes."""
    name = os.fsencode(name)
    with open(os.path.join(os.fsencode(shelf), name), "wb") as file:
        file.write(b"found")
    try:
        head = b" HTTP/1.1\r\nHost: localhost:PORT\r\nConnection: close\r\n\r\n"
        answer = raw(server, b"GET " + start + name + head)
    finally:
        os.remove(file.name)
    assert status(answer) == 200 and answer.endswith(b"found")


@pytest.mark.parametrize("head", ["", "Host: localhost:PORT\r\nHost: localhost:PORT\r\n"])
def test_a_whole_url_needs_a_host_beside_it_too(server: DataServer, head: str) -> None:
    answer = raw(server, f"GET http://localhost:PORT/plain.txt HTTP/1.1\r\n{head}\r\n".encode())
    assert status(answer) == 400


def test_pages_asked_for_by_a_whole_url_lead_to_its_host(server: DataServer) -> None:
    request = b"GET http://localhost:PORT/.zvcore/datasets.json HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n"
    answer = raw(server, request)
    assert status(answer) == 200 and b"evil" not in answer


def test_the_usual_port_may_be_left_out() -> None:
    for host in ("localhost", "localhost:80", "10.0.0.1", "[::5]"):
        assert Hosts("0.0.0.0", "0.0.0.0", 80).fault(Fields([("Host", host)])) is None


@pytest.mark.parametrize(
    "origin",
    ["", " ", "example.org", "https://example.org/", "https://example.org/a", "https://a.example, https://b.example",
     "https://a.example https://b.example", "https://\u4f8b.example", "https://a.example\r\nX: y", "https://", "**",
     "https://Example.org"],
)  # fmt: skip
def test_an_origin_that_no_page_has_is_refused(tmp_path: Path, origin: str) -> None:
    """Browsers compare it with theirs: with a slash at its end, no page could read, for no reason that is seen."""
    with pytest.raises(ValueError, match="an origin is"):
        make_server(tmp_path, origin=origin)
    assert cli.main(["serve", str(tmp_path), "--port", "0", "--origin", origin]) == 2


@pytest.mark.parametrize("host", ["", "https://proxy.example", "proxy.example/", "a.example,b.example", "a b"])
def test_a_host_that_no_request_has_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match="a host is"):
        make_server(tmp_path, hosts=[host])
    assert cli.main(["serve", str(tmp_path), "--port", "0", "--allow-host", host]) == 2


@pytest.mark.parametrize("origin", ["*", "null", "https://example.org", "http://[::1]:8080", "moz-extension://a-b-c"])
def test_origins_that_pages_have(tmp_path: Path, origin: str) -> None:
    with make_server(tmp_path, origin=origin, hosts=["proxy.example:443", "[::1]:80"]) as server:
        assert server.origin == origin


# --- where a request ends

INNER = b"GET /plain.txt?inner HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n"


@pytest.mark.parametrize("method", [b"OPTIONS", b"GET", b"HEAD", b"POST", b"DELETE"])
@pytest.mark.parametrize(
    "length",
    [b"Content-Length: %d\r\n" % (len(INNER) + 8), b"Transfer-Encoding: chunked\r\n",
     b"Content-Length: 9999999999999\r\n",
     b"Content-Length: 0\r\nContent-Length: 70\r\n", b"Content-Length: 70\r\nContent-Length: 0\r\n",
     b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: +0\r\n", b"Content-Length: 0, 70\r\n",
     b"Content-Length: -1\r\n", b"Content-Length:\r\n", b"Content-Length: \xb2\r\n", b"Content-Length: 0_0\r\n",
     b"Content-Length : 70\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"no header\r\n",
     b"Expect: 100-continue\r\nContent-Length: 70\r\n"],
)  # fmt: skip
def test_a_body_is_no_request(server: DataServer, method: bytes, length: bytes) -> None:
    """What follows a head is read, or the connection ends: it is never taken for the next request."""
    body = INNER + b" " * (8 - (len(str(server.server_port)) - len("PORT")))
    answer = raw(server, b"%s / HTTP/1.1\r\nHost: localhost:PORT\r\n%s\r\n%s" % (method, length, body))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"\0\1\2" not in answer


def test_requests_after_a_body_are_answered(server: DataServer) -> None:
    """Short bodies are skipped, to the byte."""
    first = b"OPTIONS / HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: 20\r\n\r\n" + b"GET / HTTP/1.1\r\n\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: localhost:PORT\r\nConnection: close\r\n\r\n"
    answer = raw(server, first + last)
    assert answer.count(b"HTTP/1.1 ") == 2
    assert answer.startswith(b"HTTP/1.1 204") and b"HTTP/1.1 404" in answer


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [("GET / HTTP/2.0", 505), ("GET / HTTP/x", 400), ("GET", 400), ("\x16\x03\x01", 400), ("TRACE / HTTP/1.1", 501),
     ("POST / HTTP/1.1", 405), (f"GET /{'a' * 70000} HTTP/1.1", 414)],
)  # fmt: skip
def test_what_is_refused_has_a_status_and_ends_the_connection(
    server: DataServer, request_line: str, expected: int
) -> None:
    """Python's server answers other versions of HTTP with a body alone."""
    answer = raw(server, request_line.encode("latin-1") + b"\r\nHost: localhost:PORT\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % expected)
    assert b"\r\nConnection: close" in head and b"\r\nAccess-Control-Allow-Origin: *" in head
    assert b"text/plain" in head and len(body) == int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])


@pytest.mark.parametrize(
    "line", [b"\x16\x03\x01 hello\r\n", b"GET /x\ty HTTP/9.1\r\n", b"nonsense\r\n", b"BREW /pot HTCPCP/1.0\r\n"]
)
def test_what_is_no_request_is_refused_at_once(server: DataServer, line: bytes) -> None:
    """A browser that speaks TLS to it would else wait for an answer until it gives up."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE) as connection:
        connection.sendall(line)
        assert status(connection.recv(1 << 16)) in (400, 505)


def test_a_connection_that_goes_on_is_not_said_to_end(server: DataServer) -> None:
    request = b"GET /plain.txt HTTP/1.1\r\nHost: localhost:PORT\r\n"
    answer = raw(server, request + b"\r\n" + request + b"Connection: close\r\n\r\n")
    first, last = answer.split(b"HTTP/1.1 200")[1:]
    assert b"Connection: close" not in first and b"Connection: close" in last


# --- pages among the data


@pytest.mark.parametrize("name", ["page.html", "page.svg", "page.xml", "page.xhtml", "page.htm", "page.md", "page"])
def test_pages_among_the_data_do_not_run_on_our_origin(tmp_path: Path, name: str) -> None:
    text = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(document.domain)</script></svg>"
    (tmp_path / name).write_bytes(text)
    (tmp_path / f"packed-{name}.gz").write_bytes(gzip.compress(text))
    with served(tmp_path) as server:
        for path in (f"/{name}", f"/packed-{name}", f"/packed-{name}.gz"):
            for headers in ({}, {"Accept_Encoding": "gzip"}, {"Range": "bytes=0-5"}):
                answer = Client(server).ask(path, **headers)
                assert answer.status in (200, 206)
                policy = answer.headers["Content-Security-Policy"].split()
                assert "sandbox" in policy and "allow-scripts" not in policy and "allow-same-origin" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_our_own_pages_run_no_scripts(client: Client) -> None:
    for path in ("/", "/a.zarr/"):
        policy = client.ask(path).headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "script" not in policy


def test_a_neuroglancer_in_the_folder_runs_if_the_links_open_it(tmp_path: Path) -> None:
    for folder in ("client", "data", "clients"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.html").write_text("<script>alert(1)</script>")
    with served(tmp_path) as server:
        client = Client(server)
        for viewer, runs in (
            (f"{server.url}client/index.html", True), (f"{server.url}client/index.html#!x", True),
            (f"{server.url}index.html", False), (server.url, False),
            ("https://neuroglancer.example/client/index.html", False),
            (f"https://evil.example/?{server.url}client/index.html", False), (None, False),
        ):  # fmt: skip
            server.site.viewer = viewer
            answer = client.ask("/client/index.html")
            assert (answer.headers["Content-Security-Policy"] is None) == runs
            for other in ("/data/index.html", "/clients/index.html"):
                assert client.ask(other).headers["Content-Security-Policy"] == "sandbox"


# --- bombs


def test_packed_files_of_many_bytes_are_sent_packed_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files(*arguments: object, **options: object) -> None:
        raise AssertionError("a file was made")

    monkeypatch.setattr("tempfile.TemporaryFile", no_files)
    monkeypatch.setattr("tempfile.mkstemp", no_files)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with open(tmp_path / "bomb.gz", "wb") as file:
        file.writelines(packer.compress(bytes(1 << 20)) for _ in range(300))
        file.write(packer.flush())
    # Members of nothing: much to read, and not a byte comes of it.
    empty = gzip.compress(b"")
    (tmp_path / "empty.gz").write_bytes(empty * 1000)
    (tmp_path / "sparse.gz").touch()
    os.truncate(tmp_path / "sparse.gz", 1 << 40)
    with served(tmp_path) as server:
        client = Client(server)
        assert client.ask("/bomb").status == 406
        assert client.ask("/sparse").status == 406
        assert client.ask("/bomb", Range="bytes=0-3").status == 406
        assert client.ask("/bomb", "HEAD").status == 406
        assert client.ask("/bomb", Accept_Encoding="gzip").status == 200
        answer = client.ask("/empty")
        assert (answer.status, answer.body) == (200, b"")


def test_parts_of_packed_files(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8).tobytes()
    (tmp_path / "file.gz").write_bytes(gzip.compress(content))
    with served(tmp_path) as server:
        client = Client(server)
        for header, start, stop in (
            ("bytes=0-0", 0, 1), ("bytes=262143-262144", 262143, 262145), ("bytes=-7", len(content) - 7, len(content)),
            ("bytes=300000-", 300000, len(content)),
        ):  # fmt: skip
            answer = client.ask("/file", Range=header)
            assert (answer.status, answer.body) == (206, content[start:stop])
            assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(content)}"
        assert client.ask("/file", "HEAD").headers["Content-Length"] == str(len(content))
        # Each range would be unpacked from the beginning: nobody needs several.
        answer = client.ask("/file", Range="bytes=0-1,5-6")
        assert (answer.status, answer.body) == (200, content)


@pytest.mark.parametrize("codec", ["gzip", None])
@pytest.mark.parametrize("shards", [None, (1024, 1024, 1024)])
def test_views_do_not_decode_chunks_of_any_size(
    tmp_path: Path, codec: str | None, shards: tuple[int, ...] | None
) -> None:
    """A gibibyte in each chunk, as its metadata claim."""
    options = {} if shards is None else {"shards": shards}
    zvcore.create(
        tmp_path / "a", format="zarr3", shape=(1024, 1024, 1024), dtype="u1", chunks=(1024, 1024, 1024), codec=codec,
        **options,
    )  # fmt: skip
    with served(tmp_path) as server:
        client = Client(server)
        [found] = json.loads(client.ask("/.zvcore/datasets.json").body)["datasets"]
        assert (found["view"], found["preview"]) == (None, None)
        assert "too large" in found["why"]
        [scale] = json.loads(client.ask("/.zvcore/view/a/-/info").body)["scales"]
        box = "_".join(f"0-{n}" for n in scale["chunk_sizes"][0])
        answer = client.ask(f"/.zvcore/view/a/-/0/{box}")
        assert answer.status == 500
        assert b"too large" in answer.body


@pytest.mark.parametrize("chunks", [(1, 1, 1), (1, 1, 64), (2, 3, 5), (64, 64, 64)])
def test_blocks_of_views_have_a_bounded_number_of_chunks(tmp_path: Path, chunks: tuple[int, ...]) -> None:
    """A document costs its author nothing, and each of the chunks that it claims is looked for."""
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4096, 4096, 4096), dtype="u1", chunks=chunks)
    with served(tmp_path) as server:
        client = Client(server)
        [scale] = json.loads(client.ask("/.zvcore/view/a/-/info").body)["scales"]
        [block] = scale["chunk_sizes"]
        assert np.prod([-(-n // m) for n, m in zip(block, chunks[::-1], strict=True)]) <= 4096
        # As large as they may be, so that a view needs few of them.
        assert np.prod(block) >= min(2048 * np.prod(chunks), 2**17)
        box = "_".join(f"0-{n}" for n in block)
        assert len(client.ask(f"/.zvcore/view/a/-/0/{box}").body) == np.prod(block)
        assert client.ask(f"/.zvcore/view/a/-/0/{box.replace('_0-', '_0-1', 1)}").status == 404


def test_packed_shards_count_as_what_they_hold(tmp_path: Path) -> None:
    """Where the whole shard is packed once more, one chunk costs the shard."""
    index_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    inner = {"chunk_shape": [8, 8], "codecs": [{"name": "bytes"}], "index_codecs": index_codecs}
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [1 << 15, 1 << 15], "data_type": "uint8", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1 << 15, 1 << 15]}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {},
        "codecs": [
            {"name": "sharding_indexed", "configuration": inner}, {"name": "gzip", "configuration": {"level": 1}},
        ],
    }  # fmt: skip
    (tmp_path / "a").mkdir()
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    with served(tmp_path) as server:
        answer = Client(server).ask("/.zvcore/view/a/-/0/0-8_0-8_0-1")
        assert answer.status == 500 and b"too large" in answer.body


def test_stored_chunks_are_not_read_if_they_are_too_large(tmp_path: Path) -> None:
    """Archives keep holes: a file of a tebibyte costs its author nothing."""
    for format, name in (("zarr3", "c/0/0"), ("n5", "0/0")):
        zvcore.create(tmp_path / format, format=format, shape=(8, 8), dtype="u1", chunks=(8, 8), codec="gzip")[...] = 1
        os.truncate(tmp_path / format / name, 1 << 40)
    with served(tmp_path) as server:
        for format in ("zarr3", "n5"):
            answer = Client(server).ask(f"/.zvcore/view/{format}/-/0/0-8_0-8_0-1")
            assert answer.status == 500 and b"too much" in answer.body


def test_a_few_views_at_once(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zvcore.serving.views import VoxelView

    shutil.copytree(shelf / "a.zarr", tmp_path / "a.zarr")
    most, now = 0, 0
    guard = threading.Lock()
    full = threading.Event()
    real = VoxelView.answer

    def counting(view: VoxelView, rest: str) -> object:
        nonlocal most, now
        with guard:
            now += 1
            most = max(most, now)
            if now == 4:
                full.set()
        # Until as many run as may, so that one more would be seen.
        full.wait(PATIENCE)
        try:
            return real(view, rest)
        finally:
            with guard:
                now -= 1

    monkeypatch.setattr(VoxelView, "answer", counting)
    with served(tmp_path) as server:
        answers = []
        asking = [
            threading.Thread(target=lambda: answers.append(Client(server).ask("/.zvcore/view/a.zarr/-/info").status))
            for _ in range(12)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert answers == [200] * 12
    assert most == 4


def test_waiting_too_long_is_an_error(shelf: Path) -> None:
    turns = Turns(1, patience=0.0)
    with turns.take(), pytest.raises(Busy), turns.take():
        pass
    with turns.take():
        pass
    with served(shelf) as server:
        server.site._viewing = turns
        with turns.take():
            answer = Client(server).ask("/.zvcore/view/a.zarr/-/info")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert Client(server).ask("/.zvcore/view/a.zarr/-/info").status == 200


@pytest.mark.parametrize("size", [1 << 30, 100 << 10])
def test_vectors_do_not_unpack_to_any_number_of_bytes(tmp_path: Path, size: int) -> None:
    """Cells that hold a gigabyte of zeros each, and many that hold little each but too much together."""
    import zstandard

    from zvcore import zvf
    from zvcore.stores.confined import ConfinedStore, Confinement

    points = np.arange(120, dtype="f4").reshape(40, 3)
    zvf.write_points(tmp_path / "points", points, chunk_shape=(10, 10, 10))
    node = tmp_path / "points/0/vertices"
    document = json.loads((node / "zarr.json").read_text())
    document["codecs"].append({"name": "zstd", "configuration": {"level": 1, "checksum": False}})
    (node / "zarr.json").write_text(json.dumps(document))
    cells = [path for path in (node / "c").rglob("*") if path.is_file()]
    bomb = zstandard.compress(bytes(size))
    assert len(bomb) < 1 << 20 < size * len(cells)
    for path in cells:
        path.write_bytes(bomb)
    level = zvf.open(ConfinedStore(Confinement(tmp_path / "points"), largest=1 << 20)).level(0)
    with pytest.raises(CorruptDataError if size > 1 << 20 else UnsupportedError, match=r"more than|at most"):
        level.vertices.read(level.chunks())
    with served(tmp_path) as server:
        assert Client(server).ask("/").status == 200
        for path in ("/.zvcore/preview/points/picture.png", "/.zvcore/view/points/-/info"):
            assert Client(server).ask(path).status == 500
