"""Values as JSON has them: what counts as a number, what numpy's become, and how deep they may lie."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DEEPEST",
    "as_json",
    "copied",
    "depth_of",
    "has_nan",
    "is_number",
    "number_of",
    "shown",
    "too_deep",
    "whole_if_possible",
]

# How deep lists and objects may lie within each other. Java's JSON stops at 255; nothing that anyone writes comes near.
DEEPEST = 200
# Python's own limit for integers in text.
_DIGITS = 4300
# How much of a value an error shows.
_SHOWN = 80


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether this is a number that a float can hold: JSON has integers of any length, and Python takes NaN for one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def number_of(text: str) -> float:
    """The number that a document writes with a point or an exponent.

    What is beyond all floats (1e400) would be an infinity, and written as one when the document is changed: it is kept
    as the integer that it is. More digits than Python reads of integers are refused, as where all are written out.
    """
    number = float(text)
    return _integer_of(text) if math.isinf(number) else number


def _integer_of(text: str) -> int:
    from decimal import Decimal

    try:
        sign, digits, power = Decimal(text).as_tuple()
    except ArithmeticError:
        sign, digits, power = 0, (), "F"
    if isinstance(power, int) and len(digits) + power <= _DIGITS and not any(digits[power:] if power < 0 else ()):
        return int(Decimal((sign, digits, power)))
    raise ValueError(f"a number that neither a float nor an integer of {_DIGITS} digits can hold: {shown(text)}")


def whole_if_possible(number: float) -> float:
    """A whole number as an integer, as long as a float tells it from the next: documents look better so."""
    return int(number) if abs(number) < 2**53 and float(number).is_integer() else number


def as_json(value: Any, what: str, key: str | None = None, nan: bool = True) -> Any:
    """A copy of the value as JSON has it, with numpy's numbers and arrays as JSON's.

    NaN and the infinities are kept, as zarr-python does, unless `nan` is False.
    """
    try:
        copy = json.loads(json.dumps(value, allow_nan=nan, default=_of_numpy), object_pairs_hook=_members)
    except (TypeError, ValueError, RecursionError) as error:
        raise MetadataError(f"{what} hold what JSON can say: {error}", key=key) from error
    if too_deep(copy):
        raise MetadataError(f"{what} are nested too deep", key=key, expected=f"at most {DEEPEST} levels")
    return copy


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, of whose members none is lost: 1 and "1" are two keys for Python, and one name for JSON."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"two keys are both {name!r}")
        found[name] = value
    return found


def _of_numpy(value: Any) -> Any:
    # Times of some units become numbers by `tolist`, which nobody could tell from others, and of other units dates.
    times = getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M")
    if hasattr(value, "tolist") and not times:
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not")


def too_deep(value: Any) -> bool:
    """Whether lists and objects lie deeper within each other than documents may have it."""
    return depth_of(value) > DEEPEST


def depth_of(value: Any) -> int:
    """How deep lists and objects lie within each other, counted to one more than documents may have."""
    level = [value]
    for depth in range(DEEPEST + 1):
        level = [item for holder in level if isinstance(holder, (dict, list)) for item in _items(holder)]
        if not level:
            return depth
    return DEEPEST + 1


def has_nan(value: Any) -> bool:
    """Whether NaN or an infinity is somewhere in a value."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, float) and not math.isfinite(here):
            return True
        if isinstance(here, (dict, list)):
            waiting.extend(_items(here))
    return False


def _items(holder: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return holder.values() if isinstance(holder, dict) else holder


def copied(value: Any) -> Any:
    """A copy of a value from a document, for those who may change it."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def shown(value: Any) -> str:
    """A value for an error's text, not longer than a line."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
