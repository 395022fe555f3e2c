"""Legacy meshes: for each segment a file `ID:0` that names files of fragments, each with vertices and triangles."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

import numpy as np

from zvcore import documents
from zvcore.care.checking import WrongSizeError
from zvcore.documents.members import Items, Member, Place, Table, Text
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, ReadOnlyError, UnsupportedError
from zvcore.precomputed.content_encoding import stored_file, stored_files
from zvcore.precomputed.ids import MAX_ID, Ids, as_id, as_ids, is_id
from zvcore.precomputed.metadata import read_info
from zvcore.precomputed.set_files import delete_objects, holds_file, replace_objects
from zvcore.precomputed.set_views import ItemsAhead, ValuesAhead
from zvcore.precomputed.surfaces import Surface, joined, merged, surface_of
from zvcore.stores import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import ItemsView, Iterable, Iterator, ValuesView

    import numpy.typing as npt

    from zvcore.format import Node
    from zvcore.precomputed.set_files import Files
    from zvcore.stores import Store

__all__ = [
    "LEGACY_TYPE", "MANIFEST_NAME", "LegacyMeshes", "check_size", "encode_fragment", "fragment_names",
    "legacy_document", "legacy_files", "parse_fragment",
]  # fmt: skip

T = TypeVar("T")

LEGACY_TYPE = "neuroglancer_legacy_mesh"
MANIFEST_NAME = re.compile(r"(0|[1-9][0-9]{0,19}):([0-9]{1,9})(\.gz)?")
_MANIFEST = Table(Member("fragments", Items(Text())))
_VERTEX = 12
# Meshes whose files are asked for together.
_AT_ONCE = 64


def fragment_names(data: bytes, key: str) -> tuple[str, ...]:
    """The fragments that a manifest names, which are within its folder."""
    names: tuple[str, ...] = _MANIFEST.load(documents.parse(data, key), Place(key))["fragments"]
    for number, name in enumerate(names):
        parts = name.split("/")
        if not name or ".." in parts or parts[0] == "" or "\\" in name or "\0" in name:
            place = Place(key, "$.fragments").item(number)
            raise MetadataError(
                "the fragment is not one of the folder", key=key, member=place.path, found=repr(name)[:200]
            )
    return names


def check_size(head: bytes, size: int, key: str) -> int:
    """How many vertices a fragment has that begins with `head` and has `size` bytes, which must suit that number."""
    if size < 4 or len(head) < 4:
        raise WrongSizeError(
            "the fragment is cut off", key=key, offset=0, length=size, expected="at least 4 bytes", found=size
        )
    (vertices,) = struct.unpack_from("<I", head)
    rest = size - 4 - _VERTEX * vertices
    if rest < 0 or rest % _VERTEX:
        raise WrongSizeError(
            f"the fragment has not the length of {vertices} vertices and a number of triangles", key=key, offset=0,
            length=size, expected=f"{4 + _VERTEX * vertices} bytes and 12 for each triangle", found=size,
        )  # fmt: skip
    return int(vertices)


def parse_fragment(data: bytes, key: str) -> Surface:
    """The triangles of a fragment: its vertices, three floats each, then three vertex numbers for each triangle."""
    count = check_size(data, len(data), key)
    start = 4 + _VERTEX * count
    vertices = np.frombuffer(data, "<f4", 3 * count, 4).reshape(-1, 3).astype(np.float32)
    faces = np.frombuffer(data, "<u4", (len(data) - start) // 4, start).reshape(-1, 3).astype(np.uint32)
    if faces.size and int(faces.max()) >= count:
        raise CorruptDataError(
            "a triangle has a vertex that is not there", key=key, offset=start, length=len(data) - start,
            expected=f"less than {count}", found=int(faces.max()),
        )  # fmt: skip
    return Surface(vertices, faces)


def encode_fragment(surface: Surface) -> bytes:
    """The stored form of a fragment."""
    head = struct.pack("<I", len(surface.vertices))
    return head + surface.vertices.astype("<f4").tobytes() + surface.faces.astype("<u4").tobytes()


def legacy_document(attrs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The `info` of a folder of legacy meshes. It has no transform, which Neuroglancer would not apply."""
    return {"@type": LEGACY_TYPE, **(attrs or {})}


def legacy_files(id: int, data: bytes) -> Files:
    """The files of a mesh of one fragment, which is encoded already."""
    manifest, fragment = f"{id}:0", f"{id}:0:0"
    # The manifest last: a reader that finds it also finds its fragment.
    return (fragment, data), (manifest, documents.encode({"fragments": [fragment]}))


