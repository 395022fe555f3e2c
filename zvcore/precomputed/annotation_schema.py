"""What the columns of annotations are taken for: positions, properties and relationships, and the types they get."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.casting import is_held_by
from zvcore.documents.members import Place
from zvcore.exchange.rows import value_of_text
from zvcore.precomputed.annotation_boxes import bounds_of
from zvcore.precomputed.annotation_info import GEOMETRY, PROPERTY_ID, AnnotationProperty
from zvcore.precomputed.annotation_records import ID, RecordForm
from zvcore.precomputed.annotation_source import Named, length_of
from zvcore.precomputed.annotation_spool import Block
from zvcore.precomputed.ids import as_ids
from zvcore.precomputed.ragged import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.report import Report

__all__ = ["Schema", "flat_names"]

_SMALLER = {np.dtype("f2"): "float32", np.dtype("f4"): "float32", np.dtype("f8"): "float32", np.dtype("?"): "uint8"}
_MOST_NAMES = 1 << 16
_COLOUR = re.compile("#?([0-9a-fA-F]{6}|[0-9a-fA-F]{8})")


def flat_names(type: str, dimensions: Sequence[str]) -> dict[str, list[str]]:
    """How the columns of positions are called where each coordinate has a column of its own, as in CSV."""
    if type in ("point", "polyline"):
        return {"point": list(dimensions)} if type == "point" else {}
    if type == "ellipsoid":
        return {"center": list(dimensions), "radii": [f"{name}_radius" for name in dimensions]}
    return {"point_a": [f"{name}_a" for name in dimensions], "point_b": [f"{name}_b" for name in dimensions]}


class Schema:
    """Turns columns as users have them into blocks of records.

    columns         of the first batch, or of all: from them follows what is not declared
    properties      {name: array | (array, declaration) | declaration}, and
    relationships   {name: rows of ids}, or names of columns
    """

    def __init__(
        self, type: str, dimensions: Sequence[str], columns: Mapping[str, Any], properties: Mapping[str, Any],
        relationships: Mapping[str, Any] | Iterable[str], report: Report,
    ) -> None:  # fmt: skip
        if type not in GEOMETRY:
            raise ValueError(f"annotations are {', '.join(GEOMETRY)}, not {type!r}")
        self.type = type
        self.dimensions = list(dimensions)
        self.report = report
        self.relationships = [str(name) for name in relationships]
        self._flat = {
            name: parts for name, parts in flat_names(type, dimensions).items() if name not in columns
        }  # fmt: skip
        # The ids of properties by the names of their columns.
        self.ids: dict[str, str] = {}
        declared = self._declared(columns, properties)
        self.properties = sorted(declared.values(), key=lambda one: -one.alignment)
        self._by_column = declared
        self.form = RecordForm(type, len(self.dimensions), self.properties, self.relationships)
        # How far positions are from what they were.
        self.rounding = 0.0
        # The columns whose values are not stored exactly.
        self._inexact: set[str] = set()
        self.next_id: int | None = None if ID in columns else 0

    def _declared(self, columns: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, AnnotationProperty]:
        """The property that each column is."""
        taken = {ID, *GEOMETRY[self.type], *(part for parts in self._flat.values() for part in parts)}
        names = [name for name in columns if name not in taken and name not in self.relationships]
        found: dict[str, AnnotationProperty] = {}
        for name in dict.fromkeys([*names, *properties]):
            declaration = properties.get(name, {})
            if not isinstance(declaration, Mapping):
                raise TypeError(f"the property {name!r} is declared by {declaration!r}, not by a mapping")
            id = self._id(name)
            # Several columns may come to the same name.
            while any(one.id == id for one in found.values()):
                id += "_"
            if id != name:
                self.report.lose(name, f"the property is called {id!r}: Neuroglancer has no other names")
            if "type" in declaration:
                found[name] = _property(id, declaration)
            elif name in columns:
                found[name] = _derived(id, name, columns[name], declaration)
            else:
                raise ValueError(f"there is no column of the property {name!r}")
        return found

    @staticmethod
    def _id(name: str) -> str:
        if PROPERTY_ID.fullmatch(name):
            return name
        plain = re.sub("[^a-zA-Z0-9_]+", "_", name).strip("_") or "property"
        plain = plain[0].lower() + plain[1:]
        return plain if PROPERTY_ID.fullmatch(plain) else f"p_{plain}"

    # --- batches

    def block(self, columns: Mapping[str, Any]) -> tuple[Block, Any, Any]:
        """(the block, the lowest and the highest corner of each annotation)."""
        count = length_of(columns)
        typed: dict[str, Any] = {name: self._positions(name, columns) for name in self.form.geometry}
        for name, one in self._by_column.items():
            if name not in columns:
                raise ValueError(f"a batch has no column {name!r}")
            typed[self.form.names[one.id]] = self._property_values(name, columns[name], one)
        unknown = columns.keys() - self._known
        if unknown:
            raise ValueError(f"a batch has the column {min(unknown)!r}, which others have not")
        ids = self._ids(columns, count)
        related = [_related(name, columns, count) for name in self.relationships]
        low, high = bounds_of(self.type, typed)
        whole = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
        if not whole.all():
            raise ValueError(f"annotation {ids[np.argmin(whole)]} lies nowhere: its positions are not finite numbers")
        return Block(ids, self.form.encode(typed, count), related), low, high

    def _property_values(self, name: str, column: Any, one: AnnotationProperty) -> npt.NDArray[Any]:
        given = _numbers(name, column, one)
        values = _values(name, given, one)
        if values.dtype.kind == "f" and not is_held_by(values.dtype, given):
            self._inexact.add(name)
        return values

    @property
    def _known(self) -> set[str]:
        parts = [part for parts in self._flat.values() for part in parts]
        return {ID, *self.form.geometry, *parts, *self._by_column, *self.relationships}

    def _ids(self, columns: Mapping[str, Any], count: int) -> npt.NDArray[np.uint64]:
        if ID in columns:
            return as_ids(columns[ID])
        if self.next_id is None:
            raise ValueError("a batch has no ids")
        first, self.next_id = self.next_id, self.next_id + count
        return np.arange(first, first + count, dtype=np.uint64)

    def _positions(self, name: str, columns: Mapping[str, Any]) -> Any:
        rank = len(self.dimensions)
        if self.type == "polyline":
            if name not in columns:
                raise ValueError("there is no column 'points'")
            points = Ragged.of(columns[name], None, rank)
            values = self._float32(name, points.values)
            if values.ndim != 2 or values.shape[1] != rank:
                raise ValueError(f"points have {rank} coordinates, not the shape {values.shape}")
            if (points.lengths < 2).any():
                raise ValueError(f"row {np.argmax(points.lengths < 2)}: a polyline has at least two points")
            return Ragged(values, points.offsets)
        if name in columns:
            values = np.asarray(columns[name])
            if values.ndim == 1 and rank == 1:
                values = values.reshape(-1, 1)
        else:
            parts = self._flat[name]
            missing = [part for part in parts if part not in columns]
            if missing:
                raise ValueError(f"there is no column {name!r}, nor the columns {', '.join(map(repr, parts))}")
            values = np.stack([np.asarray(columns[part]) for part in parts], axis=1)
        if values.ndim != 2 or values.shape[1] != rank:
            raise ValueError(f"{name!r} has {rank} coordinates for each annotation, not the shape {values.shape}")
        return self._float32(name, values)

    def _float32(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if values.dtype.kind not in "fiu":
            if values.size:
                raise TypeError(f"the coordinates in {name!r} are numbers, not {values.dtype}")
            values = values.astype("f4")
        with np.errstate(over="ignore"):
            found = values.astype("<f4")
        if values.dtype.itemsize > 2 and values.dtype != found.dtype and values.size:
            away = np.abs(values.astype(np.float64) - found)
            self.rounding = max(self.rounding, float(np.nanmax(away, initial=0)))
        return found

    def tell_losses(self) -> None:
        """What became of positions, and of the values of properties."""
        for name in self._by_column:
            if name in self._inexact:
                self.report.lose(name, "the values are stored as float32, which is not exact")
        if self.rounding and np.isfinite(self.rounding):
            self.report.lose("positions", f"they are stored as float32, and changed by up to {self.rounding:.3g}")


# --- properties


def _property(id: str, declaration: Mapping[str, Any]) -> AnnotationProperty:
    known = {"type", "description", "enum_values", "enum_labels", "default"}
    unknown = sorted(declaration.keys() - known)
    if unknown:
        raise TypeError(f"a property has no {unknown[0]!r}; it has {', '.join(sorted(known))}")
    given = {name: value for name, value in declaration.items() if value is not None}
    labels = given.get("enum_labels")
    if labels is not None and given.get("enum_values") is None:
        given["enum_values"] = range(len(labels))
    for name in ("enum_values", "enum_labels"):
        if name in given:
            given[name] = tuple(one.item() if isinstance(one, np.generic) else one for one in given[name])
    document = AnnotationProperty(id, **given).to_json()
    found = AnnotationProperty.from_json(document, Place(None, f"property {id!r}"))
    if found.type == "bool":
        raise ValueError(f"the property {id!r}: few programs know the type bool; uint8 does the same")
    return found


def _derived(id: str, name: str, column: Any, declaration: Mapping[str, Any]) -> AnnotationProperty:
    """The property that the values of a column make."""
    if not isinstance(column, Named):
        values = np.asarray(column)
        if values.dtype.kind not in "OUST":
            return _property(id, {**declaration, "type": _type_of(name, values)})
        column = Named.of(values)
    if len(column.names) > _MOST_NAMES:
        raise ValueError(f"{name!r} has {len(column.names)} different texts, and a property is a number")
    type = "uint8" if len(column.names) <= 256 else "uint16"
    return _property(id, {"enum_labels": column.names, **declaration, "type": type})


def _type_of(name: str, values: npt.NDArray[Any]) -> str:
    dtype = values.dtype
    if values.ndim == 2 and dtype == np.uint8 and values.shape[1] in (3, 4):
        return "rgb" if values.shape[1] == 3 else "rgba"
    if values.ndim != 1:
        raise ValueError(f"the property {name!r} has the shape {values.shape}: only colours have several components")
    if dtype in _SMALLER:
        return _SMALLER[dtype]
    if dtype.kind not in "iu":
        raise ValueError(f"the property {name!r}: there is no type for values of {dtype}")
    if dtype.itemsize < 8:
        return dtype.name
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if low >= -(2**31) and high < 2**32 and not (low < 0 and high >= 2**31):
        return "uint32" if low >= 0 else "int32"
    raise ValueError(
        f"the property {name!r} has values from {low} to {high}; integers have 32 bits: declare it as float32, or make "
        "it a relationship"
    )


def _values(name: str, values: npt.NDArray[Any], one: AnnotationProperty) -> npt.NDArray[Any]:
    """Numbers in the type of a property, floats rounded; ValueError for what it cannot hold."""
    wanted = one.components
    if values.shape[1:] != (() if wanted == 1 else (wanted,)):
        raise ValueError(f"the property {name!r} of type {one.type} has {wanted} components, not {values.shape[1:]}")
    if values.dtype == one.dtype:
        return values
    if values.dtype.kind not in "fiub":
        raise ValueError(f"the property {name!r} of type {one.type} cannot be {values.dtype}")
    if one.dtype.kind == "f":
        with np.errstate(over="ignore"):
            stored = values.astype(one.dtype)
        beyond = np.isinf(stored) & np.isfinite(values)
        if beyond.any():
            raise ValueError(f"the property {name!r} of type {one.type} cannot hold {values[beyond][0]}")
        return stored
    if values.size:
        limits = np.iinfo(one.dtype)
        low, high = values.min(), values.max()
        # NaN is neither more nor less than anything.
        if not (low >= limits.min and high <= limits.max):
            raise ValueError(f"the property {name!r} of type {one.type} cannot hold {low} to {high}")
        if values.dtype.kind == "f" and (values != np.floor(values)).any():
            raise ValueError(f"the property {name!r} of type {one.type} cannot hold fractions")
    return values.astype(one.dtype)


def _numbers(name: str, column: Any, one: AnnotationProperty) -> npt.NDArray[Any]:
    """Names become the numbers that stand for them, colours such as #ff0000 their components."""
    if isinstance(column, Named):
        codes: npt.NDArray[Any] = _coded(name, column.names, one)[column.codes]
        return codes
    values = np.asarray(column)
    if values.dtype.kind not in "OUST":
        return values
    if one.components > 1:
        if values.ndim == 1 and all(isinstance(text, str) for text in values.tolist()):
            return _colours(name, values.tolist(), one.components)
        return np.array(values.tolist())
    if all(isinstance(text, str) for text in values.tolist()):
        named = Named.of(values)
        found: npt.NDArray[Any] = _coded(name, named.names, one)[named.codes]
        return found
    return np.array(values.tolist())


