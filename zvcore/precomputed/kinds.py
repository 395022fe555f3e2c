"""What is in a folder, according to the `@type` of its info document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANNOTATIONS", "BEING_REPLACED", "CLASSES", "KINDS", "LEGACY_MESHES", "MESHES", "SEGMENT_PROPERTIES", "SKELETONS",
    "VOLUME", "kind_of",
]  # fmt: skip

VOLUME = "volume"
SKELETONS = "skeletons"
MESHES = "meshes"
LEGACY_MESHES = "legacy meshes"
ANNOTATIONS = "annotations"
SEGMENT_PROPERTIES = "segment properties"

KINDS = {
    "neuroglancer_multiscale_volume": VOLUME,
    "neuroglancer_skeletons": SKELETONS,
    "neuroglancer_multilod_draco": MESHES,
    "neuroglancer_legacy_mesh": LEGACY_MESHES,
    "neuroglancer_annotations_v1": ANNOTATIONS,
    "neuroglancer_segment_properties": SEGMENT_PROPERTIES,
}
# The type of a set while it is replaced by one that has another document: see `replacing`.
BEING_REPLACED = "zvcore_set_being_replaced"
# What opens them, all but volumes: a module, and a class in it.
CLASSES = {
    SKELETONS: ("skeletons", "Skeletons"),
    MESHES: ("meshes", "Meshes"),
    LEGACY_MESHES: ("legacy_meshes", "LegacyMeshes"),
    ANNOTATIONS: ("annotation_set", "Annotations"),
    SEGMENT_PROPERTIES: ("segment_property_set", "SegmentProperties"),
}


def kind_of(info: Mapping[str, Any], where: str) -> str:
    """One of the words above; UnsupportedError for types that are none of these."""
    found = info.get("@type")
    if not isinstance(found, str):
        return VOLUME  # old volumes have none; other faults are found when it is read
    if found == BEING_REPLACED:
        raise MetadataError(
            "a set of meshes or skeletons is being replaced here, or that was interrupted: its objects are of several "
            "sets. Written again with overwrite=True, it is whole",
            key=where,
        )
    kind = KINDS.get(found)
    if kind is None and found.startswith("neuroglancer_"):
        raise UnsupportedError(
            "no kind of precomputed data that zvcore knows", key=where, member="$.@type", found=found
        )
    return kind or VOLUME
