"""What formats share in conversions whose axes have their meaning by their place: among them, their order stays."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from zvcore import codecs
from zvcore.exchange.exchange import Exchange, slow_first
from zvcore.exchange.ome_writer import losses_of_rank
from zvcore.exchange.stored import in_little_endian, is_big_endian
from zvcore.format import get_format
from zvcore.images.axes import known
from zvcore.images.cosem import transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Target
    from zvcore.images import Axes, Described

__all__ = ["AxesByPlace"]


class AxesByPlace(Exchange):
    """Groups of arrays with filters, byte orders and orders of items in chunks, and images as OME-Zarr."""

    holds = "group"
    default_codec: ClassVar[str] = "zstd"
    has_attributes = True
    axes_by_place = True
    keeps_fill = True

    def axes_for(
        self, array: Array, kept: Sequence[int], shape: Sequence[int], channel: int | None
    ) -> tuple[tuple[int | None, ...], str]:
        if get_format(array.format).exchange().axes_by_place:
            return tuple(kept), array.order
        return tuple(slow_first(array, kept)), "C"

    def codec_option(self, view: View, target: Target) -> dict[str, Any]:
        if target.codec is None and view.source.axes_by_place:
            return self.own_codecs(view, view.source.codecs_of(view.array))
        return super().codec_option(view, target)

    def own_codecs(self, view: View, own: list[Codec]) -> dict[str, Any]:
        """The order of items in chunks, filters and byte order stay too."""
        within = view.source.format is self.format
        filters = [] if view.dtype is not None else view.source.filters_of(view.array)
        if not within and not all(map(self.takes_filter, filters)):
            filters = []  # only values go along then
        big = is_big_endian(view)
        if not within and filters:
            # No two readers agree on what big-endian items before or behind a filter are.
            filters, big = in_little_endian(filters), False
        if not all(map(self.has_spelling, own)):
            own = [codecs.get(self.default_codec)]
        return {"codec": list(own), **self.arrangement(view, filters, big)}

    @abstractmethod
    def has_spelling(self, codec: Codec) -> bool:
        """Whether the format has a name for a codec, so that others who know it decode the same."""

    @abstractmethod
    def takes_filter(self, codec: Codec) -> bool:
        """Whether the format has a place and a name for a filter."""

    @abstractmethod
    def arrangement(self, view: View, filters: list[Codec], big: bool) -> dict[str, Any]:
        """The options of `create` for filters, byte order and the order of items in chunks."""

    def placing_attributes(self, axes: Axes) -> dict[str, Any]:
        return {"transform": transform(axes, short=False)} if known(axes) else {}

    def image_losses(self, image: Described) -> list[str]:
        return losses_of_rank(image)
