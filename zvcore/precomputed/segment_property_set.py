"""Properties of segments as columns: read from their document, and written into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.casting import is_held_by
from zvcore.errors import ConflictError, MetadataError
from zvcore.precomputed.annotation_source import Named, as_columns
from zvcore.precomputed.ids import as_ids
from zvcore.precomputed.metadata import INFO, info_bytes, read_info, write_info
from zvcore.precomputed.ragged import Ragged
from zvcore.precomputed.segment_properties import check_segment_properties
from zvcore.report import Report
from zvcore.stores import open_store
from zvcore.stores.sole import make_first

if TYPE_CHECKING:
    import os

    from zvcore.format import Node
    from zvcore.stores import Store

__all__ = ["SegmentProperties", "SegmentProperty", "write_segment_properties"]

SEGMENT_PROPERTIES_TYPE = "neuroglancer_segment_properties"
_TEXTS = ("label", "description", "string")
_MOST_TAGS = 1 << 16


@dataclass(frozen=True)
class SegmentProperty:
    """What is said of a column.

    type       label, description, string, tags or number
    data_type  of numbers
    tags       the names that the numbers of a column of tags stand for
    """

    id: str
    type: str
    description: str | None = None
    data_type: str | None = None
    tags: tuple[str, ...] = ()
    tag_descriptions: tuple[str, ...] = ()


class SegmentProperties(Mapping[str, Any]):
    """The properties of a folder, by their names.

    p = zvcore.open("volume/properties")
    p.ids                                # uint64[n]
    p["size"]                            # numbers; texts are arrays of str
    p["tags"]                            # a `Ragged` of numbers of p.properties["tags"].tags
    p.tags("tags")                       # for each segment the names of its tags
    """

    kind = "segment properties"
    format = "precomputed"
    path = ""

    def __init__(self, path: str | os.PathLike[str] | Store, mode: str = "r") -> None:
        self.store = open_store(path, mode)
        self.info: Mapping[str, Any] = read_info(self.store, type=SEGMENT_PROPERTIES_TYPE)
        check_segment_properties(self.info, f"{self.store.root}/{INFO}", Report())
        inline = self.info["inline"]
        self.ids: npt.NDArray[np.uint64] = np.array([int(id) for id in inline["ids"]], np.uint64)
        self._documents = {one["id"]: one for one in inline.get("properties") or ()}

    def __repr__(self) -> str:
        return f"<zvcore.precomputed.SegmentProperties of {len(self.ids)} segments in {self.store.root}>"

    def children(self) -> Mapping[str, Node]:
        """Nothing: columns are no members."""
        return {}

    @property
    def properties(self) -> dict[str, SegmentProperty]:
        return {
            id: SegmentProperty(
                id, one["type"], one.get("description"), one.get("data_type"), tuple(one.get("tags") or ()),
                tuple(one.get("tag_descriptions") or ()),
            )
            for id, one in self._documents.items()
        }  # fmt: skip

    def __getitem__(self, name: str) -> Any:
        one = self._documents[name]
        if one["type"] == "tags":
            return Ragged.of(one["values"], np.uint32)
        if one["type"] in _TEXTS:
            return np.array(one["values"], object)
        found = np.array(one["values"], np.float64)
        dtype = np.dtype(one["data_type"])
        if dtype.kind != "f" and found.size:
            limits = np.iinfo(dtype)
            if not (limits.min <= found.min() and found.max() <= limits.max and (found == np.floor(found)).all()):
                where = f"{self.store.root}/{INFO}"
                raise MetadataError(f"the property {name!r} has values that are not {dtype}", key=where)
        return found.astype(dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    def tags(self, name: str) -> list[list[str]]:
        """The names of each segment's tags."""
        known = self.properties[name].tags
        return [[known[number] for number in row] for row in self[name].tolist()]


