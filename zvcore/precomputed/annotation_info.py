"""The document of annotations: their type, properties and relationships, and where their indexes lie."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.documents.members import Anything, Integer, Items, Made, Member, Number, Object, Place, Table, Text
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.precomputed.metadata import resolve_key
from zvcore.precomputed.sharding_spec import ShardingSpec, grid_bits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ANNOTATIONS_TYPE", "GEOMETRY", "MEMBERS", "PROPERTY_ID", "AnnotationInfo", "AnnotationProperty", "Index"]

ANNOTATIONS_TYPE = "neuroglancer_annotations_v1"
# The columns of positions that each type has. Those of polylines have as many positions as each record says.
GEOMETRY = {
    "point": ("point",), "line": ("point_a", "point_b"), "axis_aligned_bounding_box": ("point_a", "point_b"),
    "ellipsoid": ("center", "radii"), "polyline": ("points",),
}  # fmt: skip
# The type of a value, how many there are, and to what they are aligned: stored properties are ordered by that.
_TYPES: dict[str, tuple[str, int, int]] = {
    "uint32": ("<u4", 1, 4), "int32": ("<i4", 1, 4), "float32": ("<f4", 1, 4), "uint16": ("<u2", 1, 2),
    "int16": ("<i2", 1, 2), "uint8": ("u1", 1, 1), "int8": ("i1", 1, 1), "rgb": ("u1", 3, 1), "rgba": ("u1", 4, 1),
    # Only Neuroglancer's viewer knows it.
    "bool": ("u1", 1, 1),
}  # fmt: skip
PROPERTY_ID = re.compile(r"[a-z][a-zA-Z0-9_]*")

_SHARDING = Made(ShardingSpec.from_json, ShardingSpec.to_json)
_INDEX = Table(Member("key", Text()), Member("sharding", _SHARDING, default=None, null=True))
_RELATIONSHIP = Table(Member("id", Text()))
# Numbers of cells are integers of 64 bits, and exact as floats.
_MOST_CELLS = 2**53
_LEVEL = Table(
    Member("grid_shape", Items(Integer(1, _MOST_CELLS)), field="grid"),
    Member("chunk_size", Items(Number(positive=True))),
    Member("limit", Integer(1)),
)  # fmt: skip
_PROPERTY = Table(
    Member("id", Text()), Member("type", Text(*_TYPES)), Member("description", Text(), default=None, null=True),
    Member("enum_values", Items(Number()), default=None, null=True),
    Member("enum_labels", Items(Text()), default=None, null=True), Member("default", Anything(), default=None),
)  # fmt: skip
_KIND = Text(*GEOMETRY, otherwise=UnsupportedError)
_DOCUMENT = Table(
    Member("dimensions", Object()),
    Member("lower_bound", Items(Number())),
    Member("upper_bound", Items(Number())),
    Member("annotation_type", Made(lambda value, place: _KIND.load(_small(value), place), one=_KIND.one), field="type"),
    Member("properties", Items(Object()), default=(), null=True),
    Member("relationships", Items(Object())),
    Member("by_id", Object()),
    Member("spatial", Items(Object())),
)


# What `info` has of the format.
MEMBERS = (
    "@type", "dimensions", "lower_bound", "upper_bound", "annotation_type", "properties", "relationships", "by_id",
    "spatial",
)  # fmt: skip


def _small(value: Any) -> Any:
    """Some programs write types in capitals, others in small letters."""
    return value.lower() if isinstance(value, str) else value


@dataclass(frozen=True)
class AnnotationProperty:
    """A value that every annotation has.

    type         uint8 to int32, float32, rgb or rgba
    enum_values  values that have a name, and
    enum_labels  these names
    default      what Neuroglancer gives new annotations
    """

    id: str
    type: str
    description: str | None = None
    enum_values: tuple[float, ...] | None = None
    enum_labels: tuple[str, ...] | None = None
    default: Any = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of one value, or of one of its components."""
        return np.dtype(_TYPES[self.type][0])

    @property
    def components(self) -> int:
        return _TYPES[self.type][1]

    @property
    def alignment(self) -> int:
        return _TYPES[self.type][2]

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * self.components

    @property
    def labels(self) -> dict[float, str]:
        """The names of values."""
        return dict(zip(self.enum_values or (), self.enum_labels or (), strict=False))

    def to_json(self) -> dict[str, Any]:
        found = {"id": self.id, "type": self.type}
        return found | {
            name: list(value) if isinstance(value, tuple) else value
            for name in ("description", "enum_values", "enum_labels", "default")
            if (value := getattr(self, name)) is not None
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], place: Place) -> AnnotationProperty:
        found = _PROPERTY.load({**document, "type": _small(document.get("type"))}, place)
        if PROPERTY_ID.fullmatch(found["id"]) is None:
            raise place.member("id").wrong("a small letter, then letters, digits and _", found["id"])
        values, labels = found["enum_values"], found["enum_labels"]
        if (values is None) != (labels is None) or (values is not None and len(values) != len(labels)):
            raise place.error("there is not one of enum_labels for each of enum_values")
        if values is not None and _TYPES[found["type"]][1] > 1:
            raise place.error(f"values of type {found['type']} have no enum_labels")
        return cls(**found)


