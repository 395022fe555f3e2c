"""Replacements for parts of another library, for as long as they are wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Acceleration"]


class Acceleration(ABC):
    """What an `accelerate` did; `restore()`, or leaving a `with` block, undoes it."""

    @abstractmethod
    def restore(self) -> None:
        """Give the library its own parts back. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
