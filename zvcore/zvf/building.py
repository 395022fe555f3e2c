"""One level of a store, written array by array: cells in order of chunk, packed into shards on the way if wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from zvcore import documents
from zvcore.engine import encode_many
from zvcore.transfer import OrderedWriter
from zvcore.zarr3 import bulk
from zvcore.zarr3.composing import group_document
from zvcore.zarr3.metadata import DOCUMENT
from zvcore.zvf.cells import coords_key
from zvcore.zvf.composing import ZSTD, numbers_document, rows_document
from zvcore.zvf.nodes import Column, join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from zvcore.stores import Store
    from zvcore.zvf.manifests import ManifestTable

__all__ = ["CellWriter", "LevelBuilder"]

Ints = npt.NDArray[np.int64]

MANIFEST_ROWS = 16384
ATTRIBUTE_ROWS = 65536
_BATCH_CELLS = 4096
_BATCH_BYTES = 32 << 20


class LevelBuilder:
    """Writes the arrays of one level into a store that has no readers yet, the level at its root.

    grid, origin  the chunk grid of every per-chunk array
    compressor    codecs after `vlen-bytes`, as metadata have them
    shard         the shape of a shard in chunks, or None
    """

    def __init__(
        self, store: Store, grid: Sequence[int], origin: Sequence[int], compressor: Sequence[Mapping[str, Any]],
        shard: Sequence[int] | None,
    ) -> None:  # fmt: skip
        self.store = store
        self.grid = tuple(grid)
        self.origin = tuple(origin)
        self.compressor = list(compressor)
        self.shard = None if shard is None else tuple(shard)
        self._groups: set[str] = set()

    def order(self, chunks: Ints) -> Ints:
        """How to sort chunks so that shards can be written one after the other."""
        cells = chunks - np.array(self.origin, np.int64)
        if self.shard is None:
            return np.lexsort(cells.T[::-1])
        outer = cells // np.array(self.shard, np.int64)
        return np.lexsort((*cells.T[::-1], *outer.T[::-1]))

    def group(self, path: str, attributes: Mapping[str, Any] | None = None) -> None:
        if path not in self._groups or attributes is not None:
            self._groups.add(path)
            self.put_document(path, group_document(attributes))

    def cells(self, path: str, attributes: Mapping[str, Any]) -> CellWriter:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            self.group("/".join(parts[:depth]))
        return CellWriter(self, path, attributes)

    def put_document(self, path: str, document: dict[str, Any]) -> None:
        self.store.put(join(path, DOCUMENT), documents.encode(document))

    # --- rows ---------------------------------------------------------------------------------------------------

    def byte_rows(self, path: str, data: Any, offsets: Ints, chunk: int, attributes: Mapping[str, Any]) -> None:
        """A one-dimensional array of byte strings, `chunk` rows to an object, compressed as Zarr does by default."""
        document = rows_document([len(offsets) - 1], [chunk], [ZSTD], attributes)
        bulk.write_rows(Column(self.store, path, document).layout, data, offsets)
        self.put_document(path, document)

    def number_rows(
        self, path: str, values: npt.NDArray[Any], fill_value: Any, attributes: Mapping[str, Any], chunk: int,
        compress: bool = True,
    ) -> None:  # fmt: skip
        """An array of numbers, `chunk` rows to an object."""
        chunks = [chunk, *values.shape[1:]]
        document = numbers_document(values, chunks, fill_value, attributes, [ZSTD] if compress else [])
        bulk.write_numbers(Column(self.store, path, document).layout, values)
        self.put_document(path, document)

    def object_index(self, table: ManifestTable) -> None:
        """Manifests and ids; rows must be in order of id."""
        data, offsets = table.encoded()
        self.byte_rows("object_index/manifests", data.data, offsets, MANIFEST_ROWS, {})
        self.number_rows("object_index/object_ids", table.object_ids, 0, {}, ATTRIBUTE_ROWS, compress=False)
        ids = table.object_ids
        self.group("object_index", {
            "zv_array": "object_index", "num_objects": len(table), "num_present": int(table.present.sum()),
            "sid_ndim": table.sid_ndim, "layout": "vlen_manifests_v2",
            "object_ids_sorted": bool((ids[1:] >= ids[:-1]).all()),
        })  # fmt: skip

    def object_attribute(self, name: str, values: npt.NDArray[Any], family: str = "object_attributes") -> None:
        dtype = values.dtype.newbyteorder("=")
        if dtype.kind not in "fiub":
            raise TypeError(f"{family} are numbers; {name!r} is {values.dtype}")
        attributes = {"zv_array": "object_attribute", "name": name, "dtype": dtype.name, "shape": list(values.shape)}
        self.group(family)
        if family == "group_attributes":
            attributes["zv_array"] = "groupings_attribute"
            none = False if dtype.kind == "b" else 0
            self.number_rows(f"{family}/{name}", values, none, attributes, max(len(values), 1))
            return
        fill: Any = "NaN" if dtype.kind == "f" else False if dtype.kind == "b" else (
            int(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)
        )  # fmt: skip
        attributes["fill_sentinel_meaning"] = "absent"
        self.number_rows(f"{family}/{name}", values, fill, attributes, ATTRIBUTE_ROWS)

    def groups(self, groups: Mapping[int, Any]) -> None:
        count = max(groups) + 1
        rows = [np.asarray(list(groups.get(number, ())), "<i8").tobytes() for number in range(count)]
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        attributes = {"zv_array": "groups", "num_groups": count}
        self.byte_rows("groups", b"".join(rows), offsets, min(count, MANIFEST_ROWS), attributes)


class CellWriter:
    """One per-chunk array. Cells come in the builder's order; its document comes when it is left without an error."""

    def __init__(self, builder: LevelBuilder, path: str, attributes: Mapping[str, Any]) -> None:
        self._builder = builder
        self._path = path
        self._document = rows_document(
            builder.grid, [1] * len(builder.grid), builder.compressor, attributes, builder.shard
        )
        layout = Column(builder.store, path, self._document).layout
        self._chain = layout.chains[0]
        self._writer = OrderedWriter(layout)
        self._chunks: list[tuple[int, ...]] = []
        self._cells: list[bytes] = []
        self._bytes = 0
        self._present: list[Ints] = []

    def add(self, chunk: Sequence[int], payload: Any) -> None:
        """One cell; an empty payload is not stored."""
        size = len(payload)
        if not size:
            return
        if size >= 2**32:
            raise ValueError(f"{self._path}: chunk {tuple(chunk)} takes {size} bytes; a cell holds less than 4 GiB")
        self._chunks.append(tuple(chunk))
        self._cells.append((1).to_bytes(4, "little") + size.to_bytes(4, "little") + bytes(payload))
        self._bytes += size
        if len(self._cells) >= _BATCH_CELLS or self._bytes > _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._cells:
            return
        chunks = np.array(self._chunks, np.int64)
        self._present.append(chunks)
        self._writer.add(chunks - np.array(self._builder.origin, np.int64), encode_many(self._cells, self._chain))
        self._chunks, self._cells, self._bytes = [], [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.__exit__(kind, error, trace)
            return
        with self._writer:
            self._flush()
        self._put_document()

    def _put_document(self) -> None:
        origin, attributes = self._builder.origin, self._document["attributes"]
        listed = sorted(coords_key(chunk) for part in self._present for chunk in part.tolist())
        placed = {"chunk_grid_origin": documents.as_json(list(origin), "chunk_grid_origin")} if any(origin) else {}
        self._document["attributes"] = {"nonempty_chunks": listed, **placed, **attributes}
        self._builder.put_document(self._path, self._document)
