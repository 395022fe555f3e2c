"""Web servers are asked over connections of our own, while they answer as they should: by whom requests come is told by
what they call themselves.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import zvcore
from tests.stores.servers import QuickHandler, answering
from zvcore.errors import AccessRefusedError, CorruptDataError
from zvcore.stores import open_store, range_requests
from zvcore.stores.obstore_stores import ObstoreMaker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = np.random.default_rng(3).integers(1, 255, (64, 40, 40), np.uint8)


class Site(QuickHandler):
    """Files below a folder, with tags and ranges."""

    folder: Path
    seen: list[tuple[str, str, dict[str, str]]]

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        self.seen.append((self.command, path, {name.lower(): value for name, value in self.headers.items()}))
        if not self.refuses(path):
            self.give(path)

    do_HEAD = do_GET

    def refuses(self, path: str) -> bool:
        """Whether it has answered otherwise."""
        return False

    def give(self, path: str) -> None:
        file = self.folder / path
        if not file.is_file():
            self.answer(404, b"")
            return
        data = file.read_bytes()
        tag = f'"{file.stat().st_mtime_ns:x}-{len(data)}"'
        if self.headers.get("If-Match", tag) != tag:
            self.answer(412, b"")
            return
        span = self.headers.get("Range")
        if span is None:
            self.answer(200, data, ("ETag", tag))
            return
        first, _, last = span.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(len(data), int(last) + 1) if first and last else len(data)
        whole = f"bytes {start}-{stop - 1}/{len(data)}"
        self.answer(206, data[start:stop], ("ETag", tag), ("Content-Range", whole))

    def answer(self, status: int, data: bytes, *fields: tuple[str, str]) -> None:
        self.send_response_only(status)
        for name, value in (*fields, ("Content-Length", str(len(data)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()


@contextmanager
def site(folder: Path, kind: type[Site] = Site) -> Iterator[tuple[str, Any]]:
    made: Any = type("Made", (kind,), {"folder": folder, "seen": []})
    with answering(made) as port:
        try:
            yield f"http://127.0.0.1:{port}", made
        finally:
            range_requests.close_kept()


def by_whom(made: Any) -> set[str]:
    """Who has asked, as far as the first word goes."""
    return {fields["user-agent"].partition("/")[0] for _, _, fields in made.seen}


FORMATS: dict[str, dict[str, Any]] = {
    "zarr3": {"chunks": (16, 16, 16)},
    "zarr3 shards": {"chunks": (8, 8, 8), "shards": (32, 32, 32)},
    "zarr2": {"chunks": (16, 16, 16)},
    "n5": {"chunks": (16, 16, 16)},
    "precomputed": {"chunks": (16, 16, 16), "codec": "raw"},
}


@pytest.mark.parametrize("kind", FORMATS)
def test_arrays_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a folder" / "ä+b%c"
    zvcore.create(path, format=kind.split()[0], data=VALUES, **FORMATS[kind])
    with site(tmp_path) as (address, made):
        found = zvcore.open(f"{address}/a%20folder/%C3%A4+b%25c")
        array = found if isinstance(found, zvcore.Array) else found[0]
        assert by_whom(made) == {"zvcore"}
        values = np.asarray(array[...])
        np.testing.assert_array_equal(values.reshape(VALUES.shape), VALUES)
        np.testing.assert_array_equal(np.asarray(array[5:9, 3, 7]).reshape(4), VALUES[5:9, 3, 7])
        made.seen.clear()
        array[:8, :8, :8]
        assert by_whom(made) == {"zvcore"} and len(made.seen) == 1


def test_a_name_and_a_password_go_along(tmp_path: Path) -> None:
    class Closed(Site):
        def refuses(self, path: str) -> bool:
            if self.headers.get("Authorization") == f"Basic {b64encode(b'me:a:b/c').decode()}":
                return False
            self.answer(401, b"", ("WWW-Authenticate", 'Basic realm="here"'))
            return True

    zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=(32, 40, 40))
    with site(tmp_path, Closed) as (address, made):
        host = address.removeprefix("http://")
        array = zvcore.open(f"http://me:a%3Ab%2Fc@{host}/a")
        np.testing.assert_array_equal(array[...], VALUES)
        assert by_whom(made) == {"zvcore"}
        with pytest.raises(AccessRefusedError):
            zvcore.open(f"{address}/a")


def test_a_server_that_sends_elsewhere(tmp_path: Path) -> None:
    class Elsewhere(Site):
        def refuses(self, path: str) -> bool:
            if path.startswith("there/"):
                return False
            self.answer(302, b"", ("Location", f"/there/{path}"))
            return True

    zvcore.create(tmp_path / "there" / "a", format="zarr3", data=VALUES, chunks=(16, 16, 16))
    with site(tmp_path, Elsewhere) as (address, made):
        array = zvcore.open(f"{address}/a")
        np.testing.assert_array_equal(array[...], VALUES)
        # It has been asked in vain, and then no more for a while.
        assert 0 < sum(fields["user-agent"] == "zvcore" for _, _, fields in made.seen) < 20


def test_a_server_that_compresses_what_it_sends(tmp_path: Path) -> None:
    """Though nobody has said that it may: that is not taken for the object."""

    class Packing(Site):
        def refuses(self, path: str) -> bool:
            file = self.folder / path
            if not file.is_file() or file.name == "zarr.json":
                return False
            self.answer(200, gzip.compress(file.read_bytes()), ("ETag", '"x"'), ("Content-Encoding", "gzip"))
            return True

    zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=(16, 16, 16), codec="raw")
    with site(tmp_path, Packing) as (address, _), pytest.raises(CorruptDataError, match="wrong size"):
        zvcore.open(f"{address}/a")[...]


def test_an_object_that_is_replaced_is_not_mixed_with_the_new_one(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=(8, 8, 8), shards=(64, 40, 40), codec="raw")
    with site(tmp_path) as (address, _):
        array = zvcore.open(f"{address}/a")
        np.testing.assert_array_equal(array[:8, :8, :8], VALUES[:8, :8, :8])
        zvcore.open(tmp_path / "a", "r+")[...] = VALUES[::-1]
        np.testing.assert_array_equal(array[:8, :8, :8], VALUES[::-1][:8, :8, :8])


def test_web_servers_are_not_asked_for_as_much_at_once_as_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = open_store("http://127.0.0.1:9/a", "r")
    client = store._client
    given: list[int] = []
    for name in ("get_each", "get_objects"):
        monkeypatch.setattr(client._own, name, lambda wanted, at_once, *_: given.append(at_once))
    for at_once in (4, 128):
        client.get_each([], at_once)
        client.get_objects([], at_once)
    assert given == [4, 4, 32, 32]


def test_hosts_of_all_kinds() -> None:
    for host in ("[::1]:8000", "example.org", "user:secret@example.org:81"):
        store: Any = open_store(f"http://{host}/a", "r")
        assert store._client._own.objects.goes
    other: Any = open_store("https://münchen.example/a", "r")
    assert not other._client._own.objects.goes
    # What is said of connections, obstore obeys.
    for options in ({"timeout": "3s"}, {"user_agent": "me"}, {"default_headers": {"X-Token": "1"}}):
        other = open_store("http://example.org/a", "r", options)
        assert not other._client._own.objects.goes


def test_public_buckets_are_asked_where_they_are() -> None:
    def place(kind: str, root: str, **options: Any) -> str | None:
        at = ObstoreMaker(kind, root, {**options, "skip_signature": True}).own_requests()._at
        found = None if at is None else at.of("GET", ["a/b c"])
        if found is None:
            return None
        where, request = found["a/b c"]
        line = request.split(b"\r\n")[0].decode()
        return f"{'https' if where.secure else 'http'}://{where.host}:{where.port} {line}"

    amazon = "https://s3.eu-west-1.amazonaws.com:443 GET /bucket/a/b%20c HTTP/1.1"
    assert place("S3Store", "bucket", region="eu-west-1") == amazon
    local = {"endpoint": "http://127.0.0.1:9000", "client_options": {"allow_http": True}}
    assert place("S3Store", "bucket", **local) == "http://127.0.0.1:9000 GET /bucket/a/b%20c HTTP/1.1"
    google = "https://storage.googleapis.com:443 GET /bucket/a/b%20c HTTP/1.1"
    assert place("GCSStore", "bucket") == google
    assert place("AzureStore", "container", account_name="one") is None
