"""Values that belong to vertices, fragments, objects or groups, and the groups themselves."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError
from zvcore.zvf.nodes import Column, Node, joined_rows, read_node

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = [
    "GROUP_NAMES",
    "AttributeForm",
    "object_attribute",
    "read_groups",
    "shape_of_object_attribute",
    "stored_dtype",
]

# The attribute with the names of groups, of which a store has only numbers.
GROUP_NAMES = "group_names"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AttributeForm:
    """How the bytes of a cell become rows: little-endian items of `dtype`, `row_shape` of them per row.

    categories  what the codes of a dictionary-encoded attribute stand for
    missing     the code that stands for nothing
    """

    dtype: np.dtype[Any]
    row_shape: tuple[int, ...] = ()
    categories: tuple[Any, ...] | None = None
    missing: int | None = None

    @classmethod
    def of(cls, node: Node) -> AttributeForm:
        """From the attributes of an array of values per vertex or per fragment."""
        attrs = node.attrs
        row_shape = attrs.get("row_shape")
        if row_shape is None:
            # Before 0.9 only the names of the channels tell how many there are.
            channels = attrs.get("channel_names")
            row_shape = [len(channels)] if isinstance(channels, list) and channels else []
        fine = isinstance(row_shape, list) and len(row_shape) <= 8 and all(isinstance(n, int) for n in row_shape)
        if not fine or not all(n > 0 for n in row_shape) or prod(row_shape) >= 2**31:
            raise MetadataError("row_shape must be a list of sizes", key=node.key, found=repr(row_shape)[:99])
        categories = attrs.get("categories")
        if attrs.get("encoding") != "dictionary":
            categories = None
        elif not isinstance(categories, list):
            raise MetadataError("a dictionary-encoded attribute without categories", key=node.key)
        missing = attrs.get("_FillValue")
        return cls(
            stored_dtype(attrs.get("dtype"), node), tuple(row_shape),
            None if categories is None else tuple(categories), missing if isinstance(missing, int) else None,
        )  # fmt: skip

    @property
    def number_type(self) -> np.dtype[Any] | None:
        """The type of the values; None where they are names, or some may be missing."""
        if self.categories is None:
            return self.dtype.newbyteorder("=")
        found = _as_array(self.categories).dtype
        return found if found.kind in "fiub" and self.missing is None else None

    @classmethod
    def of_vertices(cls, node: Node, ndim: int) -> AttributeForm:
        encoding = node.attrs.get("encoding", "raw")
        if encoding != "raw":
            raise UnsupportedError(f"vertices of encoding {encoding!r}; only raw ones are known", key=node.key)
        dtype = stored_dtype(node.attrs.get("dtype"), node)
        if dtype.kind not in "fiu":
            raise MetadataError("coordinates must be numbers", key=node.key, found=str(dtype))
        return cls(dtype, (ndim,))

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * prod(self.row_shape)

    def rows_in(self, size: int, path: str, chunk: Any) -> int:
        if size % self.row_bytes:
            raise CorruptDataError(
                "a cell that is no whole number of rows", key=path, chunk=chunk,
                expected=f"a multiple of {self.row_bytes} bytes", found=size,
            )  # fmt: skip
        return size // self.row_bytes

    def decode(self, cell: Any, path: str, chunk: Any) -> npt.NDArray[Any]:
        """The rows of one cell, as stored numbers."""
        rows = self.rows_in(len(cell), path, chunk)
        values = np.frombuffer(bytes(cell), self.dtype).reshape(rows, *self.row_shape)
        return values.astype(self.dtype.newbyteorder("="))

    def values(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What rows of stored numbers mean: themselves, or categories."""
        if self.categories is None:
            return rows
        codes = rows.astype(np.int64)
        absent = np.zeros(codes.shape, bool) if self.missing is None else codes == self.missing
        wrong = codes[~absent & ((codes < 0) | (codes >= len(self.categories)))]
        if wrong.size:
            raise CorruptDataError(
                "a code that stands for no category", expected=f"0 to {len(self.categories) - 1}", found=int(wrong[0])
            )
        names = _as_array(self.categories)
        found = names[np.where(absent, 0, codes)]
        if absent.any():
            found = found.astype(object)
            found[absent] = None
        return found


