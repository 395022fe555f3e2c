"""A precomputed volume: its scales, each an array of voxels [x, y, z, channel]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from zvcore.errors import MetadataError
from zvcore.precomputed.array import ScaleArray
from zvcore.precomputed.attributes import VolumeAttributes
from zvcore.precomputed.layout import layout_of
from zvcore.precomputed.metadata import INFO, InfoFile, VolumeInfo, read_info, read_version, resolve_key
from zvcore.stores import Store, open_store

if TYPE_CHECKING:
    import os

    import numpy as np

    from zvcore.format import Node
    from zvcore.precomputed.legacy_meshes import LegacyMeshes
    from zvcore.precomputed.meshes import Meshes
    from zvcore.precomputed.segment_property_set import SegmentProperties
    from zvcore.precomputed.skeletons import Skeletons
    from zvcore.stores.base import Stamp

__all__ = ["Volume"]


class Volume(Mapping[str, ScaleArray]):
    """A volume: a mapping from scale keys to arrays; `volume[0]` is the finest, negative numbers count from the end.

    `info` is the document as it stands in the store. What it refers to besides scales is reached by `skeletons()` and
    `meshes()`.
    """

    kind = "image"
    format = "precomputed"
    path = ""
    # Scales are opened anew each time, so that as a mapping a volume would not be equal to itself.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(
        self,
        path: str | os.PathLike[str] | Store,
        mode: str = "r",
        *,
        write_empty_chunks: bool = False,
        threads: int | None = None,
        info: tuple[dict[str, Any], Stamp | None] | None = None,
    ) -> None:
        """`info`: the document, where it has been read, and of which version it is."""
        self.store = open_store(path, mode)
        self.mode = mode
        self.write_empty_chunks = write_empty_chunks
        self.threads = threads
        content, stamp = read_version(self.store) if info is None else info
        self._document = InfoFile(self.store, content, read_only=mode == "r", stamp=stamp)
        self._attrs = VolumeAttributes(self._document)
        _ = self._info

    @property
    def attrs(self) -> VolumeAttributes:
        """The members of `info` that describe no scale. Those that the format does not define can be changed."""
        return self._attrs

    @property
    def _info(self) -> VolumeInfo:
        return self._document.volume(self._document.content)

    @property
    def info(self) -> Mapping[str, Any]:
        return self._document.content

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._info.dtype

    @property
    def num_channels(self) -> int:
        return self._info.channels

    @property
    def type(self) -> str:
        """ "image" or "segmentation"."""
        return self._info.type

    def __getitem__(self, which: int | str) -> ScaleArray:
        if not isinstance(which, str):
            if not isinstance(which, SupportsIndex):
                raise TypeError("a volume has scales, by number or key; volume[0][...] are values of the finest")
            which = which.__index__()
        info = self._info
        layout = layout_of(self.store, info.scale(which), info.dtype, info.channels, self.write_empty_chunks)
        return ScaleArray(layout, self._document, read_only=self.mode == "r", threads=self.threads)

    def __iter__(self) -> Iterator[str]:
        return iter(self._info.keys)

    def __len__(self) -> int:
        return len(self._info.keys)

    def __contains__(self, key: object) -> bool:
        return key in self._info.keys

    def children(self) -> Mapping[str, Node]:
        """The scales, the finest first."""
        return self

    def __repr__(self) -> str:
        return f"<zvcore.precomputed.Volume {self.type} of {self.dtype}, {len(self)} scales, in {self.store.root}>"

    def skeletons(self) -> Skeletons:
        """The skeletons that `info` names."""
        from zvcore.precomputed.skeletons import Skeletons

        return Skeletons(self._below("skeletons"), self.mode)

    def meshes(self) -> Meshes | LegacyMeshes:
        """The meshes that `info` names, of either kind. Legacy ones are those that have no `info` of their own."""
        from zvcore.precomputed.kinds import MESHES, kind_of
        from zvcore.precomputed.legacy_meshes import LegacyMeshes
        from zvcore.precomputed.meshes import Meshes

        store = self._below("mesh")
        with store.looking_at([INFO]):
            if store.exists(INFO) and kind_of(read_info(store), f"{store.root}/{INFO}") == MESHES:
                return Meshes(store, self.mode)
            return LegacyMeshes(store, self.mode)

    def segment_properties(self) -> SegmentProperties:
        """The properties of segments that `info` names."""
        from zvcore.precomputed.segment_property_set import SegmentProperties

        return SegmentProperties(self._below("segment_properties"), self.mode)

    def _below(self, name: str) -> Store:
        folder = self._info.document.get(name)
        if folder is None:
            raise MetadataError(f"this volume names no {name}", key=self._info.where)
        return self.store.child(resolve_key(folder, self._info.where))
