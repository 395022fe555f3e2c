"""User attributes of volumes and scales: members of `info` that the format does not define."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.documents import Attributes
from zvcore.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.documents import Document
    from zvcore.precomputed.encodings import ChunkEncoding

__all__ = ["ScaleAttributes", "VolumeAttributes"]


class VolumeAttributes(Attributes):
    """The members of `info` that describe no scale.

    What the format says of the data is shown, but cannot be changed here; `mesh`, `skeletons` and `segment_properties`
    can, so that what is made later can be named. Neuroglancer's JSON has no NaN.
    """

    reserved = frozenset({"@type", "type", "data_type", "num_channels", "scales", "redirect"})
    hidden = frozenset({"scales"})
    nan = False


class ScaleAttributes(Attributes):
    """The members of one scale. Those of the format are shown, but cannot be changed here."""

    reserved = frozenset(
        {"key", "size", "resolution", "voxel_offset", "chunk_sizes", "encoding", "sharding", "zvcore_compression"}
    )
    nan = False

    def __init__(self, document: Document, key: str, encoding: type[ChunkEncoding]) -> None:
        super().__init__(document)
        self._key = key
        self.reserved = self.reserved.union(encoding.members)

    def _of(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        scales = content.get("scales")
        for scale in scales if isinstance(scales, list) else ():
            if isinstance(scale, dict) and scale.get("key") == self._key:
                return scale
        raise NotFoundError(f"the scale {self._key!r} is gone", key=self._document.key)

    def _placed(self, content: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        mine = self._of(content)
        return {**content, "scales": [values if one is mine else one for one in content["scales"]]}