def shape_of_object_attribute(store: Store, path: str) -> list[Any]:
    """The shape that its document claims, as far as it does."""
    node = read_node(store, path)
    found = None if node is None else node.document.get("shape", node.attrs.get("shape"))
    return found if isinstance(found, list) else []


def _as_array(categories: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Names or numbers as an array of text or of numbers; anything else, and an empty list, as objects."""
    if categories and any(all(isinstance(one, kind) for one in categories) for kind in (str, (int, float))):
        return np.asarray(categories)
    found = np.empty(max(1, len(categories)), object)
    for place, one in enumerate(categories):
        found[place] = one
    return found


def stored_dtype(name: Any, node: Node) -> np.dtype[Any]:
    try:
        dtype = np.dtype(name) if isinstance(name, str) else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise MetadataError("a dtype that is no number", key=node.key, found=repr(name)[:99])
    return dtype.newbyteorder("<")


def object_attribute(store: Store, path: str) -> npt.NDArray[Any]:
    """One value, or one row of them, per object or group."""
    node = read_node(store, path)
    if node is None:
        raise NotFoundError("there is no such attribute", key=path)
    if isinstance(node, Column):
        return node.read_numbers()
    # Before 0.8.1: the bytes of the whole array in a child.
    child = node.child("data")
    if not isinstance(child, Column):
        raise UnsupportedError("an attribute that is neither an array nor a group with data", key=node.key)
    dtype = stored_dtype(node.attrs.get("dtype"), node)
    raw = child.read_numbers().tobytes()
    shape = node.attrs.get("shape")
    if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise MetadataError("an attribute without a shape", key=node.key, found=repr(shape)[:99])
    if prod(shape) * dtype.itemsize != len(raw):
        raise CorruptDataError(
            "an attribute of another size than its shape says", key=path, expected=prod(shape) * dtype.itemsize,
            found=len(raw),
        )  # fmt: skip
    return np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def read_groups(store: Store, path: str) -> dict[int, Ints]:
    """{group: its members}, without groups that have none."""
    node = read_node(store, path)
    if node is None:
        return {}
    if isinstance(node, Column):
        data, starts, lengths = node.read_rows()
    else:
        blob, raw = node.child("data"), node.child("offsets")
        if not isinstance(blob, Column) or not isinstance(raw, Column):
            return {}
        data, starts, lengths = joined_rows(blob, raw)
    groups = _group_ranges(node)
    for row in np.flatnonzero(lengths).tolist():
        members = data[starts[row] : starts[row] + lengths[row]]
        if len(members) % 8:
            raise CorruptDataError("a group that is no list of ids", key=path, chunk=f"group {row}", found=len(members))
        groups[row] = np.frombuffer(members.tobytes(), "<i8").astype(np.int64)
    return groups


# A range takes a few bytes, however many members it claims.
_MAX_MEMBERS = 2**27


def _group_ranges(node: Node) -> dict[int, Ints]:
    """Groups of consecutive ids, which the attributes hold as [first, after the last]."""
    given = node.attrs.get("group_ranges", {})
    groups = {}
    for name, span in given.items() if isinstance(given, dict) else ():
        numbers = isinstance(span, list) and len(span) == 2 and all(isinstance(end, int) for end in span)
        if (
            not name.isdecimal()
            or len(name) > 18
            or not numbers
            or not 0 <= span[1] - span[0] <= _MAX_MEMBERS
            or abs(span[0]) >= 2**62
        ):
            raise MetadataError("a range of a group that is none", key=node.key, found=f"{name}: {span}"[:99])
        groups[int(name)] = np.arange(span[0], span[1], dtype=np.int64)
    return groups
