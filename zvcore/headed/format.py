"""What formats of one header and then the values have in common: opening, creating, the array."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from zvcore import codecs
from zvcore.array import Array
from zvcore.choices import AUTO, chosen
from zvcore.errors import ConflictError, MetadataError, NotFoundError, UnsupportedError
from zvcore.format import Care, Format, get_format
from zvcore.headed.header import Header, HeaderAttributes, HeaderDocument, read_header
from zvcore.headed.layout import HeadedLayout
from zvcore.typed import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["HeadedArray", "HeadedFormat"]


class HeadedArray(Array[Item]):
    def __init__(self, format: HeadedFormat, store: Store, header: Header, read_only: bool = False) -> None:
        document = HeaderDocument(format, store, header, read_only=read_only)
        layout = HeadedLayout(format, store, header)
        attrs = HeaderAttributes(document, format.reserved)
        super().__init__(
            layout, format=format.name, attrs=attrs, codec=layout.codec, document=document, read_only=read_only
        )

    @property
    def layout(self) -> HeadedLayout:
        assert isinstance(self._layout, HeadedLayout)
        return self._layout

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.format, self.store, self.layout.header, self.read_only)


def _again(name: str, store: Store, header: Header, read_only: bool) -> HeadedArray:
    found = get_format(name)
    assert isinstance(found, HeadedFormat)
    return HeadedArray(found, store, header, read_only)


class HeadedFormat(Format):
    """A format of files that begin with a header, which the values follow. Subclasses parse and spell the header.

    codec_names     the codecs by which values may be one stream; without one they are raw
    dtypes          the data types there are
    order           of the values in files that are created: "F", the first axis is the fastest, or "C"
    reserved        names that users may not give to attributes
    longest_header  the most bytes of a file that are read to find the end of its header
    best_ratio      the most bytes that a byte of a stream can decode to, by the name of its codec: `verify` does not
                    decode a stream that claims more
    """

    codec_names: ClassVar[tuple[str, ...]] = ("gzip",)
    dtypes: ClassVar[Sequence[np.dtype[Any]]] = ()
    order: ClassVar[str] = "F"
    reserved: ClassVar[frozenset[str]] = frozenset()
    longest_header: ClassVar[int] = 16 << 20
    best_ratio: ClassVar[Mapping[str, int]] = {"gzip": 1100}

    @abstractmethod
    def parse(self, raw: bytes, key: str) -> Header:
        """The header at the beginning of these bytes, which may come from anyone."""

    @abstractmethod
    def spell(self, header: Header) -> bytes:
        """A header as it is stored."""

    def is_whole(self, raw: bytes) -> bool:
        """Whether a header that begins with these bytes also ends within them."""
        return False

    def open(self, store: Store, mode: str = "r", **options: Any) -> Array:
        if store.file is None:
            raise NotFoundError("there is no file here", key=store.root)
        return HeadedArray(self, store, read_header(self, store), mode == "r")

    def creator(self) -> Callable[..., Array]:
        return self.create_array

    def create_array(
        self,
        store: Store,
        *,
        shape: Sequence[int],
        dtype: Any,
        codec: Any = AUTO,
        fill_value: Any = AUTO,
        attrs: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> Array:
        """`codec` is the name of one of the format's, by default its first; None: raw values."""
        codec = chosen(codec, self.codec_names[0] if self.codec_names else None)
        name = None if codec is None or codec in ([], "raw") else codecs.as_codec(codec).name
        dtype = np.dtype(dtype).newbyteorder("=")
        if (name is not None and name not in self.codec_names) or dtype not in self.dtypes:
            raise UnsupportedError(f"{self.title} has no such codec or type", key=store.root, found=f"{name}, {dtype}")
        if chosen(fill_value, 0) != 0:
            raise MetadataError(
                f"{self.title} has no fill value: what was not written is 0", key=store.root, found=repr(fill_value)
            )
        given = HeaderAttributes.checked(attrs or {}, self.reserved)
        raw = self.spell(Header(tuple(map(int, shape)), dtype, name, attributes=given, order=self.order))
        if store.file is None:
            raise UnsupportedError(f"a dataset of {self.title} is one file", key=store.root)
        # Only a header that would be accepted is written.
        array = HeadedArray(self, store, self.parse(raw, store.file))
        if overwrite:
            store.put(store.file, raw)
        elif store.exists(store.file):
            raise ConflictError("a file is here already; overwrite=True replaces it", key=store.root)
        else:
            store.put_if_unchanged(store.file, raw, None)
        return array

    def fastest_first(self, array: Array) -> bool:
        return self.order == "F"

    def care(self) -> Care:
        from zvcore.headed.care import HeadedCare

        return HeadedCare(self)
