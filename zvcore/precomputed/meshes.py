"""Multi-resolution meshes: a manifest per segment, and the fragments that it lists."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

import numpy as np

from zvcore.boxes import integers
from zvcore.cached import cached_property
from zvcore.errors import ConflictError, CorruptDataError, MetadataError, NotFoundError
from zvcore.precomputed.draco import decode_fragment
from zvcore.precomputed.ids import Ids, as_id, as_ids
from zvcore.precomputed.manifests import Manifest
from zvcore.precomputed.metadata import info_bytes
from zvcore.precomputed.objects import IDENTITY, SegmentFiles, SegmentMapping, SegmentObjects
from zvcore.precomputed.replacing import Replacing, names_of_shards, names_there, take_back
from zvcore.precomputed.set_files import delete_objects, put_objects, replace_objects
from zvcore.precomputed.shard_writer import write_set
from zvcore.precomputed.sharded_store import Before, as_spec
from zvcore.precomputed.spooling import taken_first
from zvcore.precomputed.surfaces import Surface, joined, merged, transformed
from zvcore.stores import open_store
from zvcore.stores.sole import sole_writer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["MESHES_TYPE", "Mesh", "Meshes", "mesh_document", "write_mesh_files", "write_mesh_fragments"]

T = TypeVar("T")
# (offset, size) of each fragment of a level.
Ranges = list[tuple[int, int]]

MESHES_TYPE = "neuroglancer_multilod_draco"
_MANIFEST_SUFFIX = ".index"


def _span(ranges: Ranges) -> tuple[int, int]:
    """(where the fragments of a level begin, how many bytes they have together)."""
    return (ranges[0][0], ranges[-1][0] + ranges[-1][1] - ranges[0][0]) if ranges else (0, 0)


def _cut(ranges: Ranges, data: bytes) -> list[bytes]:
    """The fragments of a level, of its bytes."""
    start, _ = _span(ranges)
    return [data[offset - start : offset - start + size] for offset, size in ranges]


class Mesh:
    """One segment's mesh: its manifest, and its fragments, which are decoded when `vertices` or `faces` are asked for.

    lod  the level of detail that these are of, 0 for the finest
    """

    def __init__(self, meshes: Meshes, id: int, manifest: Manifest, lod: int = 0) -> None:
        self._meshes = meshes
        self.id = id
        self.manifest = manifest
        self.lod = lod
        # The manifest as it was stored, where it was.
        self.stored: bytes | None = None

    def __repr__(self) -> str:
        return f"<Mesh of segment {self.id}, level {self.lod} of {self.lods}>"

    @property
    def lods(self) -> int:
        """How many levels of detail there are."""
        return len(self.manifest.levels)

    @property
    def quantization_bits(self) -> int:
        """Vertices of fragments are whole numbers of so many bits."""
        return self._meshes.vertex_quantization_bits

    @property
    def vertices(self) -> npt.NDArray[np.float32]:
        """float32[n, 3], in nanometers."""
        return self._surface.vertices

    @property
    def faces(self) -> npt.NDArray[np.uint32]:
        """uint32[m, 3]: the corners of each triangle."""
        return self._surface.faces

    @cached_property
    def _surface(self) -> Surface:
        return self.surface(self.lod)

    def surface(self, lod: int = 0) -> Surface:
        """One level as triangles. Vertices that fragments share on their border are one."""
        return self.assembled(lod, self.fragments(lod))

    def assembled(self, lod: int, fragments: Sequence[bytes]) -> Surface:
        """One level as triangles, made of its fragments."""
        bits = self.quantization_bits
        pieces, places = [], []
        cells = self.manifest.levels[lod].positions if 0 <= lod < self.lods else ()
        for number, data in enumerate(fragments):
            try:
                vertices, faces = decode_fragment(data, bits)
            except CorruptDataError as error:
                error.message = f"level {lod}, fragment {number}: {error.message}"
                raise error.located(key=self._meshes.store.root, chunk=self.id)
            if len(faces):
                pieces.append(Surface(vertices.astype(np.float32), faces))
                # Whole numbers on the grid of the level: they tell exactly which vertices of neighbours are the same.
                places.append(cells[number].astype(np.float64) * (2**bits - 1) + vertices)
        if not pieces:
            return joined(pieces)
        grid = np.concatenate(places)
        surface = joined(pieces)
        surface.vertices = transformed(self._stored_places(lod, grid), self._meshes.transform)
        rows = np.flatnonzero((np.mod(grid, 2**bits - 1) == 0).any(1))
        return merged(surface, grid[rows], rows)

    def _stored_places(self, lod: int, grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Vertices in the units of the manifest, of places on the grid of a level."""
        manifest = self.manifest
        step = manifest.chunk_shape.astype(np.float64) / (2**self.quantization_bits - 1)
        with np.errstate(all="ignore"):
            # So many levels as a document claims may have no such power.
            step = np.ldexp(step, lod)
            found: npt.NDArray[np.float64] = (
                manifest.grid_origin.astype(np.float64) + manifest.levels[lod].vertex_offset + grid * step
            )
        if not np.isfinite(found).all():
            raise CorruptDataError(
                "the manifest leads to vertices that are not finite", key=self._meshes.store.root, chunk=self.id
            )
        return found

    def fragments(self, level: int = 0) -> list[bytes]:
        """The fragments of one level as they are stored, in Draco, which are read at once; empty ones are b""."""
        ranges = self.manifest.ranges(level)
        start, size = _span(ranges)
        return _cut(ranges, self._meshes.fragment_data(self, start, size) if ranges else b"")

    def fragment(self, level: int, number: int) -> bytes:
        """One fragment as it is stored."""
        offset, size = self.manifest.ranges(level)[number]
        return self._meshes.fragment_data(self, offset, size)


