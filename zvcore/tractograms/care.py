"""Verifying and describing files of streamlines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zvcore.borrowed.care import ReadingCare
from zvcore.exchange.line_positions import count_nowhere, nowhere
from zvcore.report import Problem

if TYPE_CHECKING:
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["TractogramCare"]


class TractogramCare(ReadingCare):
    """All lines are read, and compared with what the header says of them."""

    def _check(self, opened: Any, fast: bool, threads: int | None, report: Report) -> None:
        if fast:
            return
        count = odd = 0
        for batch in opened.batches():
            count += len(batch.ids)
            odd += count_nowhere(batch.positions)
        report.count("lines", count)
        for what in opened.doubts(count):
            report.tell(Problem(str(opened.store.file), what))
        for what in opened.notes:
            report.tell(Problem(str(opened.store.file), what, fatal=False))
        if odd:
            report.tell(Problem(str(opened.store.file), nowhere(odd)))
        # Reading these checks them.
        report.count("groups", len(opened.groups))
        report.count("attributes", len(opened.of_objects) + len(opened.attributes))

    def inspect(self, store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
        self._in_words(store, None if only is None else [only])
        opened = self.format.open(store)
        count, _, vertices, bounds = opened.extent
        return {
            "format": self.format.name, "kind": opened.kind, "geometry": "streamlines in millimeters", "lines": count,
            "vertices": vertices, "bounds": None if bounds is None else [one.tolist() for one in bounds],
            "attributes": opened.attrs,
            "vertex_attributes": {name: f"{dtype} x {n}" for name, (dtype, n) in opened.attributes.items()},
            "line_attributes": {
                name: f"{one.dtype} x {math.prod(one.shape[1:])}" for name, one in opened.of_objects.items()
            },
            "groups": {name: len(ids) for name, ids in opened.groups.items()},
            "objects": 1, "stored_bytes": store.size(self._document(store)) or 0,
        }  # fmt: skip
