"""Lines of a store in conversions to and from other formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import ConflictError
from zvcore.exchange.lines import LineBatch, Lines
from zvcore.exchange.options import refuse_unknown
from zvcore.report import Report
from zvcore.zvf.writing import write_polylines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.stores import Store
    from zvcore.zvf.vector_store import VectorStore

__all__ = ["read_lines", "refuse_lines", "write_lines"]

# Objects that are read at once; chunks along the longest axis, unless their shape is given.
_BATCH = 2048
_CHUNKS = 16


def read_lines(source: VectorStore) -> Lines | None:
    """The lines of the finest level; None of a store that holds others. Coordinates are taken to be nanometers."""
    if not source.is_lines:
        return None
    level = source.level(source.levels[0])
    ids = level.object_ids(present_only=True)
    losses = []
    if (ids < 0).any():
        losses.append(f"{int((ids < 0).sum())} lines with negative ids are left out")
        ids = ids[ids >= 0]
    if level.ndim > 3:
        losses.append(f"coordinates beyond the third of {level.ndim} are left out")
    if level.groups():
        losses.append("groups of lines have no place")
    if len(source.levels) > 1:
        losses.append("coarser levels are left out")
    names = level.attribute_names()
    first = level.read_objects(ids[:1], names).attributes if len(ids) else {}
    attributes = {name: (values.dtype, 1 if values.ndim == 1 else values.shape[1]) for name, values in first.items()}

    def batches() -> Iterator[LineBatch]:
        for begin in range(0, len(ids), _BATCH):
            some = ids[begin : begin + _BATCH]
            found = level.read_objects(some, names)
            yield LineBatch(some, found.positions, found.offsets, found.attributes)

    of_objects = {name: np.zeros(0) for name in level.object_attribute_names()}
    return Lines(len(ids), batches, attributes, level.vertex_count, source.bounds, of_objects, losses)


def refuse_lines(store: Store, options: Mapping[str, Any], overwrite: bool) -> None:
    """Raise what is wrong with the options, or with what is there."""
    given = ("vertex_attributes", "object_ids", "object_attributes", "append")
    refuse_unknown("zvf", options, write_polylines, but=given)
    if store.exists("zarr.json") and not overwrite:
        raise ConflictError("there is something already; overwrite=True replaces it", key=store.root)


def write_lines(store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
    """`options`: keyword arguments of `write_polylines`."""
    if overwrite and store.exists("zarr.json"):
        store.delete_prefix("")
    given = dict(options)
    low, high = (np.asarray(corner, np.float64) for corner in (lines.bounds or (np.zeros(3), np.ones(3))))
    given.setdefault("chunk_shape", (max(float((high - low).max()) / _CHUNKS, 1.0),) * 3)
    # Lines and the values of their attributes are gone through side by side: each batch is read once for all.
    parts: dict[str, list[Any]] = {name: [] for name in ("", "id", *lines.attributes)}

    def fill() -> Iterator[None]:
        for batch in lines.batches():
            bounds = batch.offsets.tolist()
            for row, id in enumerate(batch.ids.tolist()):
                span = slice(bounds[row], bounds[row + 1])
                parts[""].append(batch.positions[span])
                parts["id"].append(id)
                for name in lines.attributes:
                    parts[name].append(batch.attributes[name][span])
                yield

    filling = fill()

    def column(name: str) -> Iterator[Any]:
        while parts[name] or next(filling, _DONE) is not _DONE:
            yield parts[name].pop(0)

    done = write_polylines(
        store, column(""), vertex_attributes={name: column(name) for name in lines.attributes},
        object_ids=column("id"), object_attributes=lines.of_objects or None, **given,
    )  # fmt: skip
    report = Report()
    report.count("lines", done["polyline_count"])
    return report


_DONE = object()
