"""Where the chunks of a Zarr v3 array without shards live: one object each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from zvcore.codecs.variable_items import VariableItems
from zvcore.engine import Sources
from zvcore.layout import ChunkForm, Layout, StoredObject
from zvcore.placement import OneChunkPerObject
from zvcore.zarr3.filtered import Filtered

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from zvcore.codecs import Codec, CodecChain
    from zvcore.layout import ValueCodec
    from zvcore.stores import Store
    from zvcore.zarr3.chain import Pipeline
    from zvcore.zarr3.metadata import ArrayMetadata

__all__ = ["ChunkLayout", "form_of"]


def form_of(
    pipeline: Pipeline, shape: tuple[int, ...], axes: tuple[int, ...], fill_value: Any
) -> tuple[ChunkForm, ValueCodec | None]:
    """How chunks of this shape (in the array's axes) lie; `axes` are those of the levels above and of this one."""
    dtype = pipeline.data_type.dtype
    form = ChunkForm(shape, dtype, swapped=pipeline.swapped, axes=axes)
    if pipeline.data_type.kind != "fixed":
        return form, VariableItems(dtype, axes)
    if pipeline.filters:
        filtered = Filtered(pipeline, axes)
        filtered.check_fill(fill_value)
    if pipeline.filtered_in_python or (pipeline.swapped and pipeline.data_type.fields):
        return form, Filtered(pipeline, axes)
    return form, None


class ChunkLayout(Layout):
    """An array whose chunks are objects of their own."""

    value_codec: ValueCodec | None

    def __init__(self, store: Store, metadata: ArrayMetadata, store_empty: bool = False) -> None:
        self.store = store
        self.metadata = metadata
        self.shared = metadata.shared
        self.shape = metadata.shape
        self.fill_value = metadata.fill_value
        self.store_empty = store_empty
        self.pipeline = metadata.pipeline
        self.form, self.value_codec = form_of(
            self.pipeline, metadata.chunk_shape, self.pipeline.axes, metadata.fill_value
        )

    @property
    def first_filter(self) -> Codec | None:
        return self.pipeline.first_filter

    @property
    def chains(self) -> tuple[CodecChain, ...]:
        return (self.pipeline.chunk_chain,)

    @property
    def placement(self) -> OneChunkPerObject:
        return OneChunkPerObject(self.store, self.metadata.keys)

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        return Sources(keys=self.metadata.keys(positions))

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.metadata.key(position)

    def stored_objects(self) -> Iterator[StoredObject]:
        return itertools.starmap(StoredObject, self.metadata.stored(self.store))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, shape={self.shape})"
