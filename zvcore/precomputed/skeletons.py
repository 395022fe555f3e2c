"""Skeletons: vertices, edges and attributes by segment id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from zvcore.documents.members import Items, Made, Place
from zvcore.errors import CorruptDataError, MetadataError
from zvcore.precomputed.ids import Ids, as_id
from zvcore.precomputed.metadata import info_bytes
from zvcore.precomputed.objects import IDENTITY, SegmentFiles, SegmentMapping, SegmentObjects
from zvcore.precomputed.replacing import Replacing, names_of_shards, names_there, take_back
from zvcore.precomputed.set_files import put_objects
from zvcore.precomputed.shard_writer import write_set
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.precomputed.spooling import scratch_file, spool, spooled, taken_first
from zvcore.precomputed.surfaces import transformed
from zvcore.stores import open_store
from zvcore.stores.sole import sole_writer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from zvcore.stores import Store

__all__ = ["Skeleton", "Skeletons", "VertexAttribute", "skeleton_document", "write_skeletons"]

SKELETONS_TYPE = "neuroglancer_skeletons"
_TYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32")
_MOST_COMPONENTS = 1 << 16
RADIUS = "radius"


@dataclass(frozen=True)
class VertexAttribute:
    """A value that each vertex has: its name, the type of its numbers, and how many they are."""

    id: str
    data_type: str = "float32"
    num_components: int = 1

    def __post_init__(self) -> None:
        name: Any = self.id
        if not isinstance(name, str) or not name:
            raise MetadataError("a vertex attribute has no id", found=repr(name))
        if self.data_type not in _TYPES:
            raise MetadataError(
                f"vertex attribute {self.id!r}: wrong data_type", expected=", ".join(_TYPES), found=repr(self.data_type)
            )
        count: Any = self.num_components
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_COMPONENTS:
            raise MetadataError(
                f"vertex attribute {self.id!r}: wrong num_components",
                expected=f"1 to {_MOST_COMPONENTS}",
                found=repr(count),
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.data_type).newbyteorder("<")

    @classmethod
    def from_json(cls, document: Any) -> VertexAttribute:
        if not isinstance(document, Mapping):
            raise MetadataError("a vertex attribute is not a JSON object", found=repr(document))
        return cls(document.get("id", ""), document.get("data_type", ""), document.get("num_components", 1))

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "data_type": self.data_type, "num_components": self.num_components}


_VERTEX_ATTRIBUTES = Items(Made(lambda document, _: VertexAttribute.from_json(document), VertexAttribute.to_json))


@dataclass
class Skeleton:
    """A graph in space.

    vertices    float32[n, 3], in stored coordinates (`Skeletons.transform` leads to nanometers)
    edges       uint32[m, 2], pairs of vertices
    attributes  for each vertex attribute an array [n], or [n, components]
    """

    vertices: npt.NDArray[np.float32]
    edges: npt.NDArray[np.uint32]
    attributes: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, attributes: Sequence[VertexAttribute] = ()) -> Skeleton:
        """Decode a stored skeleton; CorruptDataError when it is none with these attributes."""
        if len(data) < 8:
            raise CorruptDataError("the skeleton is cut off", expected="at least 8 bytes", found=len(data))
        count, edge_count = (int(number) for number in np.frombuffer(data, "<u4", 2))
        per_vertex = 12 + sum(attribute.dtype.itemsize * attribute.num_components for attribute in attributes)
        size = 8 + count * per_vertex + 8 * edge_count
        if len(data) != size:
            text = f"a skeleton of {count} vertices and {edge_count} edges has another size"
            raise CorruptDataError(text, expected=f"{size} bytes", found=len(data))
        vertices = np.frombuffer(data, "<f4", 3 * count, 8).reshape(-1, 3).astype(np.float32)
        at = 8 + 12 * count
        edges = np.frombuffer(data, "<u4", 2 * edge_count, at).reshape(-1, 2).astype(np.uint32)
        at += 8 * edge_count
        if edge_count and int(edges.max()) >= count:
            raise CorruptDataError(
                "an edge leads to a vertex that is not there", expected=f"less than {count}", found=int(edges.max())
            )
        values = {}
        for attribute in attributes:
            numbers = np.frombuffer(data, attribute.dtype, count * attribute.num_components, at)
            at += numbers.nbytes
            numbers = numbers.astype(attribute.dtype.newbyteorder("="))
            values[attribute.id] = (
                numbers if attribute.num_components == 1 else numbers.reshape(count, attribute.num_components)
            )
        return cls(vertices, edges, values)

    def in_nanometers(self, transform: npt.NDArray[np.float64]) -> Skeleton:
        """The same in nanometers, as the transform of a folder of skeletons makes them of stored places.

        Radii are scaled with it where it is the same along all axes; where it is not, there is no such number.
        """
        attributes = dict(self.attributes)
        lengths = np.linalg.norm(transform[:, :3], axis=0)
        if RADIUS in attributes and np.allclose(lengths, lengths[0], rtol=1e-6) and lengths[0] != 1:
            attributes[RADIUS] = (np.asarray(attributes[RADIUS], np.float64) * lengths[0]).astype(np.float32)
        return Skeleton(transformed(np.asarray(self.vertices), transform), self.edges, attributes)

    def to_bytes(self, attributes: Sequence[VertexAttribute] = ()) -> bytes:
        """The stored form, with exactly these attributes."""
        vertices = _as_float32(np.asarray(self.vertices), "the skeleton has vertices that")
        edges = np.asarray(self.edges)
        if vertices.ndim != 2 or vertices.shape[1] != 3:
            raise ValueError(f"vertices have the shape [n, 3], not {vertices.shape}")
        if not np.isfinite(vertices).all():
            raise ValueError("the skeleton has vertices that lie nowhere: NaN or infinity")
        if edges.size == 0:
            edges = edges.reshape(0, 2).astype("<u4")
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "ui":
            raise ValueError(f"edges are integers of the shape [m, 2], not {edges.dtype} of {edges.shape}")
        if edges.size and not (int(edges.min()) >= 0 and int(edges.max()) < len(vertices)):
            raise ValueError(f"edges lead from {edges.min()} to {edges.max()}; there are {len(vertices)} vertices")
        unknown = set(self.attributes) - {attribute.id for attribute in attributes}
        if unknown:
            raise ValueError(f"the skeleton has attributes that are not declared: {', '.join(sorted(unknown))}")
        parts = [
            np.array([len(vertices), len(edges)], "<u4").tobytes(),
            vertices.tobytes(),
            edges.astype("<u4").tobytes(),
        ]
        for attribute in attributes:
            if attribute.id not in self.attributes:
                raise ValueError(f"the skeleton lacks the attribute {attribute.id!r}")
            values = np.asarray(self.attributes[attribute.id])
            if values.size != len(vertices) * attribute.num_components or len(values) != len(vertices):
                expected = (len(vertices), attribute.num_components)
                raise ValueError(f"attribute {attribute.id!r} has the shape {values.shape}, not {expected}")
            parts.append(_as_stored(attribute, values).tobytes())
        return b"".join(parts)


def _as_stored(attribute: VertexAttribute, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values in the type of their attribute; ValueError for those that it cannot hold."""
    if attribute.dtype.kind == "f":
        return _as_float32(values, f"attribute {attribute.id!r} has values that")
    if attribute.dtype.kind in "iu" and values.size and not np.can_cast(values.dtype, attribute.dtype):
        limits = np.iinfo(attribute.dtype)
        low, high = values.min(), values.max()
        # NaN is neither more nor less than anything.
        if not (low >= limits.min and high <= limits.max and (values == np.floor(values)).all()):
            raise ValueError(
                f"attribute {attribute.id!r} of type {attribute.data_type} cannot hold values from {low} to {high}"
            )
    return values.astype(attribute.dtype)


