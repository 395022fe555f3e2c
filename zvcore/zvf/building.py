"""One level of a store, written array by array: cells in order of chunk, packed into shards on the way if wanted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.codecs.chain import CodecChain
from zvcore.engine import encode_many
from zvcore.kernels import vlen
from zvcore.zarr3.shard_format import ShardAssembler
from zvcore.zarr3.shard_index import ShardIndexForm
from zvcore.zvf.cells import coords_key
from zvcore.zvf.documents import ZSTD, array_document, group_document, number_document, plain
from zvcore.zvf.nodes import document_bytes, join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.stores import Store
    from zvcore.zvf.manifests import ManifestTable

__all__ = ["CellWriter", "LevelBuilder", "Target"]

Ints = npt.NDArray[np.int64]

MANIFEST_ROWS = 16384
ATTRIBUTE_ROWS = 65536
_BATCH_CELLS = 4096


class Target:
    """Where a new level is put: a folder that nobody reads yet, or keys of a store that is no folder."""

    def __init__(self, store: Store, folder: bytes | None, prefix: str) -> None:
        self._store = store
        self._folder = folder
        self._prefix = prefix
        self._made: set[bytes] = set()

    def put(self, key: str, parts: Sequence[Any]) -> None:
        if self._folder is None:
            self._store.put(join(self._prefix, key), list(parts))
            return
        path = os.path.join(self._folder, os.fsencode(key))
        folder = os.path.dirname(path)
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)
            self._made.add(folder)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666), "wb", 0) as file:
            for part in parts:
                view = memoryview(part).cast("B") if len(part) else memoryview(b"")
                while len(view):
                    view = view[file.write(view) :]

    def put_document(self, path: str, document: Mapping[str, Any]) -> None:
        self.put(join(path, "zarr.json"), [document_bytes(document)])


class LevelBuilder:
    """Writes the arrays of one level into a target.

    grid, origin  the chunk grid of every per-chunk array
    compressor    codecs after `vlen-bytes`, as metadata has them
    shard         the shape of a shard in chunks, or None
    """

    def __init__(
        self, target: Target, grid: Sequence[int], origin: Sequence[int], compressor: Sequence[Mapping[str, Any]],
        shard: Sequence[int] | None,
    ) -> None:  # fmt: skip
        self.target = target
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
            self.target.put_document(path, group_document(attributes))

    def cells(self, path: str, attributes: Mapping[str, Any]) -> CellWriter:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            self.group("/".join(parts[:depth]))
        return CellWriter(self, path, attributes)

    # --- rows ---------------------------------------------------------------------------------------------------

    def byte_rows(self, path: str, data: Any, offsets: Ints, chunk: int, attributes: Mapping[str, Any]) -> None:
        """A one-dimensional array of byte strings, `chunk` rows to an object, compressed as Zarr does by default."""
        count = len(offsets) - 1
        chain = CodecChain([codecs.from_zarr3(ZSTD)])
        for number in range(-(-count // chunk)):
            part = offsets[number * chunk : (number + 1) * chunk + 1]
            # Chunks at the end are as long as all others.
            padded = np.concatenate([part, np.full(chunk + 1 - len(part), part[-1])]).astype(np.int64)
            encoded = encode_many([vlen.join_rows(data, padded)], chain)[0]
            self.target.put(f"{path}/c/{number}", [encoded])
        self.target.put_document(path, array_document([count], [chunk], [ZSTD], attributes))

    def number_rows(
        self, path: str, values: npt.NDArray[Any], fill_value: Any, attributes: Mapping[str, Any], chunk: int,
        compress: bool,
    ) -> None:  # fmt: skip
        """An array of numbers, `chunk` rows to an object."""
        stored = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        chain = CodecChain([codecs.from_zarr3(ZSTD)] if compress else [])
        fill = np.array(np.nan if fill_value == "NaN" else fill_value).astype(stored.dtype)
        for number in range(-(-len(stored) // chunk)):
            rows = stored[number * chunk : (number + 1) * chunk]
            whole = np.full((chunk, *stored.shape[1:]), fill, stored.dtype)
            whole[: len(rows)] = rows
            key = join(f"{path}/c", str(number), *["0"] * (stored.ndim - 1))
            self.target.put(key, [encode_many([whole.tobytes()], chain)[0]])
        shape = [chunk, *stored.shape[1:]]
        document = number_document(
            stored.shape, shape, values.dtype, fill_value, attributes, [ZSTD] if compress else []
        )
        self.target.put_document(path, document)

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
            self.number_rows(f"{family}/{name}", values, 0, attributes, max(len(values), 1), compress=True)
            return
        fill: Any = "NaN" if dtype.kind == "f" else False if dtype.kind == "b" else (
            int(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)
        )  # fmt: skip
        attributes["fill_sentinel_meaning"] = "absent"
        self.number_rows(f"{family}/{name}", values, fill, attributes, ATTRIBUTE_ROWS, compress=True)

    def groups(self, groups: Mapping[int, Any]) -> None:
        count = max(groups) + 1
        rows = [np.asarray(list(groups.get(number, ())), "<i8").tobytes() for number in range(count)]
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        attributes = {"zv_array": "groups", "num_groups": count}
        self.byte_rows("groups", b"".join(rows), offsets, min(count, MANIFEST_ROWS), attributes)


class CellWriter:
    """One per-chunk array. Cells come in the builder's order; nothing is in place before `close`."""

    def __init__(self, builder: LevelBuilder, path: str, attributes: Mapping[str, Any]) -> None:
        self._builder = builder
        self._path = path
        self._attributes = dict(attributes)
        self._chain = CodecChain([codecs.from_zarr3(codec) for codec in builder.compressor])
        self._pending: list[tuple[tuple[int, ...], Any]] = []
        self._pending_bytes = 0
        self._present: list[tuple[int, ...]] = []
        self._shard: tuple[int, ...] | None = None
        # The form of shards, and of the one that is being written: places in its index, and chunks.
        self._form = None if builder.shard is None else ShardIndexForm(builder.shard)
        self._places: list[int] = []
        self._parts: list[bytes] = []

    def add(self, chunk: Sequence[int], payload: Any) -> None:
        """One cell; an empty payload is not stored."""
        if not len(payload):
            return
        size = len(payload)
        header = (1).to_bytes(4, "little") + size.to_bytes(4, "little") if size < 2**32 else b""
        if not header:
            raise ValueError(f"{self._path}: chunk {tuple(chunk)} takes {size} bytes; a cell holds less than 4 GiB")
        self._pending.append((tuple(chunk), header + bytes(payload)))
        self._pending_bytes += size
        if len(self._pending) >= _BATCH_CELLS or self._pending_bytes > 32 << 20:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        cells: Sequence[Any] = [payload for _, payload in pending]
        if len(self._chain):
            encoded = encode_many(cells, self._chain)
            cells = [encoded[i] for i in range(len(pending))]
        origin = self._builder.origin
        positions = [tuple(c - o for c, o in zip(chunk, origin, strict=True)) for chunk, _ in pending]
        self._present.extend(chunk for chunk, _ in pending)
        if self._builder.shard is None:
            target = self._builder.target
            for position, cell in zip(positions, cells, strict=True):
                target.put(f"{self._path}/c/" + "/".join(map(str, position)), [cell])
            return
        for position, cell in zip(positions, cells, strict=True):
            self._add_to_shard(position, bytes(cell))

    def _add_to_shard(self, position: tuple[int, ...], cell: bytes) -> None:
        assert self._form is not None
        shape = self._form.chunks
        shard = tuple(p // s for p, s in zip(position, shape, strict=True))
        if shard != self._shard:
            self._close_shard()
            self._shard = shard
        self._places.append(int(np.ravel_multi_index([p % s for p, s in zip(position, shape, strict=True)], shape)))
        self._parts.append(cell)

    def _close_shard(self) -> None:
        if self._shard is None or self._form is None:
            return
        assembler = ShardAssembler(self._form)
        assembler.add(np.array(self._places, np.int64), [len(part) for part in self._parts])
        key = f"{self._path}/c/" + "/".join(map(str, self._shard))
        self._builder.target.put(key, assembler.finish(self._parts))
        self._places, self._parts, self._shard = [], [], None

    def close(self) -> None:
        self._flush()
        self._close_shard()
        builder = self._builder
        attributes: dict[str, Any] = {"nonempty_chunks": sorted(map(coords_key, self._present))}
        if any(builder.origin):
            attributes["chunk_grid_origin"] = plain(list(builder.origin))
        attributes |= self._attributes
        document = array_document(builder.grid, [1] * len(builder.grid), builder.compressor, attributes, builder.shard)
        builder.target.put_document(self._path, document)
