"""Stacks of images as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.errors import ZvcoreError
    from zvcore.format import Care
    from zvcore.stores import Store

__all__ = ["Stack"]


# How many entries of a folder are looked at before all of it is listed: it may hold a million chunks.
_FIRST = 100


class Stack(ReadOnlyFormat):
    name = "stack"
    title = "a stack of images"

    def detect(self, store: Store) -> bool:
        """A pattern says that the files it names belong together."""
        from zvcore.stack.names import images_in

        return store.pattern is not None and bool(images_in(store.list_dir()[1]))

    def adopts(self, store: Store) -> bool:
        """Without a pattern, names have to say it, and each file has to be no more than one image.

        Object stores are not asked: any folder of chunks would be listed for it.
        """
        if store.file is not None or store.remote:
            return False
        try:
            if not self.gathers(store.some_objects("", _FIRST)):
                return False
            folders, names = store.list_dir()
        except UnsupportedError:  # what cannot be listed
            return False
        from zvcore.stack.names import belonging
        from zvcore.stack.reading import is_flat

        if any(not name.startswith(".") for name in folders):
            return False
        images = belonging(names)
        return bool(images) and is_flat(store, images[0])

    def gathers(self, names: Iterable[str]) -> bool:
        from zvcore.stack.names import belong_together

        return belong_together(names)

    def unreadable(self, store: Store) -> ZvcoreError | None:
        return None

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        if mode != "r":
            raise UnsupportedError(f"{self.title} is read here, and not written", key=store.root)
        return self.read(store)

    def read(self, store: Store) -> Any:
        from zvcore.stack.reading import read

        return read(store)

    def care(self) -> Care:
        from zvcore.stack.care import StackCare

        return StackCare(self)
