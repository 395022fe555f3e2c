"""Points of a store in conversions to and from annotations and tables."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import ConflictError, MetadataError, UnsupportedError
from zvcore.exchange.options import refuse_unknown
from zvcore.exchange.rows import Rows, names_of_values, unfit, value_of_text
from zvcore.images.axes import is_length, long_unit, nanometers
from zvcore.report import Report
from zvcore.zvf.axes import NANOMETER, axes_of, dimensions_of
from zvcore.zvf.columns import columns_of
from zvcore.zvf.inputs import possible_names
from zvcore.zvf.reading import read_chunks
from zvcore.zvf.replaced_levels import check_same, state_of
from zvcore.zvf.untold import untold_of_points
from zvcore.zvf.writing import write_points

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.stores import Store
    from zvcore.zvf.columns import Columns
    from zvcore.zvf.vector_store import Level, VectorStore

__all__ = ["read_rows", "refuse_rows", "rows_lost", "write_rows"]

_CHUNKS = 64
_POINTS_IN_A_CHUNK = 5000
_ID = "id"
# What float32 holds exactly.
_SINGLE = ("float32", "float16", "int8", "uint8", "int16", "uint16")


def read_rows(source: VectorStore) -> Rows | None:
    """The points of the finest level; None of a store that holds lines."""
    if source.is_lines:
        return None
    level = source.level(source.levels[0])
    dimensions, unknown = dimensions_of(axes_of(source))
    columns = columns_of(level)
    return Rows(
        "point", dimensions, lambda: _batches(level, columns), count=level.vertex_count,
        losses=[*untold_of_points(source, level), *columns.losses, *unknown], types=columns.types,
        texts=columns.texts, missing=columns.missing,
    )  # fmt: skip


def _batches(level: Level, of: Columns) -> Iterator[dict[str, Any]]:
    before = state_of(level)
    chunks = level.chunks()
    first = 0
    for begin in range(0, max(len(chunks), 1), _CHUNKS):
        try:
            found = read_chunks(level, list(of.names), chunks[begin : begin + _CHUNKS])
        finally:
            check_same(level, before)  # what comes next would be of other points
        columns: dict[str, Any] = {"point": found.positions, **dict(of.split(found.attributes))}
        if _ID not in columns:
            columns[_ID] = np.arange(first, first + len(found.positions), dtype=np.uint64)
        first += len(found.positions)
        yield columns


def refuse_rows(store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> None:
    """Raise what is wrong with the rows, with the options, or with what is there."""
    if rows.type != "point":
        raise UnsupportedError("only points become Zarr Vectors", key=store.root, found=rows.type)
    refuse_unknown("zvf", options, write_points, but=("vertex_attributes", "append", "overwrite", "axes", "attrs"))
    if store.exists("zarr.json") and not overwrite:
        raise ConflictError("there is something already; overwrite=True replaces it", key=store.root)


def rows_lost(rows: Rows) -> Report:
    """What of these rows has no place in a store, but for names of columns, which are known once they are read."""
    report = Report()
    for name in rows.relationships:
        report.lose(name, "ids of related segments have no place beside points")
    for name, declared in rows.properties.items():
        if "enum_labels" in declared:
            report.lose(name, "the names of values have no place in attributes")
        if declared.get("description"):
            report.lose(name, "the description has no place in attributes")
    return report


def write_rows(store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> Report:
    """`options`: keyword arguments of `write_points`. Ids become an attribute."""
    report = rows_lost(rows)
    scale = {name: nanometers(unit) * size for name, (size, unit) in rows.dimensions.items()}
    factors = np.array([*scale.values()], np.float64)
    batches = (_understood(batch, rows) for batch in rows.batches())
    first = next(batches, None)
    if first is None or not len(first["point"]):
        raise UnsupportedError("Zarr Vectors hold at least one point", key=store.root)
    columns = [name for name in first if name != "point" and name not in rows.relationships]
    names = [*possible_names(columns, report)]
    several = itertools.tee(itertools.chain([first], batches), 1 + len(names))
    positions = (np.asarray(batch["point"], np.float64) * factors for batch in several[0])
    attributes = {name: _column(one, name) for name, one in zip(names, several[1:], strict=True)}
    asked = {"dtype": "float32" if first["point"].dtype in _SINGLE else "float64", **options}
    if "chunk_shape" not in asked and rows.bounds is not None and rows.count is not None:
        asked["chunk_shape"] = _chunk_shape(rows, factors)
    try:
        found = write_points(
            store, positions, vertex_attributes=attributes, overwrite=overwrite, axes=_axes(rows), **asked
        )
    except ValueError as error:
        raise unfit(error, rows, store) from error
    report.count("points", found["vertex_count"])
    for loss in rows.losses:
        report.lose("", loss)
    return report


def _understood(batch: dict[str, Any], rows: Rows) -> dict[str, Any]:
    """A batch with a column of points and numbers beside it. Tables have a column for each axis, and names."""
    axes = [] if "point" in batch else list(rows.dimensions)
    missing = [name for name in axes if name not in batch]
    if missing:
        raise MetadataError(f"there is no column {missing[0]!r}", key=rows.source, found=", ".join(batch))
    found = {} if not axes else {"point": np.stack([np.asarray(batch[name], np.float64) for name in axes], -1)}
    for name, column in batch.items():
        if name in rows.relationships:
            found[name] = column
        elif name not in axes:
            found[name] = _as_numbers(np.asarray(column), rows.properties.get(name, {}))
    return found


def _as_numbers(column: Any, declared: Mapping[str, Any]) -> Any:
    """Names as the numbers that they are declared with, and colours as their components."""
    if column.dtype.kind not in "UO":
        return column
    labels = declared.get("enum_labels")
    if labels is None and not all(isinstance(one, str) for one in column):
        return np.stack([*column])
    if labels is None:
        return np.array([[*bytes.fromhex(text.removeprefix("#"))] for text in column.tolist()], np.uint8)
    texts, places = np.unique(column.astype(str), return_inverse=True)
    names = names_of_values(declared)
    values = [value_of_text(text, names) for text in texts.tolist()]
    if None in values:
        raise ValueError(f"no value has the name {texts[values.index(None)]!r}")
    return np.array(values)[places]


def _column(batches: Iterator[dict[str, Any]], name: str) -> Iterator[Any]:
    return (batch[name] for batch in batches)


def _axes(rows: Rows) -> list[dict[str, str]]:
    """What coordinates are called and measured in, after lengths have become nanometers."""
    found = []
    for name, (_, unit) in rows.dimensions.items():
        told = long_unit(unit)
        found.append({"name": name, **({} if told is None else {"unit": NANOMETER if is_length(unit) else told})})
    return found


def _chunk_shape(rows: Rows, factors: Any) -> tuple[float, ...]:
    """Cubes with some thousands of points each, if these lie evenly."""
    assert rows.bounds is not None
    extent = (np.asarray(rows.bounds[1], np.float64) - np.asarray(rows.bounds[0], np.float64)) * factors
    side = float(extent.max()) / max((rows.count or 1) / _POINTS_IN_A_CHUNK, 1) ** (1 / len(extent))
    return (max(side, 1e-6),) * len(extent)