def write_segment_properties(
    path: str | os.PathLike[str] | Store,
    ids: Any,
    properties: Any,
    *,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Report:
    """Write the properties of segments into the document of a folder.

    ids         of the segments
    properties  {name: column | (column, {"type":, "description":, "tag_descriptions":})}, or a table of pandas or
                pyarrow. Numbers, texts (of the type that their name says: label, description, else string), and lists
                of texts, which are tags

    The report names what the format cannot hold.
    """
    store = open_store(path, "w")
    if store.exists(INFO) and not overwrite:
        raise ConflictError("there is an info already; overwrite=True replaces it", key=f"{store.root}/{INFO}")
    report = Report()
    numbers = as_ids(ids)
    if len(np.unique(numbers)) < len(numbers):
        raise ValueError("an id is given more than once")
    declared: dict[str, Mapping[str, Any]] = {}
    if isinstance(properties, Mapping):
        pairs = {name: value for name, value in properties.items() if isinstance(value, tuple) and len(value) == 2}
        declared = {name: value[1] for name, value in pairs.items() if isinstance(value[1], Mapping)}
        properties = {name: value[0] if name in declared else value for name, value in properties.items()}
    documents = []
    for name, column in as_columns(properties).items():
        if len(column) != len(numbers):
            raise ValueError(f"the property {name!r} has {len(column)} values for {len(numbers)} segments")
        documents.append(_document(name, column, declared.get(name, {}), report))
    info = {
        **dict(attrs or {}), "@type": SEGMENT_PROPERTIES_TYPE,
        "inline": {"ids": [str(id) for id in numbers.tolist()], "properties": documents},
    }  # fmt: skip
    checked = Report()
    check_segment_properties(info, INFO, checked)
    if checked.problems:
        raise ValueError(str(checked.problems[0]))
    if overwrite:
        write_info(store, info)
    else:
        make_first(store, INFO, info_bytes(info))
    report.count("segments", len(numbers))
    report.count("properties", len(documents))
    return report


def _document(name: str, column: Any, declared: Mapping[str, Any], report: Report) -> dict[str, Any]:
    unknown = sorted(declared.keys() - {"type", "description", "data_type", "tag_descriptions"})
    if unknown:
        raise TypeError(f"a property of segments has no {unknown[0]!r}")
    given = {member: value for member, value in declared.items() if value is not None}
    if isinstance(column, Named):
        column = [column.names[code] for code in column.codes.tolist()]
    if not isinstance(column, Ragged):
        values = column if isinstance(column, np.ndarray) else None
        rows = list(column)
        if given.get("type") == "tags" or any(isinstance(row, list | tuple | set | np.ndarray) for row in rows):
            return {"id": name, **given, "type": "tags", **_tags(name, rows)}
        if any(isinstance(row, str) for row in rows) or given.get("type") in _TEXTS:
            return _texts(name, rows, given)
        column = np.asarray(rows) if values is None else values
        return _numbers(name, column, given, report)
    return {"id": name, **given, "type": "tags", **_tags(name, [row.tolist() for row in column])}


def _texts(name: str, rows: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Texts. There is no missing one: it is empty."""
    type = name if name in ("label", "description") else "string"
    texts = ["" if row is None or row != row else str(row) for row in rows]
    return {"id": name, "type": type, **given, "values": texts}


def _tags(name: str, rows: Sequence[Any]) -> dict[str, Any]:
    if not all(isinstance(tag, str) for row in rows for tag in row):
        raise ValueError(f"the property {name!r} has several values for a segment, and only tags, which are texts, may")
    known = sorted({str(tag) for row in rows for tag in row})
    for tag in known:
        if not tag or any(letter.isspace() for letter in tag) or tag.startswith("#"):
            raise ValueError(f"{name!r}: {tag!r} is no tag: tags have no spaces, and do not begin with #")
    if len({tag.lower() for tag in known}) < len(known):
        raise ValueError(f"{name!r}: two tags differ in nothing but capitals")
    if len(known) > _MOST_TAGS:
        raise ValueError(f"{name!r} has {len(known)} tags; there may be {_MOST_TAGS}")
    place = {tag: number for number, tag in enumerate(known)}
    return {"tags": known, "values": [sorted({place[str(tag)] for tag in row}) for row in rows]}


def _numbers(name: str, values: npt.NDArray[Any], given: Mapping[str, Any], report: Report) -> dict[str, Any]:
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        raise ValueError(f"the property {name!r} cannot be {values.dtype} of the shape {values.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            f"the property {name!r} has values that are not finite numbers, and JSON has none: fill them in"
        )
    wanted = given.get("data_type")
    if wanted is None and values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        if low < -(2**31) or high >= 2**32 or (low < 0 and high >= 2**31):
            report.lose(name, "numbers of 64 bits have no type: they are stored as texts")
            return {"id": name, **given, "type": "string", "values": [str(value) for value in values.tolist()]}
        wanted = "uint32" if low >= 0 else "int32"
    wanted = wanted or {"f": "float32", "b": "uint8"}.get(values.dtype.kind, values.dtype.name)
    dtype = np.dtype(wanted)
    if dtype.kind in "iu" and values.size:
        limits = np.iinfo(dtype)
        if values.min() < limits.min or values.max() > limits.max or (values != np.floor(values)).any():
            raise ValueError(f"the property {name!r} of type {dtype} cannot hold {values.min()} to {values.max()}")
    with np.errstate(over="ignore"):
        stored = values.astype(dtype)
    if not np.isfinite(stored).all():
        raise ValueError(f"the property {name!r} has values that float32 cannot hold")
    if not is_held_by(dtype, values):
        report.lose(name, "the values are stored as float32, which is not exact")
    return {"id": name, **given, "type": "number", "data_type": dtype.name, "values": stored.tolist()}
