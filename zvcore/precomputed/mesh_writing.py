"""Writing folders of meshes from vertices and faces, however many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.choices import AUTO, Auto
from zvcore.precomputed.ids import as_id
from zvcore.precomputed.legacy_meshes import encode_fragment, legacy_document, legacy_files
from zvcore.precomputed.manifests import Manifest
from zvcore.precomputed.mesh_octree import encode_mesh
from zvcore.precomputed.meshes import write_mesh_fragments
from zvcore.precomputed.metadata import info_bytes
from zvcore.precomputed.objects import IDENTITY
from zvcore.precomputed.replacing import Replacing, names_there, take_back
from zvcore.precomputed.set_files import put_objects
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.precomputed.simplifying import simplified
from zvcore.precomputed.spooling import scratch_file, spool, spooled, taken_first
from zvcore.precomputed.surfaces import Surface, surface_of
from zvcore.stores import open_store
from zvcore.stores.sole import sole_writer

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from zvcore.stores import Store

__all__ = ["write_meshes"]

KINDS = ("multires", "legacy")


def write_meshes(
    path: str | os.PathLike[str] | Store,
    source: Mapping[Any, Any] | Iterable[tuple[Any, ...]],
    *,
    kind: str = "multires",
    lods: int = 1,
    chunk_shape: Sequence[float] | None = None,
    lod_scales: Sequence[float] | None = None,
    vertex_quantization_bits: int = 16,
    transform: Sequence[float] = IDENTITY,
    compression_level: int = 7,
    sharding: ShardingSpec | Mapping[str, Any] | str | Auto | None = AUTO,
    attrs: Mapping[str, Any] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> int:
    """Make a folder of meshes with its `info` from vertices and faces; how many meshes there were.

    source       {id: (vertices, faces)}, or any number of (id, vertices, faces); in place of vertices and faces may
                 stand what has both, such as a mesh that was read, or a list of levels, the finest first, of which each
                 is a pair or has both. Vertices are in nanometers (or what `transform` makes nanometers of)
    kind         "multires" for Neuroglancer's multi-resolution meshes (needs zvcore[draco]), "legacy" for one fragment
                 each
    lods         how many levels to make of each mesh that comes without levels (needs zvcore[simplify]); small meshes
                 have fewer
    chunk_shape  the size of the finest level's cells; by default, the coarsest level of each mesh is one cell
    lod_scales   how coarse the levels are; by default, the mean length of the edges of each
    sharding     a specification, its JSON, "advise" for one that suits the meshes (the default), None for two files of
                 each
    scratch      the folder of temporary files, as large as all meshes encoded; by default the destination, if it is one

    Meshes are cut and encoded one after the other, and only one is in memory.
    """
    if kind not in KINDS:
        raise ValueError(f"there are meshes of the kinds {' and '.join(map(repr, KINDS))}, not {kind!r}")
    if lods < 1:
        raise ValueError(f"a mesh has at least one level, not {lods}")
    store = open_store(path, "w")
    surfaces = _surfaces(source, lods)
    if kind == "legacy":
        if sharding is not AUTO and sharding is not None:
            raise ValueError("legacy meshes are not sharded")
        if lods > 1 or tuple(transform) != IDENTITY:
            raise ValueError("legacy meshes have one level, and no transform: their vertices are in nanometers")
        return _write_legacy(store, surfaces, attrs, overwrite)
    Replacing(store, "meshes", overwrite)  # refused before anything is encoded
    meshes = (
        (id, *encode_mesh(
            levels, bits=vertex_quantization_bits, chunk_shape=chunk_shape,
            scales=None if lod_scales is None else lod_scales[: len(levels)], compression_level=compression_level,
        ))
        for id, levels in surfaces
    )  # fmt: skip
    options: dict[str, Any] = {
        "vertex_quantization_bits": vertex_quantization_bits, "transform": transform, "attrs": attrs,
        "overwrite": overwrite,
    }  # fmt: skip
    if sharding is not AUTO and sharding != "advise":
        return write_mesh_fragments(path, meshes, sharding=None if sharding is None else as_spec(sharding), **options)
    with scratch_file(store, scratch) as file:
        encoded = ((id, (manifest.to_bytes(), b"".join(fragments))) for id, manifest, fragments in meshes)
        count, size = spool(file, encoded, 2)
        spec = ShardingSpec.advise(count=count, bytes=size, data_encoding="raw")
        again = ((id, Manifest.from_bytes(head), data) for id, (head, data) in spooled(file, 2))
        return write_mesh_fragments(path, again, sharding=spec, **options)


def _surfaces(source: Mapping[Any, Any] | Iterable[tuple[Any, ...]], lods: int) -> Iterator[tuple[int, list[Surface]]]:
    """(id, levels) of each mesh that a caller gave."""
    for item in source.items() if isinstance(source, Mapping) else source:
        id, *given = item
        mesh = given[0] if len(given) == 1 else tuple(given)
        if isinstance(mesh, list):
            levels = [_surface(one) for one in mesh]
        else:
            levels = simplified(_surface(mesh), lods)
        yield as_id(id), levels


def _surface(given: Any) -> Surface:
    if isinstance(given, (tuple, list)) and given and isinstance(given[0], Manifest):
        raise TypeError("manifests with their fragments are written by write_mesh_fragments")
    return surface_of(given)


def _write_legacy(
    store: Store, surfaces: Iterable[tuple[int, list[Surface]]], attrs: Mapping[str, Any] | None, overwrite: bool
) -> int:
    """One fragment for each mesh, of its finest level."""
    document = legacy_document(attrs)
    info_bytes(document)  # what it cannot say is refused before anything is replaced
    with sole_writer(store):
        return _write_legacy_files(store, surfaces, document, overwrite)


def _write_legacy_files(
    store: Store, surfaces: Iterable[tuple[int, list[Surface]]], document: dict[str, Any], overwrite: bool
) -> int:
    replacing, there = Replacing(store, "meshes", overwrite), names_there(store)
    new: set[str] = set()
    encoded = ((id, (encode_fragment(levels[0]),)) for id, levels in surfaces)
    try:
        with taken_first(store, encoded, 1, wait=bool(there)) as values:
            objects = (legacy_files(id, data) for id, (data,) in values)
            put_objects(store, objects, new, partial(replacing.begin, document))
    except BaseException:
        take_back(store, new, there)
        raise
    # The document last: a reader that finds it finds all of them.
    replacing.end(document, new)
    return len(new) // 2
