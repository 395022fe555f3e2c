"""Servers that tests start on this machine: S3 as others have built it, before it a proxy that counts and spoils."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hmac
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
KEY, SECRET = "testing", "testing-secret"
# Seconds after which something hangs, and is not only slow because the machine has much else to do.
PATIENCE = 300


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class S3:
    """A running server with an empty bucket."""

    name: str
    port: int
    bucket: str = "bucket"
    scheme: ClassVar[str] = "s3"
    # How many requests the end of an object takes, and the end of an upload by parts.
    asks_for_ends: ClassVar[int] = 1
    # Whether there is a key to sign addresses with, which connections of our own need.
    signs: ClassVar[bool] = True
    ends_with_puts: ClassVar[int] = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """What users say as `storage_options`."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": KEY,
            "secret_access_key": SECRET,
            "allow_http": True,
        }

    def url(self, path: str) -> str:
        return f"{self.scheme}://{self.bucket}/{path}"

    def make_bucket(self) -> None:
        import boto3
        from botocore.config import Config

        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            config=Config(connect_timeout=PATIENCE, read_timeout=PATIENCE),
        )
        client.create_bucket(Bucket=self.bucket)
        client.close()


class Azure(S3):
    """The same by Azure's protocol, which knows no ranges counted from the end."""

    scheme = "az"
    asks_for_ends = 2
    ends_with_puts = 1
    account = "devstoreaccount1"
    # The same for all users of such a server.
    secret = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    @property
    def options(self) -> dict[str, Any]:
        endpoint = f"{self.endpoint}/{self.account}"
        return {"endpoint": endpoint, "account_name": self.account, "account_key": self.secret, "allow_http": True}

    def make_bucket(self) -> None:
        date = email.utils.formatdate(usegmt=True)
        path = f"/{self.account}/{self.bucket}"
        headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
        lines = ["PUT", *[""] * 11, *[f"{name}:{value}" for name, value in headers.items()]]
        text = "\n".join([*lines, f"/{self.account}{path}", "restype:container"])
        key = hmac.digest(base64.b64decode(self.secret), text.encode(), "sha256")
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(key).decode()}"
        ask(self.port, "PUT", f"{path}?restype=container", b"", {**headers, "Content-Length": "0"})


class Google(S3):
    """The same by Google's protocol."""

    scheme = "gs"
    signs = False

    @property
    def options(self) -> dict[str, Any]:
        key = {"gcs_base_url": self.endpoint, "disable_oauth": True}
        names = ("client_email", "private_key", "private_key_id")
        return {"service_account_key": json.dumps(key | dict.fromkeys(names, "")), "allow_http": True}

    def make_bucket(self) -> None: ...


