"""User attributes: a mapping that shows a part of a document and writes each change through to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from zvcore.documents.values import as_json, copied
from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from zvcore.documents.document import Document

__all__ = ["Attributes"]


class Attributes(MutableMapping[str, Any]):
    """The members of a node's document that are the user's.

    reserved  members that belong to the format: they cannot be changed here
    hidden    those of them that are not shown either
    nan       whether readers of the format know NaN and the infinities

    Keys are taken as they are: a slash in one is a slash. What is read is a copy. A change rewrites the document at
    once, loses nothing that others have changed in it meanwhile, and keeps everything else that is in it; if it fails,
    the mapping is as it was. `refresh` reads what others have changed. NaN and the infinities are kept, read and
    written as the words that zarr-python writes, which JSON does not have.

    Subclasses whose attributes stand elsewhere in the document say where.
    """

    reserved: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    nan = True

    def __init__(self, document: Document) -> None:
        self._document = document

    # --- where they stand

    def _of(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object that holds the attributes, and possibly reserved members."""
        return content

    def _placed(self, content: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """The document with this object in that place."""
        return values

    # --- reading

    @property
    def document(self) -> dict[str, Any]:
        """The whole document, as it was last read or changed."""
        return self._document.content

    @property
    def _values(self) -> Mapping[str, Any]:
        return self._of(self._document.content)

    def refresh(self) -> None:
        """Read the document again."""
        self._document.refresh()

    def __getitem__(self, name: str) -> Any:
        if name in self.hidden:
            raise KeyError(name)
        return copied(self._values[name])

    def __contains__(self, name: object) -> bool:
        return name not in self.hidden and name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self._values if name not in self.hidden])

    def __len__(self) -> int:
        return sum(name not in self.hidden for name in self._values)

    def __repr__(self) -> str:
        return repr(dict(self))

    # --- changing

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        _refuse_reserved([name], self.reserved)
        self._change(lambda values: {key: value for key, value in values.items() if key != name})

    def update(self, *args: Any, **kwargs: Any) -> None:
        new = self.checked(dict(*args, **kwargs), self.reserved)
        self._change(lambda values: {**values, **new})

    def clear(self) -> None:
        self._change(lambda values: {key: value for key, value in values.items() if key in self.reserved})

    def change(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replace the whole document, the format's own members too."""
        self._document.change(make)

    def _change(self, make: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self.change(lambda content: self._placed(content, make(self._of(content))))

    @classmethod
    def checked(cls, attrs: Any, reserved: frozenset[str] | None = None) -> dict[str, Any]:
        """User attributes as JSON has them; those that belong to the format are refused."""
        try:
            given = dict(attrs)
        except (TypeError, ValueError):
            raise TypeError(f"attributes are names and their values, not {attrs!r}") from None
        if not given:
            return {}
        new: dict[str, Any] = as_json(given, "attributes", nan=cls.nan)
        _refuse_reserved(new, cls.reserved if reserved is None else reserved)
        return new


def _refuse_reserved(names: Iterable[str], reserved: frozenset[str]) -> None:
    taken = sorted(reserved.intersection(names))
    if taken:
        raise MetadataError(f"{', '.join(map(repr, taken))} belong to the format and cannot be a user's attributes")
