"""Coarser levels added to a pyramid where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.converting.conversion import Conversion
from zvcore.converting.finished import is_recorded, record_finished
from zvcore.converting.journal import Journal
from zvcore.converting.note import read_note
from zvcore.converting.planning import Request, draft_levels
from zvcore.converting.sources import Pyramid, collect
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.exchange import Target
from zvcore.format import get_format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.converting.drafts import Draft
    from zvcore.converting.sharing import Sharing
    from zvcore.report import ConversionReport
    from zvcore.stores import Store

__all__ = ["Growing"]


class Growing(Conversion):
    """Makes levels above the coarsest one of the pyramid that is stored at a place."""

    def __init__(
        self,
        source: Any,
        store: Store,
        *,
        levels: int,
        method: str | None,
        factors: tuple[int, ...] | None,
        memory: int,
        sharing: Sharing | None = None,
    ) -> None:
        super().__init__(store, memory, sharing)
        pyramids = [node for node in collect(source) if isinstance(node, Pyramid)]
        if len(pyramids) != 1 or pyramids[0].path:
            raise UnsupportedError(
                "levels are added to one pyramid: a volume, or a group that says which arrays are its levels. "
                "Of an array alone, downsample(src, dst) makes one",
                key=store.root,
            )
        self.node = pyramids[0]
        target = Target(get_format(self.node.levels[0].array.format))
        self.request = Request(target, levels=levels, method=method, factors=factors)
        self.asked = [repr(one) for one in (store.root, levels, method, factors)]
        self.found = read_note(store)
        if self.found is not None:
            self._begin_from_before(self.found)
            self.resuming = True
        elif self.sharing.share is not None and (before := self._finished_from()):
            self.finished = True
            # What is compared are the levels that it has made, not further ones above them.
            self.node.levels = self.node.levels[:before]
        self.journal = Journal(store, self.task(), None) if self.finished else self._journal()

    def task(self) -> dict[str, Any]:
        return self._task_from(len(self.node.levels))

    def _task_from(self, count: int) -> dict[str, Any]:
        return {"grow": self.asked, "from": [leaf.path for leaf in self.node.levels[:count]]}

    def _journal(self) -> Journal:
        return self.sharing.journal(self.task(), self.found)

    def _begin_from_before(self, found: Mapping[str, Any]) -> None:
        """Levels that the run before has made already are not the ones to begin from."""
        named = found.get("task", {}).get("from")
        kept = [leaf for leaf in self.node.levels if isinstance(named, list) and leaf.path in named]
        self.node.levels = kept or self.node.levels

    def _finished_from(self) -> int:
        """How many levels there were when all parts did the same before: one that is run again shall not add further
        levels. 0: they have not."""
        levels = enumerate(self.node.levels)
        recorded = (number for number, leaf in levels if is_recorded(self.store, leaf.path, self._task_from(number)))
        return next((number for number in recorded if number), 0)

    def _record(self) -> None:
        if self.journal.parts is not None:
            record_finished(self.store, self.made, self.task())

    def join(self) -> None:
        if self.found is None:
            self.found = read_note(self.store)
            if self.found is not None:
                self._begin_from_before(self.found)
                self.resuming = True
                self.__dict__.pop("draft", None)
            self.journal = self._journal()

    def run(self, **asked: Any) -> ConversionReport:
        try:
            return super().run(**asked)
        except KeyboardInterrupt as error:
            # While the disk is waited for: then nothing is left to be resumed, and the same again is another request.
            if self.made.arrays and read_note(self.store) is None:
                error.add_note("all levels are made: the same, run again, would add further ones")
            raise

    def _draft(self) -> Draft:
        return draft_levels(self.node, self.request)

    def prepare(self) -> None:
        if not self.resuming:
            self.rehearse()
        self.journal.begin()
        try:
            self.make(self.resuming)
        except ZvcoreError:
            if not self.resuming and not self.made.arrays:
                # Nothing was written: the pyramid is as sound as it was.
                self.journal.end()
            raise
