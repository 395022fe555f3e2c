"""Making something at a place, so that nothing of it stays if that fails."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zvcore.errors import UnsupportedError
from zvcore.logs import Log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.array import Array
    from zvcore.format import Format
    from zvcore.stores import Store

__all__ = ["Before", "going_again"]

_log = Log("opening")


@dataclass(frozen=True)
class Before:
    """What lies at the root of a store before something is made there.

    names      of folders and objects; None where nothing else may be touched, as the store does not list
    documents  those that tell the format, as far as they are there
    folder     whether the store's own folder is there, of stores in folders
    """

    names: frozenset[str] | None
    documents: Mapping[str, bytes]
    folder: bool

    @classmethod
    def at(cls, store: Store, format: Format, overwrite: bool) -> Before:
        """`overwrite`: what is described by a document there will be removed, and does not come back."""
        folder = store.local_root is None or os.path.isdir(store.local_root)
        if overwrite and any(store.exists(mark) for mark in format.marks):
            return cls(frozenset(), {}, folder)
        try:
            names = frozenset(name for some in store.list_dir() for name in some)
        except UnsupportedError:
            names = None
        found = {mark: store.get(mark) for mark in format.marks}
        return cls(names, {mark: bytes(data) for mark, data in found.items() if data is not None}, folder)

    def put_back(self, store: Store, format: Format) -> None:
        """Leave there what there was."""
        # Without its document, the rest is nothing, and not an array with holes.
        for mark in format.marks:
            if mark in self.documents:
                store.put(mark, self.documents[mark])
            else:
                store.delete(mark)
        if self.names is not None:
            self._remove_new(store, self.names)
        self.remove_folder(store)
        format.removed(store)

    def _remove_new(self, store: Store, names: frozenset[str]) -> None:
        if not names:
            store.delete_prefix("")
        else:
            folders, objects = store.list_dir()
            for name in frozenset(folders) - names:
                store.delete_prefix(name)
            for name in frozenset(objects) - names:
                store.delete(name)

    def remove_folder(self, store: Store) -> None:
        """Remove the store's own folder, if it was not there and is empty."""
        if not self.folder and store.local_root is not None:
            store.close()
            with suppress(OSError):  # somebody else has something in it
                os.rmdir(store.local_root)


@contextmanager
def going_again(store: Store, format: Format, made: Array, before: Before) -> Iterator[None]:
    """Within this, `made` is filled, which is removed again if that fails."""
    try:
        yield
    except BaseException as error:
        try:
            format.take_back(made, before)
        except Exception as second:
            error.add_note(f"{store.root}: what had been made could not be removed again, and is not whole: {second}")
        else:
            _log.info("%s: removed what had been made, which could not be filled", store.root)
        raise
