"""The header of a file, and the attributes in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zvcore.documents import Attributes, Document
from zvcore.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from zvcore.headed.format import HeadedFormat
    from zvcore.stores import Store

__all__ = ["Header", "HeaderAttributes", "HeaderDocument", "content_of", "read_header"]

# How many bytes of a file are read at first: few headers are longer.
_BEGINNING = 1 << 16


@dataclass(frozen=True)
class Header:
    """What a header says.

    dtype       of the values, in this machine's byte order; `swapped` says that the file has the other
    codec       the name of the codec by which the values are one stream, or None
    attributes  the user's
    start       where the values begin
    order       of the axes: "C", the last is the fastest, or "F"
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    codec: str | None = None
    swapped: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0
    order: str = "F"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def form(self) -> tuple[Any, ...]:
        """Everything that must not change while a file is open."""
        return self.shape, self.dtype, self.codec, self.swapped, self.order


def read_header(format: HeadedFormat, store: Store) -> Header:
    """The header of the file as it is now."""
    assert store.file is not None
    found = store.get(store.file, 0, _BEGINNING)
    if found is not None and len(found) == _BEGINNING and not format.is_whole(bytes(found)):
        found = store.get(store.file, 0, format.longest_header)
    if found is None:
        raise NotFoundError("there is no file here", key=store.root)
    return format.parse(bytes(found), store.file)


def content_of(header: Header) -> dict[str, Any]:
    return {"header": header, "attributes": dict(header.attributes)}


class HeaderDocument(Document):
    """The header as a document: {"header": the `Header`, "attributes": the user's part}."""

    def __init__(self, format: HeadedFormat, store: Store, header: Header, *, read_only: bool = False) -> None:
        assert store.file is not None
        super().__init__(store, store.file, content_of(header), read_only=read_only)
        self._format = format

    def parse(self, raw: bytes | None) -> dict[str, Any]:
        if raw is None:
            raise NotFoundError("the file is gone", key=self.store.root)
        return content_of(self._format.parse(raw, self.key))

    def latest(self) -> dict[str, Any]:
        return content_of(read_header(self._format, self.store))

    def _changed(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}

        def changed(raw: bytes | None) -> bytes:
            nonlocal made
            content = self.parse(raw)
            assert raw is not None
            attributes = make(content)["attributes"]
            spelled = self._format.spell(replace(content["header"], attributes=attributes))
            made = self.parse(spelled)
            return spelled + bytes(raw[content["header"].start :])

        self.store.change(self.key, changed)
        return made


class HeaderAttributes(Attributes):
    def __init__(self, document: HeaderDocument, reserved: frozenset[str]) -> None:
        super().__init__(document)
        self.reserved = reserved

    def _of(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = content["attributes"]
        return found

    def _placed(self, content: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        return {**content, "attributes": values}
