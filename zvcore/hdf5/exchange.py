"""HDF5 in conversions: chunks stay as they are stored where the destination has the filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.borrowed.exchange import BorrowedExchange

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.codecs.base import Codec

__all__ = ["Hdf5Exchange"]


class Hdf5Exchange(BorrowedExchange):
    # What the axes are is said by their order, and chunks may stay what they are.
    axes_by_place = True

    def codecs_of(self, array: Array) -> list[Codec]:
        # Filters of HDF5 see bytes, also those that know items.
        return [codec for codec in array.layout.chains[0].codecs if not codec.identity] if array.layout.chains else []
