"""How large units may be, going by the time that encoding takes: an interrupted conversion does them again.

That is a matter of codecs and of their levels, not of a clock: a conversion that is resumed must find the same units.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zvcore.codecs.rates import rate_of_all

if TYPE_CHECKING:
    from zvcore.layout import Layout

__all__ = ["UNIT_SECONDS", "bytes_in_time", "encoding_seconds"]

# So long a unit takes one thread at most, unless a single object takes longer.
UNIT_SECONDS = 5.0


def encoding_seconds(layout: Layout, nbytes: int) -> float:
    """About how long one thread encodes so many bytes of values as new chunks of an array."""
    rates = [rate_of_all(layout.chains[number].codecs) for number in layout.chains_of_new]
    return nbytes / min((rate for rate in rates if rate is not None), default=math.inf)


def bytes_in_time(layout: Layout) -> float:
    """How many bytes of values one thread encodes in the time of a unit."""
    seconds = encoding_seconds(layout, 1)
    return UNIT_SECONDS / seconds if seconds else math.inf
