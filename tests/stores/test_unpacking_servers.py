"""Servers that unpack what is stored with `Content-Encoding: gzip`, as Google's do unless gzip is asked for."""

from __future__ import annotations

import asyncio
import gzip
import pickle
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

import numpy as np
import pytest

import zvcore
from tests.stores.servers import Google
from zvcore.errors import StoreError
from zvcore.stores import open_store
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zvcore.stores import Store

WORDS = b"words " * 50
PACKED = gzip.compress(WORDS)


class Transcoding(BaseHTTPRequestHandler):
    """Unpacks an object as it sends it, without a length, a tag or ranges, unless gzip is accepted."""

    objects: ClassVar[dict[str, bytes]] = {}
    packed: ClassVar[set[str]] = set()
    # Names of which no answer says how long it is.
    endless: ClassVar[set[str]] = set()
    asked: ClassVar[list[tuple[str, str, bool]]] = []

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        name = unquote(self.path).partition("/bucket/")[2]
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        self.asked.append((self.command, name, accepts))
        data = self.objects.get(name)
        if data is None:
            self._answer(404, {}, b"")
        elif name in self.endless or (name in self.packed and not accepts):
            self._answer(200, {"Transfer-Encoding": "chunked"}, gzip.decompress(data))
        else:
            headers = {"ETag": f'"{hash(data) & 0xFFFFFFFF:x}"'}
            if name in self.packed:
                headers["Content-Encoding"] = "gzip"
            self._ranged(headers, data)

    do_HEAD = do_GET

    def _ranged(self, headers: dict[str, str], data: bytes) -> None:
        first, dash, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if not dash:
            self._answer(200, headers, data)
            return
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(int(last) + 1, len(data)) if first and last else len(data)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        self._answer(206, headers, data[start:stop])

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        is_chunked = "Transfer-Encoding" in headers
        headers["Last-Modified"] = "Fri, 27 Nov 2026 10:00:00 GMT"
        if not is_chunked:
            headers["Content-Length"] = str(len(data))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if is_chunked else data)


@contextmanager
def unpacking_server(objects: dict[str, bytes], packed: set[str]) -> Iterator[tuple[type[Transcoding], int]]:
    kind = type("Kind", (Transcoding,), {"objects": objects, "packed": packed, "endless": set(), "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kind, server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def opened(scheme: str, port: int, folder: str = "") -> Store:
    if scheme == "http":
        return open_store(f"http://127.0.0.1:{port}/bucket/{folder}")
    return open_store(f"gs://bucket/{folder}", "r", Google("google", port).options)


@pytest.mark.parametrize("scheme", ["http", "gs"])
def test_objects_come_as_they_are_stored(scheme: str) -> None:
    objects = {"a/packed": PACKED, "a/plain": WORDS, "info": b"{}"}
    with unpacking_server(objects, {"a/packed"}) as (server, port):
        store = opened(scheme, port)
        assert store.size("a/packed") == len(PACKED)
        for view in (store, pickle.loads(pickle.dumps(store))):
            assert bytes(view.get("a/packed") or b"") == PACKED
            assert bytes(view.get("a/packed", 2, 9) or b"") == PACKED[2:11]
            assert bytes(view.get("a/packed", -7) or b"") == PACKED[-7:]
            assert view.get_ranges("a/packed", [(0, 4), (20, 3)]) == [PACKED[:4], PACKED[20:23]]
            assert [bytes(data or b"") for data in view.get_many(["a/packed", "a/plain"])] == [PACKED, WORDS]
            assert bytes(asyncio.run(view.aget("a/packed")) or b"") == PACKED
            found = view.snapshot("a/packed")
            assert found is not None and found.size == len(PACKED) == view.size("a/packed")
            assert view.get("a/absent") is None and view.size("a/absent") is None
        # What other folders hold is asked for as ever, and what lies beside such an object is asked for once.
        server.asked.clear()
        assert bytes(store.get("info") or b"") == b"{}" and bytes(store.get("a/packed") or b"") == PACKED
        assert server.asked == [("GET", "info", False), ("GET", "a/packed", True)]


@pytest.mark.parametrize("scheme", ["http", "gs"])
def test_answers_that_never_say_their_length_are_an_error(scheme: str) -> None:
    with unpacking_server({"a/x": PACKED, "a/plain": WORDS}, set()) as (server, port):
        server.endless.add("a/x")
        store = opened(scheme, port)
        for _ in range(2):
            with pytest.raises(StoreError, match="missing") as caught:
                store.get("a/x")
            assert "a/x" in str(caught.value.key)
            with pytest.raises(StoreError, match="missing"):
                store.size("a/x")
        server.asked.clear()
        assert bytes(store.get("a/plain") or b"") == WORDS
        assert server.asked == [("GET", "a/plain", False)]


@pytest.mark.parametrize("scheme", ["http", "gs"])
def test_volumes_of_cloudvolume_are_read(tmp_path: Path, scheme: str) -> None:
    values = np.random.default_rng(2).integers(0, 9, (40, 30, 20), np.uint16)
    zvcore.create(tmp_path, format="precomputed", data=values, chunks=(16, 16, 16), codec="raw", resolution=(1, 1, 1))
    settle()
    source = open_store(tmp_path)
    packed = {f"v/{key}" for key in source.list() if key != "info"}
    objects = {f"v/{key}": bytes(source.get(key) or b"") for key in source.list()}
    objects = {key: gzip.compress(data) if key in packed else data for key, data in objects.items()}
    with unpacking_server(objects, packed) as (_, port):
        array = zvcore.open(opened(scheme, port, "v"))["1_1_1"]
        np.testing.assert_array_equal(array[..., 0], values)
        np.testing.assert_array_equal(array.read_blocks([(2, 1, 1, 0)])[0][..., 0], values[32:, 16:, 16:])
        assert zvcore.convert(array, tmp_path / "copy", format="zarr3", ome=False).ok
        np.testing.assert_array_equal(np.squeeze(zvcore.open(tmp_path / "copy")[...]), values.T)
