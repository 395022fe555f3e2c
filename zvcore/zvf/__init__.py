"""Zarr Vectors: points, lines and their pyramids in chunked, optionally sharded Zarr v3 stores."""

from zvcore.zvf.fragments import FragmentIndex, decode_fragments, encode_fragments
from zvcore.zvf.manifests import (
    ManifestCSR,
    ManifestTable,
    decode_manifest,
    decode_manifests,
    encode_manifest,
    encode_manifests,
)

__all__ = [
    "FragmentIndex",
    "ManifestCSR",
    "ManifestTable",
    "decode_fragments",
    "decode_manifest",
    "decode_manifests",
    "encode_fragments",
    "encode_manifest",
    "encode_manifests",
]
