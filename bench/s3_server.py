"""As much of S3 as reading, writing, listing and removing objects needs, in memory, in as little time as it can.

A complete server spends more on a request than its clients do, and a benchmark would time that. Answers may come later,
each by the same time, as from far away.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import re
import selectors
import socket
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote_to_bytes
from xml.sax.saxutils import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["empty", "running"]

_NOTHING = memoryview(b"")
_LIST = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
_REMOVED = '<?xml version="1.0" encoding="UTF-8"?><DeleteResult>'
_PAGE = 1000
_FACTS = b"\r\nLast-Modified: Sat, 01 Nov 2025 10:00:00 GMT\r\nAccept-Ranges: bytes\r\nETag: "


@contextlib.contextmanager
def running(delay: float = 0.0, *, tells_md5: bool = False) -> Iterator[str]:
    """The address of such a server, in a process of its own, whose answers take this many seconds.

    tells_md5  tags are the MD5s of objects, as those of S3 are: making them takes time
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, __file__, str(listening.fileno()), str(delay), str(int(tells_md5))],
            pass_fds=[listening.fileno()],
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def empty(endpoint: str, folder: str) -> None:
    """Remove all objects below a folder of the bucket."""
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket/{folder}/", method="DELETE")).close()


Answer = tuple[bytes, memoryview]  # what goes before the body, and the body, of which nothing is copied


def _fields(head: bytes) -> dict[bytes, bytes]:
    """What the lines after the first say, by names in small letters."""
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.lower()] = value.strip()
    return fields


def _send(connection: socket.socket, answer: Answer) -> None:
    head, body = answer
    sent = connection.sendmsg(answer)
    if sent < len(head) + len(body):
        rest = memoryview(head + bytes(body))
        connection.sendall(rest[sent:])


