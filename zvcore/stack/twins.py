"""Files of a stack that are as another one in every byte but those of their values: what it says, they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.array import BorrowedArray
from zvcore.borrowed.flat import FlatLayout
from zvcore.errors import ZvcoreError
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Twins"]

# How much may stand before the values: it is read of each file.
_LARGEST_HEAD = 1 << 16


class Twins:
    """Arrays of files like a first one. Programs write the images of a stack so, and to have a library understand
    each of them again takes longer than to read its values.
    """

    def __init__(self, first: BorrowedArray, layout: FlatLayout, head: bytes) -> None:
        assert isinstance(first.store, SingleFileStore)
        self._first, self._inside, self._values, self._head = first, first.store.inside, layout.values, head

    @classmethod
    def of(cls, store: Store, name: str, first: Any) -> Twins | None:
        """None where values do not fill the file behind its head: something else might tell of them."""
        layout = first.layout
        if (
            type(first) is not BorrowedArray
            or type(layout) is not FlatLayout
            or first.store.file != name
            or store.remote
        ):
            return None
        start = layout.values.start
        if start > _LARGEST_HEAD or store.size(name) != start + layout.values.nbytes:
            return None
        head = store.get(name, 0, start, stamp=layout.stamp)
        return None if head is None or len(head) != start else cls(first, layout, bytes(head))

    def array(self, store: Store, name: str) -> BorrowedArray | None:
        """The array of another file; None where it is not alike, or something is wrong that tells whoever opens it."""
        if store.size(name) != self._values.start + self._values.nbytes:
            return None
        place = SingleFileStore(store, name, self._inside)
        try:
            layout = FlatLayout(place, name, self._values)
            head = store.get(name, 0, len(self._head), stamp=layout.stamp)
        except ZvcoreError:
            return None
        return self._first.like_it(layout, place) if head == self._head else None
