"""An N5 dataset: the one Array plus block modes, resizing, and attributes by path."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.array import Array
from zvcore.engine import Sources
from zvcore.engine.chunks import Chunks
from zvcore.engine.read import read_chunks
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.n5.attributes import Attributes, WithAttributes
from zvcore.n5.blocks import Block, decode_block, encode_block, mode_of
from zvcore.n5.documents import ATTRIBUTES, DatasetFile
from zvcore.n5.layout import BlockLayout
from zvcore.n5.metadata import RESERVED, DatasetMetadata, check_version, is_dataset
from zvcore.typed import Item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.codecs import Codec
    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = ["N5Array"]


class N5Array(WithAttributes, Array[Item]):
    """A dataset of an N5 container.

    order               "F": axes as N5 has them, the fastest first; "C": the reversed view of the same data
    pad_edges           whether blocks at the end are written whole instead of cropped
    strict              whether bytes behind the values of a raw block are an error
    write_empty_blocks  whether blocks of nothing but zeros are stored
    metadata            what the document says, where that is known already
    stamp               of which version the document is
    """

    _layout: BlockLayout

    def __init__(
        self,
        store: Store,
        document: dict[str, Any],
        *,
        read_only: bool = False,
        threads: int | None = None,
        order: str = "F",
        pad_edges: bool = False,
        strict: bool = True,
        write_empty_blocks: bool = False,
        metadata: DatasetMetadata | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "order": order, "pad_edges": pad_edges, "strict": strict, "write_empty_blocks": write_empty_blocks,
        }  # fmt: skip
        file = DatasetFile(store, document, read_only=read_only, stamp=stamp)
        super().__init__(
            self._made(store, document, metadata),
            format="n5",
            attrs=Attributes(file),
            document=file,
            read_only=read_only,
            threads=threads,
        )

    def _made(self, store: Store, document: dict[str, Any], metadata: DatasetMetadata | None = None) -> BlockLayout:
        """`metadata` is what the document says, where somebody knows it already."""
        where = f"{store.root}/{ATTRIBUTES}"
        check_version(document, where)
        return BlockLayout(store, metadata or DatasetMetadata.parse(document, where), **self._options)

    # --- what it is

    @property
    def metadata(self) -> DatasetMetadata:
        """What the dataset's attributes.json says in the format's own members."""
        return self._layout.metadata

    @property
    def codec(self) -> Codec:
        return self._layout.codec

    @property
    def attrs(self) -> Attributes:
        attrs: Attributes = self._attrs
        return attrs

    @property
    def data_type(self) -> str:
        """The `dataType`: that of the items, "string" or "object". The latter two have blocks but no items."""
        return self.metadata.data_type

    def __repr__(self) -> str:
        return (
            f"<zvcore.Array n5 shape={self.shape} {self.data_type} chunks={self.chunks} "
            f"{self.metadata.compression.get('type')} in {self._layout.store.root}>"
        )

    # --- items

    def _read(self, *args: Any) -> Any:
        self.check_items()
        return super()._read(*args)

    def _write(self, *args: Any) -> None:
        self._check_writable()
        self.check_items()
        super()._write(*args)

    def check_items(self) -> None:
        if not self.metadata.numeric:
            what = f"a dataset of dataType {self.data_type!r}"
        elif self._attrs.document.get("isLabelMultiset") is True:
            what = "a dataset of label multisets"
        else:
            return
        raise UnsupportedError(
            f"{what} has no items to index: use read_block and write_block", key=self._layout.store.root
        )

    # --- blocks

    def _key(self, position: Any) -> str:
        return self._layout.keys(self._rows(self._position(position)))[0]

    def block_exists(self, position: Any) -> bool:
        """Whether the block at this grid position is stored. Those that are not read as zeros."""
        return self._layout.store.exists(self._key(position))

    def block_mode(self, position: Any) -> str | None:
        """ "default", "varlength" or "object"; None if the block is not stored."""
        key = self._key(position)
        data = self._layout.store.get(key)
        if data is None:
            return None
        try:
            return mode_of(data, self.ndim)
        except ZvcoreError as error:
            raise error.located(key=key, chunk=self._position(position))

    def blocks(self) -> Iterator[tuple[int, ...]]:
        """The grid positions of all stored blocks, without those outside the dimensions: they have no values."""
        grid = self.grid
        for _, place in self._layout.stored_objects():
            if place is not None and all(i < count for i, count in zip(place, grid, strict=True)):
                yield place

    def read_block(self, position: Any) -> Any:
        """The values of one block, or None if it is not stored.

        A block in default mode is an array, cut at the dataset's end; any other is a `Block`, which tells its mode.
        """
        place = self._position(position)
        layout = self._layout
        key = layout.chunk_name(place)
        if layout.store.local_root is not None and self.metadata.numeric:
            # Threads read files faster than Python does; a look at the mode costs little.
            head = layout.store.get(key, 0, 4)
            if head is None:
                return None
            if bytes(head[:2]) == b"\0\0":
                selection = Selection.basic(self._block_region(place), self.shape)
                out = np.empty(layout.visible_shape(place), self.dtype, order="F" if self.order == "F" else "C")
                return super()._read(selection, out, Work(1))
        data = layout.store.get(key)
        if data is None:
            return None
        try:
            if mode_of(data, self.ndim) != "default" or not self.metadata.numeric:
                chain = layout.chains[0]
                reverse = layout.order == "C"
                keys = layout.keys(self._rows(place))
                items = math.prod(self.metadata.block_size)
                return decode_block(data, self.ndim, self.data_type, chain, keys, reverse, items)
        except ZvcoreError as error:
            raise error.located(key=key, chunk=place)
        selection = Selection.basic(self._block_region(place), self.shape)
        out = np.empty(layout.visible_shape(place), self.dtype, order="F" if self.order == "F" else "C")
        rows = self._rows(place)
        origin = Sources(keys=layout.keys(rows))
        sources = Sources(keys=origin.keys, blobs=[memoryview(data)], origin=origin)
        read_chunks(Chunks(layout.prepared, rows, sources), selection, out, Work(1))
        return out

    def write_block(
        self, position: Any, values: Any, mode: str | None = None, shape: Sequence[int] | None = None
    ) -> None:
        """Replace one block.

        In default mode `values` has the block's shape, cut at the dataset's end. mode="varlength" takes a row of
        numbers (of str for dtype "string"), whose number need not fit the `shape` that the header names (unless given,
        the block's); mode="object" takes bytes. A `Block` says all of this itself. Without a mode, datasets of strings
        and objects take theirs, all others the default.
        """
        place = self._position(position)
        self._check_current()
        if isinstance(values, Block):
            block = values
        else:
            if mode is None:
                mode = {"string": "varlength", "object": "object"}.get(self.data_type, "default")
            if mode == "default":
                if shape is not None:
                    raise TypeError("a block in default mode has the shape of its values")
                super().write_block(place, values)
                return
            if mode == "object":
                block = Block("object", values)
            elif mode == "varlength":
                block = Block("varlength", values, self._layout.visible_shape(place) if shape is None else tuple(shape))
            else:
                raise ValueError(f"mode is 'default', 'varlength' or 'object', not {mode!r}")
        layout = self._layout
        reverse, items = layout.order == "C", math.prod(self.metadata.block_size)
        parts = encode_block(block, self.ndim, self.data_type, layout.chains[0], reverse, items)
        layout.store.put_data(layout.chunk_name(place), parts)

    # --- changing the whole

    def resize(self, shape: Sequence[int], keep_blocks: bool = False) -> None:
        """Give the dataset other dimensions. Blocks that then lie outside are removed, unless `keep_blocks`.

        Blocks that the new end cuts are left as they are, as Java N5 has it: nothing is decoded here, and what they
        hold behind the end comes back when the dataset grows again. Whenever this is cut off, the dataset has one shape
        or the other with everything that lies in it; blocks that are left outside go when it is called once more.
        """
        shrunk = self._reshape(shape)
        if shrunk and not keep_blocks:
            self._clear_outside(shrunk)

    def _laid_out(self, content: dict[str, Any]) -> BlockLayout:
        if not is_dataset(content):
            raise NotFoundError("the dataset is gone", key=self._layout.store.root)
        return self._made(self._layout.store, content)

    def _described(self, content: dict[str, Any]) -> Any:
        return {name: content.get(name) for name in RESERVED - {"dimensions", "n5"}}

    def _resized(self, content: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        return {**content, "dimensions": list(self._layout.turned(shape))}
