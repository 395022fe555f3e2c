"""attributes.json as a file: read leniently, replaced as a whole, changed without losing anybody else's change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zvcore.errors import ConflictError, MetadataError, ReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.stores import Store

__all__ = ["ATTRIBUTES", "as_json", "change_document", "document_key", "read_document", "write_document"]

ATTRIBUTES = "attributes.json"
# How often a change begins anew in a store without locks because somebody else was quicker.
_ATTEMPTS = 100


def document_key(prefix: str = "") -> str:
    return f"{prefix}/{ATTRIBUTES}" if prefix else ATTRIBUTES


def read_document(store: Store, prefix: str = "") -> dict[str, Any] | None:
    """The attributes of a group; None where there is no file, or one that holds no object (as Java has it)."""
    key = document_key(prefix)
    return _parsed(store.get(key), key)


def _parsed(raw: bytes | memoryview | None, key: str) -> dict[str, Any] | None:
    if raw is None or not bytes(raw).strip():
        return None
    try:
        document = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        offset = error.pos if isinstance(error, json.JSONDecodeError) else None
        raise MetadataError(f"not JSON: {error}", key=key, offset=offset) from error
    return document if isinstance(document, dict) else None


def encoded(document: dict[str, Any]) -> bytes:
    # Compact and without escapes, as Java writes it.
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode()


def write_document(store: Store, document: dict[str, Any]) -> None:
    store.put(ATTRIBUTES, encoded(document))


def as_json(value: Any, what: str = "attributes") -> Any:
    """A copy of the value as JSON has it."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise MetadataError(f"{what} hold what JSON can say: {error}", key=ATTRIBUTES) from error


def _plain(value: Any) -> Any:
    """Numpy's numbers and arrays as JSON's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not")


def change_document(store: Store, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Replace the document by what `change` makes of it, so that no other writer's change is lost; the new document."""
    if store.read_only:
        raise ReadOnlyError("opened for reading; open it with mode='r+' to change attributes", key=store.root)
    if store.can_lock:
        with store.lock(ATTRIBUTES):
            document = change(read_document(store) or {})
            write_document(store, document)
        return document
    for _ in range(_ATTEMPTS):
        stamp = store.stamp(ATTRIBUTES)
        raw = None if stamp is None else store.get(ATTRIBUTES)
        document = change(_parsed(raw, ATTRIBUTES) or {})
        try:
            store.put_if_unchanged(ATTRIBUTES, encoded(document), stamp)
        except ConflictError:
            continue
        return document
    raise ConflictError("other writers keep changing the attributes", key=f"{store.root}/{ATTRIBUTES}")