class LegacyMeshes(Mapping[int, Surface]):
    """The legacy meshes of a folder by segment id, with vertices in nanometers. The folder may have no `info`."""

    kind = "legacy meshes"
    format = "precomputed"
    path = ""

    def __init__(self, path: str | os.PathLike[str] | Store, mode: str = "r") -> None:
        self.store = open_store(path, mode)
        self.mode = mode
        try:
            self.info: dict[str, Any] = read_info(self.store)
        except NotFoundError:
            self.info = {}
        where = f"{self.store.root}/info"
        if self.info.get("@type", LEGACY_TYPE) != LEGACY_TYPE:
            raise MetadataError("wrong @type", key=where, expected=repr(LEGACY_TYPE), found=repr(self.info["@type"]))
        if self.info.get("sharding") is not None:
            raise UnsupportedError(
                "legacy meshes are not sharded: the format has no such thing, and others look for files",
                key=where,
            )

    def __repr__(self) -> str:
        return f"<zvcore.precomputed.LegacyMeshes in {self.store.root}>"

    def children(self) -> Mapping[str, Node]:
        """Nothing: ids are no names of folders."""
        return {}

    def __getitem__(self, id: SupportsIndex) -> Surface:
        found = self.get(as_id(id))
        if found is None:
            raise NotFoundError(f"there is no mesh of segment {as_id(id)}", key=self.store.root)
        return found

    @overload
    def get(self, key: int, /) -> Surface | None: ...
    @overload
    def get(self, key: int, default: Surface | T, *, lod: int = 0) -> Surface | T: ...
    @overload
    def get(self, key: int, default: None = None, *, lod: int = 0) -> Surface | None: ...
    def get(self, key: int, default: Any = None, *, lod: int = 0) -> Any:
        """All fragments of a segment as one surface, with equal vertices made one, or `default` if there are none."""
        self._refuse_level(lod)
        name = f"{as_id(key)}:0"
        manifest = stored_file(self.store, name)
        if manifest is None:
            return default
        return self._meshes({name: manifest})[0]

    def get_many(self, ids: Ids) -> dict[int, Surface]:
        """The meshes of these segments, whose files are asked for at once; those that are missing are left out."""
        wanted = as_ids(ids).tolist()
        found: dict[int, Surface] = {}
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            manifests = zip(some, stored_files(self.store, [f"{id}:0" for id in some]), strict=True)
            there = {id: data for id, data in manifests if data is not None}
            meshes = self._meshes({f"{id}:0": data for id, data in there.items()})
            found.update(zip(there, meshes, strict=True))
        return found

    def surfaces(self, ids: Ids, lod: int = 0) -> dict[int, Surface]:
        """`get_many`, as other meshes have it under this name."""
        self._refuse_level(lod)
        return self.get_many(ids)

    def _meshes(self, manifests: Mapping[str, bytes]) -> list[Surface]:
        """The meshes of these manifests, by their keys."""
        named = {key: [*dict.fromkeys(fragment_names(data, key))] for key, data in manifests.items()}
        every = [*dict.fromkeys(itertools.chain.from_iterable(named.values()))]
        stored = dict(zip(every, stored_files(self.store, every), strict=True))
        meshes = []
        for manifest, names in named.items():
            pieces = []
            for name in names:
                data = stored[name]
                if data is None:
                    raise NotFoundError("the mesh names a fragment that is not there", key=manifest, found=name)
                pieces.append(parse_fragment(data, name))
            meshes.append(pieces[0] if len(pieces) == 1 else merged(joined(pieces)))
        return meshes

    @staticmethod
    def _refuse_level(lod: int) -> None:
        if lod:
            raise IndexError(f"legacy meshes have one level of detail; {lod} is none")

    def ids(self) -> npt.NDArray[np.uint64]:
        """The segments that have a mesh, in order."""
        names = (MANIFEST_NAME.fullmatch(name) for name in self.store.list_dir()[1])
        numbers = {int(match[1]) for match in names if match is not None and match[2] == "0"}
        return as_ids(sorted(number for number in numbers if number <= MAX_ID))

    def first_ids(self, count: int) -> npt.NDArray[np.uint64]:
        """Some of the ids."""
        return self.ids()[:count]

    def update(self, meshes: Mapping[Any, Any] | Iterable[tuple[SupportsIndex, Any]]) -> None:
        """Add meshes or replace them, each in one fragment: vertices and faces, or something that has both."""
        if self.mode == "r":
            raise ReadOnlyError('opened with mode "r"; changes need "r+"', key=self.store.root)
        pairs = meshes.items() if isinstance(meshes, Mapping) else meshes
        encoded = ((as_id(id), encode_fragment(surface_of(mesh))) for id, mesh in pairs)
        replace_objects(self.store, itertools.starmap(legacy_files, encoded), together=False)

    def delete(self, ids: Ids) -> None:
        """Take meshes out; their fragments, which other meshes may name too, stay unless they are named as ours are."""
        if self.mode == "r":
            raise ReadOnlyError('opened with mode "r"; changes need "r+"', key=self.store.root)
        numbers = as_ids(ids).tolist()
        delete_objects(self.store, [(f"{id}:0:0", f"{id}:0") for id in numbers])

    def __contains__(self, id: object) -> bool:
        if not is_id(id):
            return False
        return holds_file(self.store, f"{id.__index__()}:0")

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids().tolist())

    def __len__(self) -> int:
        return len(self.ids())

    def items(self) -> ItemsView[int, Surface]:
        return ItemsAhead(self)

    def values(self) -> ValuesView[Surface]:
        return ValuesAhead(self)
