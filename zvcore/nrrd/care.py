"""Describing NRRD: values may lie in another file than the header."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.care import ReadingCare
from zvcore.nrrd.reading import place_of_values

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["NrrdCare"]


class NrrdCare(ReadingCare):
    def _stored(self, store: Store, opened: Any) -> tuple[int, int]:
        count, size = super()._stored(store, opened)
        place = place_of_values(opened)
        return (count, size) if place == store else (count + 1, size + (place.size(str(place.file)) or 0))
