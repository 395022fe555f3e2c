"""Zarr v3 nodes as Zarr Vectors use them: groups with attributes, and arrays of byte strings or numbers.

How an array is stored is the business of `zvcore.zarr3`; here it has its place in a store, and its attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.cached import cached_property
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError
from zvcore.zarr3 import bulk
from zvcore.zarr3.metadata import DOCUMENT, ArrayMetadata, parse_document, read_document
from zvcore.zarr3.sharding import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from zvcore.stores import Store
    from zvcore.zarr3.layout import ChunkLayout
    from zvcore.zarr3.sharding import ShardLayout

__all__ = ["Column", "Node", "child_nodes", "join", "joined_rows", "read_node", "require_array"]


def join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


@dataclass
class Node:
    """A group or an array: its zarr.json."""

    store: Store
    path: str
    document: dict[str, Any]

    @property
    def attrs(self) -> dict[str, Any]:
        attributes: dict[str, Any] = self.document.get("attributes") or {}
        return attributes

    @property
    def is_array(self) -> bool:
        return self.document.get("node_type") == "array"

    @property
    def key(self) -> str:
        return join(self.path, DOCUMENT)

    def child(self, name: str) -> Node | None:
        return read_node(self.store, join(self.path, name))


def read_node(store: Store, path: str) -> Node | None:
    """The node at a path, None if there is none. A fault of an array is raised when it is used."""
    document = read_document(store, path)
    if document is None:
        return None
    key = join(path, DOCUMENT)
    if document.get("node_type") not in ("group", "array"):
        raise MetadataError("not the metadata of a Zarr v3 group or array", key=key)
    if document.get("zarr_format") != 3:
        raise UnsupportedError(f"zarr_format {document.get('zarr_format')!r}", key=key)
    if not isinstance(document.get("attributes", {}), dict):
        raise MetadataError("attributes must be an object", key=key)
    return (Column if document["node_type"] == "array" else Node)(store, path, document)


def require_array(store: Store, path: str) -> Column:
    node = read_node(store, path)
    if not isinstance(node, Column):
        raise NotFoundError("there is no such array", key=path)
    return node


def child_nodes(store: Store, path: str) -> Iterator[Node]:
    """The nodes right below a group, in order of name."""
    for name in store.list_dir(path)[0]:
        node = read_node(store, join(path, name))
        if node is not None:
            yield node


class Column(Node):
    """An array of byte strings (`is_rows`) or of numbers, as Zarr v3 has it: in chunks, perhaps packed into shards."""

    @cached_property
    def metadata(self) -> ArrayMetadata:
        found = parse_document(self.document, self.key)
        assert isinstance(found, ArrayMetadata)
        return replace(found, folder=self.path)

    @cached_property
    def layout(self) -> ChunkLayout | ShardLayout:
        """Where the chunks are. Its keys begin at the root of the store."""
        return layout_of(self.store, self.metadata)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.metadata.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def chunk(self) -> tuple[int, ...]:
        """The shape of what is encoded by itself: a chunk, or an inner chunk of a shard."""
        return self.layout.form.shape

    @property
    def shard(self) -> tuple[int, ...] | None:
        """The shape of a shard, None if there are none."""
        return self.layout.shard_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the items, in native byte order."""
        return self.metadata.data_type.dtype

    @property
    def is_rows(self) -> bool:
        return self.metadata.data_type.kind == "bytes" and not self.layout.pipeline.innermost.filters

    @property
    def compressor(self) -> list[Any]:
        """The codecs from bytes to bytes of a chunk, as the metadata list them."""
        return list(self.layout.pipeline.innermost.compressors)

    def read_numbers(self, stop: int | None = None) -> npt.NDArray[Any]:
        """All numbers, in native byte order; of the first axis only `stop` rows."""
        return bulk.read_numbers(self.layout, stop)

    def read_bytes(self) -> npt.NDArray[np.uint8]:
        """All of a one-dimensional array of bytes."""
        if self.ndim != 1 or self.dtype.itemsize != 1:
            raise UnsupportedError("not a one-dimensional array of bytes", key=self.key)
        return self.read_numbers().view(np.uint8)

    def read_rows(self, stop: int | None = None) -> bulk.Rows:
        """All byte strings of a one-dimensional array: (bytes, starts, lengths)."""
        self._expect_rows()
        return bulk.read_rows(self.layout, stop)

    def row_chunk(self, chunk: int, stored: bytes | memoryview | None = None) -> bulk.Rows:
        """The byte strings of one chunk of a one-dimensional array; of what is `stored` of it, where it is at hand."""
        self._expect_rows()
        return bulk.read_row_chunk(self.layout, chunk, stored)

    def _expect_rows(self) -> None:
        if not self.is_rows or self.ndim != 1:
            raise UnsupportedError("not a one-dimensional array of byte strings", key=self.key)


def joined_rows(data: Column, offsets: Column) -> bulk.Rows:
    """Byte strings of before 0.9: one array of all bytes, and one of where each begins, 8 bytes each."""
    raw, table = data.read_bytes(), offsets.read_bytes().tobytes()
    if len(table) % 8:
        raise CorruptDataError("offsets are 8 bytes each", key=offsets.path, found=len(table))
    starts = np.frombuffer(table, "<i8").astype(np.int64)
    ends = np.append(starts[1:], len(raw))[: len(starts)]
    wrong = (ends < starts) | (starts < 0) | (starts > len(raw))
    if len(starts) and (starts[0] != 0 or wrong.any()):
        row = 0 if starts[0] != 0 else int(np.argmax(wrong))
        raise CorruptDataError(
            "offsets must begin at 0, not decrease and stay within the data", key=offsets.path, chunk=f"row {row}",
            expected=f"at most {len(raw)}", found=f"{starts[row]}..{ends[row]}",
        )  # fmt: skip
    return raw, starts, ends - starts
