"""Neuroglancer precomputed: sharded key-value stores, volumes, skeletons, meshes, and the tools to look after them."""

from zvcore.precomputed.shard_writer import write_sharded
from zvcore.precomputed.sharded_store import ShardedStore
from zvcore.precomputed.sharding_spec import ShardingSpec

__all__ = ["ShardedStore", "ShardingSpec", "write_sharded"]