class Meshes(SegmentMapping[Mesh]):
    """The multi-resolution meshes of a folder by segment id, sharded or in files of their own."""

    what = "mesh"
    kind = "meshes"

    def __init__(self, path: str | os.PathLike[str] | Store, mode: str = "r") -> None:
        super().__init__(SegmentObjects(open_store(path, mode), mode, MESHES_TYPE, _MANIFEST_SUFFIX))
        bits = self.info.get("vertex_quantization_bits")
        if not isinstance(bits, int) or bits not in (10, 16):
            raise MetadataError(
                "vertex_quantization_bits is wrong", key=self._objects.where, expected="10 or 16", found=repr(bits)
            )
        self.vertex_quantization_bits: int = bits
        self._data = SegmentFiles(self.store)

    def _parsed(self, id: int, data: bytes) -> Mesh:
        mesh = Mesh(self, id, Manifest.from_bytes(data))
        mesh.stored = bytes(data)
        return mesh

    @overload
    def get(self, key: int, /) -> Mesh | None: ...
    @overload
    def get(self, key: int, default: Mesh | T, *, lod: int = 0) -> Mesh | T: ...
    @overload
    def get(self, key: int, default: None = None, *, lod: int = 0) -> Mesh | None: ...
    def get(self, key: int, default: Any = None, *, lod: int = 0) -> Any:
        """The mesh of a segment with the vertices and faces of this level of detail, or `default` if there is none."""
        data = self._objects.get(key)
        if data is None:
            return default
        return self._at_level(as_id(key), data, lod)

    def _at_level(self, id: int, data: bytes, lod: int) -> Mesh:
        mesh = self._value(id, data)
        (lod,) = integers((lod,), f"lod is the whole number of a level, not {lod!r}")
        if not 0 <= lod < mesh.lods:
            raise IndexError(f"segment {mesh.id} has {mesh.lods} levels; {lod} is none of them")
        mesh.lod = lod
        return mesh

    def surfaces(self, ids: Ids, lod: int = 0) -> dict[int, Surface]:
        """The triangles of these segments' meshes at one level of detail, whose fragments are read at once; those that
        are missing are left out.
        """
        shards = self._objects.shards
        if shards is None:
            meshes = [self._at_level(id, data, lod) for id, data in self._objects.get_many(ids).items()]
            surfaces = self.store.each(lambda mesh: mesh.surface(lod), meshes)
            return {mesh.id: surface for mesh, surface in zip(meshes, surfaces, strict=True)}
        known: dict[int, tuple[Mesh, Ranges]] = {}

        def part(id: int, data: bytes) -> Before:
            mesh = self._at_level(id, data, lod)
            known[id] = mesh, mesh.manifest.ranges(lod)
            return Before(mesh.manifest.fragment_bytes, *_span(known[id][1]))

        def make(id: int, data: bytes) -> Surface:
            mesh, ranges = known.pop(id)
            return mesh.assembled(lod, _cut(ranges, data))

        return self._objects.standing.steady(lambda: shards.with_before(ids, part, make), len)

    def fragment_data(self, mesh: Mesh, start: int, size: int) -> bytes:
        """A part of the fragments of a mesh."""
        try:
            data = self._fragment_data(mesh, start, size)
        except (CorruptDataError, NotFoundError):
            self._check_current(mesh)
            # The same mesh may have been removed and written again meanwhile, under the same manifest.
            data = self._fragment_data(mesh, start, size)
        self._check_current(mesh)
        return data

    def _check_current(self, mesh: Mesh) -> None:
        """ConflictError where the manifest that a mesh was read by is no longer that of the fragments."""
        # Over a network, that would be another request for each.
        if mesh.stored is not None and not self.store.remote and self._objects.get(mesh.id) != mesh.stored:
            what = "the mesh was replaced or removed while it was read: get it again"
            raise ConflictError(what, key=self.store.root, chunk=mesh.id)

    def _fragment_data(self, mesh: Mesh, start: int, size: int) -> bytes:
        total = mesh.manifest.fragment_bytes
        if self._objects.shards is not None:
            return self._objects.shards.read_before(mesh.id, total, start, size)
        key = self._data.key(mesh.id)
        data = self.store.get(key, start, size)
        if data is None:
            whole = self._data.get(mesh.id)
            data = None if whole is None else whole[start : start + size]
        if data is None or len(data) != size:
            raise CorruptDataError(
                "the fragments are missing or cut off", key=key, chunk=mesh.id, offset=start, length=size,
                expected=f"{size} bytes", found=0 if data is None else len(data),
            )  # fmt: skip
        return bytes(data)

    def nameless(self) -> set[int]:
        """The ids of which there are fragments in files of their own, whether a manifest names them or not."""
        return set() if self._objects.shards is not None else set(self._data.ids().tolist())

    def update(self, meshes: Iterable[tuple[SupportsIndex, Manifest, Sequence[bytes] | bytes]]) -> None:
        """Add meshes or replace them, from (id, manifest, fragments); fragments stand finest level first."""
        self._objects.check_writable()
        stored = _stored(meshes)
        if self._objects.shards is not None:
            self._objects.shards.update(stored)
            return
        write_mesh_files(self.store, stored)

    def delete(self, ids: Ids) -> None:
        """Take meshes out; ids that have none are passed over."""
        if self._objects.shards is not None:
            self._objects.delete(ids)
            return
        self._objects.check_writable()
        manifests = self._objects.files
        delete_objects(self.store, [(self._data.key(id), manifests.key(id)) for id in as_ids(ids).tolist()])


