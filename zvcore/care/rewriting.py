"""Where a repair works: on a copy, or in place with a backup of each object beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zvcore.care.document_order import DocumentOrder
from zvcore.care.refusals import tell_refused
from zvcore.report import Report, What
from zvcore.stores.copying import back_up, copy_all
from zvcore.stores.indexes import index_cache

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Patient"]


class Patient(NamedTuple):
    """The store that is repaired: a copy of the original, or the original itself, which keeps what is replaced."""

    store: Store
    keep: bool

    @classmethod
    def of(cls, store: Store, out: Store | None, report: Report) -> Patient:
        """The store itself, or a copy of everything in `out` that can be read; the report is told of the rest."""
        if out is None:
            return cls(store, True)
        unread = Report()
        copy_all(store, out, tell_refused(unread), DocumentOrder().stage)
        for problem in unread.problems:
            report.lose(problem.where, f"it cannot be read, and is not in the copy: {problem.what}", kind=What.STORE)
        report.extend(unread)
        return cls(out, False)

    def within(self, store: Store) -> Patient:
        """The same way of working for another view of the store."""
        return Patient(store, self.keep)

    def back_up(self, key: str) -> str:
        """Keep an object that is about to be replaced. Returns the name of the backup; its own if there is none."""
        return back_up(self.store, key) if self.keep else key

    def drop(self, key: str) -> str:
        """Remove an object. Returns the words that tell where it is kept."""
        kept = f"; it is kept as {back_up(self.store, key)}" if self.keep else ""
        self.store.delete(key)
        index_cache().invalidate(self.store, key)
        return kept
