"""How fast codecs encode, to the order of magnitude: how much work may be lost when it is interrupted goes by that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zvcore.codecs.base import Codec

__all__ = ["rate_at", "rate_of_all"]


def rate_at(effort: int, rates: Sequence[tuple[int, float]]) -> float | None:
    """The `Codec.encoding_rate` of an effort, where `rates` has (the highest effort, million bytes), in order."""
    return next((1e6 * rate for highest, rate in rates if effort <= highest), None)


def rate_of_all(codecs: Iterable[Codec]) -> float | None:
    """The rate of codecs one after the other; None: nobody waits for them."""
    seconds = sum(1 / rate for codec in codecs if (rate := codec.encoding_rate))
    return 1 / seconds if seconds else None