class _Server:
    def __init__(self, delay: float, tells_md5: bool) -> None:
        self.delay, self.tells_md5 = delay, tells_md5
        # When to send what to whom; numbered, because connections have no order.
        self.late: list[tuple[float, int, socket.socket, Answer]] = []
        self.numbers = itertools.count()
        self.objects: dict[bytes, tuple[memoryview, bytes]] = {}

    def answer(self, head: bytes, body: memoryview) -> Answer:
        method, path, _ = head.split(b" ", 2)
        path, _, query = path.partition(b"?")
        if b"%" in path:  # signed addresses have more signs spelled out
            path = unquote_to_bytes(path)
        if method == b"PUT":
            if _fields(head).get(b"if-none-match") == b"*" and path in self.objects:
                return b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n", _NOTHING
            self.objects[path] = (body, tag := self.tag(body))
            return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: " + tag + b"\r\n\r\n", _NOTHING
        if method == b"DELETE":
            # Everything below, for who measures: S3 removes one object.
            self.objects = {key: one for key, one in self.objects.items() if not key.startswith(path)}
            return b"HTTP/1.1 204 No Content\r\n\r\n", _NOTHING
        if method == b"POST":
            return self.removed(path.rstrip(b"/") + b"/", re.findall("<Key>.*?</Key>", bytes(body).decode()))
        if b"list-type=2" in query:
            return self.listed(path.rstrip(b"/") + b"/", dict(parse_qsl(query.decode())))
        found = self.objects.get(path)
        if found is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", _NOTHING
        data, tag = found
        fields = _fields(head)
        if fields.get(b"if-match", tag) != tag:
            return b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n", _NOTHING
        if fields.get(b"if-none-match") == tag:
            return b"HTTP/1.1 304 Not Modified\r\nContent-Length: 0" + _FACTS + tag + b"\r\n\r\n", _NOTHING
        span = fields.get(b"range")
        start, stop, line = 0, len(data), b"HTTP/1.1 200 OK\r\nContent-Length: %d" % len(data)
        if span is not None:
            first, _, last = span.removeprefix(b"bytes=").partition(b"-")
            start = int(first) if first else max(0, stop - int(last))
            stop = min(stop, int(last) + 1) if first and last else stop
            line = b"HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\nContent-Range: bytes %d-%d/%d" % (
                stop - start, start, stop - 1, len(data),
            )  # fmt: skip
        return line + _FACTS + tag + b"\r\n\r\n", _NOTHING if method == b"HEAD" else data[start:stop]

    def removed(self, bucket: bytes, keys: list[str]) -> Answer:
        for key in keys:
            self.objects.pop(bucket + unescape(key[len("<Key>") : -len("</Key>")]).encode(), None)
        told = "".join(f"<Deleted>{key}</Deleted>" for key in keys)
        text = f"{_REMOVED}{told}</DeleteResult>".encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text), memoryview(text)

    def tag(self, body: memoryview) -> bytes:
        return b'"%s"' % hashlib.md5(body).hexdigest().encode() if self.tells_md5 else b'"%d"' % next(self.numbers)

    def listed(self, bucket: bytes, asked: dict[str, str]) -> Answer:
        """The objects below a prefix, up to a thousand; below folders only if no delimiter is given."""
        begin, delimiter = asked.get("prefix", ""), asked.get("delimiter")
        after = asked.get("continuation-token") or asked.get("start-after", "")
        keys = sorted(key[len(bucket) :].decode() for key in self.objects if key.startswith(bucket + begin.encode()))
        entries: list[str] = []
        folders: set[str] = set()
        last = after if delimiter and after.endswith(delimiter) else ""
        for key in keys:
            if key <= after or (delimiter and last.endswith(delimiter) and key.startswith(last)):
                continue
            if len(entries) + len(folders) == _PAGE:
                break
            name, found, _ = key[len(begin) :].partition(delimiter) if delimiter else (key, "", "")
            last = f"{begin}{name}{found}" if found else key
            if found:
                folders.add(f"<CommonPrefixes><Prefix>{escape(last)}</Prefix></CommonPrefixes>")
            else:
                data, tag = self.objects[bucket + key.encode()]
                entries.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>{escape(tag.decode())}</ETag>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        else:
            last = ""
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(last)}</NextContinuationToken>"
        text = "".join((_LIST, *entries, *sorted(folders), more if last else "", "</ListBucketResult>")).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n" % len(text)
        return head, memoryview(text)

    def serve(self, listening: socket.socket) -> None:
        waiting = selectors.DefaultSelector()
        waiting.register(listening, selectors.EVENT_READ)
        while True:
            for ready, _ in waiting.select(self.send_late()):
                if ready.data is None:
                    connection, _ = listening.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    waiting.register(connection, selectors.EVENT_READ, bytearray())
                    continue
                assert isinstance(ready.fileobj, socket.socket)
                if not self.hear(ready.fileobj, ready.data):
                    waiting.unregister(ready.fileobj)
                    ready.fileobj.close()

    def send_late(self) -> float | None:
        """Send the answers that are due; the seconds until the next one is."""
        while self.late and self.late[0][0] <= time.monotonic():
            _, _, connection, answer = heapq.heappop(self.late)
            with contextlib.suppress(OSError):  # the client has left
                _send(connection, answer)
        return max(0.0, self.late[0][0] - time.monotonic()) if self.late else None

    def hear(self, connection: socket.socket, buffer: bytearray) -> bool:
        """Whether the connection stays open."""
        try:
            got = connection.recv(1 << 16)
            buffer += got
            if got:
                self.work(connection, buffer)
        except ConnectionError:
            return False
        return bool(got)

    def work(self, connection: socket.socket, buffer: bytearray) -> None:
        """Answer the requests that have arrived completely; wait for the rest of a body."""
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(buffer[:end])
            # Only what is put or posted has a body; looking for its length takes as long as the answer.
            length = int(_fields(head).get(b"content-length", b"0")) if head.startswith(b"P") else 0
            stop = end + 4 + length
            if stop > len(buffer) and b"100-continue" in head:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = memoryview(bytearray(length))
            come = min(len(buffer), stop) - end - 4
            body[:come] = bytes(buffer[end + 4 : end + 4 + come])
            while come < length:
                got = connection.recv_into(body[come:])
                if not got:
                    return
                come += got
            del buffer[:stop]
            answer = self.answer(head, body)
            if self.delay:
                heapq.heappush(self.late, (time.monotonic() + self.delay, next(self.numbers), connection, answer))
            else:
                _send(connection, answer)


if __name__ == "__main__":
    _Server(float(sys.argv[2]), sys.argv[3] == "1").serve(socket.socket(fileno=int(sys.argv[1])))
