"""Lines of a store in conversions to and from other formats."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError
from zvcore.exchange.lines import LineBatch, Lines
from zvcore.exchange.options import refuse_unknown
from zvcore.exchange.tractogram_header import ATTRIBUTE
from zvcore.report import Report
from zvcore.zvf.attributes import GROUP_NAMES, shape_of_object_attribute
from zvcore.zvf.axes import MILLIMETER, NANOMETER, axes_of, in_nanometers
from zvcore.zvf.batches import chunk_coords
from zvcore.zvf.inputs import possible_names
from zvcore.zvf.nodes import join
from zvcore.zvf.untold import untold_of_lines
from zvcore.zvf.writing import write_polylines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from zvcore.stores import Store
    from zvcore.zvf.vector_store import Level, VectorStore

__all__ = ["ValuesOfObjects", "lines_lost", "read_lines", "refuse_lines", "write_lines"]

# Objects that are read at once; unless the shape of chunks is given, about how many vertices each has, if these lie
# evenly, and the most chunks along the longest axis.
_BATCH = 2048
_VERTICES_IN_A_CHUNK = 5000
_CHUNKS = 16
# What a unit is called that so many nanometers are.
_UNITS = {1.0: NANOMETER, 1e6: MILLIMETER}


def read_lines(source: VectorStore) -> Lines | None:
    """The lines of the finest level; None of a store that holds others. Coordinates without a unit are taken to be
    nanometers, or millimeters where lines came from a tractogram.
    """
    if not source.is_lines:
        return None
    level = source.level(source.levels[0])
    known = level.object_ids()
    ids = level.object_ids(present_only=True)
    kept = source.node.attrs.get(ATTRIBUTE)
    axes = axes_of(source)[:3]
    scales = source.nanometers[:3]
    losses = [f"{one}: coordinates are taken to be nanometers" for one in in_nanometers(axes)[1]]
    notes = []
    if kept is None and any(axis.unit is None for axis in axes):
        notes.append("the store names no unit: coordinates are taken to be nanometers")
    if len(known) > len(ids):
        losses.append(f"{len(known) - len(ids)} lines without vertices are left out")
    if (ids < 0).any():
        losses.append(f"{int((ids < 0).sum())} lines with negative ids are left out")
        ids = ids[ids >= 0]
    if level.ndim > 3:
        losses.append(f"coordinates beyond the third of {level.ndim} are left out")
    losses += untold_of_lines(source, level)
    attributes = _numbers_of_vertices(level, losses)
    _tell_tables(level, losses)

    def batches() -> Iterator[LineBatch]:
        for begin in range(0, len(ids), _BATCH):
            some = ids[begin : begin + _BATCH]
            found = level.read_objects(some, list(attributes))
            positions = found.positions if scale else found.positions[:, :3] * np.array(scales)
            values = {
                name: one.reshape((len(one),) if attributes[name][1] == 1 else (len(one), attributes[name][1]))
                for name, one in found.attributes.items()
            }
            yield LineBatch(some, positions, found.offsets, values)

    bounds = source.bounds
    # In one unit, coordinates stay as they are stored.
    scale = scales[0] if len(set(scales)) == 1 else None
    if bounds is not None and scale is None:
        bounds = tuple((np.array(corner[:3]) * scales).tolist() for corner in bounds)
    groups = _present(_named_groups(level, source.node.attrs.get(GROUP_NAMES)), ids, losses)
    return Lines(
        len(ids), batches, attributes, level.vertex_count, bounds, ValuesOfObjects(level, ids), losses, scale or 1.0,
        groups, {} if kept is None else {ATTRIBUTE: kept}, notes, numbered=np.array_equal(ids, np.arange(len(ids))),
    )  # fmt: skip


def _numbers_of_vertices(level: Level, losses: list[str]) -> dict[str, tuple[np.dtype[Any], int]]:
    """{name: (type, how many for each vertex)} of the attributes that are numbers; of the others it is told."""
    found = {}
    for name in level.attribute_names():
        form = level.attribute_cells(name)[1]
        dtype = form.number_type
        if dtype is None:
            losses.append(f"the attribute {name!r} is left out: its values are names, or may be missing")
            continue
        found[name] = (dtype, prod(form.row_shape))
        if len(form.row_shape) > 1:
            losses.append(_flat(name, form.row_shape, "vertex"))
    return found


def _tell_tables(level: Level, losses: list[str]) -> None:
    """Of objects' attributes with more axes than other formats have."""
    for name in level.object_attribute_names():
        shape = shape_of_object_attribute(level.store, join(level.path, "object_attributes", name))
        if len(shape) > 2:
            losses.append(_flat(name, shape[1:], "line"))


def _flat(name: str, shape: Sequence[Any], what: str) -> str:
    shown = " x ".join(map(str, shape))
    return f"the shape {shown} of the attribute {name!r} has no place: each {what} has its numbers in a row"


