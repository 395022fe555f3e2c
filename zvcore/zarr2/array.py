"""A Zarr v2 array: the one Array plus what only this format has."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from zvcore import transfer
from zvcore.array import Array
from zvcore.errors import MisplacedChunksWarning, UnsupportedError
from zvcore.typed import Item
from zvcore.zarr2.attributes import Attributes, AttributesFile, Described, dimension_names
from zvcore.zarr2.layout import ChunkLayout
from zvcore.zarr2.metadata import DOCUMENT, ArrayMetadata, parse_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.codecs import Codec
    from zvcore.layout import Layout
    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = ["Zarr2Array", "misplaced", "warn_if_misplaced"]


class Zarr2Array(Array[Item]):
    """An array of Zarr v2.

    through  the stores of the groups that it was opened through, which may tell of its documents
    told     its attributes, where such a group has told them
    stamp    of which version of the document the metadata are
    """

    _layout: ChunkLayout

    def __init__(
        self,
        store: Store,
        metadata: ArrayMetadata,
        *,
        read_only: bool = False,
        threads: int | None = None,
        write_empty_chunks: bool = False,
        through: Sequence[Store] = (),
        told: dict[str, Any] | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        self._store_empty = write_empty_chunks
        super().__init__(
            ChunkLayout(store, metadata, write_empty_chunks),
            format="zarr2",
            attrs=Attributes(
                AttributesFile(store, told, read_only=read_only, through=through, of=DOCUMENT), foreign=metadata.foreign
            ),
            document=Described(store, DOCUMENT, metadata.document, read_only=read_only, through=through, stamp=stamp),
            read_only=read_only,
            threads=threads,
        )

    @property
    def metadata(self) -> ArrayMetadata:
        """What the .zarray says."""
        return self._layout.metadata

    @property
    def codec(self) -> Codec | tuple[Codec, ...]:
        codecs = tuple(codec for codec in self._layout.chains[0].codecs if not codec.of_items)
        return codecs[0] if len(codecs) == 1 else codecs

    @property
    def dimension_names(self) -> tuple[str, ...] | None:
        """What xarray calls the axes, from the attribute `_ARRAY_DIMENSIONS`."""
        return dimension_names(self.attrs, self.ndim)

    def _clear_outside(self, shrunk: list[int]) -> None:
        cut = transfer.remove_outside(self._layout)
        transfer.clear_cut_objects(self._layout, cut, shrunk, self._widened, self._work)

    def _widened(self, shape: tuple[int, ...]) -> Layout:
        return ChunkLayout(self._layout.store, self.metadata.resized(shape), self._store_empty)

    def _laid_out(self, content: dict[str, Any]) -> Layout:
        return ChunkLayout(self._layout.store, parse_array(content, DOCUMENT), self._store_empty)


def misplaced(store: Store, metadata: ArrayMetadata) -> str | None:
    """What is odd where chunks lie in folders and the document does not say so: readers look for others, and find none.

    Programs of before 2021 wrote stores like that. Only asked where the document says nothing: one look then.
    """
    if metadata.document.get("dimension_separator") is not None or len(metadata.shape) < 2:
        return None
    try:
        folders, objects = store.list_dir("0")
    except UnsupportedError:  # what cannot be listed
        return None
    if not folders and not objects:
        return None
    return (
        "chunks lie in folders (0/0), but .zarray has no dimension_separator, so every reader looks for others (0.0): "
        'with "dimension_separator": "/" in it they are found'
    )


def warn_if_misplaced(store: Store, metadata: ArrayMetadata) -> None:
    odd = misplaced(store, metadata)
    if odd is not None:
        warnings.warn(f"{store.root}: {odd}", MisplacedChunksWarning, stacklevel=4)
