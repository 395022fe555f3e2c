"""Verifying files of a header and values: whether there are as many as the header says, and whether they decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.care import ReadingCare
from zvcore.errors import ZvcoreError
from zvcore.report import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.headed.format import HeadedFormat
    from zvcore.stores import Store

__all__ = ["HeadedCare"]


class HeadedCare(ReadingCare):
    def __init__(self, format: HeadedFormat) -> None:
        super().__init__(format)
        self._best_ratio = format.best_ratio

    def _check(self, opened: Array, fast: bool, threads: int | None, report: Report) -> None:
        layout: Any = opened.layout
        header, size, _ = layout.present()
        report.count("arrays")
        here = {"offset": header.start, "length": size - header.start}
        told = {**here, "expected": header.nbytes, "found": here["length"]}
        best = self._best_ratio.get(header.codec or "")
        if size == header.start:
            report.add(layout.key, "nothing was written yet: it reads as 0", fatal=False)
        elif header.codec is None and here["length"] != header.nbytes:
            report.add(layout.key, f"the values should be {header.nbytes} bytes", **told)
        elif best is not None and header.nbytes > best * here["length"]:
            report.add(layout.key, f"no {header.codec} stream of so many values is as short as this", **told)
        elif not fast:
            whole = [slice(None)] * opened.ndim
            step = opened.chunks[layout.slow]
            for at in range(0, opened.shape[layout.slow], step):
                whole[layout.slow] = slice(at, at + step)
                try:
                    opened.read(tuple(whole), threads=threads)
                except ZvcoreError as error:
                    report.tell(Problem.of(error.located(**here)))
                    return

    def compact(self, store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
        return Report()

    def inspect(self, store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
        found = super().inspect(store, only=only, threads=threads)
        codec = self.format.open(store).codec
        return {**found, "codecs": [] if codec is None else [codec.name]}
