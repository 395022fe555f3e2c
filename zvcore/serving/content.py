"""The description of the bytes of an answer: their type, and how several ranges are put into one body."""

from __future__ import annotations

import os
import time

__all__ = ["content_type_of", "laid_out"]

_TYPES = {
    b".json": "application/json", b".png": "image/png", b".jpg": "image/jpeg", b".jpeg": "image/jpeg",
    b".svg": "image/svg+xml", b".html": "text/html; charset=utf-8", b".css": "text/css; charset=utf-8",
    b".js": "text/javascript; charset=utf-8", b".mjs": "text/javascript; charset=utf-8",
    b".wasm": "application/wasm", b".txt": "text/plain; charset=utf-8", b".md": "text/plain; charset=utf-8",
    b".xml": "application/xml", b".gz": "application/gzip",
}  # fmt: skip
_JSON_NAMES = (b"info", b".zarray", b".zgroup", b".zattrs", b".zmetadata")


def content_type_of(name: bytes) -> str:
    if name in _JSON_NAMES:
        return "application/json"
    return _TYPES.get(os.path.splitext(name)[1].lower(), "application/octet-stream")


def laid_out(
    ranges: list[tuple[int, int]] | None, size: int, content_type: str
) -> tuple[list[tuple[bytes, int, int]], bytes]:
    """([(what stands before, start, stop)], what stands at the end) of an answer's body."""
    if ranges is None:
        return [(b"", 0, size)], b""
    if len(ranges) == 1:
        return [(b"", *ranges[0])], b""
    border = f"zvcore{time.time_ns():x}x{os.getpid():x}"
    parts = []
    for place, (start, stop) in enumerate(ranges):
        lines = ["" if place == 0 else "\r\n", f"--{border}\r\n", f"Content-Type: {content_type}\r\n"]
        lines.append(f"Content-Range: bytes {start}-{stop - 1}/{size}\r\n\r\n")
        parts.append(("".join(lines).encode(), start, stop))
    return parts, f"\r\n--{border}--\r\n".encode()