class ValuesOfObjects(Mapping[str, Any]):
    """{name: a value for each of these objects}, read when it is looked up."""

    def __init__(self, level: Level, ids: npt.NDArray[np.int64]) -> None:
        self._level, self._ids = level, ids

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._level.object_attribute_names():
            raise KeyError(name)
        values = self._level.object_attribute(name)
        rows = self._level.require_objects().rows_of_all(self._ids)
        if len(rows) and int(rows.max()) >= len(values):
            raise CorruptDataError(
                f"the attribute {name!r} has fewer values than there are objects", key=self._level.path,
                expected=int(rows.max()) + 1, found=len(values),
            )  # fmt: skip
        found = values[rows]
        return found if found.ndim < 3 else found.reshape(len(found), prod(found.shape[1:]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._level.object_attribute_names())

    def __len__(self) -> int:
        return len(self._level.object_attribute_names())


def _named_groups(level: Level, names: Any) -> dict[str, npt.NDArray[np.int64]]:
    """Groups by the names that the store has for them; others by their numbers. No two may be called the same."""
    groups = level.groups()
    known = [*map(str, names)] if isinstance(names, list) else []
    called = [*known, *(str(number) for number in groups if number >= len(known))]
    if len(set(called)) < len(called):
        known = []
    found = {name: np.zeros(0, np.int64) for name in known}
    for number, members in groups.items():
        found[known[number] if number < len(known) else str(number)] = members
    return found


def _present(
    groups: Mapping[str, npt.NDArray[np.int64]], ids: npt.NDArray[np.int64], losses: list[str]
) -> dict[str, npt.NDArray[np.int64]]:
    """Groups without the lines that there are not, of which it is told."""
    found = {}
    for name, members in groups.items():
        there = np.isin(members, ids)
        if not there.all():
            losses.append(f"the group {name!r} has {int((~there).sum())} lines that are not there, or left out")
        found[name] = members[there]
    return found


def refuse_lines(store: Store, options: Mapping[str, Any], overwrite: bool) -> None:
    """Raise what is wrong with the options, or with what is there."""
    given = ("vertex_attributes", "object_ids", "object_attributes", "append", "overwrite", "axes", "attrs")
    refuse_unknown("zvf", options, write_polylines, but=given)
    if store.exists("zarr.json") and not overwrite:
        raise ConflictError("there is something already; overwrite=True replaces it", key=store.root)


def lines_lost(lines: Lines) -> Report:
    """What of these lines has no place in a store."""
    report = Report()
    for names in (lines.attributes, lines.of_objects):
        for _ in possible_names(names, report):
            continue
    return report


def write_lines(store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
    """`options`: keyword arguments of `write_polylines`."""
    if not lines.count or lines.vertices == 0:
        raise UnsupportedError("Zarr Vectors hold at least one line with a vertex", key=store.root)
    report = lines_lost(lines)
    of_vertices = [*possible_names(lines.attributes, Report())]
    of_objects = {name: lines.of_objects[name] for name in possible_names(lines.of_objects, Report())}
    given = dict(options)
    low, high = (np.asarray(corner, np.float64) for corner in (lines.bounds or (np.zeros(3), np.ones(3))))
    least = 1.0 if lines.nanometers == 1 else 1e-6
    given.setdefault("chunk_shape", (max(float((high - low).max()) / _chunks_along(lines), least),) * 3)
    if lines.position_type() == np.float64:
        given.setdefault("dtype", "float64")
    names = list(lines.groups)
    if names:
        given.setdefault("groups", {number: lines.groups[name].tolist() for number, name in enumerate(names)})
    # Lines and the values of their attributes are gone through side by side: each batch is read once for all.
    parts: dict[str, list[Any]] = {name: [] for name in ("", "id", *of_vertices)}

    def fill() -> Iterator[None]:
        for batch in lines.batches():
            _refuse_nowhere(batch.positions, given["chunk_shape"], store)
            bounds = batch.offsets.tolist()
            for row, id in enumerate(batch.ids.tolist()):
                span = slice(bounds[row], bounds[row + 1])
                parts[""].append(batch.positions[span])
                parts["id"].append(id)
                for name in of_vertices:
                    parts[name].append(batch.attributes[name][span])
                yield

    filling = fill()

    def column(name: str) -> Iterator[Any]:
        while parts[name] or next(filling, _DONE) is not _DONE:
            yield parts[name].pop(0)

    unit = _UNITS.get(lines.nanometers)
    done = write_polylines(
        store, column(""), vertex_attributes={name: column(name) for name in of_vertices},
        object_ids=column("id"), object_attributes=of_objects or None, overwrite=overwrite,
        axes=None if unit is None else [{"unit": unit}] * 3,
        attrs={**lines.attrs, **({GROUP_NAMES: names} if names else {})}, **given,
    )  # fmt: skip
    report.count("lines", done["polyline_count"])
    return report


def _chunks_along(lines: Lines) -> float:
    """Into how many chunks the longest axis is cut: each is an object or more, which few vertices do not need."""
    if lines.vertices is None:
        return _CHUNKS
    wanted: float = (lines.vertices / _VERTICES_IN_A_CHUNK) ** (1 / 3)
    return min(max(wanted, 1), _CHUNKS)


_DONE = object()


def _refuse_nowhere(positions: npt.NDArray[Any], chunk_shape: Sequence[float], store: Store) -> None:
    """Positions come from files: what is wrong with them is no mistake of the caller's."""
    if not len(positions) or np.shape(chunk_shape) != positions.shape[1:]:
        return
    with np.errstate(invalid="ignore"):
        corners = np.stack([positions.min(0), positions.max(0)])
    try:
        chunk_coords(corners, chunk_shape)
    except ValueError as error:
        raise UnsupportedError(f"lines of which {error}", key=store.root, found=corners.tolist()) from error