def _coded(name: str, names: Sequence[str], one: AnnotationProperty) -> npt.NDArray[Any]:
    """The values that these names stand for, in the type of the property. A value without a name is a number."""
    known = [value_of_text(text, one.labels) for text in names]
    if None in known:
        raise ValueError(f"the property {name!r} has no enum_label {names[known.index(None)]!r}")
    return _values(name, np.array(known or [0]), one)


def _colours(name: str, texts: Sequence[str], components: int) -> npt.NDArray[np.uint8]:
    found = np.empty((len(texts), components), np.uint8)
    for row, text in enumerate(texts):
        match = _COLOUR.fullmatch(text)
        if match is None or len(match[1]) != 2 * components:
            raise ValueError(f"the property {name!r} has the colour {text!r}; expected #{'rrggbbaa'[: 2 * components]}")
        found[row] = np.frombuffer(bytes.fromhex(match[1]), np.uint8)
    return found


def _related(name: str, columns: Mapping[str, Any], count: int) -> Ragged:
    """The ids of a relationship: rows of them, or one for each annotation."""
    if name not in columns:
        raise ValueError(f"there is no column of the relationship {name!r}")
    column = columns[name]
    if isinstance(column, Ragged):
        return Ragged(as_ids(column.values), column.offsets)
    if isinstance(column, np.ndarray) and column.dtype.kind in "ui":
        width = 1 if column.ndim == 1 else column.shape[1]
        return Ragged(as_ids(column.reshape(-1)), np.arange(count + 1, dtype=np.int64) * width)
    rows = [[row] if isinstance(row, int | np.integer) else row for row in column]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return Ragged(as_ids([id for row in rows for id in row]), offsets)
