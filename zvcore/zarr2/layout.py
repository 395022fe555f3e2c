"""Where the chunks of a Zarr v2 array live: one object each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from zvcore.cached import cached_property
from zvcore.engine import Sources
from zvcore.layout import ChunkForm, Layout, StoredObject
from zvcore.placement import OneChunkPerObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from zvcore.codecs import Codec, CodecChain
    from zvcore.layout import ValueCodec
    from zvcore.stores import Store
    from zvcore.zarr2.metadata import ArrayMetadata

__all__ = ["ChunkLayout"]


class ChunkLayout(Layout):
    """Chunks are stored whole, at the array's end too."""

    def __init__(self, store: Store, metadata: ArrayMetadata, store_empty: bool = False) -> None:
        self.store = store
        self.metadata = metadata
        self.shared = metadata.shared
        self.shape = metadata.shape
        self.fill_value = metadata.fill_value
        self.store_empty = store_empty or metadata.undefined
        data_type = metadata.data_type
        self.form = ChunkForm(metadata.chunks, data_type.dtype, swapped=data_type.swapped, axes=metadata.axes)

    @cached_property
    def value_codec(self) -> ValueCodec | None:
        return self.metadata.pipeline.value_codec

    @property
    def first_filter(self) -> Codec | None:
        return next(iter(self.metadata.pipeline.filters), None)

    @property
    def chains(self) -> tuple[CodecChain, ...]:
        return (self.metadata.pipeline.chain,)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("prepared", "value_codec")}

    @property
    def placement(self) -> OneChunkPerObject:
        return OneChunkPerObject(self.store, self.metadata.keys.keys)

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        return Sources(keys=self.metadata.keys.keys(positions))

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.metadata.keys.key(position)

    def stored_objects(self) -> Iterator[StoredObject]:
        return itertools.starmap(StoredObject, self.metadata.keys.stored(self.store))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, shape={self.shape})"
