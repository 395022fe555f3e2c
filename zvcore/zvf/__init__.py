"""Zarr Vectors: points, lines and their pyramids in chunked, optionally sharded Zarr v3 stores."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zvcore.lazy import lazy_names

if TYPE_CHECKING:
    from zvcore.zvf.acceleration import Acceleration as Acceleration
    from zvcore.zvf.acceleration import accelerate as accelerate
    from zvcore.zvf.care import compact as compact
    from zvcore.zvf.care import inspect as inspect
    from zvcore.zvf.care import repair as repair
    from zvcore.zvf.care import verify as verify
    from zvcore.zvf.fragments import FragmentIndex as FragmentIndex
    from zvcore.zvf.fragments import decode_fragments as decode_fragments
    from zvcore.zvf.fragments import encode_fragments as encode_fragments
    from zvcore.zvf.interchange import from_trx_arrays as from_trx_arrays
    from zvcore.zvf.interchange import read_tractogram as read_tractogram
    from zvcore.zvf.interchange import to_trx_arrays as to_trx_arrays
    from zvcore.zvf.interchange import write_tractogram as write_tractogram
    from zvcore.zvf.manifests import ManifestCSR as ManifestCSR
    from zvcore.zvf.manifests import ManifestTable as ManifestTable
    from zvcore.zvf.manifests import decode_manifest as decode_manifest
    from zvcore.zvf.manifests import decode_manifests as decode_manifests
    from zvcore.zvf.manifests import encode_manifest as encode_manifest
    from zvcore.zvf.manifests import encode_manifests as encode_manifests
    from zvcore.zvf.pyramid import write_coarser_level as write_coarser_level
    from zvcore.zvf.reading import Vectors as Vectors
    from zvcore.zvf.repacking import get_shard_info as get_shard_info
    from zvcore.zvf.repacking import is_sharded as is_sharded
    from zvcore.zvf.repacking import reshard as reshard
    from zvcore.zvf.repacking import shard_store as shard_store
    from zvcore.zvf.repacking import unshard_store as unshard_store
    from zvcore.zvf.validation import ValidationResult as ValidationResult
    from zvcore.zvf.validation import validate as validate
    from zvcore.zvf.vector_store import Level as Level
    from zvcore.zvf.vector_store import VectorStore as Store
    from zvcore.zvf.vector_store import VectorStore as VectorStore
    from zvcore.zvf.vector_store import detect as detect
    from zvcore.zvf.vector_store import open as open
    from zvcore.zvf.writing import write_points as write_points
    from zvcore.zvf.writing import write_polylines as write_polylines

__all__ = [
    "Acceleration",
    "FragmentIndex",
    "Level",
    "ManifestCSR",
    "ManifestTable",
    "Store",
    "ValidationResult",
    "VectorStore",
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

_get, __dir__ = lazy_names(
    __name__,
    {
        "acceleration": "Acceleration accelerate",
        "care": "compact inspect repair verify",
        "fragments": "FragmentIndex decode_fragments encode_fragments",
        "interchange": "from_trx_arrays read_tractogram to_trx_arrays write_tractogram",
        "manifests": "ManifestCSR ManifestTable decode_manifest decode_manifests encode_manifest encode_manifests",
        "pyramid": "write_coarser_level",
        "reading": "Vectors",
        "repacking": "get_shard_info is_sharded reshard shard_store unshard_store",
        "vector_store": "Level VectorStore detect open",
        "validation": "ValidationResult validate",
        "writing": "write_points write_polylines",
    },
)


def __getattr__(name: str) -> Any:
    # It imports `zarr-vectors` where that is installed, which takes a second, and only when it is asked for.
    if name == "compat":
        return importlib.import_module("zvcore.zvf.compat")
    # `Store` is the name by which users know it.
    return _get("VectorStore" if name == "Store" else name)
