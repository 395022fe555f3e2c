"""The HTTP server: files with their ranges and conditions, folders, and what the site makes."""

from __future__ import annotations

import io
import json
import os
import socket
import socketserver
import sys
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from zvcore.converting.note import KEY as NOTE
from zvcore.converting.note import note_for_others
from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.serving.catalog import fault_of
from zvcore.serving.conditions import Conditions
from zvcore.serving.content import content_type_of, laid_out
from zvcore.serving.heads import Fields, begins_as_usual, lines_of, read_quickly
from zvcore.serving.paths import Root, split_path
from zvcore.serving.place import Want
from zvcore.serving.ranges import Unsatisfiable, parse_ranges
from zvcore.serving.requests import Hosts, body_length, check_host, check_origin, framing_fault, path_of
from zvcore.serving.site import Site, folder_page
from zvcore.serving.turns import Busy
from zvcore.serving.unpacking import Unpacked
from zvcore.stores import open_store
from zvcore.stores.opening import archive_in
from zvcore.wording import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.serving.place import Found, Place

__all__ = ["DataServer", "make_server"]

_EXPOSED = "Accept-Ranges, Content-Encoding, Content-Length, Content-Range, Content-Type, Date, ETag, Last-Modified"
# What says that a client may not want the whole of a file.
_ABOUT_PARTS = ("Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since")
_METHODS = "GET, HEAD, OPTIONS"
_MOST_LISTED = 10_000
# Bodies mean nothing to a server that only reads. Short ones are skipped, after others the connection ends.
_LONGEST_BODY = 1 << 16
# Our pages run no scripts, and load nothing but pictures.
_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
)
# Files may come from strangers. A page among them is shown as if it came from nowhere, and runs nothing.
_FILE_POLICY = "sandbox"

Header = tuple[str, str]


def place_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> Place:
    """What is served: a folder of this machine, with its links and files; or an archive, or what lies at an address."""
    text = os.fsdecode(path)
    if "://" not in text and not storage_options and archive_in(text) is None:
        return Root(path)
    from zvcore.serving.remote_place import RemotePlace

    store = open_store(text, "r", storage_options)
    return RemotePlace(store) if store.local_root is None else Root(os.fsdecode(store.local_root))