@dataclass(frozen=True)
class Index:
    """One of the indexes: by id, of a relationship, or a level of the spatial one.

    what        in words
    folder      where it lies
    name        of a relationship
    single      whether a value is one annotation; else it is a list
    grid        of a level, how many cells there are along each axis
    chunk_size  of a level, how large they are
    limit       of a level, how many annotations its cells are meant to have
    """

    what: str
    folder: str
    sharding: ShardingSpec | None
    name: str = ""
    single: bool = False
    grid: tuple[int, ...] | None = None
    chunk_size: tuple[float, ...] = ()
    limit: int = 0

    @classmethod
    def from_json(cls, what: str, document: Any, place: Place, **facts: Any) -> Index:
        found = _INDEX.load(document, place)
        try:
            folder = place.member("key").made(resolve_key, found["key"])
        except MetadataError as error:
            # A path may lead anywhere from the folder of the document; zvcore stays within it.
            raise UnsupportedError(error.message, key=error.key, member=error.member, found=error.found) from None
        grid = facts.get("grid")
        if grid is not None and found["sharding"] is not None and sum(grid_bits(grid)) > 64:
            raise place.member("grid_shape").error("the ids of the cells do not fit into 64 bits", found=list(grid))
        return cls(what, folder, found["sharding"], **facts)


@dataclass(frozen=True)
class AnnotationInfo:
    """What the document says, checked.

    type           point, line, axis_aligned_bounding_box, ellipsoid or polyline
    dimensions     {name: (scale, unit)} in the order of coordinates
    properties     as they are declared
    relationships  an index for each
    levels         of the spatial index, the coarsest first
    """

    type: str
    dimensions: dict[str, tuple[float, str]]
    lower_bound: tuple[float, ...]
    upper_bound: tuple[float, ...]
    properties: tuple[AnnotationProperty, ...]
    by_id: Index
    relationships: tuple[Index, ...] = ()
    levels: tuple[Index, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def indexes(self) -> tuple[Index, ...]:
        return (self.by_id, *self.relationships, *self.levels)

    @classmethod
    def from_json(cls, info: Mapping[str, Any], where: str) -> AnnotationInfo:
        place = Place(where)
        found = _DOCUMENT.load(info, place)
        rank = len(found["dimensions"])
        for name in ("lower_bound", "upper_bound"):
            _refuse_other_rank(found[name], rank, place.member(name))
        found["dimensions"] = _dimensions(found["dimensions"], place.member("dimensions"))
        properties: list[AnnotationProperty] = []
        ids: set[str] = set()
        for number, document in enumerate(found["properties"]):
            here = place.member("properties").item(number)
            properties.append(AnnotationProperty.from_json(document, here))
            if properties[-1].id in ids:
                raise here.member("id").error("two properties have the same id", found=properties[-1].id)
            ids.add(properties[-1].id)
        found["properties"] = tuple(properties)
        found["by_id"] = Index.from_json("by_id", found["by_id"], place.member("by_id"), single=True)
        relationships = []
        for number, document in enumerate(found["relationships"]):
            here = place.member("relationships").item(number)
            name = _RELATIONSHIP.load(document, here)["id"]
            relationships.append(Index.from_json(f"relationship {name!r}", document, here, name=name))
        found["relationships"] = tuple(relationships)
        levels = []
        for number, document in enumerate(found.pop("spatial")):
            here = place.member("spatial").item(number)
            level = _LEVEL.load(document, here)
            for field_name, member in (("grid", "grid_shape"), ("chunk_size", "chunk_size")):
                _refuse_other_rank(level[field_name], rank, here.member(member))
            levels.append(Index.from_json(f"spatial level {number}", document, here, **level))
        return cls(**found, levels=tuple(levels), document=info)

    def to_json(self) -> dict[str, Any]:
        """The document. Neuroglancer refuses a `sharding` of null, CloudVolume types in small letters."""
        return {
            "@type": ANNOTATIONS_TYPE,
            "dimensions": {name: list(pair) for name, pair in self.dimensions.items()},
            "lower_bound": list(self.lower_bound),
            "upper_bound": list(self.upper_bound),
            "annotation_type": self.type.upper(),
            "properties": [one.to_json() for one in self.properties],
            "relationships": [{"id": one.name, **_place_of(one)} for one in self.relationships],
            "by_id": _place_of(self.by_id),
            "spatial": [
                {
                    **_place_of(one), "grid_shape": list(one.grid or ()), "chunk_size": list(one.chunk_size),
                    "limit": one.limit,
                }
                for one in self.levels
            ],
        }  # fmt: skip


def _place_of(index: Index) -> dict[str, Any]:
    return {"key": index.folder} | ({} if index.sharding is None else {"sharding": index.sharding.to_json()})


def _dimensions(found: Mapping[str, Any], place: Place) -> dict[str, tuple[float, str]]:
    for name, value in found.items():
        here = place.member(name)
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)):
            raise here.wrong("a number and a unit", value)
        Number().load(value[0], here.item(0))
    return {name: (value[0], value[1]) for name, value in found.items()}


def _refuse_other_rank(values: Sequence[Any], rank: int, place: Place) -> None:
    if len(values) != rank:
        raise place.error("there is not one number for each dimension", expected=rank, found=len(values))
