"""Looking at several objects at once where that means to wait for a network; elsewhere one follows the other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from zvcore.stores.request_threads import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zvcore.stores import Store

__all__ = ["look_together"]

T = TypeVar("T")
R = TypeVar("R")

# What objects that are looked at together may take, but for the fewest of them that make the waiting bearable.
_BYTES = 256 << 20
_FEWEST = 4


def look_together(store: Store, items: Iterable[T], look: Callable[[T], R], nbytes: int) -> Iterator[R]:
    """What `look` gives for each item, in their order. It takes about so many bytes while it runs."""
    # A store that has no use for parts ahead of the one that is worked on waits for nothing.
    at_once = max(_FEWEST, min(LIMIT, _BYTES // max(1, nbytes))) if store.parts_ahead() else 1
    waiting = iter(items)
    while batch := list(itertools.islice(waiting, at_once)):
        yield from store.each(look, batch)
