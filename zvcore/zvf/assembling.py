"""From batches to a level: chunk by chunk, what was there and what is new, then everything that hangs on objects."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import UnsupportedError
from zvcore.kernels import fragments as fragment_kernel
from zvcore.zvf.batches import Batch, Fragments, Spool
from zvcore.zvf.building import LevelBuilder
from zvcore.zvf.cells import GridCells
from zvcore.zvf.composing import compressor_codecs, level_attributes
from zvcore.zvf.inputs import GivenAttribute
from zvcore.zvf.linkwriting import LinkCollector
from zvcore.zvf.manifests import ManifestTable
from zvcore.zvf.merging import as_stored, merged_group_attributes, merged_groups
from zvcore.zvf.repacking import shard_shape_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zvcore.stores import Store
    from zvcore.zvf.building import CellWriter
    from zvcore.zvf.cells import Cells
    from zvcore.zvf.inputs import Belongings
    from zvcore.zvf.jobs import Job
    from zvcore.zvf.vector_store import Level

__all__ = ["Assembler", "Old"]

Ints = npt.NDArray[np.int64]

# Chunks whose cells are read and written together.
_GROUP = 1024


class Old:
    """The level that is being added to."""

    def __init__(self, level: Level) -> None:
        self.level = level
        if not isinstance(level.vertices, GridCells):
            raise UnsupportedError(f"format {level.parent.version} can be read, not appended to", key=level.path)
        if level.grid_ndim != level.ndim:
            raise UnsupportedError("a level chunked by an attribute can be read, not appended to", key=level.path)
        self.node = level.vertices.node
        self.chunks = level.chunks()
        self.objects = level.objects
        self.attributes = {name: level.attribute_cells(name) for name in level.attribute_names()}
        if level.fragment_attribute_names():
            raise UnsupportedError("a level with fragment attributes cannot be appended to", key=level.path)
        self._bases: dict[tuple[int, ...], tuple[int, int]] = {}
        self._known = set(map(tuple, self.chunks.tolist()))

    @property
    def next_id(self) -> int:
        return 0 if self.objects is None or not len(self.objects) else int(self.objects.ids.max()) + 1

    def bases(self, chunks: Ints) -> Iterator[tuple[int, int]]:
        """(rows, fragments) that each chunk has already."""
        asked = [c for c in map(tuple, chunks.tolist()) if c in self._known and c not in self._bases]
        if asked:
            coords = np.array(asked, np.int64)
            cells = self.level.vertices.read(coords)
            offsets = fragment_columns(self.level, self.level.fragments.read(coords))[0]
            sizes = (cells.lengths // self.level.vertex_form.row_bytes).tolist()
            self._bases.update(zip(asked, zip(sizes, np.diff(offsets).tolist(), strict=True), strict=True))
        for chunk in map(tuple, chunks.tolist()):
            yield self._bases.get(chunk, (0, 0))


class OldCells:
    """What some chunks of the level that is being added to hold."""

    def __init__(self, old: Old, chunks: Ints) -> None:
        self.level = old.level
        self.vertices = old.level.vertices.read(chunks)
        self._offsets, self._starts, self._sizes, self._listed, self.pool = fragment_columns(
            old.level, old.level.fragments.read(chunks)
        )
        self._values = {name: (grid.read(chunks), form.dtype) for name, (grid, form) in old.attributes.items()}

    def fragments(self, k: int) -> tuple[Ints, Ints, npt.NDArray[np.uint8]]:
        """(first row, how many, whether they are listed in the pool) of each fragment of the k-th chunk."""
        mine = slice(int(self._offsets[k]), int(self._offsets[k + 1]))
        return self._starts[mine], self._sizes[mine], self._listed[mine]

    def values(self, name: str, k: int, stored: np.dtype[Any]) -> bytes:
        """The values of an attribute in the k-th chunk, as this type."""
        cells, was = self._values[name]
        raw = bytes(cells[k])
        return raw if was == stored else np.frombuffer(raw, was).astype(stored).tobytes()


def fragment_columns(level: Level, cells: Cells) -> Any:
    offsets, first, count, listed, pool, status = fragment_kernel.decode_cells(
        cells.data.data, cells.starts, cells.lengths
    )
    if (status > fragment_kernel.ABSENT_CELL).any():
        error = fragment_kernel.cell_error(cells[int(np.argmax(status > fragment_kernel.ABSENT_CELL))])
        assert error is not None
        raise error
    return offsets, first, count, listed, pool


class Assembler:
    """Collects batches, then writes the level that they make together with the old one."""

    def __init__(self, job: Job, store: Store) -> None:
        wanted = job.wanted
        self.job = job
        self.old = job.old
        self.store = store
        self.ndim = len(job.chunk_shape)
        self.spool = Spool()
        self.columns: dict[str, GivenAttribute] = {}
        self.dtype: np.dtype[Any] | None = None
        self.links = LinkCollector(self.ndim, self.spool)
        self.compressor = compressor_codecs(wanted.compressor)
        self.shard = None if wanted.shard_shape is None else shard_shape_for(wanted.shard_shape, self.ndim)
        if self.old is not None:
            if self.compressor or self.shard is not None:
                raise ValueError("what is appended is compressed and sharded as the store is")
            self.compressor = self.old.node.compressor
            self.shard = self.old.node.shard
            self.dtype = self.old.level.dtype.newbyteorder("=")
            if self.old.objects is not None and wanted.geometry != "point_cloud":
                self.links.add_links(self.old.level.links())
        # How many bins a chunk has, where fragments are bins.
        self.bins = 0
        # How many rows and fragments each chunk has so far.
        self._bases: dict[tuple[int, ...], tuple[int, int]] = {}
        # (owners, coords, fragments) of points; (offsets, coords, fragments) of lines.
        self._pieces: list[tuple[Ints, Ints, Ints]] = []
        self._ids: list[Ints] = []
        self._next = 0 if self.old is None else self.old.next_id

    def close(self) -> None:
        self.spool.close()

    # --- collecting -----------------------------------------------------------------------------------------------

    def _place(self, batch: Batch, fragments: Fragments) -> tuple[Ints, Ints]:
        """(number of each fragment in its chunk, row in its chunk where it begins)"""
        if self.dtype is None:
            self.dtype = batch.columns[""].dtype
        batch.columns[""] = np.ascontiguousarray(batch.columns[""], self.dtype)
        names = set(batch.columns) - {""}
        if not self.columns:
            known = {} if self.old is None else self.old.attributes
            if self.old is not None and set(known) != names:
                raise ValueError(f"the store has the attributes {sorted(known)}, not {sorted(names)}")
            for name in sorted(names):
                form = known[name][1] if name in known else None
                self.columns[name] = GivenAttribute(name, batch.columns[name], form)
        for name, column in self.columns.items():
            batch.columns[name] = column.taken(batch.columns[name])
            column.missing |= column.text and bool((batch.columns[name] < 0).any())
        rows = np.empty(len(batch.chunks), np.int64)
        numbers = np.empty(len(batch.chunks), np.int64)
        had: Iterable[tuple[int, int]] = itertools.repeat((0, 0)) if self.old is None else self.old.bases(batch.chunks)
        sizes, counts = np.diff(batch.row_bounds).tolist(), np.diff(batch.fragment_bounds).tolist()
        for i, (chunk, before) in enumerate(zip(map(tuple, batch.chunks.tolist()), had, strict=False)):
            base = self._bases.get(chunk, before)
            rows[i], numbers[i] = base
            self._bases[chunk] = (base[0] + sizes[i], base[1] + counts[i])
        self.spool.add(batch)
        return numbers[fragments.chunk] + fragments.rank, rows[fragments.chunk] + fragments.first

    def add(self, batch: Batch, fragments: Fragments, owned: bool) -> None:
        """Points."""
        numbers, _ = self._place(batch, fragments)
        if owned:
            self._pieces.append((fragments.owner, batch.chunks[fragments.chunk], numbers))

    def add_lines(self, batch: Batch, fragments: Fragments, lines: int, ids: Ints | None) -> None:
        numbers, first = self._place(batch, fragments)
        coords = batch.chunks[fragments.chunk]
        offsets = np.searchsorted(fragments.owner, np.arange(lines + 1)).astype(np.int64)
        self._pieces.append((offsets, coords, numbers))
        follows = np.flatnonzero(fragments.owner[1:] == fragments.owner[:-1])
        last = first + fragments.count - 1
        self.links.add(coords[follows], last[follows], coords[follows + 1], first[follows + 1])
        if ids is None:
            ids = np.arange(self._next, self._next + lines, dtype=np.int64)
            self._next += lines
        self._ids.append(ids)

    # --- writing --------------------------------------------------------------------------------------------------

    def _builder(self) -> tuple[LevelBuilder, Ints]:
        """The builder for the level, and all its chunks in the order in which it wants them."""
        chunks = self.spool.chunks
        if self.old is not None and len(self.old.chunks):
            chunks = np.unique(np.concatenate([chunks.reshape(-1, self.ndim), self.old.chunks]), axis=0)
        if not len(chunks):
            raise ValueError("nothing is left to write")
        low, high = self.job.extent.bounds()
        shape = np.array(self.job.chunk_shape, float)
        first = np.minimum(np.floor(low / shape).astype(np.int64), chunks.min(0))
        last = np.maximum(np.floor(high / shape).astype(np.int64), chunks.max(0))
        builder = LevelBuilder(self.store, (last - first + 1).tolist(), first.tolist(), self.compressor, self.shard)
        return builder, chunks[builder.order(chunks)]

    def _write_cells(self, builder: LevelBuilder, chunks: Ints, extra: Mapping[str, Any]) -> int:
        """All per-chunk arrays; how many vertices they hold."""
        assert self.dtype is not None
        with ExitStack() as stack:
            vertices = stack.enter_context(
                builder.cells("vertices", {"zv_array": "vertices", "dtype": self.dtype.name, "encoding": "raw"})
            )
            indices = stack.enter_context(
                builder.cells("vertex_fragments", {"zv_array": "vertex_fragments", "encoding": "fragment_index_v1"})
            )
            columns = []
            for name, column in self.columns.items():
                dtype, attributes, becomes = column.settle()
                writer = stack.enter_context(builder.cells(f"vertex_attributes/{name}", attributes))
                columns.append((name, writer, dtype, becomes))
            total = self._write_groups(chunks, vertices, indices, columns)
        self._write_fragment_attributes(builder, extra)
        return total

    def _write_groups(self, chunks: Ints, vertices: CellWriter, indices: CellWriter, columns: Any) -> int:
        assert self.dtype is not None
        little = self.dtype.newbyteorder("<")
        row_bytes = self.ndim * little.itemsize
        total = 0
        for begin in range(0, len(chunks), _GROUP):
            group = chunks[begin : begin + _GROUP]
            old = None if self.old is None else OldCells(self.old, group)
            for k, chunk in enumerate(map(tuple, group.tolist())):
                before = b"" if old is None else bytes(old.vertices[k])
                index, order = self._index(old, k, chunk, len(before) // row_bytes)
                payload = _joined(before, self.spool.rows(chunk, ""), little, (self.ndim,), order)
                vertices.add(chunk, payload)
                indices.add(chunk, index)
                total += len(payload) // row_bytes
                for name, writer, dtype, becomes in columns:
                    stored = dtype.newbyteorder("<")
                    had = b"" if old is None else old.values(name, k, stored)
                    new = [rows if becomes is None else becomes[rows] for rows in self.spool.rows(chunk, name)]
                    writer.add(chunk, _joined(had, new, stored, self.columns[name].row_shape, order))
        return total

    def _index(self, old: OldCells | None, k: int, chunk: tuple[int, ...], had: int) -> tuple[bytes, Ints | None]:
        """The fragment index of one chunk, and how to sort its rows, None if they are in order."""
        counts, keys = self.spool.fragments(chunk)
        if self.bins:
            return self._bin_index(old, k, counts, keys, had)
        first = had + np.cumsum(counts) - counts
        if old is None:
            return fragment_kernel.encode_ranges(first, np.ascontiguousarray(counts)), None
        starts, sizes, listed = old.fragments(k)
        index = fragment_kernel.encode_mixed(
            np.concatenate([listed, np.zeros(len(counts), np.uint8)]),
            np.concatenate([starts, first]), np.concatenate([sizes, counts]), old.pool,
        )  # fmt: skip
        return index, None

    def _bin_index(self, old: OldCells | None, k: int, counts: Ints, keys: Ints, had: int) -> tuple[bytes, Ints | None]:
        """Points without objects: fragment i of a chunk is its bin i, empty or not."""
        if old is not None and had:
            starts, sizes, listed = old.fragments(k)
            tiles = not listed.any() and np.array_equal(starts, np.cumsum(sizes) - sizes)
            if len(sizes) != self.bins or not tiles or sizes.sum() != had:
                raise UnsupportedError(
                    f"the store's fragments are not its {self.bins} bins, so nothing can be appended to them",
                    key=f"{old.level.path}/vertex_fragments",
                )
            counts = np.concatenate([sizes, counts])
            keys = np.concatenate([np.arange(self.bins), keys])
        bins = np.repeat(keys, counts)
        per_bin = np.bincount(bins, minlength=self.bins).astype(np.int64)
        order = None if (keys[1:] >= keys[:-1]).all() else np.argsort(bins, kind="stable")
        return fragment_kernel.encode_ranges(np.cumsum(per_bin) - per_bin, per_bin), order

    def _write_fragment_attributes(self, builder: LevelBuilder, extra: Mapping[str, Any]) -> None:
        for name, per_chunk in extra.items():
            if self.old is not None:
                raise ValueError("fragment_attributes cannot be appended")
            if not per_chunk:
                raise ValueError(f"fragment_attributes[{name!r}] is empty")
            values = {tuple(map(int, chunk)): np.asarray(rows) for chunk, rows in per_chunk.items()}
            sample = next(iter(values.values()))
            attributes: dict[str, Any] = {
                "zv_array": "fragment_attribute", "name": name, "dtype": sample.dtype.name,
                "row_shape": list(sample.shape[1:]),
            }  # fmt: skip
            if sample.ndim == 2:
                attributes["channel_names"] = [f"ch{i}" for i in range(sample.shape[1])]
            chunks = np.array(list(values), np.int64)
            with builder.cells(f"fragment_attributes/{name}", attributes) as writer:
                for chunk in map(tuple, chunks[builder.order(chunks)].tolist()):
                    have = self._bases.get(chunk, (0, 0))[1]
                    have = self.bins if have and self.bins else have
                    rows = values[chunk]
                    if len(rows) != have:
                        where = f"fragment_attributes[{name!r}][{chunk}]"
                        raise ValueError(f"{where} has {len(rows)} rows but chunk has {have} fragments")
                    writer.add(chunk, np.ascontiguousarray(rows, sample.dtype.newbyteorder("<")).tobytes())

    def finish_points(self, given: Belongings, owned: bool) -> dict[str, int]:
        builder, chunks = self._builder()
        total = self._write_cells(builder, chunks, given.fragment_attributes)
        had = None if self.old is None else self.old.objects
        if had is not None and not owned:
            raise ValueError("the store's points belong to objects: object_ids are needed to append")
        if self.old is not None and had is None and owned:
            raise ValueError("the store's points belong to no objects: object_ids cannot be appended")
        ids = np.zeros(0, np.int64)
        if owned:
            parts = list(self._pieces)
            if had is not None:
                csr = had.table().to_csr()
                owners = np.repeat(csr.object_ids, np.diff(csr.offsets))
                parts.insert(0, (owners, csr.chunk_coords, csr.fragment_idx))
            owners, coords, numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
            order = np.lexsort((numbers, *coords.T[::-1], owners))
            ids = np.unique(np.concatenate([owners, had.ids]) if had is not None else owners)
            offsets = np.append(np.searchsorted(owners[order], ids), len(owners)).astype(np.int64)
            builder.object_index(ManifestTable.from_csr(offsets, coords[order], numbers[order], ids))
        self._finish(builder, ids if owned else None, given, total)
        return {"chunk_count": len(chunks), "object_count": len(ids)}

    def finish_lines(self, given: Belongings) -> dict[str, int]:
        builder, chunks = self._builder()
        total = self._write_cells(builder, chunks, given.fragment_attributes)
        parts, ids = list(self._pieces), list(self._ids)
        if self.old is not None and self.old.objects is not None:
            csr = self.old.objects.table().to_csr()
            parts.insert(0, (csr.offsets, csr.chunk_coords, csr.fragment_idx))
            ids.insert(0, csr.object_ids)
        row_ids = np.concatenate(ids)
        if len(np.unique(row_ids)) != len(row_ids):
            raise ValueError("object ids occur twice, or are in the store already")
        bases = np.cumsum([0, *(len(part[1]) for part in parts)])
        offsets = np.concatenate([*(part[0][:-1] + base for part, base in zip(parts, bases, strict=False)), bases[-1:]])
        table = ManifestTable.from_csr(
            offsets, np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts]), row_ids
        )
        order = np.argsort(row_ids, kind="stable")
        if not np.array_equal(order, np.arange(len(order))):
            table = table.select(order)
        builder.object_index(table)
        self.links.write(builder)
        self._finish(builder, row_ids, given, total)
        return {"chunk_count": len(chunks), "link_count": self.links.count}

    def _finish(self, builder: LevelBuilder, row_ids: Ints | None, given: Belongings, total: int) -> None:
        """What hangs on objects; `row_ids` are in the order in which values for them are given, None without any."""
        ids = np.zeros(0, np.int64) if row_ids is None else row_ids
        for name, values in self._object_values(ids, given.object_attributes).items():
            builder.object_attribute(name, values)
        level = None if self.old is None else self.old.level
        groups = merged_groups(level, given.groups)
        if groups:
            builder.groups(groups)
        for name, values in merged_group_attributes(level, groups, given.group_attributes).items():
            builder.object_attribute(name, values, "group_attributes")
        arrays = ["vertices", *(["vertex_attributes"] if self.columns else [])]
        if row_ids is not None:
            arrays.append("object_index")
        had = {} if self.old is None else self.old.level.metadata
        tile = self.old is None or had.get("fragments_tile") is True
        kept = ("chunk_shape", "bin_shape", "preserves_object_ids", "shared_fragments")
        own = {name: had[name] for name in kept if name in had}
        builder.group("", level_attributes(0, total, arrays, tile, **own))

    def _object_values(self, row_ids: Ints, given: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Values per row in order of id: what the store has, and what is given for the objects that are new."""
        order = np.argsort(row_ids, kind="stable")
        had = {} if self.old is None else {
            name: self.old.level.object_attribute(name) for name in self.old.level.object_attribute_names()
        }  # fmt: skip
        if self.old is not None and set(had) != set(given):
            raise ValueError(f"the store has the object attributes {sorted(had)}, not {sorted(given)}")
        known = np.zeros(0, np.int64) if self.old is None or self.old.objects is None else self.old.objects.ids
        fresh = ~np.isin(row_ids, known)
        found = {}
        for name, values in given.items():
            new = np.asarray(values)
            if new.ndim < 1 or len(new) != int(fresh.sum()):
                rows = len(new) if new.ndim else "no"
                raise ValueError(f"object attribute {name!r} has {rows} rows for {int(fresh.sum())} objects")
            if name not in had:
                found[name] = new[order]
                continue
            old = had[name]
            whole = np.empty((len(row_ids), *old.shape[1:]), old.dtype)
            whole[fresh] = as_stored(f"object attribute {name!r}", new, old)
            place = {int(number): row for row, number in enumerate(known.tolist())}
            whole[~fresh] = old[[place[number] for number in row_ids[~fresh].tolist()]]
            found[name] = whole[order]
        return found


def _joined(
    before: bytes, parts: list[npt.NDArray[Any]], stored: np.dtype[Any], row_shape: tuple[int, ...], order: Ints | None
) -> bytes:
    """The rows of one cell, old and new, as bytes."""
    data = b"".join([before, *(np.ascontiguousarray(rows, stored).tobytes() for rows in parts)])
    return data if order is None else np.frombuffer(data, stored).reshape(-1, *row_shape)[order].tobytes()
