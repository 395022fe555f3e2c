"""User attributes: a mapping that writes through to attributes.json, and access by Java's attribute paths."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError, NotFoundError, ReadOnlyError
from zvcore.n5.documents import as_json, change_document, read_document
from zvcore.n5.metadata import RESERVED, is_dataset
from zvcore.n5.paths import MISSING, find, removed, replaced, tokens

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Attributes", "WithAttributes"]


class Attributes(MutableMapping[str, Any]):
    """The attributes of one group or dataset, without those that belong to the format.

    Keys are taken as they are: a slash in one is a slash. A change rewrites the document at once, under its lock, and
    keeps everything else that is in it; `refresh` reads what others have changed.
    """

    def __init__(self, store: Store, document: dict[str, Any] | None, read_only: bool) -> None:
        self._store = store
        self._read_only = read_only
        self.document: dict[str, Any] = document or {}

    def refresh(self) -> None:
        """Read the document anew."""
        self.document = read_document(self._store) or {}

    def __getitem__(self, name: str) -> Any:
        if name in RESERVED:
            raise KeyError(name)
        return copy.deepcopy(self.document[name])

    def __contains__(self, name: object) -> bool:
        return name not in RESERVED and name in self.document

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.document if name not in RESERVED])

    def __len__(self) -> int:
        return sum(name not in RESERVED for name in self.document)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self.change(lambda document: {key: value for key, value in document.items() if key != name})

    def update(self, *args: Any, **kwargs: Any) -> None:
        new = checked(dict(*args, **kwargs))
        self.change(lambda document: {**document, **new})

    def clear(self) -> None:
        self.change(lambda document: {key: value for key, value in document.items() if key in RESERVED})

    def change(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replace the whole document, the format's own members too."""
        if self._read_only:
            raise ReadOnlyError("opened for reading; open it with mode='r+' to change attributes", key=self._store.root)
        self.document = change_document(self._store, change)


def checked(attrs: Any) -> dict[str, Any]:
    """User attributes as JSON has them."""
    new: dict[str, Any] = as_json(dict(attrs))
    taken = sorted(RESERVED & new.keys())
    if taken:
        raise MetadataError(f"{', '.join(map(repr, taken))} belong to the format and cannot be a user's attributes")
    return new


class WithAttributes:
    """What groups and datasets have in common: attributes by path."""

    _attrs: Any

    def get_attribute(self, path: str, default: Any = None) -> Any:
        r"""The attribute at a path such as `a/b[2]`, the format's own among them; `default` if there is none.

        `\\/` and `\\[` stand for a slash and a bracket in a key; "/" is the whole document.
        """
        found = find(self._attrs.document, tokens(path))
        return default if found is MISSING else copy.deepcopy(found)

    def set_attribute(self, path: str, value: Any) -> None:
        """Set the attribute at a path, with the objects and lists that lead there.

        `set_attribute("a/b[2]", 5)` on nothing makes `{"a": {"b": [0, 0, 5]}}`. What is in the way is replaced.
        """
        where = tokens(path)
        new = as_json(value)

        def change(document: dict[str, Any]) -> dict[str, Any]:
            self._check_path(document, where, path)
            changed = replaced(document, where, new)
            if not isinstance(changed, dict):
                raise MetadataError("the attributes of a group are an object", expected="an object", found=repr(path))
            if not where:
                # The format's own members are not the user's to remove.
                changed = {**{key: item for key, item in document.items() if key in RESERVED}, **changed}
            return changed

        self._attrs.change(change)

    def remove_attribute(self, path: str) -> Any:
        """Take out the attribute at a path and return it; in a list, the items behind it move up."""
        where = tokens(path)
        gone: list[Any] = []

        def change(document: dict[str, Any]) -> dict[str, Any]:
            self._check_path(document, where, path)
            if not where:
                gone.append({key: item for key, item in document.items() if key not in RESERVED})
                return {key: item for key, item in document.items() if key in RESERVED}
            found = find(document, where)
            if found is MISSING:
                raise NotFoundError(f"there is no attribute {path!r}")
            gone.append(found)
            changed: dict[str, Any] = removed(document, where)
            return changed

        self._attrs.change(change)
        return gone[-1]

    @staticmethod
    def _check_path(document: dict[str, Any], where: list[Any], path: str) -> None:
        if where and where[0] in RESERVED and (is_dataset(document) or where[0] == "n5"):
            raise MetadataError(f"{path!r} belongs to the format and cannot be changed as an attribute")