def _as_float32(values: npt.NDArray[Any], what: str) -> npt.NDArray[np.float32]:
    """Numbers rounded to float32; ValueError for those that would become infinite."""
    with np.errstate(over="ignore"):
        stored = values.astype("<f4")
    if values.dtype.itemsize > 4 and bool((np.isinf(stored) & np.isfinite(values)).any()):
        raise ValueError(f"{what} float32 cannot hold")
    return stored


class Skeletons(SegmentMapping[Skeleton]):
    """The skeletons of a folder by segment id, sharded or in files of their own."""

    what = "skeleton"
    kind = "skeletons"

    def __init__(self, path: str | os.PathLike[str] | Store, mode: str = "r") -> None:
        super().__init__(SegmentObjects(open_store(path, mode), mode, SKELETONS_TYPE))
        declared = self.info.get("vertex_attributes") or []
        place = Place(self._objects.where, "$.vertex_attributes")
        self.vertex_attributes: tuple[VertexAttribute, ...] = _VERTEX_ATTRIBUTES.load(declared, place)
        _refuse_same_ids(self.vertex_attributes, place)

    def _parsed(self, id: int, data: bytes) -> Skeleton:
        return Skeleton.from_bytes(data, self.vertex_attributes)

    def in_nanometers(self, id: SupportsIndex) -> Skeleton:
        """The skeleton of a segment with the transform of `info` applied."""
        return self[as_id(id)].in_nanometers(self.transform)

    def update(self, skeletons: Mapping[Any, Skeleton] | Iterable[tuple[SupportsIndex, Skeleton]]) -> None:
        """Add skeletons or replace them."""
        self._objects.check_writable()
        pairs = skeletons.items() if isinstance(skeletons, Mapping) else skeletons
        encoded = ((id, skeleton.to_bytes(self.vertex_attributes)) for id, skeleton in pairs)
        if self._objects.shards is not None:
            self._objects.shards.update(encoded)
            return
        files = self._objects.files
        put_objects(self.store, (((files.key(id), data),) for id, data in encoded))

    def delete(self, ids: Ids) -> None:
        """Take skeletons out; ids that have none are passed over."""
        self._objects.delete(ids)


