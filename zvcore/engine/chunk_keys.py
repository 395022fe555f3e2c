"""The names of chunks by their places in the grid: numbers with a separator between them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zvcore.cached import cached_property
from zvcore.engine.buffers import Keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from zvcore.stores import Store

__all__ = ["ChunkKeys"]


class ChunkKeys:
    """The keys of the chunks of one array.

    head       what all of them begin with
    separator  stands between the numbers
    ndim       how many numbers there are
    single     the key of the one chunk of an array without axes
    """

    def __init__(self, head: str, separator: str, ndim: int, single: str = "0") -> None:
        self.head = head
        self.separator = separator
        self.ndim = ndim
        self.single = single

    def key(self, position: Sequence[int]) -> str:
        """The key of the chunk at this grid position."""
        return self.head + self.separator.join(map(str, position)) if self.ndim else self.single

    def keys(self, positions: np.ndarray[Any, Any]) -> Keys:
        """The keys of the chunks at these grid positions."""
        if not self.ndim:
            return Keys.of([self.single] * len(positions))
        return Keys.format(positions, [self.head, *[self.separator] * (self.ndim - 1), ""])

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        if not self.ndim:
            return re.compile(re.escape(self.single))
        numbers = re.escape(self.separator).join([r"(0|[1-9][0-9]{0,18})"] * self.ndim)
        return re.compile(re.escape(self.head) + numbers)

    def position(self, key: str) -> tuple[int, ...] | None:
        """Which chunk an object is, by its key; None if it is none."""
        match = self._pattern.fullmatch(key)
        return None if match is None else tuple(int(text) for text in match.groups())

    def stored(self, store: Store, folder: str = "") -> Iterator[tuple[str, tuple[int, ...]]]:
        """(key, grid position) of each chunk that is in the store, those outside of the array too."""
        for key in store.list(folder):
            position = self.position(key)
            if position is not None:
                yield key, position
