"""Verifying datasets of BigDataViewer: the XML, what it names, and what the values' own format says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.bdv.reading import absent_views, document_of, other_sizes, read_spim_data
from zvcore.bdv.spim_data import LOADERS
from zvcore.borrowed.care import ReadingCare, arrays_in
from zvcore.care.describing import totals
from zvcore.errors import ZvcoreError
from zvcore.format import get_format
from zvcore.report import Problem, Report, What
from zvcore.stores.base import UnlistedError
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.stores import Store

__all__ = ["BdvCare"]


class BdvCare(ReadingCare):
    def verify(
        self,
        store: Store,
        *,
        only: Sequence[str] | None = None,
        fast: bool = False,
        threads: int | None = None,
        watch: Callable[[int], Any] | None = None,
    ) -> Report:
        report = Report(watch=watch)
        _, key = document_of(store)
        report.looked_at()
        try:
            data = read_spim_data(store)
            for _path, _array in arrays_in(self.format.open(store), report):
                report.count("arrays")
            folder, _ = document_of(store)
            for time, setup in absent_views(folder, data, [one.id for one in data.setups]):
                what = f"time point {time} of setup {setup} is not stored, and the XML does not say that it is missing"
                report.add(key, what, fatal=False, kind=What.MISSING)
            for what in other_sizes(folder, data):
                report.add(key, f"{what} is not that of its values", fatal=False, kind=What.DISAGREEMENT)
            inside = _values_of(store, data.path, data.loader)
            below = [one.removeprefix(f"{data.path}/") for one in only or () if one.startswith(f"{data.path}/")]
            if only is None or below:
                care = get_format(LOADERS[data.loader]).care()
                found = care.verify(inside, only=below or None, fast=fast, threads=threads, watch=watch)
                report.extend(found, data.path)
        except ZvcoreError as error:
            report.tell(Problem.of(error, key))
        return report

    def inspect(self, store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
        data = read_spim_data(store)
        found = super().inspect(store, only=None if only in (None, "") else only, threads=threads)
        return {**found, "loader": data.loader, "setups": len(data.setups), "time_points": len(data.time_points)}

    def _document(self, store: Store) -> str:
        return document_of(store)[1]

    def _stored(self, store: Store, opened: Any) -> tuple[int, int]:
        """The XML, and what its values lie in."""
        folder, key = document_of(store)
        data = read_spim_data(store)
        inside = _values_of(store, data.path, data.loader)
        try:
            count, size = (1, folder.size(data.path) or 0) if inside.file else totals(inside, inside.list())
        except UnlistedError:
            count, size = 0, 0  # a web server that lists nothing does not tell
        return 1 + count, (folder.size(key) or 0) + size

    def _in_words(self, store: Store, only: Sequence[str] | None) -> None:
        """Any of its objects may be asked for."""


def _values_of(store: Store, path: str, loader: str) -> Store:
    """Where the values lie, as their own format opens it."""
    folder, _ = document_of(store)
    if loader == "bdv.n5":
        return folder.child(path)
    above, _, name = path.rpartition("/")
    return SingleFileStore(folder.child(above) if above else folder, name)
