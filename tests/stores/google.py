"""Google's XML interface before fake-gcs-server, which by it reads, lists and removes, but stores nothing.

Stores become requests of the JSON interface, whose conditions the server checks by generations. What it does not know
at all is done here: `If-Match`, ranges of empty objects, the parts of an upload until they are put together.
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, unquote

_OWN = {"content-length", "transfer-encoding", "connection", "keep-alive", "date"}
_numbers = itertools.count(1)
_making = threading.Lock()


class Front(BaseHTTPRequestHandler):
    target: ClassVar[int]
    uploads: ClassVar[dict[str, dict[int, bytes]]] = {}

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None: ...

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, list[tuple[str, str]], bytes]:
        passed = {name: value for name, value in self.headers.items() if name.lower() == "range"}
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=300)
        try:
            # Its name for itself is part of how the server finds the bucket.
            connection.request(method, path, body, {"Host": f"127.0.0.1:{self.target}", **passed})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        length = {name.lower(): value for name, value in headers}.get("content-length", "0")
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _read(self) -> None:
        status, headers, body = self._ask(self.command, self.path)
        wanted = self.headers.get("If-Match")
        found = next((value for name, value in headers if name.lower() == "etag"), None)
        if status < 300 and wanted is not None and wanted != found:
            self._answer(412, [])
        elif status == 206 and not body:
            self._answer(416, [])  # of empty objects the server says that they go from 0 to -1
        else:
            self._answer(status, headers, body)

    def _store(self, body: bytes) -> None:
        bucket, _, name = self.path.partition("?")[0].removeprefix("/").partition("/")
        condition = self.headers.get("x-goog-if-generation-match")
        query = f"uploadType=media&name={quote(unquote(name), safe='')}"
        query += "" if condition is None else f"&ifGenerationMatch={condition}"
        status, _, text = self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", body)
        if status >= 300:
            return self._answer(status, [], text)
        made = json.loads(text)
        return self._answer(200, [("ETag", f'"{made["etag"]}"'), ("x-goog-generation", made["generation"])])

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = parse_qs(self.path.partition("?")[2])
        if "uploadId" in query:
            self.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            return self._answer(200, [("ETag", f'"{len(body)}"')])
        return self._store(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, text = self.path.partition("?")
        query = parse_qs(text, keep_blank_values=True)
        if "uploads" in query:
            with _making:
                number = str(next(_numbers))
            self.uploads[number] = {}
            bucket, _, key = path.removeprefix("/").partition("/")
            xml = f"<Bucket>{bucket}</Bucket><Key>{key}</Key><UploadId>{number}</UploadId>"
            name = "InitiateMultipartUploadResult"
            return self._answer(200, [], f"<?xml version='1.0'?><{name}>{xml}</{name}>".encode())
        parts = self.uploads.pop(query["uploadId"][0])
        order = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        bucket, _, key = path.removeprefix("/").partition("/")
        whole = b"".join(parts[number] for number in order)
        name = quote(unquote(key), safe="")
        status, _, text_ = self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", whole)
        if status >= 300:
            return self._answer(status, [], text_)
        made = json.loads(text_)
        xml = f"<Bucket>{bucket}</Bucket><Key>{key}</Key><ETag>&quot;{made['etag']}&quot;</ETag>"
        done = f"<?xml version='1.0'?><CompleteMultipartUploadResult>{xml}</CompleteMultipartUploadResult>".encode()
        return self._answer(200, [("x-goog-generation", made["generation"])], done)

    do_GET = do_HEAD = do_DELETE = _read
