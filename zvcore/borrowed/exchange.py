"""Arrays of other libraries in conversions: sources, and never destinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.exchange import Exchange

if TYPE_CHECKING:
    from zvcore.array import Array

__all__ = ["BorrowedExchange"]


class BorrowedExchange(Exchange):
    holds = "group"
    has_attributes = True
    names_levels = False

    def chunks_of(self, array: Array) -> tuple[int, ...]:
        return tuple(getattr(array, "whole", array.chunks))
