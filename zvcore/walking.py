"""The way through groups in groups, however deep they lie: by a list of what is still to be seen, not by recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.documents.values import DEEPEST
from zvcore.report import join
from zvcore.stores.choosing import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["DEEPEST_GROUP", "look_at_all"]

# How deep groups are that `inspect` describes: its answer is a document too, and each level takes two of its levels.
DEEPEST_GROUP = DEEPEST // 2


def look_at_all(
    store: Store,
    report: Report,
    only: Sequence[str] | None,
    look: Callable[[Store, Report, Sequence[str] | None], Iterable[str]],
) -> None:
    """Call `look(store, report, only)` for the node at the root of the store and for each one below.

    It gives the names of the members that come next. With `only`, members in which none of these objects lie are passed
    over; `look` gets what is left of the names within its own node, None for all of it.
    """
    waiting = [("", only)]
    while waiting:
        path, meant = waiting.pop()
        part = report.part()
        members = look(store.child(path) if path else store, part, meant)
        report.extend(part, path)
        for name in reversed(list(members)):
            below = None if meant is None else within(meant, name)
            if below is None or below:
                waiting.append((join(path, name), None if below and "" in below else below))
