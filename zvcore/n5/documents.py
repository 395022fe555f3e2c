"""attributes.json as a document: read as leniently as Java does, written as Java writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.documents.document import Document, dump, fetch, fetch_version, parse_any
from zvcore.documents.known import recalled, remembered
from zvcore.errors import MetadataError, NotFoundError
from zvcore.n5.metadata import DatasetMetadata, is_dataset, known_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = [
    "ATTRIBUTES",
    "AttributesFile",
    "DatasetFile",
    "change_document",
    "document_key",
    "encoded",
    "read_document",
    "read_node",
]

ATTRIBUTES = "attributes.json"


def document_key(prefix: str = "") -> str:
    return f"{prefix}/{ATTRIBUTES}" if prefix else ATTRIBUTES


def read_document(store: Store, prefix: str = "") -> dict[str, Any] | None:
    """The attributes of a group; None where there is no file, or one that holds no object (as Java has it)."""
    key = document_key(prefix)
    return _parsed(fetch(store, key), key)


def read_node(store: Store) -> tuple[dict[str, Any] | None, DatasetMetadata | None, Stamp | None]:
    """`read_document` at the root of a store, what it says where it is that of a dataset, and of which version it is,
    see `zvcore.documents.fetch_version`.
    """
    raw, stamp = fetch_version(store, ATTRIBUTES)
    known, where = known_metadata(), f"{store.root}/{ATTRIBUTES}"
    found = None if raw is None else recalled(known, raw, where)
    if found is not None:
        return (*found, stamp)
    document = _parsed(raw, ATTRIBUTES)
    if raw is None or document is None or not is_dataset(document):
        return document, None, stamp
    return (*remembered(known, raw, where, document, DatasetMetadata.parse(document, where)), stamp)


def _parsed(raw: bytes | None, key: str) -> dict[str, Any] | None:
    if raw is None or raw.isspace():
        return None
    if not raw:
        # What a power cut leaves of a file, or a writer that has only just begun: a group is the wrong thing to see.
        raise MetadataError("the file is empty: somebody did not finish writing it", key=key, offset=0)
    document = parse_any(raw, key)
    return document if isinstance(document, dict) else None


def encoded(document: dict[str, Any]) -> bytes:
    # Compact and without escapes, as Java writes it.
    try:
        return dump(document, ensure_ascii=False, separators=(",", ":"))
    except UnicodeEncodeError:
        return dump(document, separators=(",", ":"))


class AttributesFile(Document):
    """The attributes.json at the root of a store. Groups need none: it is made when there is something to say."""

    def __init__(
        self,
        store: Store,
        content: dict[str, Any] | None,
        *,
        read_only: bool = False,
        stamp: Stamp | None = None,
    ) -> None:
        super().__init__(store, ATTRIBUTES, content or {}, read_only=read_only, stamp=stamp)

    def parse(self, raw: bytes | None) -> dict[str, Any]:
        return _parsed(raw, self.key) or {}

    def encode(self, content: dict[str, Any]) -> bytes:
        return encoded(content)


class DatasetFile(AttributesFile):
    """The attributes.json of a dataset, which does not become that of a group when the dataset was removed."""

    def parse(self, raw: bytes | None) -> dict[str, Any]:
        document = super().parse(raw)
        if not is_dataset(document):
            raise NotFoundError("the dataset is gone", key=f"{self.store.root}/{self.key}")
        return document


def change_document(store: Store, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Replace the attributes.json at the root of the store by what `make` makes of it."""
    return AttributesFile(store, None).change(make)
