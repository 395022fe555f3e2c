"""Single numbers as documents of Zarr v3 spell them: fill values, and codecs' parameters that are such numbers."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from zvcore.codecs.small_numbers import limits_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["number_word", "read_float", "read_integer"]

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}


def read_integer(value: Any, dtype: np.dtype[Any]) -> Any:
    """The item that JSON stands for; TypeError or ValueError if there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
        raise TypeError("an integer is needed")
    least, most = limits_of(dtype)
    if not least <= value <= most:
        raise ValueError(f"{value} does not fit")
    return dtype.type(int(value))


def read_float(value: Any, dtype: np.dtype[Any]) -> Any:
    """The same of floats, which may be words, or hexadecimal digits of their bits."""
    import numpy as np

    if isinstance(value, str) and value not in _WORDS:
        if not re.fullmatch(r"0x[0-9a-fA-F]+", value) or len(value) != 2 + 2 * dtype.itemsize:
            raise ValueError(f"not a number, NaN, Infinity, -Infinity or 0x with {2 * dtype.itemsize} digits")
        return np.array(int(value, 16), f"u{dtype.itemsize}").view(dtype)[()]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError("a number is needed")
    meant = _WORDS[value] if isinstance(value, str) else value
    if meant == 0 and dtype.name == "float8_e8m0fnu":
        # It has no zero: what tensorstore writes for its least number, whose bits are zero.
        return np.zeros((), dtype)[()]
    with np.errstate(over="ignore"):
        item = dtype.type(meant)
    if math.isnan(item) != math.isnan(meant) or (math.isinf(meant) and not math.isinf(item)):
        raise ValueError(f"{dtype} has no {value}")
    return item


def number_word(item: Any) -> Any:
    """A float as JSON."""
    import numpy as np

    value = float(item)
    if math.isnan(value):
        bits = np.array(item)
        if bits.tobytes() == np.array(np.nan, bits.dtype).tobytes():
            return "NaN"
        return f"0x{int(bits.view(f'u{bits.itemsize}')):0{2 * bits.itemsize}x}"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
