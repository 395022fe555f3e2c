"""Storing encoded chunks that come in order."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from zvcore.placement import Streamed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from zvcore.engine.buffers import Buffers
    from zvcore.layout import Layout
    from zvcore.transfer.batches import Positions

__all__ = ["OrderedWriter"]


class OrderedWriter:
    """Stores encoded chunks of an array that has no other writer, whether several lie in one object or not.

    Those of one shard follow each other, and shards come in the order of their places in the grid. A shard is stored
    when the next one begins, or on leaving; leaving by an exception stores nothing of the one that was begun.
    """

    def __init__(self, layout: Layout) -> None:
        self._placement = layout.placement
        self._stack = ExitStack()
        self._key: str | None = None
        self._add: Callable[[Positions, Buffers], None]

    def add(self, positions: Positions, chunks: Buffers) -> None:
        placement = self._placement
        if not isinstance(placement, Streamed):
            placement.put(positions, chunks)
            return
        for group in placement.groups(positions):
            if group.key != self._key:
                self._stack.close()
                self._key, self._add = group.key, self._stack.enter_context(placement.stream(group.key))
            self._add(positions[group.rows], chunks.select(group.rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