class DataServer(ThreadingHTTPServer):
    """Serves the files below a folder, or the objects at an address, read only, and pages about them."""

    daemon_threads = True
    # Browsers and benchmarks open many connections at once.
    request_queue_size = 128

    def __init__(
        self,
        path: str | os.PathLike[str],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        origin: str = "*",
        neuroglancer: str | None = None,
        hosts: Sequence[str] = (),
        log: Callable[[str], Any] | None = None,
        threads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        check_origin(origin)
        for name in hosts:
            check_host(name)
        self.origin = origin
        self.always = _lines([
            ("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", _EXPOSED),
            ("Cross-Origin-Resource-Policy", "cross-origin"), ("X-Content-Type-Options", "nosniff"),
        ])  # fmt: skip
        self.log = log
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._host, self._more_hosts = host, hosts
        self.root = place_at(path, storage_options)
        self.site = Site(self.root, neuroglancer=neuroglancer, threads=threads)
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            self.root.close()
            raise OSError(error.errno, f"cannot listen at {host}, port {port}: {error.strerror}") from error
        except BaseException:
            self.root.close()
            raise

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the name service for the host's full name, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.hosts = Hosts(self._host, self.server_name, self.server_port, self._more_hosts)

    @property
    def url(self) -> str:
        host = self.server_name
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def runs(self, names: Sequence[bytes]) -> bool:
        """Whether a file belongs to the Neuroglancer that the links open: the one program that runs as part of us."""
        viewer = self.site.viewer or ""
        if not self.hosts.has(viewer):
            return False
        folder = (split_path(urlsplit(viewer).path) or [])[:-1]
        return bool(folder) and list(names[: len(folder)]) == folder

    def server_close(self) -> None:
        super().server_close()
        self.root.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Browsers break connections off all the time.
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)) and self.log is not None:
            self.log(f"{client_address[0]} {type(error).__name__}: {error}")


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: DataServer
    protocol_version = "HTTP/1.1"
    timeout = 120
    # Small answers leave at once.
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    raw_requestline: bytes
    _body = True

    # --- requests

    def parse_request(self) -> bool:
        if not self._read_head():
            return False
        self._body = self.command != "HEAD"
        self.path = path_of(self.path, self.fields)
        fault = framing_fault(self.fields)
        refusal = self.server.hosts.fault(self.fields) if fault is None else (HTTPStatus.BAD_REQUEST, fault)
        if refusal is not None:
            # It is not certain where the next request begins, or it is not meant for this server.
            self.close_connection = True
            self._send_text(*refusal)
            return False
        self._skip_body()
        return True

    def _read_head(self) -> bool:
        """Whether it is a request at all; if not, it has been answered. What is not of the usual form Python reads."""
        lines = lines_of(self.rfile) if begins_as_usual(self.raw_requestline) else []
        quick = read_quickly(self.raw_requestline, lines) if lines else None
        if quick is not None:
            self.command, self.path, self.fields = quick
            self.requestline = f"{self.command} {self.path} HTTP/1.1"
            self.request_version = "HTTP/1.1"
            self.close_connection = (self.fields.get("Connection") or "").lower() == "close"
            return True
        connection = self.rfile
        if lines:
            self.rfile = io.BufferedReader(io.BytesIO(b"".join(lines)))
        try:
            if not super().parse_request():
                return False
        finally:
            self.rfile = connection
        self.fields = Fields.of(self.headers)
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What `http.server` refuses by itself, told as all else is.

        A client that speaks another version of HTTP, or no HTTP, needs a status too: Python gives it a body alone.
        """
        self.close_connection = True
        self._body = self.command != "HEAD"
        self.request_version = self.protocol_version
        self._send_text(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def handle_expect_100(self) -> bool:
        # No body is needed: a client that waits for permission to send one learns that from the answer.
        return True

    def _skip_body(self) -> None:
        length = body_length(self.fields)
        if (
            length is None
            or length > _LONGEST_BODY
            or "Expect" in self.fields
            or (length and len(self.rfile.read(length)) < length)
        ):
            self.close_connection = True

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_GET

    def do_OPTIONS(self) -> None:
        """What browsers ask before they send some requests to another origin."""
        headers = [("Access-Control-Allow-Methods", _METHODS)]
        asked = self.fields.get("Access-Control-Request-Headers")
        if asked and asked.isascii() and all(c.isalnum() or c in "-_, " for c in asked):
            headers.append(("Access-Control-Allow-Headers", asked))
        if self.fields.get("Access-Control-Request-Private-Network") == "true":
            # A page from the internet wants to read from this machine: this server exists for that.
            headers.append(("Access-Control-Allow-Private-Network", "true"))
        headers += [("Access-Control-Max-Age", "86400"), ("Allow", _METHODS)]
        self._send(self._head(HTTPStatus.NO_CONTENT, headers))

    def _refuse_method(self) -> None:
        self.close_connection = True
        self._send_text(HTTPStatus.METHOD_NOT_ALLOWED, "this server only reads", [("Allow", _METHODS)])

    do_POST = do_PUT = do_DELETE = do_PATCH = _refuse_method

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        try:
            if path == "/" or path.startswith("/.zvcore/"):
                return self._send_made(path, query)
            if path.endswith(f"/{NOTE}"):
                return self._send_note(path.removesuffix(NOTE))
            names = split_path(path) if path.startswith("/") else None
            if names is None:
                return self._send_text(HTTPStatus.NOT_FOUND, "not found")
            try:
                return self._send_named(names, path)
            except ConflictError:
                # It was replaced meanwhile, and nothing has been sent yet.
                self.server.root.forget(names)
                return self._send_named(names, path)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            return None
        except Busy:
            return self._send_text(HTTPStatus.SERVICE_UNAVAILABLE, "too much is asked for", [("Retry-After", "5")])
        except ZvcoreError as error:
            self._log(f"{path}: {kind_of(error)}: {error}")
            far = self.server.root.far
            return self._send_text(HTTPStatus.BAD_GATEWAY if far else HTTPStatus.INTERNAL_SERVER_ERROR, fault_of(error))

    def _send_named(self, names: list[bytes], path: str) -> None:
        whole = self._body and not any(name in self.fields for name in _ABOUT_PARTS)
        found = self.server.root.open_data(names, Want(folder=path.endswith("/"), whole=whole))
        if found is None:
            return self._send_text(HTTPStatus.NOT_FOUND, "not found")
        try:
            if path.endswith("/") and not found.is_folder:
                # In stores far away there is nothing by that name either.
                return self._send_text(HTTPStatus.NOT_FOUND, "not found")
            return self._send_found(found, names, path)
        finally:
            found.close()

    def _send_note(self, folder: str) -> None:
        """That data are not complete yet: readers elsewhere would take what is missing for fill values."""
        names = split_path(folder)
        note = None if names is None else note_for_others(self.server.root.store(names))
        if note is None:
            return self._send_text(HTTPStatus.NOT_FOUND, "not found")
        return self._send_data("application/json", json.dumps(note).encode())

    def _base(self) -> str:
        """What stands before the path in this server's URLs, as the client knows it."""
        return f"http://{self.fields.all('Host')[0].strip().lower()}"

    def _takes(self, encoding: str) -> bool:
        # Browsers refuse encodings when they ask for a range: an encoded file has other bytes at other places.
        for item in (self.fields.get("Accept-Encoding") or "").lower().split(","):
            name, _, quality = item.partition(";")
            if name.strip() in (encoding, "*"):
                return quality.replace(" ", "").rstrip("0").rstrip(".") not in ("q=", "q=0")
        return False

    # --- answers

    def _head(self, status: HTTPStatus, headers: Sequence[Header]) -> bytes:
        """What stands before the body of an answer."""
        if self.server.log is not None:
            self.log_request(status)
        if self.request_version == "HTTP/0.9":
            return b""
        # Who is not told that the connection ends would send the next request into it.
        closing = "Connection: close\r\n" if self.close_connection else ""
        begin = f"{self.protocol_version} {status.value} {status.phrase}\r\nServer: zvcore\r\n"
        date = f"Date: {_date(int(time.time()))}\r\n"
        return f"{begin}{date}{_lines(headers)}{self.server.always}{closing}\r\n".encode("latin-1")

    def _send(self, *parts: bytes) -> None:
        size = sum(map(len, parts))
        sent = self.connection.sendmsg(parts)
        if sent < size:
            self.connection.sendall(memoryview(b"".join(parts))[sent:])

    def _send_made(self, path: str, query: str) -> None:
        """A page, a picture, or another view of data that the site makes."""
        try:
            made = self.server.site.answer(path, query, self._base())
        except (ConnectionError, TimeoutError, Busy):
            raise
        except Exception as error:
            self._log(f"{path}: {kind_of(error)}: {error}")
            return self._send_text(HTTPStatus.INTERNAL_SERVER_ERROR, fault_of(error))
        if made is None:
            return self._send_text(HTTPStatus.NOT_FOUND, "not found")
        return self._send_data(*made)

    def _send_data(self, content_type: str, data: bytes) -> None:
        try:
            ranges = parse_ranges(self.fields.get("Range"), len(data))
        except Unsatisfiable:
            headers = [("Content-Range", f"bytes */{len(data)}")]
            return self._send_text(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "there are no such bytes", headers)
        status, headers = HTTPStatus.OK, []
        if ranges is not None and len(ranges) == 1:
            [(start, stop)] = ranges
            status = HTTPStatus.PARTIAL_CONTENT
            headers = [("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")]
            data = data[start:stop]
        headers += [
            ("Content-Type", content_type), ("Content-Length", str(len(data))), ("Cache-Control", "no-cache"),
            ("Content-Security-Policy", _PAGE_POLICY),
        ]  # fmt: skip
        return self._send(self._head(status, headers), data if self._body else b"")

    def _send_text(self, status: HTTPStatus, text: str, headers: Sequence[Header] = ()) -> None:
        data = f"{text}\n".encode("utf-8", "backslashreplace")
        about = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(data)))]
        self._send(self._head(status, [*headers, *about]), data if self._body else b"")

    def _send_found(self, found: Found, names: list[bytes], path: str) -> None:
        if found.is_folder:
            return self._send_folder(found, names, path)
        if found.encoding is None or self._takes(found.encoding):
            return self._send_file(found, found, names)
        try:
            unpacked = Unpacked(found)
        except UnsupportedError as error:
            return self._send_text(HTTPStatus.NOT_ACCEPTABLE, error.told)
        except CorruptDataError as error:
            return self._send_text(HTTPStatus.INTERNAL_SERVER_ERROR, error.told)
        return self._send_file(unpacked, found, names)

    def _send_folder(self, found: Found, names: list[bytes], path: str) -> None:
        if not path.endswith("/"):
            there = "".join(f"/{quote(name)}" for name in names) + "/"
            return self._send(self._head(HTTPStatus.MOVED_PERMANENTLY, [("Location", there), ("Content-Length", "0")]))
        return self._send_data("text/html; charset=utf-8", folder_page(names, found.entries(_MOST_LISTED)))

    def _send_file(self, file: Found | Unpacked, found: Found, names: list[bytes]) -> None:
        unpacked = "-plain" if isinstance(file, Unpacked) else ""
        tag = None if found.tag is None else f'"{found.tag}{unpacked}"'
        headers = [] if tag is None else [("ETag", tag)]
        if found.changed is not None:
            headers.append(("Last-Modified", _date(int(found.changed))))
        headers += [("Cache-Control", "no-cache"), ("Accept-Ranges", "bytes")]
        if not self.server.runs(names):
            headers.append(("Content-Security-Policy", _FILE_POLICY))
        if found.encoding is not None:
            headers.append(("Vary", "Accept-Encoding"))
        conditions = Conditions(self.fields, tag, found.changed)
        if conditions.failed:
            return self._send_text(HTTPStatus.PRECONDITION_FAILED, "the file is another one now", headers)
        if conditions.unchanged:
            return self._send(self._head(HTTPStatus.NOT_MODIFIED, headers))
        wanted = self.fields.get("Range") if conditions.range_holds else None
        try:
            ranges = parse_ranges(wanted, file.size)
        except Unsatisfiable:
            headers.append(("Content-Range", f"bytes */{file.size}"))
            return self._send_text(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "there are no such bytes", headers)
        if isinstance(file, Unpacked) and ranges is not None and len(ranges) > 1:
            ranges = None  # each would be unpacked by itself
        if found.encoding is not None and not unpacked:
            headers.append(("Content-Encoding", found.encoding))
        content_type = content_type_of(names[-1])
        parts, tail = laid_out(ranges, file.size, content_type)
        if ranges is not None and len(ranges) == 1:
            headers.append(("Content-Range", f"bytes {ranges[0][0]}-{ranges[0][1] - 1}/{file.size}"))
        elif ranges is not None:
            content_type = f"multipart/byteranges; boundary={tail.strip().strip(b'-').decode()}"
        if self._body and not isinstance(file, Unpacked):
            file.begin(*parts[0][1:])
        length = sum(len(head) + stop - start for head, start, stop in parts) + len(tail)
        headers += [("Content-Type", content_type), ("Content-Length", str(length))]
        before = self._head(HTTPStatus.OK if ranges is None else HTTPStatus.PARTIAL_CONTENT, headers)
        return self._send_parts(before, file, parts, tail) if self._body else self._send(before)

    def _send_parts(
        self, before: bytes, file: Found | Unpacked, parts: list[tuple[bytes, int, int]], tail: bytes
    ) -> None:
        for head, start, stop in parts:
            data = None if isinstance(file, Unpacked) else file.few(start, stop)
            self._send(before, head, data or b"")
            sent = file.send(self.connection, start, stop) if data is None and stop > start else len(data or b"")
            if sent != stop - start:
                # Somebody has cut the file off since. The client must not wait for what will never come.
                self.close_connection = True
                return
            before = b""
        if tail:
            self._send(tail)

    # --- words

    def log_message(self, format: str, *args: Any) -> None:
        self._log(format % args)

    def _log(self, text: str) -> None:
        if self.server.log is not None:
            clean = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
            self.server.log(f"{self.address_string()} {clean}")


def _lines(headers: Sequence[Header]) -> str:
    return "".join([f"{name}: {value}\r\n" for name, value in headers])


@lru_cache(1024)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def make_server(path: str | os.PathLike[str], host: str = "127.0.0.1", port: int = 0, **options: Any) -> DataServer:
    """A server that is bound to its port (0: any that is free) and waits for `serve_forever`.

    path           a folder, a zip archive, or the address of one: s3://, gs://, http:// and whatever `zvcore.open`
                   takes, read with the credentials that this process has, or those in `storage_options`
    origin         which pages in a browser may read the data: "*" or one origin, such as "https://example.org"
    neuroglancer   the URL of the Neuroglancer that the links open
    hosts          other names, with or without a port, under which clients know the server: those of a proxy or tunnel
    log            called with a line for every request
    """
    return DataServer(path, host, port, **options)
