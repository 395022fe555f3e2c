"""Variables of the environment, asked for whenever something is opened.

`os.environ` makes texts of them one by one, which takes longer than all else that it takes to open a folder, and of all
of them longer than a request to a server nearby. What it makes them of is as good, where it has that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["all_variables", "variable"]


def variable(name: str) -> str:
    """What a variable says; "" where there is none."""
    kept = getattr(os.environ, "_data", None)
    if kept is not None and os.name == "posix" and name.encode() not in kept:
        return ""
    return os.environ.get(name, "")


def all_variables() -> Hashable:
    """All that stands in the environment, to compare it."""
    return tuple(getattr(os.environ, "_data", os.environ).copy().items())
