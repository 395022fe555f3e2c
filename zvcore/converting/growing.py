"""Coarser levels added to a pyramid where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.converting.conversion import Conversion
from zvcore.converting.journal import Journal
from zvcore.converting.note import read_note
from zvcore.converting.planning import Request, draft_levels
from zvcore.converting.sources import Pyramid, collect
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.exchange import Target
from zvcore.format import get_format

if TYPE_CHECKING:
    from zvcore.converting.drafts import Draft
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
    ) -> None:
        super().__init__(store, memory)
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
        task = {"grow": [repr(one) for one in (store.root, levels, method, factors)]}
        self.found = read_note(store)
        if self.found is not None:
            # Levels that the run before has made already are not the ones to begin from.
            named = self.found.get("task", {}).get("from")
            kept = [leaf for leaf in self.node.levels if isinstance(named, list) and leaf.path in named]
            self.node.levels = kept or self.node.levels
        task["from"] = [leaf.path for leaf in self.node.levels]
        self.journal = Journal(store, task, self.found)

    def _draft(self) -> Draft:
        return draft_levels(self.node, self.request)

    def prepare(self) -> None:
        if self.found is None:
            self.rehearse()
        self.journal.begin()
        try:
            self.make(self.found is not None)
        except ZvcoreError:
            if self.found is None and not self.made.arrays:
                # Nothing was written: the pyramid is as sound as it was.
                self.journal.end()
            raise
