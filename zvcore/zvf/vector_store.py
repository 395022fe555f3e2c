"""Zarr Vectors stores and their levels: what they declare and what they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.documents.values import is_number
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.exchange.tractogram_header import ATTRIBUTE
from zvcore.stores import open_store
from zvcore.zarr3.metadata import DOCUMENT
from zvcore.zvf import links as link_reading
from zvcore.zvf import reading
from zvcore.zvf.attributes import AttributeForm, object_attribute, read_groups
from zvcore.zvf.axes import MILLIMETER, NANOMETER, axes_of, in_nanometers
from zvcore.zvf.cells import CellGrid, open_cells
from zvcore.zvf.fragments import FragmentIndex, decode_fragments
from zvcore.zvf.nodes import Node, join, read_node
from zvcore.zvf.objects import ObjectIndex, open_objects
from zvcore.zvf.replaced_levels import of_one_state

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from zvcore.format import Node as FormatNode
    from zvcore.stores import Store
    from zvcore.zvf.manifests import Block, ManifestTable
    from zvcore.zvf.reading import Vectors

__all__ = ["Level", "VectorStore", "detect", "open"]

Ints = npt.NDArray[np.int64]

# Formats whose stores this package knows. Layouts are recognised by what is there; the version only refuses early.
_KNOWN = re.compile(r"0\.[6-9](\.|$)")

# The documents that reads look at, and those of an object index.
_DOCUMENTS = [f"{name}/{DOCUMENT}" for name in ("object_index", "vertices", "vertex_fragments")]
_OF_OBJECTS = [f"object_index/{name}/{DOCUMENT}" for name in ("object_ids", "manifests")]

SEQUENTIAL = ("polyline", "streamline", "line")


def open(path: str | os.PathLike[str] | Store, mode: str = "r") -> VectorStore:
    """The Zarr Vectors store at a path or URL."""
    return VectorStore(open_store(path, mode))


def detect(store: Store) -> bool:
    """Whether a Zarr Vectors store begins here."""
    try:
        node = read_node(store, "")
    except (MetadataError, UnsupportedError):
        return False
    return node is not None and "zarr_vectors" in node.attrs


class VectorStore:
    """A Zarr Vectors store: a pyramid of levels over one space."""

    kind = "vectors"
    format = "zvf"
    path = ""

    def __init__(self, store: Store) -> None:
        self.store = store
        node = read_node(store, "")
        if node is None:
            raise NotFoundError("there is no Zarr Vectors store", key=store.root)
        metadata = node.attrs.get("zarr_vectors")
        if not isinstance(metadata, dict):
            raise MetadataError("the root has no zarr_vectors block: no Zarr Vectors store", key=node.key)
        self.node = node
        self.metadata: dict[str, Any] = metadata
        if not isinstance(self.version, str) or not _KNOWN.match(self.version):
            raise UnsupportedError(f"Zarr Vectors format {self.version!r}; 0.6 to 0.9 are known", key=node.key)

    @property
    def version(self) -> Any:
        return self.metadata.get("zv_version")

    @property
    def ndim(self) -> int:
        """How many coordinates a position has."""
        return len(self.chunk_shape)

    @cached_property
    def chunk_shape(self) -> tuple[float, ...]:
        return checked_shape(self.metadata.get("chunk_shape"), None, self.node.key)

    @property
    def bounds(self) -> tuple[list[float], list[float]] | None:
        bounds = self.metadata.get("bounds")
        if bounds is None:
            return None
        if not isinstance(bounds, list) or len(bounds) != 2 or not all(map(self._is_corner, bounds)):
            raise MetadataError("bounds must be two corners", key=self.node.key, found=repr(bounds)[:99])
        return list(bounds[0]), list(bounds[1])

    def _is_corner(self, value: Any) -> bool:
        # An infinite bound would not bound anything.
        numbers = isinstance(value, list) and all(is_number(place) or isinstance(place, float) for place in value)
        return numbers and len(value) == self.ndim

    @property
    def geometry_types(self) -> list[str]:
        given = self.metadata.get("geometry_types") or []
        if not isinstance(given, list) or not all(isinstance(kind, str) for kind in given):
            raise MetadataError("geometry_types must be a list of names", key=self.node.key, found=repr(given)[:99])
        return list(given)

    @property
    def is_lines(self) -> bool:
        """Whether the vertices of an object, in order, are a line."""
        return any(kind in SEQUENTIAL for kind in self.geometry_types)

    @property
    def nanometers(self) -> list[float]:
        """How many nanometers the unit of each coordinate has: where none is named, 1, and 1e6 for tractograms."""
        return in_nanometers(axes_of(self), MILLIMETER if ATTRIBUTE in self.node.attrs else NANOMETER)[0]

    @property
    def levels(self) -> list[int]:
        """The levels that exist, finest first."""
        names = [name for name in self.store.list_dir("")[0] if name.isdecimal() and len(name) < 10]
        return sorted(int(name) for name in names if self.store.exists(join(name, DOCUMENT)))

    def level(self, number: int = 0) -> Level:
        return Level(self, number)

    def __iter__(self) -> Iterator[Level]:
        return map(self.level, self.levels)

    def children(self) -> Mapping[str, FormatNode]:
        """The levels, the finest first."""
        return _Levels(self)

    def __repr__(self) -> str:
        return f"<zvcore.zvf.VectorStore {self.store.root}: format {self.version}, {', '.join(self.geometry_types)}>"


class _Levels(Mapping[str, "Level"]):
    """The levels of a store by their names, opened when they are looked up."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._names = [str(number) for number in store.levels]

    def __getitem__(self, name: str) -> Level:
        if name not in self._names:
            raise NotFoundError(f"there is no level {name}", key=self._store.store.root)
        return self._store.level(int(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Level:
    """One level of a store. Objects are named by id; ids may have gaps, and rows never show."""

    kind = "level"
    format = "zvf"

    def children(self) -> Mapping[str, FormatNode]:
        return {}

    def __init__(self, parent: VectorStore, number: int) -> None:
        self.parent = parent
        self.number = int(number)
        self.path = str(self.number)
        self.store = parent.store
        node = read_node(parent.store, self.path)
        if node is None or node.is_array:
            raise NotFoundError(f"there is no level {number}", key=self.path)
        self.node: Node = node
        attributes = node.attrs.get("zarr_vectors_level", {})
        if not isinstance(attributes, dict):
            raise MetadataError("zarr_vectors_level must be an object", key=node.key)
        self.metadata: dict[str, Any] = attributes
        self._grids: dict[str, tuple[Any, CellGrid]] = {}
        self._objects: tuple[Any, ObjectIndex | None] | None = None

    def __repr__(self) -> str:
        return f"<zvcore.zvf.Level {self.number} of {self.store.root}>"

    # --- what it declares

    @property
    def ndim(self) -> int:
        return self.parent.ndim

    @cached_property
    def chunk_shape(self) -> tuple[float, ...]:
        own = self.metadata.get("chunk_shape")
        return self.parent.chunk_shape if own is None else checked_shape(own, self.ndim, self.node.key)

    @cached_property
    def grid_ndim(self) -> int:
        """The rank of chunk coordinates: one more than that of positions when chunked by an attribute."""
        return self.ndim + (self.metadata.get("chunk_attribute_name") is not None)

    @property
    def shared_fragments(self) -> bool:
        return bool(self.metadata.get("shared_fragments", False))

    @property
    def vertex_count(self) -> int | None:
        count = self.metadata.get("vertex_count")
        return count if isinstance(count, int) else None

    def _cells(self, name: str) -> CellGrid:
        """A per-chunk array as it is now: it may be packed into shards while the level is open."""
        path = join(self.path, name)
        stamp = self.store.stamp(join(path, DOCUMENT))
        known = self._grids.get(name)
        if known is None or known[0] != stamp:
            known = self._grids[name] = (stamp, open_cells(self.store, path, self.grid_ndim))
        return known[1]

    @property
    def vertices(self) -> CellGrid:
        return self._cells("vertices")

    @property
    def fragments(self) -> CellGrid:
        return self._cells("vertex_fragments")

    @property
    def vertex_form(self) -> AttributeForm:
        """How the cells of vertices are to be read."""
        return AttributeForm.of_vertices(self.vertices.node, self.ndim)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the coordinates, as stored."""
        return self.vertex_form.dtype

    def _names(self, family: str) -> list[str]:
        folder = join(self.path, family)
        names = self.store.list_dir(folder)[0]
        return [name for name in names if read_node(self.store, join(folder, name)) is not None]

    def attribute_names(self) -> list[str]:
        """Attributes with a value per vertex."""
        return self._names("vertex_attributes")

    def object_attribute_names(self) -> list[str]:
        return self._names("object_attributes")

    def group_attribute_names(self) -> list[str]:
        return self._names("group_attributes")

    def fragment_attribute_names(self) -> list[str]:
        return self._names("fragment_attributes")

    def attribute_cells(self, name: str, family: str = "vertex_attributes") -> tuple[CellGrid, AttributeForm]:
        cells = open_cells(self.store, join(self.path, family, checked_name(name)), self.grid_ndim)
        return cells, AttributeForm.of(cells.node)

    # --- objects

    @property
    def objects(self) -> ObjectIndex | None:
        """The object index as it is now; None if the level has no objects."""
        stamp = self.store.stamp(join(self.path, "object_index", DOCUMENT))
        known = self._objects
        if known is None or known[0] != stamp or stamp is None:
            known = self._objects = (stamp, open_objects(self.store, self.path))
        return known[1]

    @contextmanager
    def asking_at_once(self) -> Iterator[None]:
        """Within this, which is for one read, a store far away has been asked at once for what reads look at first."""
        if not self.store.remote:
            yield
            return
        keys = [join(self.path, name) for name in _DOCUMENTS]
        stamps: dict[str, Any] = {}
        # What is wrong is the read's to say, if it needs that.
        with suppress(ZvcoreError):
            if self._grids or self._objects is not None:
                objects = None if self._objects is None else self._objects[1]
                keys += () if objects is None else objects.read_last
                stamps = dict(zip(keys, self.store.stamps(keys), strict=True))
            else:
                with self.store.looking_at([*keys, *(join(self.path, name) for name in _OF_OBJECTS)]):
                    self._open_all()
                    stamps = dict(zip(keys, map(self.store.stamp, keys), strict=True))
        with self.store.telling(stamps):
            yield

    def _open_all(self) -> None:
        """What reads need, as far as it is there."""
        for name in ("vertices", "vertex_fragments"):
            with suppress(ZvcoreError):
                self._cells(name)
        with suppress(ZvcoreError):
            objects = self.objects
            if objects is not None:
                objects.look()

    def require_objects(self) -> ObjectIndex:
        objects = self.objects
        if objects is None:
            raise NotFoundError("this level has no objects", key=join(self.path, "object_index"))
        return objects

    def object_ids(self, present_only: bool = False) -> Ints:
        """The ids of the level's objects, in the order of their rows.

        `present_only` leaves out those with an empty manifest, which keep their id but are not in this level.
        """
        objects = self.require_objects()
        if not present_only:
            return objects.ids.copy()
        return objects.ids[objects.table().present]

    def manifests(self) -> ManifestTable:
        """The manifests of all objects, damaged ones named in `damaged`."""
        return self.require_objects().table()

    def manifest(self, object_id: int) -> list[Block]:
        """One object's manifest as a list of (chunk coordinates, fragments) pairs."""
        return self.require_objects().blocks(object_id)

    def fragment_owners(self, coords: Sequence[int]) -> list[Ints]:
        """For each fragment of a chunk, the ids of the objects that name it."""
        return of_one_state(self, lambda: reading.fragment_owners(self, tuple(coords)))

    # --- vertices

    def chunks(self) -> Ints:
        """The coordinates of the chunks that hold vertices, in numeric order."""
        return self.vertices.stored()

    def read_chunk(self, coords: Sequence[int]) -> tuple[npt.NDArray[Any], FragmentIndex]:
        """(positions, fragments) of one chunk, as stored."""
        return of_one_state(self, lambda: self._read_chunk(tuple(coords)))

    def _read_chunk(self, where: tuple[int, ...]) -> tuple[npt.NDArray[Any], FragmentIndex]:
        cell = self.vertices.read_one(where)
        if cell is None:
            raise NotFoundError("there is no such chunk", key=self.vertices.path, chunk=where)
        rows = self.vertex_form.decode(cell, self.vertices.path, where)
        index = self.fragments.read_one(where)
        return rows, decode_fragments(index if index is not None and len(index) else reading.EMPTY_INDEX)

    @overload
    def read_object(self, object_id: int, per_fragment: Literal[False] = False) -> npt.NDArray[Any]: ...
    @overload
    def read_object(self, object_id: int, per_fragment: Literal[True]) -> list[npt.NDArray[Any]]: ...
    @overload
    def read_object(self, object_id: int, per_fragment: bool) -> npt.NDArray[Any] | list[npt.NDArray[Any]]: ...
    def read_object(self, object_id: int, per_fragment: bool = False) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """The positions of one object in the order of its manifest; as a list of its fragments if `per_fragment`."""
        return of_one_state(self, lambda: reading.read_object(self, object_id, per_fragment))

    def read_objects(self, ids: Any, attributes: Sequence[str] = (), threads: int | None = None) -> Vectors:
        """Several objects in the order asked for: unpacks to (positions, offsets)."""
        return of_one_state(self, lambda: reading.read_objects(self, ids, attributes, threads))

    def read(self, attributes: Sequence[str] = (), skip_damaged: bool = False, threads: int | None = None) -> Vectors:
        """The whole level: every object in the order of the rows, or, where there are no objects, all vertices.

        `skip_damaged` leaves out the objects whose manifest is broken and names them in the result's `damaged`.
        """
        return of_one_state(self, lambda: reading.read_level(self, attributes, skip_damaged, threads))

    def read_bbox(
        self,
        lo: Sequence[float],
        hi: Sequence[float],
        clip: bool = False,
        attributes: Sequence[str] = (),
        threads: int | None = None,
    ) -> Vectors:
        """What lies in a box, borders included.

        Points: those inside. Lines: the whole of each that touches the box; with `clip`, the runs of their vertices
        that lie inside, each a row of its own, so that ids repeat.
        """
        return of_one_state(self, lambda: reading.read_bbox(self, lo, hi, clip, attributes, threads))

    # --- what hangs on objects and chunks

    def object_attribute(self, name: str) -> npt.NDArray[Any]:
        """A value per object, in the order of the rows."""
        return object_attribute(self.store, join(self.path, "object_attributes", checked_name(name)))

    def group_attribute(self, name: str) -> npt.NDArray[Any]:
        return object_attribute(self.store, join(self.path, "group_attributes", checked_name(name)))

    def fragment_attribute(self, name: str, coords: Sequence[int]) -> npt.NDArray[Any]:
        """A value per fragment of one chunk."""
        cells, form = self.attribute_cells(name, "fragment_attributes")
        cell = cells.read_one(tuple(coords))
        if cell is None:
            raise NotFoundError("there is no such chunk", key=cells.path, chunk=tuple(coords))
        return form.values(form.decode(cell, cells.path, tuple(coords)))

    def groups(self) -> dict[int, Ints]:
        """{group id: ids of its objects}, without empty groups: they are stored like groups that never existed."""
        return read_groups(self.store, join(self.path, "groups"))

    def links(self, delta: int = 0) -> link_reading.Links:
        """All links from this level to the one `delta` coarser (0: within it)."""
        return link_reading.read_links(self, delta)

    def link_deltas(self) -> list[int]:
        return link_reading.deltas(self)


def checked_shape(shape: Any, ndim: int | None, key: str) -> tuple[float, ...]:
    """A physical shape from metadata: positive numbers."""
    fine = isinstance(shape, list) and 0 < len(shape) <= 31 and (ndim is None or len(shape) == ndim)
    if not fine or not all(is_number(side) and side > 0 for side in shape):
        raise MetadataError("chunk_shape must be positive numbers, one per axis", key=key, found=repr(shape)[:99])
    return tuple(shape)


def checked_name(name: str) -> str:
    if not name or "/" in name or name in (".", ".."):
        raise ValueError(f"{name!r} is not the name of an attribute")
    return name
