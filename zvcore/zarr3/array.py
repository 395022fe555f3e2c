"""A Zarr v3 array: the one Array plus what only this format has."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.zarr3.attributes import Attributes
from zvcore.zarr3.inspection import chunk_keys, inspect_array, inspect_shard
from zvcore.zarr3.layout import ChunkLayout
from zvcore.zarr3.metadata import ArrayMetadata, write_document
from zvcore.zarr3.sharding import ShardLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.stores import Store

__all__ = ["Zarr3Array"]


class Zarr3Array(Array):
    """An array of Zarr v3, in shards or not."""

    def __init__(
        self,
        store: Store,
        metadata: ArrayMetadata,
        *,
        read_only: bool = False,
        threads: int | None = None,
        write_empty_chunks: bool = False,
        **shard_options: Any,
    ) -> None:
        self.metadata = metadata
        self._options = {"write_empty_chunks": write_empty_chunks, **shard_options}
        if metadata.pipeline.sharding is None:
            layout: Any = ChunkLayout(store, metadata, write_empty_chunks)
        else:
            layout = ShardLayout(store, metadata, write_empty_chunks, **shard_options)
        super().__init__(
            layout,
            format="zarr3",
            attrs=Attributes(store, metadata.attributes, read_only or store.read_only),
            read_only=read_only,
            threads=threads,
        )

    @property
    def codec(self) -> Any:
        codecs = self._layout.chains[0].codecs
        return codecs[0] if len(codecs) == 1 else codecs

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        return self.metadata.dimension_names

    def resize(self, shape: Sequence[int]) -> None:
        """Give the array another shape. Chunks that then lie outside are kept, as zarr-python does."""
        self._check_writable()
        metadata = self.metadata.resized(shape)
        write_document(self._layout.store, metadata.document)
        self.__init__(  # type: ignore[misc]
            self._layout.store, metadata, read_only=self._read_only, threads=self._threads, **self._options
        )

    def inspect(self) -> dict[str, Any]:
        """What is stored: objects, bytes, ratio, and for each shard its live and dead bytes."""
        return inspect_array(self)

    def compact(self, threshold: float = 0.0) -> int:
        """Write shards anew of which more than this share is dead bytes; how many bytes that saved."""
        self._check_writable()
        layout = self._layout
        if not isinstance(layout, ShardLayout) or not layout.simple:
            return 0
        saved = 0
        for key in list(chunk_keys(self)):
            with layout.store.lock(key) if layout.store.can_lock else nullcontext():
                found = inspect_shard(layout, key)
                if found["dead"] > threshold * found["size"]:
                    saved += layout.compact(key)
        return saved
