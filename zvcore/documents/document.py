"""A JSON object in a store: read within limits, changed so that no other writer's change is lost."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from zvcore.documents.lines import in_lines
from zvcore.documents.thread_lock import ThreadLock
from zvcore.documents.values import DEEPEST, copied, number_of, too_deep
from zvcore.errors import MetadataError, NotFoundError, ReadOnlyError, ZvcoreError
from zvcore.logs import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = [
    "LARGEST",
    "LARGEST_TOLD",
    "Document",
    "change",
    "change_bytes",
    "dump",
    "encode",
    "fetch",
    "fetch_version",
    "parse",
    "parse_any",
    "read",
]

_log = Log("opening")

# Consolidated metadata of a million members would fit.
LARGEST = 1 << 30
# The most that a group may tell of its members in their place. More is not looked at: readers ask the members.
LARGEST_TOLD = 64 << 20
# How what is packed begins, by the name of its content coding.
_PACKED = {"gzip": b"\x1f\x8b\x08", "zstd": b"\x28\xb5\x2f\xfd"}
# Lists and objects: each takes a hundred bytes and more, though it may be written in three.
MOST_PARTS = 1 << 24
# Made once: `json.loads` makes another each time that it is told how to read numbers.
_DECODER = json.JSONDecoder(parse_float=number_of)


def read(store: Store, key: str) -> dict[str, Any] | None:
    """The JSON object under this key; None if there is nothing."""
    raw = fetch(store, key)
    return None if raw is None else parse(raw, key)


def fetch(store: Store, key: str) -> bytes | None:
    """The bytes of a document. A file without end (or a sparse one) is not read at all."""
    return fetch_version(store, key)[0]


def fetch_version(store: Store, key: str) -> tuple[bytes | None, Stamp | None]:
    """The bytes of a document, and of which version they are, see `Store.version`."""
    if store.local_root is not None and (store.size(key) or 0) > LARGEST:
        raise _too_large(key, store.size(key))
    found = store.version(key)
    if found is None:
        return None, None
    raw, stamp = found
    _log.debug("read %s of %s: %d bytes", key, store.root, len(raw))
    return bytes(raw), stamp


def parse(raw: bytes, key: str) -> dict[str, Any]:
    """The JSON object that these bytes are."""
    document = parse_any(raw, key)
    if not isinstance(document, dict):
        raise MetadataError("not a JSON object", key=key, found=type(document).__name__)
    return document


def parse_any(raw: bytes, key: str) -> Any:
    """What these bytes are as JSON, which need not be an object. `NaN` and `Infinity` stand for numbers."""
    if len(raw) > LARGEST:
        raise _too_large(key, len(raw))
    _check_nesting(raw, key)
    encoding = json.detect_encoding(raw)
    try:
        value = _DECODER.decode(raw.decode(encoding, "surrogatepass"))
    except RecursionError as error:
        raise MetadataError("not JSON that can be read: nested too deep", key=key) from error
    except ValueError as error:
        packed = next((name for name, magic in _PACKED.items() if raw.startswith(magic)), None)
        if packed is not None:
            what = f"not JSON but a stream of {packed}, as of objects with Content-Encoding: {packed}"
            raise MetadataError(f"{what}; documents have to be stored as they are", key=key) from error
        offset = error.pos if isinstance(error, json.JSONDecodeError) else None
        raise MetadataError(f"not JSON: {error}", key=key, offset=offset) from error
    # Only JSON's own encoding can be looked through before it is decoded.
    if not encoding.startswith("utf-8") and too_deep(value):
        raise _too_deep(key)
    return value


def _check_nesting(raw: bytes, key: str | None) -> None:
    """Refuse what is nested too deep, or has more parts than any document, before memory is taken for it."""
    parts = raw.count(b"[") + raw.count(b"{")
    if parts > MOST_PARTS:
        raise MetadataError("the document has too many parts", key=key, expected=f"at most {MOST_PARTS}", found=parts)
    # To look is only worth it where there are as many brackets.
    if parts > DEEPEST:
        from zvcore.documents.nesting import depth_of_text

        if depth_of_text(raw) > DEEPEST:
            raise _too_deep(key)


def _too_deep(key: str | None) -> MetadataError:
    return MetadataError("the document is nested too deep", key=key, expected=f"at most {DEEPEST} levels")


def _too_large(key: str, size: int | None) -> MetadataError:
    return MetadataError("the document is too large", key=key, expected=f"at most {LARGEST} bytes", found=size)


def encode(document: Mapping[str, Any]) -> bytes:
    """A document as it is stored, in lines."""
    return in_lines(dump(document, separators=(",", ": ")))


def dump(document: Mapping[str, Any], **options: Any) -> bytes:
    """A document as JSON. What `parse` would refuse is refused here: once written, nobody could open it."""
    try:
        raw = json.dumps(dict(document), **options).encode()
    except RecursionError as error:
        raise _too_deep(None) from error
    _check_nesting(raw, None)
    return raw


def change(
    store: Store,
    key: str,
    make: Callable[[dict[str, Any] | None], dict[str, Any]],
    encode: Callable[[dict[str, Any]], bytes] = encode,
) -> dict[str, Any]:
    """Replace a document by what `make` makes of it (None: there is none), losing no other writer's change.

    The answer is the new document. `make` may be called several times.
    """
    return change_bytes(store, key, lambda raw: make(None if raw is None else parse(raw, key)), encode)


def change_bytes(
    store: Store,
    key: str,
    make: Callable[[bytes | None], dict[str, Any]],
    encode: Callable[[dict[str, Any]], bytes],
) -> dict[str, Any]:
    """`change` where a format has its own way to read what is there."""
    made: dict[str, Any] = {}

    def changed(raw: bytes | None) -> bytes:
        nonlocal made
        made = make(raw)
        return encode(made)

    store.change(key, changed)
    return made


class Document:
    """The document that describes a node (an array, a group, a volume), as it was last read or changed.

    Subclasses say how their format parses and writes it. Who sets `content` holds `turn`: of several threads that read
    or change the document at once, the last one's view is the last one that is kept.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        content: dict[str, Any],
        *,
        read_only: bool = False,
        stamp: Stamp | None = None,
    ) -> None:
        """`stamp`: of which version the content is, as `fetch_version` has it."""
        self.store = store
        self.key = key
        self.turn = ThreadLock()
        self.content = content
        self.read_only = read_only or store.read_only
        self._read = (content, stamp)
        # When the content was read, of which somebody may make an array much later.
        self.since = time.monotonic()

    @property
    def stamp(self) -> Stamp | None:
        """Of which version the content is; None where that is not known."""
        content, stamp = self._read
        # First the stamp: to ask for the content may mean to read it.
        return stamp if stamp is not None and content is self.content else None

    def parse(self, raw: bytes | None) -> dict[str, Any]:
        """The content of the document that these bytes are; None: it is gone."""
        if raw is None:
            raise NotFoundError("it was removed meanwhile", key=f"{self.store.root}/{self.key}")
        return parse(raw, self.key)

    def encode(self, content: dict[str, Any]) -> bytes:
        return encode(content)

    def latest(self) -> dict[str, Any]:
        """What the document says now, as others have left it."""
        return self.parse(fetch(self.store, self.key))

    def refresh(self) -> dict[str, Any]:
        """Read the document again."""
        with self.turn.held():
            self.content = self.latest()
            self.since = time.monotonic()
            return self.content

    def change(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Replace the document by what `make` makes of the present one; if that fails, nothing has changed."""
        if self.read_only:
            raise ReadOnlyError("opened for reading; open it with mode='r+' to change attributes", key=self.store.root)
        with self.turn.held():
            self.content = self._changed(make)
            self.since = time.monotonic()
            return self.content

    def _changed(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        made = self._replaced(make) if self.store.remote and self.store.creates else None
        if made is None:
            made = change_bytes(self.store, self.key, lambda raw: make(self.parse(raw)), self.encode)
        return made

    def _replaced(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any] | None:
        """`_changed` over a network, where each question is a wait: what is known is replaced, if it is still there.
        None: it is to be read, as others have left it.
        """
        stamp = self.stamp
        if stamp is not None:
            content = copied(self.content)
        else:
            raw, stamp = fetch_version(self.store, self.key)
            if raw is not None and stamp is None:
                return None  # whose version nobody tells
            content = self.parse(raw)
        try:
            made = make(content)
        except ZvcoreError:
            return None  # which may be wrong only of what is known
        stored = self.store.put_stamped([(self.key, self.encode(made), stamp)])[0]
        if not stored:
            return None
        self._read = (made, None if stored is True else stored)
        return made
