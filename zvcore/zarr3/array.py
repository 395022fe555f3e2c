"""A Zarr v3 array: the one Array plus what only this format has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import transfer
from zvcore.array import Array
from zvcore.errors import CorruptDataError, NotFoundError
from zvcore.stores.request_threads import side_by_side
from zvcore.typed import Item
from zvcore.zarr3.attributes import Attributes
from zvcore.zarr3.inspection import chunk_keys, inspect_array, inspect_shard
from zvcore.zarr3.metadata import DOCUMENT, ArrayMetadata, parse_document
from zvcore.zarr3.sharding import ShardLayout, layout_of
from zvcore.zarr3.telling import DescribedAbove

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.codecs import Codec
    from zvcore.layout import Layout
    from zvcore.stores import Store
    from zvcore.stores.base import Stamp
    from zvcore.zarr3.layout import ChunkLayout

__all__ = ["Zarr3Array", "array_of"]


def array_of(store: Store, metadata: ArrayMetadata, **options: Any) -> Zarr3Array:
    """The array that a document describes."""
    if metadata.edges is None:
        return Zarr3Array(store, metadata, **options)
    from zvcore.zarr3.rectilinear import RectilinearArray

    return RectilinearArray(store, metadata, **options)


class Zarr3Array(Array[Item]):
    """An array of Zarr v3, in shards or not. `stamp`: of which version of the document the metadata are."""

    _layout: ChunkLayout | ShardLayout

    def __init__(
        self,
        store: Store,
        metadata: ArrayMetadata,
        *,
        read_only: bool = False,
        threads: int | None = None,
        write_empty_chunks: bool = False,
        through: Sequence[Store] = (),
        stamp: Stamp | None = None,
        **shard_options: Any,
    ) -> None:
        self._options = {"store_empty": write_empty_chunks, **shard_options}
        document = DescribedAbove(store, metadata.document, read_only=read_only, through=through, stamp=stamp)
        super().__init__(
            self._lay_out(store, metadata),
            format="zarr3",
            attrs=Attributes(document),
            document=document,
            read_only=read_only,
            threads=threads,
        )

    def _lay_out(self, store: Store, metadata: ArrayMetadata, **other: Any) -> ChunkLayout | ShardLayout:
        """With this array's options, but for the `other` ones."""
        return layout_of(store, metadata, **{**self._options, **other})

    @property
    def metadata(self) -> ArrayMetadata:
        """What the zarr.json says."""
        return self._layout.metadata

    @property
    def codec(self) -> Codec | tuple[Codec, ...]:
        codecs = tuple(codec for codec in self._layout.chains[0].codecs if not codec.of_items)
        return codecs[0] if len(codecs) == 1 else codecs

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        return self.metadata.dimension_names

    def _clear_outside(self, shrunk: list[int]) -> None:
        cut = transfer.remove_outside(self._layout)
        transfer.clear_cut_objects(self._layout, cut, shrunk, self._widened, self._work)

    def _widened(self, shape: tuple[int, ...]) -> Layout:
        # What a resize has begun must end: by the one way to write that every shard can be written in.
        return self._lay_out(self._layout.store, self.metadata.resized(shape), write_mode="rewrite")

    def _laid_out(self, content: dict[str, Any]) -> Layout:
        metadata = parse_document(content, DOCUMENT)
        if not isinstance(metadata, ArrayMetadata):
            raise NotFoundError("the array is gone: a group is here", key=self._layout.store.root)
        return self._lay_out(self._layout.store, metadata)

    def inspect(self) -> dict[str, Any]:
        """What is stored: objects, bytes, ratio, and for each shard its live and dead bytes."""
        return inspect_array(self)

    def compact(self, threshold: float = 0.0) -> int:
        """Rewrite the shards of which more than this fraction is dead bytes; returns how many bytes this saved."""
        self._check_writable()
        saved = 0
        for layout, key in list(self._shards()):
            with layout.store.edit(key) as edit:
                found = inspect_shard(layout, key)
                if found["dead"] > threshold * found["size"]:
                    saved += layout.compact(edit)
        return saved

    def inspected_shards(self, threads: int | None = None) -> dict[str, dict[str, Any]]:
        """What `inspect` says of each shard, if it is of a kind that can be looked into."""
        shards = list(self._shards())

        def inspected(shard: tuple[ShardLayout, str]) -> dict[str, Any]:
            try:
                return inspect_shard(*shard)
            except (CorruptDataError, NotFoundError) as error:
                # The others can be told of; `verify` says what is wrong with this one.
                return {"error": str(error), "dead": 0}

        store = self._layout.store
        found = store.each(inspected, shards) if threads is None else side_by_side(inspected, shards, threads)
        return {key: one for (_, key), one in zip(shards, found, strict=True)}

    def _shards(self) -> Iterator[tuple[ShardLayout, str]]:
        """(the layout that says where its chunks lie, its key) for each shard of one level that is stored."""
        layout = self._layout
        if isinstance(layout, ShardLayout) and layout.simple:
            yield from ((layout, key) for key in chunk_keys(self))
