"""What callers give: positions, attributes and ids, as arrays or as anything that yields them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.casting import is_held_by
from zvcore.zarr3.metadata import DOCUMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zvcore.report import Report
    from zvcore.zvf.attributes import AttributeForm

__all__ = ["Belongings", "GivenAttribute", "checked_ids", "line_batches", "point_batches", "possible_names"]

Ints = npt.NDArray[np.int64]

# How many vertices go through the cutting at a time when input is an iterator.
BATCH_VERTICES = 1 << 19


@dataclass(frozen=True)
class Belongings:
    """What is given of objects, of fragments and of groups of objects, by name or number."""

    object_attributes: Mapping[str, Any]
    fragment_attributes: Mapping[str, Mapping[tuple[int, ...], Any]]
    groups: Mapping[int, Any]
    group_attributes: Mapping[str, Any]

    @classmethod
    def of(cls, *given: Mapping[Any, Any] | None) -> Belongings:
        """From what callers give, which may be nothing."""
        found = cls(*(one or {} for one in given))
        for names in (found.object_attributes, found.fragment_attributes, found.group_attributes):
            _checked_names(names)
        return found


def _is_name(name: str) -> bool:
    """Whether an attribute may be called so: it is an array below this name."""
    return name not in ("", ".", "..", DOCUMENT) and not set(name) & set("/\\\0")


def possible_names(names: Iterable[str], report: Report) -> Iterator[str]:
    """The names that attributes can have; the others are told."""
    for name in names:
        if _is_name(name):
            yield name
        else:
            report.lose("", f"the attribute {name!r} has no place in a store: no array can be called so")


def _checked_names(names: Iterable[str]) -> None:
    for name in names:
        if not _is_name(name):
            raise ValueError(f"an attribute cannot be called {name!r}: it is an array below this name")


def _refuse_more(sources: Mapping[str, Iterator[Any]], ids: Any, count: int) -> None:
    """What is left of attributes and ids after the last line or table was meant for something. Ids may be endless."""
    for name, source in sources.items():
        if next(source, None) is not None:
            raise ValueError(f"{name!r} goes on after the positions end")
    if hasattr(ids, "__len__") and len(ids) != count:
        raise ValueError(f"there are {len(ids)} object_ids for {count} lines or tables of points")


def _is_table(values: Any) -> bool:
    """Whether input is one array rather than a sequence of them."""
    return isinstance(values, np.ndarray) and values.dtype != object


def _rows(values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype of positions is float32 or float64, not {dtype}")
    rows = np.asarray(values, dtype)
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= 16:
        raise ValueError(f"positions must be a table of one row per vertex, got shape {rows.shape}")
    return rows


def point_batches(
    positions: Any, attributes: Mapping[str, Any] | None, object_ids: Any, dtype: np.dtype[Any]
) -> Iterator[tuple[dict[str, npt.NDArray[Any]], Ints | None]]:
    whole = _is_table(positions) or (isinstance(positions, (list, tuple)) and np.ndim(positions[:1]) == 2)
    named = dict(attributes or {})
    _checked_names(named)
    tables = [positions] if whole else positions
    others = [iter([values] if whole else values) for values in named.values()]
    ids_of = None if object_ids is None else iter([object_ids] if whole else object_ids)
    width: int | None = None
    count = 0
    for table in tables:
        count += 1
        rows = _rows(table, dtype)
        columns = {"": rows}
        for name, values in zip(named, others, strict=True):
            columns[name] = _aligned(name, next(values, None), len(rows))
        ids = None
        if ids_of is not None:
            ids = _aligned("object_ids", next(ids_of, None), len(rows))
            ids = checked_ids(ids)
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"positions of {rows.shape[1]} and of {width} coordinates")
        if len(rows):
            yield columns, ids
    _refuse_more(dict(zip(named, others, strict=True)), None if whole else object_ids, count)


def _aligned(name: str, values: Any, rows: int) -> npt.NDArray[Any]:
    if values is None:
        raise ValueError(f"{name!r} ends before the positions do")
    if np.ma.is_masked(values):
        raise ValueError(f"{name!r} has missing values: fill them in")
    array = np.asarray(values)
    if array.ndim < 1 or len(array) != rows:
        raise ValueError(f"{name!r} has {len(array) if array.ndim else 'no'} rows for {rows} positions")
    return array


def _joined(name: str, parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The values of several lines, in a type that holds each: numpy's common type may hold less, or be text."""
    # What has no values has no type either, though numpy makes floats of it.
    parts = [part for part in parts if len(part)] or parts[:1]
    types = {part.dtype for part in parts}
    whole = np.concatenate(parts)
    if len(types) > 1:
        text = whole.dtype.kind in "USO"
        for part in parts:
            same = (part.dtype.kind in "USO") == text
            if not same or not (text or whole.dtype.kind not in "fiub" or is_held_by(whole.dtype, part)):
                raise ValueError(
                    f"{name!r} is {' and '.join(sorted(map(str, types)))} in different lines, and no type holds both"
                )
    return whole


def checked_ids(ids: npt.NDArray[Any]) -> Ints:
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise TypeError(f"object ids are integers, got {ids.dtype}")
    if len(ids) and (ids.min() < 0 or ids.max() > 2**63 - 1):
        raise ValueError(f"object ids must be >= 0 and fit a signed 64-bit integer, got {ids.min()} to {ids.max()}")
    return ids.astype(np.int64)