def _refuse_same_ids(attributes: Sequence[VertexAttribute], place: Place) -> None:
    """Of two attributes with one id, skeletons would keep one."""
    seen: set[str] = set()
    for attribute in attributes:
        if attribute.id in seen:
            raise place.error("two vertex attributes have the same id", found=attribute.id)
        seen.add(attribute.id)


def skeleton_document(
    vertex_attributes: Sequence[VertexAttribute],
    spec: ShardingSpec | None,
    transform: Sequence[float] = IDENTITY,
    attrs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The `info` of a folder of skeletons with these attributes."""
    _refuse_same_ids(vertex_attributes, Place(None, "vertex_attributes"))
    document: dict[str, Any] = {
        "@type": SKELETONS_TYPE,
        "transform": [float(number) for number in transform],
        "vertex_attributes": [attribute.to_json() for attribute in vertex_attributes],
        **(attrs or {}),
    }
    return document if spec is None else {**document, "sharding": spec.to_json()}


def write_skeletons(
    path: str | os.PathLike[str] | Store,
    skeletons: Mapping[Any, Skeleton] | Iterable[tuple[SupportsIndex, Skeleton]],
    *,
    vertex_attributes: Sequence[VertexAttribute] = (),
    transform: Sequence[float] = IDENTITY,
    sharding: ShardingSpec | Mapping[str, Any] | str | None = None,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> int:
    """Make a folder of skeletons with its `info`, from a mapping or any number of pairs; how many there were.

    With `sharding` they are written as `write_sharded` does it ("advise": with bits that suit their number and size,
    for which they wait in a file); without, each is a file. `attrs` are further members of `info`, such as
    `segment_properties`.
    """
    store = open_store(path, "w")
    Replacing(store, "skeletons", overwrite)  # refused before anything is encoded
    pairs = skeletons.items() if isinstance(skeletons, Mapping) else skeletons
    encoded = ((as_id(id), skeleton.to_bytes(vertex_attributes)) for id, skeleton in pairs)
    if sharding != "advise":
        spec = None if sharding is None else as_spec(sharding)
        document = skeleton_document(vertex_attributes, spec, transform, attrs)
        return _write(store, spec, encoded, document, overwrite)
    with scratch_file(store) as file:
        number, size = spool(file, ((id, (data,)) for id, data in encoded), 1)
        spec = ShardingSpec.advise(count=number, bytes=size)
        document = skeleton_document(vertex_attributes, spec, transform, attrs)
        return _write(store, spec, ((id, data) for id, (data,) in spooled(file, 1)), document, overwrite)


def _write(
    store: Store,
    spec: ShardingSpec | None,
    encoded: Iterable[tuple[int, bytes]],
    document: dict[str, Any],
    overwrite: bool,
) -> int:
    info_bytes(document)  # what it cannot say is refused before anything is replaced
    with sole_writer(store):
        replacing = Replacing(store, "skeletons", overwrite)
        if spec is not None:
            count = write_set(store, spec, encoded, overwrite, partial(replacing.begin, document))
            new = names_of_shards(store, spec)
        else:
            new = _write_files(store, encoded, partial(replacing.begin, document))
            count = len(new)
        replacing.end(document, new)
    return count


def _write_files(store: Store, encoded: Iterable[tuple[int, bytes]], begin: Callable[[], None]) -> set[str]:
    """A file for each skeleton: their names. `begin` is called before any is written."""
    files, there = SegmentFiles(store), names_there(store)
    new: set[str] = set()
    try:
        with taken_first(store, ((id, (data,)) for id, data in encoded), 1, wait=bool(there)) as values:
            put_objects(store, (((files.key(id), data),) for id, (data,) in values), new, begin)
    except BaseException:
        take_back(store, new, there)
        raise
    return new
