"""The object index of a level: which ids there are, and the manifest of each, in every layout that stores have."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.stores.indexes import Indexes
from zvcore.zvf.manifests import (
    Block,
    ManifestTable,
    ObjectNotFoundError,
    concatenated,
    missing_object,
    row_of,
    table_from,
)
from zvcore.zvf.nodes import Column, Node, joined_rows, read_node, require_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.stores import Snapshot, Store
    from zvcore.zarr3.bulk import Rows

__all__ = ["LAYOUTS", "ObjectIndex", "open_objects"]

Ints = npt.NDArray[np.int64]

V1, V2, DENSE, LEGACY = "vlen_manifests_v1", "vlen_manifests_v2", "dense_manifests_v1", "data + offsets"
LAYOUTS = (V1, V2, DENSE, LEGACY)

# A coordinate has 8 bytes; a rank beyond this is not one.
MAX_SID_NDIM = 32
_MOST_LAST = 8
_NOTHING: Mapping[int, ManifestTable] = {}


class ObjectIndex:
    """The objects of one level. A row is not an id: ids may have gaps and come in any order."""

    def __init__(self, node: Node, layout: str) -> None:
        self.node = node
        self.store: Store = node.store
        self.path = node.path
        self.layout = layout
        # The keys of the chunks of manifests that were read last.
        self.read_last: tuple[str, ...] = ()

    # --- what the metadata says

    @cached_property
    def sid_ndim(self) -> int:
        return self._number("sid_ndim", 0, MAX_SID_NDIM)

    @cached_property
    def declared(self) -> int:
        """How many rows the metadata says there are."""
        return self._number("num_objects", 0, 2**62)

    def _number(self, name: str, least: int, most: int) -> int:
        value = self.node.attrs.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise MetadataError(f"object_index does not say its {name}", key=self.node.key, found=repr(value))
        return value

    @cached_property
    def _manifests(self) -> Column:
        node = require_array(self.store, f"{self.path}/manifests")
        if not node.is_rows or node.ndim != 1:
            raise UnsupportedError("manifests that are not a one-dimensional array of byte strings", key=node.key)
        return node

    def __len__(self) -> int:
        """How many rows there are: after a torn append the metadata and the array may disagree."""
        if self.layout == DENSE:
            return min(self.declared, self._dense("manifest_spans").shape[0])
        return self.declared if self.layout == LEGACY else min(self.declared, self._manifests.shape[0])

    def look(self) -> None:
        """Read the documents of the arrays that every read of objects needs."""
        if self.layout in (V1, V2):
            _ = self._manifests, self._ids

    # --- ids

    @cached_property
    def _ids(self) -> Node | None:
        return read_node(self.store, f"{self.path}/object_ids") if self.layout in (V2, DENSE) else None

    @cached_property
    def ids(self) -> Ints:
        """The id of each row."""
        if self.layout in (V2, DENSE):
            node = self._ids
            if isinstance(node, Column):
                if node.ndim != 1 or node.dtype.kind not in "iu":
                    raise UnsupportedError("object_ids are not one-dimensional integers", key=node.key)
                ids = node.read_numbers(len(self))
                if len(ids) < len(self):
                    raise CorruptDataError(
                        "fewer object ids than manifests", key=node.key, expected=len(self), found=len(ids)
                    )
                return ids.astype(np.int64)
            if self.layout == V2:
                raise NotFoundError("the table of object ids is missing", key=f"{self.path}/object_ids")
        return np.arange(len(self), dtype=np.int64)

    @cached_property
    def _order(self) -> Ints | None:
        """What sorts the ids; None if they are sorted."""
        sorted_already = len(self.ids) < 2 or bool((self.ids[1:] >= self.ids[:-1]).all())
        return None if sorted_already else np.argsort(self.ids, kind="stable")

    def rows(self, ids: Any) -> Ints:
        """The row of each id, -1 for one that is not there."""
        return row_of(self.ids, self._order, np.asarray(ids, np.int64))

    def rows_of_all(self, ids: Any) -> Ints:
        """The row of each id; one that is not there raises."""
        wanted = id_array(ids)
        rows = self.rows(wanted)
        if len(rows) and rows.min() < 0:
            raise missing_object(wanted[np.argmin(rows)], len(self), self.path)
        return rows

    def _read_ahead(self, wanted: Ints) -> dict[int, ManifestTable]:
        """Far away, together with the ids, which are needed first: the chunks of manifests that are likely to be wanted
        next, since rows are mostly ids.
        """
        if not self.store.remote or "ids" in vars(self) or self.layout not in (V1, V2) or not len(wanted):
            return {}
        if not 0 <= wanted.min() <= wanted.max() < len(self):
            return {}
        chunks: list[int] = np.unique(wanted // self._manifests.chunk[0])[:_MOST_LAST].tolist()
        found = self.store.each(self._read_quietly, [None, *chunks])[1:]
        return {chunk: table for chunk, table in zip(chunks, found, strict=True) if table is not None}

    def _read_quietly(self, chunk: int | None) -> ManifestTable | None:
        """A chunk of manifests, or the ids. What is wrong is told to whoever needs them."""
        with suppress(ZvcoreError):
            if chunk is not None:
                return self._chunk(chunk)
            _ = self.ids
        return None

    # --- manifests

    def manifest(self, object_id: int) -> ManifestTable:
        """A table of one row: the object's manifest."""
        ahead = self._read_ahead(np.array([operator.index(object_id)]))
        return self.table([self._row(object_id)], ahead)

    def manifests(self, ids: Any) -> ManifestTable:
        """The manifests of these objects; one that is not there raises."""
        wanted = id_array(ids)
        ahead = self._read_ahead(wanted)
        return self.table(self.rows_of_all(wanted), ahead)

    def blocks(self, object_id: int) -> list[Block]:
        """The object's manifest as a list; microseconds when its chunk has been read before."""
        row = self._row(object_id)
        if self.layout not in (V1, V2):
            return self.table([row])[0]
        chunk, local = divmod(row, self._manifests.chunk[0])
        return self._chunk(chunk)[local]

    def _row(self, object_id: int) -> int:
        """The row of an id. In most stores it is the id, which is looked at first."""
        wanted = operator.index(object_id)
        ids = self.ids
        if 0 <= wanted < len(ids) and ids[wanted] == wanted:
            return wanted
        return int(self.rows_of_all([wanted])[0])

    def table(self, rows: Any = None, ahead: Mapping[int, ManifestTable] = _NOTHING) -> ManifestTable:
        """The manifests of these rows, or of all. Damaged ones are in the table's `damaged`.

        `ahead`: chunks of them that have been read.
        """
        if rows is None:
            return self._whole()
        rows = np.asarray(rows, np.int64)
        if self.layout not in (V1, V2):
            return self._whole().select(rows)
        if not len(rows):
            return concatenated([], self.sid_ndim).with_ids(self.ids[:0])
        size = self._manifests.chunk[0]
        chunks = np.unique(rows // size)
        if len(chunks) == 1:
            table = ahead.get(int(chunks[0])) or self._chunk(int(chunks[0]))
            local = rows - chunks[0] * size
            if len(rows) == 1:
                table = table[int(local[0]) : int(local[0]) + 1]
            elif len(rows) != len(table) or not np.array_equal(local, np.arange(len(table))):
                table = table.select(local)
        else:
            number = rows // size
            parts = [np.flatnonzero(number == chunk) for chunk in chunks]
            tables = [
                (ahead.get(int(chunk)) or self._chunk(int(chunk))).select(rows[part] - chunk * size)
                for chunk, part in zip(chunks, parts, strict=True)
            ]
            order = np.argsort(np.concatenate(parts), kind="stable")
            table = concatenated(tables)
            if not np.array_equal(order, np.arange(len(order))):
                table = table.select(order)
        return table.with_ids(self.ids[rows])

    def _chunk(self, chunk: int) -> ManifestTable:
        """The manifests of one chunk of the array; decoded once as long as its object does not change."""
        node = self._manifests
        key = node.layout.chunk_name((chunk,))
        in_shard = node.shard is not None

        def read(key: str, found: Snapshot) -> tuple[ManifestTable, int]:
            rows = node.row_chunk(chunk, None if in_shard else found.data)
            table = self._located(table_from(*rows, self.sid_ndim, keep_damaged=True), chunk)
            return table, table.nbytes

        # The shape takes part: an append lengthens the last chunk's use without touching what is in it.
        part = ("manifests", chunk, node.shape, self.sid_ndim)
        if key not in self.read_last:
            self.read_last = (key, *self.read_last)[:_MOST_LAST]
        # Of a shard, only the stamp is needed here.
        found = Indexes(self.store, (0, 0 if in_shard else None), read, part).of(key)
        if found is not None:
            return found
        rows = min(node.chunk[0], node.shape[0] - chunk * node.chunk[0])
        empty = np.zeros(rows, np.int64)
        return table_from(np.zeros(0, np.uint8), empty, empty, self.sid_ndim)

    def _located(self, table: ManifestTable, chunk: int) -> ManifestTable:
        for row, error in table.damaged.items():
            error.chunk = None
            error.located(key=f"{self.path}/manifests", chunk=f"row {row + chunk * self._manifests.chunk[0]}")
        return table

    def _whole(self) -> ManifestTable:
        if self.layout == DENSE:
            return self._dense_table().with_ids(self.ids)
        if self.layout == LEGACY:
            return self._legacy_table().with_ids(self.ids)
        node = self._manifests
        count = -(-len(self) // node.chunk[0])
        if count <= 4:
            ahead = self._read_ahead(np.arange(count) * node.chunk[0])
            table = concatenated([ahead.get(chunk) or self._chunk(chunk) for chunk in range(count)], self.sid_ndim)
            return (table if len(table) == len(self) else table[: len(self)]).with_ids(self.ids)
        table = self._located(table_from(*node.read_rows(len(self)), self.sid_ndim, keep_damaged=True), 0)
        return table.with_ids(self.ids)

    def blobs(self) -> list[bytes]:
        """The stored manifests, one per row."""
        if self.layout == DENSE:
            raise UnsupportedError("this layout stores no manifest blobs", key=self.path)
        data, starts, lengths = self._legacy_rows() if self.layout == LEGACY else self._manifests.read_rows(len(self))
        view = data.data
        return [bytes(view[a : a + n]) for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]

    # --- the other layouts

    def _dense(self, name: str) -> Column:
        node = require_array(self.store, f"{self.path}/{name}")
        if node.ndim != 2 or node.dtype.kind not in "iu":
            raise UnsupportedError(f"{name} is not a table of integers", key=node.key)
        return node

    def _dense_table(self) -> ManifestTable:
        spans = self._dense("manifest_spans").read_numbers(len(self)).astype(np.int64)
        blocks = self._dense("manifest_blocks").read_numbers().astype(np.int64)
        if spans.shape[1:] != (2,) or blocks.shape[1:] != (self.sid_ndim + 1,):
            raise MetadataError(
                "manifest_spans has 2 columns and manifest_blocks one more than coordinates", key=self.node.key,
                found=f"{spans.shape} and {blocks.shape}",
            )  # fmt: skip
        start, count = spans.T
        wrong = (start < 0) | (count < 0) | (count > len(blocks)) | (start > len(blocks) - count)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise CorruptDataError(
                "a span leaves the blocks", key=f"{self.path}/manifest_spans", chunk=f"row {row}",
                expected=f"within {len(blocks)}", found=f"{count[row]} from {start[row]}",
            )  # fmt: skip
        offsets = np.zeros(len(spans) + 1, np.int64)
        np.cumsum(count, out=offsets[1:])
        # Spans may share blocks, so their sum is checked against the blocks that there are.
        if offsets[-1] > 2**31:
            raise CorruptDataError("spans of more than 2**31 blocks", key=f"{self.path}/manifest_spans")
        at = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], count)
        coords = np.ascontiguousarray(blocks[at, :-1])
        return ManifestTable(offsets, coords, None, np.ascontiguousarray(blocks[at, -1]), None, np.zeros(0, np.int64))

    def _legacy_rows(self) -> Rows:
        where = f"{self.path}/offsets"
        rows = joined_rows(require_array(self.store, f"{self.path}/data"), require_array(self.store, where))
        if len(rows[1]) != len(self):
            raise CorruptDataError("not 8 bytes per object", key=where, expected=len(self), found=len(rows[1]))
        return rows

    def _legacy_table(self) -> ManifestTable:
        table = table_from(*self._legacy_rows(), self.sid_ndim, keep_damaged=True)
        for row, error in table.damaged.items():
            error.chunk = None
            error.located(key=f"{self.path}/data", chunk=f"row {row}")
        return table