def mesh_document(
    bits: int,
    spec: ShardingSpec | None,
    transform: Sequence[float] = IDENTITY,
    lod_scale_multiplier: float = 1,
    attrs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The `info` of a folder of meshes whose vertices are whole numbers of so many bits."""
    document: dict[str, Any] = {
        "@type": MESHES_TYPE,
        "vertex_quantization_bits": bits,
        "transform": [float(number) for number in transform],
        "lod_scale_multiplier": lod_scale_multiplier,
        **(attrs or {}),
    }
    return document if spec is None else {**document, "sharding": spec.to_json()}


def _stored(
    meshes: Iterable[tuple[SupportsIndex, Manifest, Sequence[bytes] | bytes]],
) -> Iterator[tuple[SupportsIndex, bytes, bytes]]:
    for id, manifest, fragments in meshes:
        data = fragments if isinstance(fragments, (bytes, bytearray, memoryview)) else b"".join(fragments)
        if len(data) != manifest.fragment_bytes:
            raise ValueError(f"segment {id}: the manifest lists {manifest.fragment_bytes} bytes, not {len(data)}")
        yield id, manifest.to_bytes(), bytes(data)


def write_mesh_fragments(
    path: str | os.PathLike[str] | Store,
    meshes: Iterable[tuple[SupportsIndex, Manifest, Sequence[bytes] | bytes]],
    *,
    vertex_quantization_bits: int = 16,
    transform: Sequence[float] = IDENTITY,
    lod_scale_multiplier: float = 1,
    sharding: ShardingSpec | Mapping[str, Any] | str | None = None,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> int:
    """Make a folder of meshes with its `info`, from any number of (id, manifest, fragments); how many there were.

    Fragments are Draco, one after the other or in a list, the finest level first. In shards they lie before the
    manifest, which alone `data_encoding` applies to; CloudVolume reads such meshes only when that is "raw".
    """
    store = open_store(path, "w")
    if vertex_quantization_bits not in (10, 16):
        raise MetadataError("vertex_quantization_bits is wrong", expected="10 or 16", found=vertex_quantization_bits)
    spec = None if sharding is None else as_spec(sharding)
    document = mesh_document(vertex_quantization_bits, spec, transform, lod_scale_multiplier, attrs)
    info_bytes(document)  # what it cannot say is refused before anything is replaced
    with sole_writer(store):
        replacing = Replacing(store, "meshes", overwrite)
        if spec is not None:
            count = write_set(store, spec, _stored(meshes), overwrite, partial(replacing.begin, document))
            new = names_of_shards(store, spec)
        else:
            begin = partial(replacing.begin, document, apart=True)
            new = write_mesh_files(store, _stored(meshes), names_there(store), begin)
            count = len(new) // 2
        replacing.end(document, new)
    return count


def write_mesh_files(
    store: Store,
    stored: Iterable[tuple[SupportsIndex, bytes, bytes]],
    there: Collection[str] | None = None,
    begin: Callable[[], None] | None = None,
) -> set[str]:
    """Write (id, manifest, fragments) into two files each; the names of these.

    there  what was there before, where all of a set is made: each id once, all are taken before any of what is there is
           replaced, and if that fails, what is new is removed
    begin  is called before any is written
    """
    manifests, data = SegmentFiles(store, _MANIFEST_SUFFIX), SegmentFiles(store)
    names: set[str] = set()
    try:
        pairs: Iterable[tuple[int, Sequence[bytes]]] = ((as_id(id), both) for id, *both in stored)
        whole = nullcontext(pairs) if there is None else taken_first(store, pairs, 2, wait=bool(there))
        with whole as values:
            # The manifest last: a reader that finds it also finds its fragments.
            objects = (
                ((data.key(id), fragments), (manifests.key(id), manifest)) for id, (manifest, fragments) in values
            )
            if there is None:
                replace_objects(store, objects, together=True)
            else:
                put_objects(store, objects, names, begin)
    except BaseException:
        if there is not None:
            take_back(store, names, there)
        raise
    return names
