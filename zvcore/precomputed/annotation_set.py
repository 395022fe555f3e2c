"""Annotations as columns: by id, by the segments that they are related to, by place, or all of them."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from zvcore.documents.unchanged import Unchanged
from zvcore.errors import NotFoundError
from zvcore.precomputed.annotation_boxes import meet_box
from zvcore.precomputed.annotation_info import ANNOTATIONS_TYPE, AnnotationInfo, AnnotationProperty
from zvcore.precomputed.annotation_records import ID, Columns, RecordForm, joined, taken
from zvcore.precomputed.annotation_values import IndexValues
from zvcore.precomputed.ids import Ids, as_id, as_ids, is_id
from zvcore.precomputed.metadata import INFO, read_version
from zvcore.stores import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.format import Node
    from zvcore.precomputed.annotation_info import Index
    from zvcore.precomputed.annotation_values import Fetched
    from zvcore.stores import Store

__all__ = ["Annotations"]

# What says how they are stored, and what they are.
_STAYING = (
    "@type", "dimensions", "lower_bound", "upper_bound", "annotation_type", "properties", "relationships", "by_id",
    "spatial",
)  # fmt: skip
# Of a box with more cells than that, those are looked at that are stored.
_MOST_CELLS = 1 << 12
# How many cells are read at once.
_CELLS_AT_ONCE = 256
# How far a cell reaches into its neighbours, as a part of its size: others round differently.
_BORDER = 1e-4


class Annotations:
    """The annotations of a folder.

        a = zvcore.open("synapses")
        a.get_many([7, 9])["point"]          # float32[2, 3]
        a.related("segments", 1001)          # those of a segment
        a.in_box((0, 0, 0), (10, 10, 10))    # those that meet a box, borders included
        for columns in a.batches(): ...      # all of them, in bounded memory

    Columns are dictionaries of arrays: "id", the positions ("point"; "point_a" and "point_b"; "center" and "radii"; or
    "points"), and each property by its name. Relationships are columns too where annotations are read by id: `Ragged`,
    as the points of polylines are.
    """

    kind = "annotations"
    format = "precomputed"
    path = ""

    def __init__(self, path: str | os.PathLike[str] | Store, mode: str = "r", *, threads: int | None = None) -> None:
        self.store = open_store(path, mode)
        content, stamp = read_version(self.store, type=ANNOTATIONS_TYPE)
        self.info: Mapping[str, Any] = content
        self._standing = Unchanged(self.store, INFO, content, stamp, _STAYING)
        self._info = AnnotationInfo.from_json(self.info, f"{self.store.root}/info")
        self.form = RecordForm.of(self._info)
        self._by_id = IndexValues(self.store, self._info.by_id, threads)
        self._related = {one.name: IndexValues(self.store, one, threads) for one in self._info.relationships}
        self._levels = [IndexValues(self.store, one, threads) for one in self._info.levels]

    def __repr__(self) -> str:
        return f"<zvcore.precomputed.Annotations {self.type}s in {self.store.root}>"

    def children(self) -> Mapping[str, Node]:
        """Nothing: indexes are no members."""
        return {}

    @property
    def type(self) -> str:
        """point, line, axis_aligned_bounding_box, ellipsoid or polyline."""
        return self._info.type

    @property
    def dimensions(self) -> dict[str, tuple[float, str]]:
        """{name: (scale, unit)} in the order of coordinates."""
        return dict(self._info.dimensions)

    @property
    def lower_bound(self) -> tuple[float, ...]:
        return self._info.lower_bound

    @property
    def upper_bound(self) -> tuple[float, ...]:
        return self._info.upper_bound

    @property
    def properties(self) -> dict[str, AnnotationProperty]:
        return {one.id: one for one in self._info.properties}

    @property
    def relationships(self) -> tuple[str, ...]:
        return tuple(self._related)

    @property
    def levels(self) -> tuple[Index, ...]:
        """The levels of the spatial index, the coarsest first."""
        return self._info.levels

    def ids(self) -> npt.NDArray[np.uint64]:
        """All ids, in ascending order."""
        return self._keys(self._by_id)

    def __len__(self) -> int:
        return len(self.ids())

    def __contains__(self, id: object) -> bool:
        if not is_id(id):
            return False
        return len(self._fetch(self._by_id, as_ids([id]))[2]) == 1

    def _keys(self, values: IndexValues) -> npt.NDArray[Any]:
        return self._standing.steady(values.keys, len)

    def _fetch(self, values: IndexValues, keys: npt.NDArray[Any]) -> Fetched:
        """What an index has of these keys, if it is that of what was opened."""
        return self._standing.steady(lambda: values.fetch(keys), lambda found: len(found[2]) == len(keys))

    # --- by id

    def __getitem__(self, id: SupportsIndex) -> Columns:
        """One annotation: the same columns, each with one row."""
        found = self.get_many([id])
        if not len(found[ID]):
            raise NotFoundError(f"there is no annotation {as_id(id)}", key=self.store.root)
        return found

    def get_many(self, ids: Ids) -> Columns:
        """The annotations of these ids, in their order; those that are missing are left out."""
        wanted = as_ids(ids)
        data, starts, rows = self._fetch(self._by_id, wanted)
        found = wanted[rows]
        return {ID: found, **self.form.annotations(data, starts, lambda row: self._by_id.place(found[row]))}

    def batches(self) -> Iterator[Columns]:
        """All annotations with their relationships, some megabytes at a time, in the order of their index."""
        for ids in self._by_id.batches():
            found = self.get_many(ids)
            if len(found[ID]):
                yield found
        self._standing.check(missing=True)

    # --- by relationship

    def related(self, relationship: str, segment_id: SupportsIndex) -> Columns:
        """The annotations that are related to a segment."""
        values = self._related.get(relationship)
        if values is None:
            known = ", ".join(map(repr, self._related)) or "none"
            raise NotFoundError(f"there is no relationship {relationship!r}; there are {known}", key=self.store.root)
        return self._lists(values, as_ids([segment_id]))

    def related_ids(self, relationship: str) -> npt.NDArray[np.uint64]:
        """The segments that any annotation is related to."""
        values = self._related.get(relationship)
        if values is None:
            raise NotFoundError(f"there is no relationship {relationship!r}", key=self.store.root)
        return self._keys(values)

    def _lists(self, values: IndexValues, keys: npt.NDArray[Any]) -> Columns:
        data, starts, rows = self._fetch(values, keys)
        return self.form.lists(data, starts, lambda row: values.place(keys[rows[row]]))

    # --- by place

    def in_box(self, low: Sequence[float], high: Sequence[float], *, levels: int | None = None) -> Columns:
        """The annotations that meet the box from `low` to `high`, borders included, each once.

        Coordinates are in units of `dimensions`. With `levels`, only so many levels of the spatial index are read, the
        coarsest first: a sample, evenly thinned out.
        """
        box = np.array([low, high], np.float64)
        if box.shape != (2, self._info.rank) or np.isnan(box).any():
            raise ValueError(f"a box has two corners of {self._info.rank} coordinates")
        if not self._levels:
            raise NotFoundError("there is no spatial index", key=self.store.root)

        def within(values: IndexValues) -> list[Columns]:
            cells = self._cells(values, box)
            parts = []
            for first in range(0, len(cells), _CELLS_AT_ONCE):
                found = self._lists(values, cells[first : first + _CELLS_AT_ONCE])
                parts.append(taken(found, meet_box(self.type, found, box[0], box[1])))
            return parts

        of_levels = self.store.each(within, self._levels[:levels])
        found = joined([self.form.empty(related=False), *itertools.chain(*of_levels)])
        # What extends over several cells stands in each of them.
        _, rows = np.unique(found[ID], return_index=True)
        return found if len(rows) == len(found[ID]) else taken(found, np.sort(rows))

    def _cells(self, values: IndexValues, box: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The cells of a level that a box meets. What lies outside of the grid is taken to its border."""
        index, info = values.index, self._info
        assert index.grid is not None
        grid = np.array(index.grid, np.float64)
        lower, upper = np.array(info.lower_bound, np.float64), np.array(info.upper_bound, np.float64)
        places = (box - lower) / np.array(index.chunk_size, np.float64)
        first = np.clip(np.floor(places[0] - _BORDER), 0, grid - 1)
        last = np.clip(np.floor(places[1] + _BORDER), 0, grid - 1)
        if (box[0] > box[1]).any():
            return np.empty((0, info.rank), np.int64)
        if (lower > upper).any():
            # Some programs have written bounds that are none.
            first, last = np.zeros_like(grid), grid - 1
        counts = (last - first + 1).tolist()
        if math.prod(counts) > _MOST_CELLS:
            stored: npt.NDArray[np.int64] = self._keys(values)
            return stored[np.all((stored >= first) & (stored <= last), axis=1)]
        ranges = [range(int(a), int(b) + 1) for a, b in zip(first, last, strict=True)]
        return np.array([*itertools.product(*ranges)], np.int64).reshape(-1, info.rank)