def line_batches(
    lines: Iterable[Any], attributes: Mapping[str, Iterable[Any]] | None, object_ids: Iterable[int] | None,
    dtype: np.dtype[Any],
) -> Iterator[tuple[dict[str, npt.NDArray[Any]], Ints, Ints | None]]:  # fmt: skip
    _checked_names(attributes or {})
    named = {name: iter(values) for name, values in (attributes or {}).items()}
    given = None if object_ids is None else iter(object_ids)
    held: list[npt.NDArray[Any]] = []
    values: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in named}
    ids: list[int] = []
    size = count = 0
    width: int | None = None

    def batch() -> tuple[dict[str, npt.NDArray[Any]], Ints, Ints | None]:
        columns = {"": np.concatenate(held)}
        for name, parts in values.items():
            columns[name] = _joined(name, parts)
        offsets = np.cumsum([0, *map(len, held)]).astype(np.int64)
        return columns, offsets, None if given is None else checked_ids(np.array(ids))

    for line in lines:
        rows = _rows(line, dtype)
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"lines of {rows.shape[1]} and of {width} coordinates")
        for name, source in named.items():
            values[name].append(_aligned(name, next(source, None), len(rows)))
        if given is not None:
            number = next(given, None)
            if number is None:
                raise ValueError("object_ids end before the lines do")
            ids.append(number)
        held.append(rows)
        count += 1
        size += len(rows)
        if size >= BATCH_VERTICES:
            yield batch()
            held, ids, size = [], [], 0
            values = {name: [] for name in named}
    _refuse_more(named, object_ids, count)
    if held:
        yield batch()


class GivenAttribute:
    """A per-vertex attribute that is being written: its type, and the categories of one that is text."""

    def __init__(self, name: str, values: npt.NDArray[Any], form: AttributeForm | None) -> None:
        self.name = name
        self.text = values.dtype.kind in "USO"
        self.row_shape = tuple(values.shape[1:])
        self.codes: dict[Any, int] = {}
        self.missing = False
        self.fixed = form
        if self.text and self.row_shape:
            raise ValueError(f"attribute {name!r} is text and must have one value per vertex, got {values.shape}")
        if not self.text and values.dtype.kind not in "fiub":
            raise TypeError(f"attribute {name!r} must be numbers or text, not {values.dtype}")
        self.dtype = np.dtype(np.int32) if self.text else values.dtype.newbyteorder("=")
        if form is not None:
            if self.text != (form.categories is not None) or self.row_shape != form.row_shape:
                raise ValueError(f"attribute {name!r} has another form than the store's")
            if not self.text and form.dtype.newbyteorder("=") != self.dtype:
                raise ValueError(f"attribute {name!r} is {self.dtype} and {form.dtype.newbyteorder('=')} in the store")
            self.codes = {value: code for code, value in enumerate(form.categories or ())}

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What to keep of values: themselves, or codes in the order in which categories turn up."""
        if values.shape[1:] != self.row_shape or (values.dtype.kind in "USO") != self.text:
            raise ValueError(f"attribute {self.name!r} changes its form between batches")
        if not self.text:
            # The first batch says which type there is. Those after it may be of another, and hold what it cannot.
            if values.dtype.kind not in "fiub" or not is_held_by(self.dtype, values):
                raise ValueError(
                    f"attribute {self.name!r} is {self.dtype} at first and {values.dtype} later, of which it cannot "
                    "hold all values"
                )
            return np.ascontiguousarray(values, self.dtype)
        out = np.empty(len(values), np.int32)
        if values.dtype.kind == "O":
            for i, value in enumerate(values.tolist()):
                out[i] = -1 if value is None else self._code(value)
            return out
        names, inverse = np.unique(values, return_inverse=True)
        known = np.array([self._code(name) for name in names.tolist()], np.int32)
        return known[inverse.reshape(-1)]

    def _code(self, value: Any) -> int:
        text = value.decode() if isinstance(value, bytes) else value
        return self.codes.setdefault(text, len(self.codes))

    def settle(self) -> tuple[np.dtype[Any], dict[str, Any], npt.NDArray[Any] | None]:
        """(stored type, attributes of the array, what each code becomes)."""
        attributes: dict[str, Any] = {"zv_array": "attribute", "name": self.name}
        if not self.text:
            attributes["dtype"] = self.dtype.name
            if len(self.row_shape) == 1:
                attributes["channel_names"] = [f"ch{i}" for i in range(self.row_shape[0])]
            return self.dtype, {**attributes, "row_shape": list(self.row_shape)}, None
        names = list(self.codes)
        if self.fixed is None:
            order = sorted(range(len(names)), key=lambda code: str(names[code]))
            names = [names[code] for code in order]
        else:
            order = list(range(len(names)))
        becomes = np.empty(len(order) + 1, np.int64)
        becomes[np.array(order, np.int64)] = np.arange(len(order))
        becomes[-1] = -1
        missing = self.missing or (self.fixed is not None and self.fixed.missing is not None)
        bits = next(b for b in (8, 16, 32) if len(names) <= 2 ** (b - missing))
        dtype = np.dtype(f"{'int' if missing else 'uint'}{bits}")
        if self.fixed is not None and self.fixed.dtype.itemsize >= dtype.itemsize:
            dtype = self.fixed.dtype.newbyteorder("=")
        attributes |= {"dtype": dtype.name, "row_shape": [], "encoding": "dictionary", "categories": names,
                       "ordered": False}  # fmt: skip
        if missing:
            attributes["_FillValue"] = -1
        return dtype, attributes, becomes.astype(dtype)
