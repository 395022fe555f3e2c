"""Verifying NumPy's files: an archive has checksums of its arrays, which reads of parts do not look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zvcore.borrowed.care import ReadingCare, arrays_in
from zvcore.borrowed.flat import FlatLayout
from zvcore.errors import ZvcoreError
from zvcore.report import Problem, Report
from zvcore.stores.zip_store import ZipStore

__all__ = ["NpyCare"]


class NpyCare(ReadingCare):
    def _check(self, opened: Any, fast: bool, threads: int | None, report: Report) -> None:
        super()._check(opened, fast, threads, report)
        if fast:
            return
        # What cannot be opened has been told of.
        for path, array in arrays_in(opened, Report()):
            layout = array.layout
            assert isinstance(layout, FlatLayout)
            store, key = layout.store, layout.key
            # All of what is compressed has been unpacked, and its checksum seen.
            if isinstance(store, ZipStore) and not store.is_packed(key):
                try:
                    store.check(key)
                except ZvcoreError as error:
                    report.tell(replace(Problem.of(error), where=path or key))
