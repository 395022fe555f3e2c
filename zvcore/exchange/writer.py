"""Makes the folders and arrays of a destination, or finds them again when an interrupted conversion is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.errors import NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.format import Format
    from zvcore.images import Described
    from zvcore.stores import Store

__all__ = ["ImageWriter"]


class ImageWriter:
    """Where a conversion writes. Paths count from the store's root; "" is the root itself.

    found    whether an earlier run has begun here, so that what it made is used
    implied  groups that had to be there for an array in them before anything was said of them
    made     groups that are there, as far as this has made or seen them: to ask again may be a request
    """

    # Whether all that is to be made has been put here before, as it was made in memory: it is only opened.
    landed = False

    def __init__(self, format: Format, store: Store, found: bool) -> None:
        self.format = format
        self.store = store
        self.found = found
        self.implied: set[str] = set()
        self.made: set[str] = set()

    def folder(self, path: str, attrs: Mapping[str, Any]) -> None:
        """Make a group."""
        raise UnsupportedError(f"{self.format.title} has no groups", key=self.store.root)

    def array(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any]) -> Array:
        """Make an array, or open what an earlier run has made of it."""
        return self.made_before(path, options) or self.create(path, options, attrs)

    def create(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any]) -> Array:
        """Make an array: `options` are those of the format's `create`."""
        return self.format.create(self.child(path), **options, **({"attrs": dict(attrs)} if attrs else {}))

    def image(self, path: str, image: Described) -> None:
        """Describe the arrays in a folder as the levels of one image."""

    def consolidate(self) -> None:
        """Let the group at the root tell of all that lies in it."""
        raise UnsupportedError(f"{self.format.title} has no consolidated metadata", key=self.store.root)

    def child(self, path: str) -> Store:
        """The store of what lies at a path."""
        return self.store.child(path) if path else self.store

    def for_opening(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of an array's options that are for opening it as well."""
        return {name: options[name] for name in self.format.open_options if name in options}

    def made_before(self, path: str, options: Mapping[str, Any]) -> Array | None:
        """What an earlier run has made, written as the options say that its documents do not tell."""
        if not self.found:
            return None
        try:
            made = self.format.open(self.child(path), "r+", **self.for_opening(options))
        except NotFoundError:
            return None
        return made if isinstance(made, Array) else None
