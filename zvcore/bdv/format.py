"""BigDataViewer's datasets as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.errors import ZvcoreError
    from zvcore.exchange import Exchange
    from zvcore.exchange.virtual import Virtual
    from zvcore.format import Care
    from zvcore.stores import Store

__all__ = ["BigDataViewer"]

_MARK = "dataset.xml"
# An XML whose root stands further behind is opened with format="bdv".
_HEAD = 4096


class BigDataViewer(ReadOnlyFormat):
    """A folder with `dataset.xml` and `dataset.n5`, which conversions make, or an XML with N5 or HDF5 beside it."""

    name = "bdv"
    title = "BigDataViewer"
    marks = (_MARK,)
    # What others have most of is asked for first.
    precedence = -20
    suffixes = (".xml",)
    inner_paths = True
    takes_arrays = True

    def detect(self, store: Store) -> bool:
        key = store.file or _MARK
        if store.file is not None and not self.names_file(store.file):
            return False
        return b"<SpimData" in bytes(store.get(key, 0, _HEAD) or b"")

    def unreadable(self, store: Store) -> ZvcoreError | None:
        if store.file is None or not self.names_file(store.file) or not store.exists(store.file):
            return None
        return UnsupportedError("an XML of something else than BigDataViewer's data sets", key=store.file)

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        if mode != "r":
            raise UnsupportedError(f"{self.title}: data sets are read, and written by conversions", key=store.root)
        return self.read(store)

    def read(self, store: Store) -> Any:
        from zvcore.bdv.reading import read

        return read(store)

    def virtual(self, array: Array) -> Virtual:
        raise UnsupportedError("the blocks of views are referred to in their own format", key=array.store.root)

    def exchange(self) -> Exchange:
        from zvcore.bdv.exchange import BdvExchange

        return BdvExchange(self)

    def care(self) -> Care:
        from zvcore.bdv.care import BdvCare

        return BdvCare(self)