def id_array(ids: Any) -> Ints:
    """Object ids as users give them."""
    array = np.asarray(ids)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"object ids are a sequence of integers, got {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "u" and array.max() > 2**63 - 1:
        raise ObjectNotFoundError(f"Object ID {array.max()} is not in this level")
    return array.astype(np.int64)


def open_objects(store: Store, level: str) -> ObjectIndex | None:
    """The object index of a level, None if it has none. A layout that is not known is refused by name."""
    path = f"{level}/object_index"
    node = read_node(store, path)
    if node is None:
        return None
    if node.is_array:
        raise UnsupportedError("object_index is an array: the layout before 0.6", key=node.key)
    layout = node.attrs.get("layout")
    if layout is None:
        folders = set(store.list_dir(path)[0])
        if {"data", "offsets"} <= folders:
            return ObjectIndex(node, LEGACY)
        if "manifest_spans" in folders and "manifests" not in folders:
            return ObjectIndex(node, DENSE)
        if not folders and "sid_ndim" not in node.attrs:
            return None
        raise UnsupportedError(f"an object index without a layout, of {sorted(folders)}", key=node.key)
    if layout not in (V1, V2, DENSE):
        raise UnsupportedError(f"object index layout {layout!r}; known are {', '.join(LAYOUTS)}", key=node.key)
    return ObjectIndex(node, layout)
