"""Numbers in documents, which may be anything that JSON can say."""

from __future__ import annotations

import sys
from typing import Any, TypeGuard

__all__ = ["is_number"]


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether this is a number that a float can hold: JSON has integers of any length, and Python takes NaN for one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
