"""Zarr Vectors: points, lines and their pyramids in chunked, optionally sharded Zarr v3 stores."""

import importlib
from typing import Any

from zvcore.zvf.acceleration import Acceleration, accelerate
from zvcore.zvf.care import compact, inspect, repair, verify
from zvcore.zvf.fragments import FragmentIndex, decode_fragments, encode_fragments
from zvcore.zvf.interchange import from_trx_arrays, read_tractogram, to_trx_arrays, write_tractogram
from zvcore.zvf.manifests import (
    ManifestCSR,
    ManifestTable,
    decode_manifest,
    decode_manifests,
    encode_manifest,
    encode_manifests,
)
from zvcore.zvf.pyramid import write_coarser_level
from zvcore.zvf.reading import Vectors
from zvcore.zvf.sharding import get_shard_info, is_sharded, reshard, shard_store, unshard_store
from zvcore.zvf.store import Level, Store, detect, open
from zvcore.zvf.validation import ValidationResult, validate
from zvcore.zvf.writing import write_points, write_polylines

__all__ = [
    "Acceleration",
    "FragmentIndex",
    "Level",
    "ManifestCSR",
    "ManifestTable",
    "Store",
    "ValidationResult",
    "Vectors",
    "accelerate",
    "compact",
    "compat",
    "decode_fragments",
    "decode_manifest",
    "decode_manifests",
    "detect",
    "encode_fragments",
    "encode_manifest",
    "encode_manifests",
    "from_trx_arrays",
    "get_shard_info",
    "inspect",
    "is_sharded",
    "open",
    "read_tractogram",
    "repair",
    "reshard",
    "shard_store",
    "to_trx_arrays",
    "unshard_store",
    "validate",
    "verify",
    "write_coarser_level",
    "write_points",
    "write_polylines",
    "write_tractogram",
]


def __getattr__(name: str) -> Any:
    # It imports `zarr-vectors`, if that is there, which takes a second that only those need who ask for it.
    if name == "compat":
        return importlib.import_module("zvcore.zvf.compat")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
