"""User attributes of N5: the mapping over attributes.json, and access by Java's attribute paths."""

from __future__ import annotations

from typing import Any

import zvcore.documents
from zvcore.documents.values import as_json, copied
from zvcore.errors import MetadataError, NotFoundError
from zvcore.n5.metadata import RESERVED, is_dataset
from zvcore.n5.paths import MISSING, find, removed, replaced, tokens

__all__ = ["Attributes", "GroupAttributes", "WithAttributes", "refuse_dataset"]


class Attributes(zvcore.documents.Attributes):
    """The attributes of one group or dataset, without those that belong to the format."""

    reserved = hidden = RESERVED


class GroupAttributes(Attributes):
    """Those of a group. Members of datasets are its user's, too, as long as they do not make a dataset of it.

    BigDataViewer keeps the `dataType` of all levels there.
    """

    reserved = hidden = frozenset({"n5"})

    @classmethod
    def checked(cls, attrs: Any, reserved: frozenset[str] | None = None) -> dict[str, Any]:
        new = super().checked(attrs, reserved)
        refuse_dataset(new)
        return new

    def _placed(self, content: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        if not is_dataset(content):
            refuse_dataset(values)
        return values


def refuse_dataset(attributes: dict[str, Any]) -> None:
    """An error if a group with these attributes would be a dataset: what lies in it could not be reached."""
    if is_dataset(attributes):
        raise MetadataError("these attributes together would make a dataset of the group")


def _formats_own(document: dict[str, Any]) -> dict[str, Any]:
    """The members of a document that are not the user's."""
    names = Attributes.reserved if is_dataset(document) else GroupAttributes.reserved
    return {key: item for key, item in document.items() if key in names}


class WithAttributes:
    """What groups and datasets have in common: attributes by path."""

    _attrs: Any

    def get_attribute(self, path: str, default: Any = None) -> Any:
        r"""The attribute at a path such as `a/b[2]`, the format's own among them; `default` if there is none.

        `\\/` and `\\[` stand for a slash and a bracket in a key; "/" is the whole document.
        """
        found = find(self._attrs.document, tokens(path))
        return default if found is MISSING else copied(found)

    def set_attribute(self, path: str, value: Any) -> None:
        """Set the attribute at a path, with the objects and lists that lead there.

        `set_attribute("a/b[2]", 5)` on nothing makes `{"a": {"b": [0, 0, 5]}}`. What is in the way is replaced.
        """
        where = tokens(path)
        new = as_json(value, "attributes")

        def change(document: dict[str, Any]) -> dict[str, Any]:
            self._check_path(document, where, path)
            changed = replaced(document, where, new)
            if not isinstance(changed, dict):
                raise MetadataError("the attributes of a group are an object", expected="an object", found=repr(path))
            if not where:
                # The format's own members are not the user's to remove.
                changed = {**_formats_own(document), **changed}
            if not is_dataset(document):
                refuse_dataset(changed)
            return changed

        self._attrs.change(change)

    def remove_attribute(self, path: str) -> Any:
        """Take out the attribute at a path and return it; in a list, the items behind it move up."""
        where = tokens(path)
        gone: list[Any] = []

        def change(document: dict[str, Any]) -> dict[str, Any]:
            self._check_path(document, where, path)
            if not where:
                own = _formats_own(document)
                gone.append({key: item for key, item in document.items() if key not in own})
                return own
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
