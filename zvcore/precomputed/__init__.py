"""Neuroglancer precomputed: sharded key-value stores, volumes, skeletons, meshes, and the tools to look after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError, NotFoundError
from zvcore.precomputed.info import read_info
from zvcore.precomputed.inspection import inspect
from zvcore.precomputed.meshes import MESHES_TYPE, Level, Manifest, Mesh, Meshes, write_meshes
from zvcore.precomputed.repair import compact, repair
from zvcore.precomputed.shard_writer import write_sharded
from zvcore.precomputed.sharded_store import ShardedStore
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.precomputed.skeletons import SKELETONS_TYPE, Skeleton, Skeletons, VertexAttribute, write_skeletons
from zvcore.precomputed.verification import verify
from zvcore.precomputed.volume import ScaleArray, Volume, create_volume

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = [
    "Level",
    "Manifest",
    "Mesh",
    "Meshes",
    "ScaleArray",
    "ShardedStore",
    "ShardingSpec",
    "Skeleton",
    "Skeletons",
    "VertexAttribute",
    "Volume",
    "compact",
    "create",
    "detect",
    "inspect",
    "open",
    "repair",
    "verify",
    "write_meshes",
    "write_sharded",
    "write_skeletons",
]

create = create_volume


def detect(store: Store) -> bool:
    """Whether something precomputed lies at the root of this store."""
    try:
        info = read_info(store)
    except (NotFoundError, MetadataError):
        return False
    kind = info.get("@type")
    return isinstance(info.get("scales"), list) or (isinstance(kind, str) and kind.startswith("neuroglancer_"))


def open(store: Store, mode: str = "r", *, scale: int | str | None = None, **options: Any) -> Any:
    """What lies at the root of a store: `Volume`, `Skeletons` or `Meshes`; with `scale` (number or key) an array."""
    if scale is None and not options:
        kind = read_info(store).get("@type")
        if kind == SKELETONS_TYPE:
            return Skeletons(store, mode)
        if kind == MESHES_TYPE:
            return Meshes(store, mode)
    volume = Volume(store, mode, **options)
    return volume if scale is None else volume[scale]