def ask(port: int, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")


KINDS: dict[str, type[S3]] = {"azurite": Azure, "fake-gcs-server": Google}


def service(name: str, port: int) -> S3:
    """The server of this name at this port, or a proxy before it."""
    return KINDS.get(name, S3)(name, port)


def versitygw() -> str | None:
    """A complete S3 server, where there is one: `make s3-server` builds it."""
    for built in (ROOT / "build/versitygw", ROOT / "build/emulators/versitygw"):
        if built.exists():
            return str(built)
    return shutil.which("versitygw")


def best_server() -> str:
    """The complete server where it was built, else moto's; ZVCORE_OBJECT_SERVER chooses."""
    return os.environ.get("ZVCORE_OBJECT_SERVER") or ("versitygw" if versitygw() else "moto")


@contextlib.contextmanager
def s3_server(name: str, folder: Path) -> Iterator[S3]:
    log = folder / "log"
    if name == "moto":
        starting = _moto(log)
    elif name == "azurite":
        starting = started(lambda port: [*azurite(), "--blobPort", str(port)], log)
    elif name == "fake-gcs-server":
        starting = _google(log)
    else:
        (folder / "buckets").mkdir()
        starting = started(
            lambda port: [str(versitygw()), "--quiet", "--port", f"127.0.0.1:{port}", "posix", str(folder / "buckets")],
            log,
            ROOT_ACCESS_KEY=KEY,
            ROOT_SECRET_KEY=SECRET,
        )
    with starting as port:
        server = service(name, port)
        server.make_bucket()
        yield server


@contextlib.contextmanager
def _google(log: Path) -> Iterator[int]:
    """fake-gcs-server behind what it lacks."""
    from tests.stores.google import Front

    def command(port: int) -> list[str]:
        own = f"127.0.0.1:{port}"
        options = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", own)
        program = ROOT / "build/emulators/fake-gcs-server"
        return [str(program), *options, "-external-url", f"http://{own}", "-backend", "memory", "-log-level", "error"]

    with started(command, log) as target:
        handler = type("Handler", (Front,), {"target": target})
        with answering(handler) as port:
            bucket = json.dumps({"name": S3.bucket}).encode()
            ask(target, "POST", "/storage/v1/b?project=test", bucket, {"Content-Type": "application/json"})
            yield port


def azurite() -> list[str]:
    """Microsoft's emulator, from the npm registry: `make store-emulators`."""
    program = ROOT / "build/emulators/node_modules/azurite/dist/src/blob/main.js"
    return ["node", str(program), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]


@contextlib.contextmanager
def _moto(log: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        port, descriptor = listening.getsockname()[1], listening.fileno()
        command = [sys.executable, "-m", "tests.stores.moto_server", str(port), str(descriptor)]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, pass_fds=[descriptor], cwd=ROOT)
    try:
        yield port
    finally:
        _end(process)


@contextlib.contextmanager
def started(command: Callable[[int], list[str]], log: Path, **environment: str) -> Iterator[int]:
    """The port at which a program listens that has to be told one. Should another program have been quicker to take
    it, the next is tried.
    """
    for _ in range(5):
        port = free_port()
        with log.open("wb") as file:
            process = subprocess.Popen(command(port), env={**os.environ, **environment}, stdout=file, stderr=file)
        try:
            if _listens(port, process):
                yield port
                return
        finally:
            _end(process)
    raise RuntimeError(f"the server does not start: {log.read_text()[-2000:]}")


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            # Is it the one that was started, and not the one because of which it cannot start?
            time.sleep(0.2)
            return process.poll() is None
        time.sleep(0.05)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass
class Request:
    """What came by."""

    method: str
    path: str
    headers: dict[str, str]
    status: int = 0

    @property
    def range(self) -> str:
        return self.headers.get("range", "").removeprefix("bytes=")

    @property
    def key(self) -> str:
        """Of the object in the bucket."""
        return unquote(self.path.partition("?")[0]).partition("/bucket/")[2]

    def __str__(self) -> str:
        return " ".join(filter(None, [self.method, self.path, self.range]))


# What a fault does to a request: an HTTP status to answer with, "reset" (the server never sees it), "lost" (nobody sees
# the answer), "cut" (half of the answer), seconds to wait.
Fault = int | str | float


@dataclass
class Proxy:
    """Passes requests on to a server. `spoil(request)` may say that one of them goes wrong, or change things itself."""

    target: int
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    spoil: Callable[[Request], Fault | None] | None = None

    def seen(self, *methods: str) -> list[str]:
        return [str(one) for one in self.requests if not methods or one.method in methods]

    def forget(self) -> None:
        self.requests.clear()

    @contextlib.contextmanager
    def running(self) -> Iterator[Proxy]:
        proxy = self

        class Handler(_Handler):
            owner = proxy

        with answering(Handler) as self.port:
            yield self


class Together:
    """Has requests wait for a few others, and tells how many were under way at once."""

    # Of a server that answers very fast, no more than this is asked at once.
    WANTED = 3
    # A pattern in the names of the objects that are meant; None: all.
    only: str | None = None

    def __init__(self) -> None:
        self.now = self.most = 0
        self._changed = threading.Condition()

    def __call__(self, request: Request) -> None:
        if self.only is not None and re.search(self.only, request.key) is None:
            return
        with self._changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self.WANTED, 0.1)
            self.now -= 1

    @property
    def enough(self) -> bool:
        return self.most >= self.WANTED


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    # As many as clients begin at once.
    request_queue_size = 256


@contextlib.contextmanager
def answering(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server with a thread for each connection, encrypted if there is a context."""
    server = _Listening(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def encryption(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server needs for encrypted connections, and the certificate that who asks `localhost` must trust."""
    key, certificate = folder / "key", folder / "certificate"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


class QuickHandler(BaseHTTPRequestHandler):
    """Keeps connections, sends each answer in one piece, and logs nothing."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None: ...


class _Handler(QuickHandler):
    owner: Proxy

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.owner.target, timeout=PATIENCE)

    def finish(self) -> None:
        self.upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        self.owner.requests.append(request)
        fault = None if self.owner.spoil is None else self.owner.spoil(request)
        if fault == "reset":
            self._reset()
            return
        if isinstance(fault, float):
            time.sleep(fault)
        if isinstance(fault, int):
            request.status = fault
            self._answer(fault, [("Content-Type", "application/xml")], b"<Error><Code>InternalError</Code></Error>")
            return
        self.upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
        answer = self.upstream.getresponse()
        data = answer.read()
        request.status = answer.status
        if fault == "lost":
            self._reset()
            return
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OWN]
        if self.command == "HEAD":
            headers.append(("Content-Length", answer.getheader("Content-Length") or "0"))
        self._answer(answer.status, headers, data, cut=fault == "cut")

    def _reset(self) -> None:
        # Closing with this discards what is under way and tells the other side so.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.wfile.flush()
        if cut:
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PROPFIND = _pass_on


_OWN = {"content-length", "transfer-encoding", "connection", "keep-alive"}


@contextlib.contextmanager
def web_server(folder: Path, handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a folder behind a web server that knows nothing of object stores."""

    class Handler(handler):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)

        def log_message(self, *_: Any) -> None: ...

    with answering(Handler) as port:
        yield f"http://127.0.0.1:{port}"
