"""Making a store consistent after chunks of its vertices were lost: nothing refers to them afterwards.

A chunk without its vertices or its fragments is removed as a whole, and so are the objects that had a part in it: a
line with a piece missing would pass for another line. What these have in other chunks stays there, without an owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import documents, transfer, zarr3
from zvcore.engine import Buffers
from zvcore.kernels import fragments as kernel
from zvcore.zarr3.consolidating import tell_all
from zvcore.zvf.cells import GridCells, coords_key
from zvcore.zvf.links import deltas, family_node, link_arrays, parse_segment, read_links
from zvcore.zvf.nodes import join
from zvcore.zvf.objects import V1, V2
from zvcore.zvf.vector_store import VectorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zvcore.care.rewriting import Patient
    from zvcore.report import Report
    from zvcore.zvf.cells import CellGrid
    from zvcore.zvf.vector_store import Level

__all__ = ["settle"]

_GROUP = 1024

Coords = tuple[int, ...]


def settle(patient: Patient, report: Report) -> None:
    """Remove whatever depends on the lost chunks, in every level. Stores older than 0.9 stay as they are."""
    opened = VectorStore(patient.store)
    for number in opened.levels:
        level = opened.level(number)
        if isinstance(level.vertices, GridCells) and isinstance(level.fragments, GridCells):
            gone = _gone(level.vertices) | _gone(level.fragments)
            if gone:
                _Settling(level, gone, report, patient).run()
                tell_all(patient.store)


def _gone(grid: CellGrid) -> set[Coords]:
    """The chunks that the presence list names and the store lacks."""
    listed = grid.listed()
    if listed is None:
        return set()
    return set(map(tuple, listed.tolist())) - set(map(tuple, grid.stored().tolist()))


class _Settling:
    def __init__(self, level: Level, gone: set[Coords], report: Report, patient: Patient) -> None:
        self.level = level
        self.store = level.store
        self.gone = gone
        self.report = report
        self.patient = patient

    def run(self) -> None:
        level = self.level
        objects = self._objects()
        grids: list[CellGrid] = [level.vertices, level.fragments]
        grids += [level.attribute_cells(name)[0] for name in level.attribute_names()]
        grids += [level.attribute_cells(name, "fragment_attributes")[0] for name in level.fragment_attribute_names()]
        for grid in grids:
            if isinstance(grid, GridCells):
                self._drop_cells(grid, self.gone)
        for delta in deltas(level):
            self._drop_links(delta)
        if objects:
            self._drop_objects(objects)
        if level.vertex_count is not None:
            count = self._count_vertices()
            self._change(level.path, lambda attrs: attrs["zarr_vectors_level"].update(vertex_count=count))

    def _drop_cells(self, grid: GridCells, which: set[Coords]) -> None:
        lost = sorted(which & set(map(tuple, grid.stored().tolist())))
        if lost:
            positions = np.array(lost, np.int64) - grid.origin
            self._back_up(map(grid.node.layout.chunk_name, map(tuple, positions.tolist())))
            transfer.put(grid.node.layout, positions, Buffers(len(lost)))
        for coords in lost:
            self.report.lose(grid.path, "left out with the vertices or fragments that were lost", chunk=coords)
        if grid.listed() is not None:
            names = {coords_key(coords) for coords in which}
            self._change(
                grid.path,
                lambda attrs: attrs.update(nonempty_chunks=[n for n in attrs["nonempty_chunks"] if n not in names]),
            )

    def _drop_links(self, delta: int) -> None:
        """The links of a cell all lead to the same chunks: those that lead to a lost one go with their cell."""
        family = family_node(self.level, delta)
        if family is None or "link_width" not in family.attrs or "sid_ndim" not in family.attrs:
            return
        before = len(read_links(self.level, delta))
        width, ndim = int(family.attrs["link_width"]), int(family.attrs["sid_ndim"])
        for node in link_arrays(family):
            grid = GridCells(node)
            offsets = parse_segment(node.path.rpartition("/")[2], ndim, width, node.path).tolist() if delta == 0 else []
            hit: set[Coords] = set()
            for coords in map(tuple, grid.stored().tolist()):
                ends = {coords, *(tuple(a + b for a, b in zip(coords, offset, strict=True)) for offset in offsets)}
                if ends & self.gone:
                    hit.add(coords)
            if hit:
                self._drop_cells(grid, hit)
        left = len(read_links(self.level, delta))
        if left != before and isinstance(family.attrs.get("num_physical_records"), int):
            self._change(family.path, lambda attrs: attrs.update(num_physical_records=left))

    # --- objects

    def _objects(self) -> dict[int, int]:
        """Row -> id of the objects that had a part in a lost chunk."""
        index = self.level.objects
        if index is None or index.layout not in (V1, V2):
            return {}
        table = index.table(np.arange(len(index)))
        hit = np.array([tuple(coords) in self.gone for coords in table.coords.tolist()], np.bool_)
        owner = np.repeat(np.arange(len(table)), np.diff(table.offsets))
        return {row: int(table.object_ids[row]) for row in np.unique(owner[hit]).tolist()}

    def _drop_objects(self, objects: dict[int, int]) -> None:
        index = self.level.objects
        assert index is not None
        array = zarr3.open(self.store.child(join(index.path, "manifests")), "r+")
        assert isinstance(array, zarr3.Zarr3Array)
        empty = np.empty(1, object)
        empty[0] = b""
        self._back_up(f"{index.path}/manifests/{array.layout.chunk_name((row // array.chunks[0],))}" for row in objects)
        for row, id in objects.items():
            array[row : row + 1] = empty
            self.report.lose(index.path, "the object is left out: it has lost fragments", chunk=id)
        present = index.node.attrs.get("num_present")
        if isinstance(present, int):
            self._change(index.path, lambda attrs: attrs.update(num_present=present - len(objects)))

    def _count_vertices(self) -> int:
        """How many vertices the remaining fragments hold."""
        fragments = VectorStore(self.store).level(self.level.number).fragments
        stored = fragments.stored()
        total = 0
        for begin in range(0, len(stored), _GROUP):
            cells = fragments.read(stored[begin : begin + _GROUP])
            _, _, count, *_ = kernel.decode_cells(cells.data.data, cells.starts, cells.lengths)
            total += int(count.sum())
        return total

    # --- documents

    def _change(self, path: str, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the attributes of a node."""

        def changed(document: dict[str, Any] | None) -> dict[str, Any]:
            assert document is not None
            change(document["attributes"])
            return document

        key = join(path, "zarr.json")
        self._back_up([key])
        documents.change(self.store, key, changed)

    def _back_up(self, keys: Iterable[str]) -> None:
        for key in dict.fromkeys(keys):
            if not self.store.exists(f"{key}.bak") and self.store.exists(key):
                self.patient.back_up(key)
