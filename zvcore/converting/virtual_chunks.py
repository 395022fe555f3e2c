"""References written into a transactional store, such as Icechunk's: Zarr v3 whose chunks lie where they are."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from zvcore.converting.in_place import migrate
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.stores import Store

__all__ = ["takes_virtual_chunks", "write_virtual_chunks"]

_DOCUMENT = "zarr.json"
_AT_ONCE = 10_000
_KEYS = {"name": "default", "configuration": {"separator": "/"}}
_AXES = "_ARRAY_DIMENSIONS"


def takes_virtual_chunks(store: Store) -> bool:
    """Whether a store can say of a chunk that it lies elsewhere."""
    return hasattr(getattr(store, "given", None), "set_virtual_refs")


def write_virtual_chunks(entries: Iterable[tuple[str, Any]], store: Store) -> int:
    """Write references (`.zarray`, then `.zattrs`, then chunks of each array) as Zarr v3; how many chunks there are."""
    if store.exists(_DOCUMENT):
        raise ConflictError("there is data already", key=f"{store.root}/{_DOCUMENT}")
    writing = _Writing(store)
    for key, value in entries:
        above, _, name = key.rpartition("/")
        if name in (".zgroup", ".zarray", ".zattrs"):
            writing.document(above, name, value)
        else:
            writing.chunk(above, name, value)
    writing.finish()
    return writing.count


class _Writing:
    """What is being written: one group or array after the other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._given: Any = getattr(store, "given", None)
        self.count = 0
        self._here = ""
        self._documents: dict[str, str] = {}
        self._chunks: list[tuple[tuple[int, ...], str, int, int]] = []
        self._rank = 0

    def document(self, above: str, name: str, text: str) -> None:
        if name != ".zattrs" or above != self._here:
            self.finish()
        self._here = above
        self._documents[name] = text
        if name == ".zattrs":
            self._describe()

    def chunk(self, above: str, name: str, value: Any) -> None:
        place = tuple(map(int, name.split("."))) if self._rank else ()
        self.count += 1
        if isinstance(value, str):
            key = "/".join(filter(None, [above, "c", *map(str, place)]))
            self._store.put(key, base64.b64decode(value.removeprefix("base64:")))
            return
        self._chunks.append((place, *value))
        if len(self._chunks) >= _AT_ONCE:
            self._refer()

    def finish(self) -> None:
        self._describe()
        self._refer()

    def _describe(self) -> None:
        if not self._documents:
            return
        found, self._documents = self._documents, {}
        attrs = json.loads(found.get(".zattrs", "{}"))
        if ".zarray" in found:
            axes = attrs.pop(_AXES, None)
            document = _newer({**found, ".zattrs": json.dumps(attrs)})
            document["chunk_key_encoding"] = _KEYS
            if axes is not None:
                document["dimension_names"] = axes
            self._rank = len(document["shape"])
        else:
            document = {"zarr_format": 3, "node_type": "group", "attributes": attrs}
        key = f"{self._here}/{_DOCUMENT}".lstrip("/")
        self._store.put(key, json.dumps(document).encode())

    def _refer(self) -> None:
        chunks, self._chunks = self._chunks, []
        if not chunks:
            return
        path = "/".join(filter(None, [getattr(self._store, "prefix", "").strip("/"), self._here]))
        refused = self._given.set_virtual_refs(f"/{path}", [_spec(*chunk) for chunk in chunks])
        if refused:
            address = next(where for place, where, _, _ in chunks if place == tuple(refused[0]))
            raise UnsupportedError(
                "the repository has no container for virtual chunks that lie here; its configuration has to name one",
                key=address,
            )


def _spec(place: tuple[int, ...], address: str, offset: int, length: int) -> Any:
    import icechunk

    return icechunk.VirtualChunkSpec(list(place), address, offset, length)


def _newer(documents: dict[str, str]) -> dict[str, Any]:
    """The documents of an array in the words of the newest version of Zarr."""
    memory = MemoryStore()
    for name, text in documents.items():
        memory.put(name, text.encode())
    migrate(memory)
    found: dict[str, Any] = json.loads(bytes(memory.get(_DOCUMENT) or b"{}"))
    return found
