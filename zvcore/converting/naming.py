"""Which format a destination has that nobody named: the one whose files are called so."""

from __future__ import annotations

import os
from typing import Any

from zvcore.converting import TABLES
from zvcore.converting.tables import ending_of
from zvcore.format import formats

__all__ = ["WAYS", "chosen_format"]

# By any of these a format says that a conversion can make something of it.
WAYS = ("makes_arrays", "takes_arrays", "takes_rows", "takes_lines", "takes_images")


def chosen_format(format: str | None, dst: Any) -> str:
    """The format that was asked for, or else the only one that names files as `dst` is called."""
    if format is not None:
        return format
    if isinstance(dst, str | os.PathLike):
        ending = ending_of(dst).removeprefix(".")
        if ending in TABLES:
            return ending
        makers = [one for one in formats().values() if any(getattr(one, way) for way in WAYS)]
        named = [one.name for one in makers if one.names_file(os.fspath(dst))]
        if len(named) == 1:
            return named[0]
    raise TypeError(f"the name {dst!s} does not tell which format it shall have: name one (format=, --format)")
