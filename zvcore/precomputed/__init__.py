"""Neuroglancer precomputed: sharded key-value stores, volumes, skeletons, meshes, and tools to maintain them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zvcore.lazy import lazy_names

if TYPE_CHECKING:
    from zvcore.precomputed.annotation_info import AnnotationProperty as AnnotationProperty
    from zvcore.precomputed.annotation_set import Annotations as Annotations
    from zvcore.precomputed.annotation_writing import write_annotations as write_annotations
    from zvcore.precomputed.array import ScaleArray as ScaleArray
    from zvcore.precomputed.care import compact as compact
    from zvcore.precomputed.care import inspect as inspect
    from zvcore.precomputed.care import repair as repair
    from zvcore.precomputed.care import verify as verify
    from zvcore.precomputed.group import Volume as Volume
    from zvcore.precomputed.legacy_meshes import LegacyMeshes as LegacyMeshes
    from zvcore.precomputed.manifests import Level as Level
    from zvcore.precomputed.manifests import Manifest as Manifest
    from zvcore.precomputed.mesh_octree import encode_mesh as encode_mesh
    from zvcore.precomputed.mesh_writing import write_meshes as write_meshes
    from zvcore.precomputed.meshes import Mesh as Mesh
    from zvcore.precomputed.meshes import Meshes as Meshes
    from zvcore.precomputed.meshes import write_mesh_fragments as write_mesh_fragments
    from zvcore.precomputed.ragged import Ragged as Ragged
    from zvcore.precomputed.segment_property_set import SegmentProperties as SegmentProperties
    from zvcore.precomputed.segment_property_set import SegmentProperty as SegmentProperty
    from zvcore.precomputed.segment_property_set import write_segment_properties as write_segment_properties
    from zvcore.precomputed.shard_writer import write_sharded as write_sharded
    from zvcore.precomputed.sharded_store import ShardedStore as ShardedStore
    from zvcore.precomputed.sharding_spec import ShardingSpec as ShardingSpec
    from zvcore.precomputed.skeletons import Skeleton as Skeleton
    from zvcore.precomputed.skeletons import Skeletons as Skeletons
    from zvcore.precomputed.skeletons import VertexAttribute as VertexAttribute
    from zvcore.precomputed.skeletons import write_skeletons as write_skeletons
    from zvcore.precomputed.surface_files import read_surface as read_surface
    from zvcore.precomputed.surface_files import write_surface as write_surface
    from zvcore.precomputed.surfaces import Surface as Surface
    from zvcore.precomputed.swc import SWC_ATTRIBUTES as SWC_ATTRIBUTES
    from zvcore.precomputed.swc import read_swc as read_swc
    from zvcore.precomputed.swc import write_swc as write_swc
    from zvcore.stores import Store

__all__ = [
    "SWC_ATTRIBUTES",
    "AnnotationProperty",
    "Annotations",
    "LegacyMeshes",
    "Level",
    "Manifest",
    "Mesh",
    "Meshes",
    "Ragged",
    "ScaleArray",
    "SegmentProperties",
    "SegmentProperty",
    "ShardedStore",
    "ShardingSpec",
    "Skeleton",
    "Skeletons",
    "Surface",
    "VertexAttribute",
    "Volume",
    "compact",
    "create",
    "detect",
    "encode_mesh",
    "inspect",
    "open",
    "read_surface",
    "read_swc",
    "repair",
    "verify",
    "write_annotations",
    "write_mesh_fragments",
    "write_meshes",
    "write_segment_properties",
    "write_sharded",
    "write_skeletons",
    "write_surface",
    "write_swc",
]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "annotation_info": "AnnotationProperty",
        "annotation_set": "Annotations",
        "annotation_writing": "write_annotations",
        "array": "ScaleArray",
        "group": "Volume",
        "care": "compact inspect repair verify",
        "ragged": "Ragged",
        "legacy_meshes": "LegacyMeshes",
        "manifests": "Level Manifest",
        "mesh_octree": "encode_mesh",
        "mesh_writing": "write_meshes",
        "meshes": "Mesh Meshes write_mesh_fragments",
        "segment_property_set": "SegmentProperties SegmentProperty write_segment_properties",
        "shard_writer": "write_sharded",
        "sharded_store": "ShardedStore",
        "sharding_spec": "ShardingSpec",
        "skeletons": "Skeleton Skeletons VertexAttribute write_skeletons",
        "surface_files": "read_surface write_surface",
        "surfaces": "Surface",
        "swc": "SWC_ATTRIBUTES read_swc write_swc",
    },
)


def create(store: Store, **options: Any) -> ScaleArray:
    """`create_volume`, under the name that every format has."""
    from zvcore.precomputed.creating import create_volume

    return create_volume(store, **options)


def detect(store: Store) -> bool:
    """Whether there is precomputed data at the root of this store."""
    from zvcore.errors import MetadataError, NotFoundError
    from zvcore.precomputed.kinds import BEING_REPLACED
    from zvcore.precomputed.metadata import read_info

    try:
        info = read_info(store)
    except (NotFoundError, MetadataError):
        return False
    kind = info.get("@type")
    ours = isinstance(kind, str) and (kind.startswith("neuroglancer_") or kind == BEING_REPLACED)
    return isinstance(info.get("scales"), list) or ours


def open(store: Store, mode: str = "r", *, scale: int | str | None = None, **options: Any) -> Any:
    """Open what is at the root of a store: `Volume`, `Skeletons` and so on.

    With `scale` (number or key) it is an array.
    """
    from zvcore.precomputed.group import Volume
    from zvcore.precomputed.kinds import CLASSES, kind_of
    from zvcore.precomputed.metadata import INFO, read_version

    info = None
    if scale is None and not options:
        info = read_version(store)
        found = CLASSES.get(kind_of(info[0], f"{store.root}/{INFO}"))
        if found is not None:
            module, name = found
            return getattr(importlib.import_module(f"zvcore.precomputed.{module}"), name)(store, mode)
    volume = Volume(store, mode, info=info, **options)
    return volume if scale is None else volume[scale]
