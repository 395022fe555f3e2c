"""The files of streamlines as formats among others."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from zvcore.errors import ConflictError, MetadataError, UnsupportedError
from zvcore.format import Format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.errors import ZvcoreError
    from zvcore.exchange.lines import Lines
    from zvcore.format import Care
    from zvcore.report import Report
    from zvcore.stores import Store
    from zvcore.tractograms.streamlines import Streamlines

__all__ = ["Tck", "Trk", "Trx"]


class TractogramFormat(Format):
    """A file of lines in millimeters, which is written as a whole.

    signature  with which each file begins
    """

    makes_arrays = False
    takes_lines = True
    signature: ClassVar[bytes]

    def detect(self, store: Store) -> bool:
        return store.file is not None and self.names_file(store.file) and self._head(store) == self.signature

    def unreadable(self, store: Store) -> ZvcoreError | None:
        if store.file is None or not self.names_file(store.file) or not store.exists(store.file):
            return None
        head = self._head(store)
        if head == self.signature:
            return None
        return MetadataError(f"this is no file of {self.title}", key=store.file, offset=0, found=head or "nothing")

    def _head(self, store: Store) -> bytes:
        return bytes(store.get(str(store.file), 0, len(self.signature)) or b"")

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        if mode != "r":
            raise UnsupportedError(f"{self.title}: files are written by conversions, and not changed", key=store.root)
        self.refuse_unreadable(store)
        return self.read(store)

    @abstractmethod
    def read(self, store: Store) -> Streamlines:
        """What the file holds."""

    def read_lines(self, node: Any) -> Lines | None:
        from zvcore.tractograms.streamlines import Streamlines

        return node.lines() if isinstance(node, Streamlines) else None

    def refuse_lines(self, store: Store, options: Mapping[str, Any], overwrite: bool) -> None:
        if options:
            raise TypeError(f"{self.name} has no option {min(options)!r}")
        if store.file is None or not self.names_file(store.file):
            raise ValueError(f"the name of a file of {self.title} ends with {self.suffixes[0]}, not {store.root}")
        if store.exists(store.file) and not overwrite:
            raise ConflictError("there is a file already; overwrite=True replaces it", key=store.root)

    def lines_lost(self, lines: Lines) -> Report:
        from zvcore.tractograms.nibabel_writing import lines_lost

        return lines_lost(self.name, lines)

    def write_lines(self, store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
        from zvcore.tractograms.nibabel_writing import write_lines

        self.refuse_lines(store, options, overwrite)
        return write_lines(self.name, store, lines)

    def care(self) -> Care:
        from zvcore.tractograms.care import TractogramCare

        return TractogramCare(self)


class Trk(TractogramFormat):
    name = "trk"
    title = "TrackVis's streamlines"
    suffixes = (".trk",)
    signature = b"TRACK\0"

    def read(self, store: Store) -> Streamlines:
        from zvcore.tractograms.trk_reading import TrkStreamlines

        return TrkStreamlines(store)


class Tck(TractogramFormat):
    name = "tck"
    title = "MRtrix's streamlines"
    suffixes = (".tck",)
    signature = b"mrtrix tracks"

    def read(self, store: Store) -> Streamlines:
        from zvcore.tractograms.tck_reading import TckStreamlines

        return TckStreamlines(store)


class Trx(TractogramFormat):
    name = "trx"
    title = "TRX"
    suffixes = (".trx",)
    signature = b"PK\3\4"

    def read(self, store: Store) -> Streamlines:
        from zvcore.tractograms.trx_reading import TrxStreamlines

        return TrxStreamlines(store)

    def lines_lost(self, lines: Lines) -> Report:
        from zvcore.tractograms.trx_writing import lines_lost

        return lines_lost(lines)

    def write_lines(self, store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
        from zvcore.tractograms.trx_writing import write_trx

        self.refuse_lines(store, options, overwrite)
        return write_trx(store, lines)
