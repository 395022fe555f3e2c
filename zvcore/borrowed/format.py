"""What formats have in common that zvcore reads and does not write, and the one of arrays that lie in no file."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from zvcore.cached import cached_property
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.format import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.errors import ZvcoreError
    from zvcore.exchange import Exchange
    from zvcore.exchange.virtual import Virtual
    from zvcore.images import Axes, Image
    from zvcore.stores import Store

__all__ = ["Borrowed", "ReadOnlyFormat"]


class ReadOnlyFormat(Format):
    """A format whose arrays are `BorrowedArray`s, in single files.

    signatures  (offset, bytes): one of them stands in each file of the format
    """

    makes_arrays = False
    signatures: ClassVar[tuple[tuple[int, bytes], ...]] = ()

    def detect(self, store: Store) -> bool:
        return store.file is not None and self.names_file(store.file) and self._signed(self._head(store))

    def unreadable(self, store: Store) -> ZvcoreError | None:
        if store.file is None or not self.names_file(store.file) or not store.exists(store.file):
            return None
        head = self._head(store)
        if self._signed(head):
            return None
        return MetadataError(f"this is no file of {self.title}", key=store.file, offset=0, found=head[:8] or "nothing")

    def _head(self, store: Store) -> bytes:
        return bytes(store.get(str(store.file), 0, self._longest) or b"")

    @cached_property
    def _longest(self) -> int:
        return max(at + len(sign) for at, sign in self.signatures)

    def _signed(self, head: bytes) -> bool:
        return any(head[at : at + len(sign)] == sign for at, sign in self.signatures)

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        if mode != "r":
            raise UnsupportedError(f"{self.title} is read here, and not written", key=store.root)
        # What it is detected by is in the file.
        if not self.detect(store):
            self.refuse_unreadable(store)
        return self.read(store.as_it_is())

    def open_detected(self, store: Store, mode: str = "r", **options: Any) -> Any:
        if mode != "r" or options or store.file is None or type(self).open is not ReadOnlyFormat.open:
            return self.open(store, mode, **options)
        return self.read(store.as_it_is())

    @abstractmethod
    def read(self, store: Store) -> Any:
        """What the file holds: an array, or a group."""

    def virtual(self, array: Array) -> Virtual:
        from zvcore.borrowed.flat import FlatLayout, flat_virtual

        layout = array.layout
        if isinstance(layout, FlatLayout):
            return flat_virtual(layout, shows_turned=self.fastest_first(array))
        told = getattr(getattr(layout, "blocks", None), "virtual", None)
        if told is None:
            raise UnsupportedError(f"values of {self.title} are not stored so that others could read them there",
                                   key=array.store.root)  # fmt: skip
        found: Virtual = told()
        return found

    def read_axes(self, array: Array) -> Axes:
        from zvcore.borrowed.array import BorrowedArray

        return array.axes if isinstance(array, BorrowedArray) else super().read_axes(array)

    def read_image(self, node: Any) -> Image | None:
        from zvcore.borrowed.array import BorrowedArray, BorrowedGroup

        return node.read_image() if isinstance(node, BorrowedArray | BorrowedGroup) else None

    def untold(self, node: Any) -> Sequence[str]:
        from zvcore.borrowed.array import BorrowedGroup

        return node.untold if isinstance(node, BorrowedGroup) else ()

    def exchange(self) -> Exchange:
        from zvcore.borrowed.exchange import BorrowedExchange

        return BorrowedExchange(self)


class Borrowed(ReadOnlyFormat):
    """Arrays of other libraries that a program has: numpy's, Dask's, xarray's, h5py's, and others."""

    name = "borrowed"
    title = "arrays of other libraries"
    at_paths = False

    def detect(self, store: Store) -> bool:
        return False

    def unreadable(self, store: Store) -> ZvcoreError | None:
        return None

    def read(self, store: Store) -> Any:
        raise UnsupportedError("arrays of other libraries lie in no file", key=store.root)
