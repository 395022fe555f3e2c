"""User attributes of Zarr v2: a document of their own, `.zattrs`, which need not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zvcore.documents
from zvcore.documents.document import Document, parse
from zvcore.errors import MetadataError, NotFoundError
from zvcore.zarr2.consolidated import tell_above
from zvcore.zarr2.metadata import ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = ["DIMENSIONS", "Attributes", "AttributesFile", "Described", "dimension_names"]

# Where xarray keeps the names of an array's axes.
DIMENSIONS = "_ARRAY_DIMENSIONS"


class Described(Document):
    """A document of which the groups above may tell as well."""

    def __init__(
        self,
        store: Store,
        key: str,
        content: dict[str, Any],
        *,
        read_only: bool = False,
        through: Sequence[Store] = (),
        stamp: Stamp | None = None,
    ) -> None:
        super().__init__(store, key, content, read_only=read_only, stamp=stamp)
        self.through = tuple(through)

    def change(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        content = super().change(make)
        tell_above(self.store, self.key, self.through)
        return content


class AttributesFile(Described):
    """The .zattrs of a node, read when somebody asks for them. It is made when there is something to say.

    of  the document of the node that these are of: without it, there is nothing that they could be of
    """

    def __init__(
        self,
        store: Store,
        content: dict[str, Any] | None = None,
        *,
        read_only: bool = False,
        through: Sequence[Store] = (),
        of: str | None = None,
    ) -> None:
        self._of = of
        self._content: dict[str, Any] | None = None
        super().__init__(store, ATTRIBUTES, content or {}, read_only=read_only, through=through)
        self._content = content

    def change(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        if self._of is not None and not self.read_only and not self.store.exists(self._of):
            raise NotFoundError("it was removed meanwhile", key=f"{self.store.root}/{self._of}")
        return super().change(make)

    @property
    def content(self) -> dict[str, Any]:
        if self._content is None:
            with self.turn.held():
                if self._content is None:
                    self._content = self.latest()
        return self._content

    @content.setter
    def content(self, content: dict[str, Any]) -> None:
        self._content = content

    def parse(self, raw: bytes | None) -> dict[str, Any]:
        if raw is None:
            return {}
        if not raw:
            raise MetadataError("the file is empty: somebody did not finish writing it", key=self.key, offset=0)
        return parse(raw, self.key)


class Attributes(zvcore.documents.Attributes):
    """The attributes of one array or group; all of them are the user's.

    foreign  members of the node's other document that the format does not have (NCZarr puts some there)
    """

    def __init__(self, document: AttributesFile, foreign: Iterable[str] = ()) -> None:
        super().__init__(document)
        self.foreign = frozenset(foreign)


def dimension_names(attributes: Any, rank: int) -> tuple[str, ...] | None:
    """The names of an array's axes, as xarray writes and demands them; None where there are none, or others."""
    given = attributes.get(DIMENSIONS)
    if not isinstance(given, list) or len(given) != rank or not all(isinstance(one, str) for one in given):
        return None
    return tuple(given)
