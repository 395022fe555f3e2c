"""Which format a destination has that nobody named: the one whose datasets are called so."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from zvcore.converting import TABLES
from zvcore.converting.tables import ending_of
from zvcore.errors import UnsupportedError
from zvcore.format import formats

if TYPE_CHECKING:
    from zvcore.format import Format

__all__ = ["WAYS", "chosen_format"]

# By any of these a format says that a conversion can make something of it.
WAYS = ("makes_arrays", "takes_arrays", "takes_rows", "takes_lines", "takes_images")


def chosen_format(format: str | None, dst: Any) -> str:
    """The format that was asked for, or else the only one whose datasets are called as `dst` is.

    Versions of one format count as one: the newest. What lies inside a container has no say: only how the name ends.
    """
    if format is not None:
        return format
    if isinstance(dst, str | os.PathLike):
        ending = ending_of(dst).removeprefix(".")
        if ending in TABLES:
            return ending
        name = os.fsdecode(dst)
        makers = [one for one in formats().values() if any(getattr(one, way) for way in WAYS)]
        only_read = [one.title for one in formats().values() if one not in makers and one.names_file(name)]
        if only_read:
            raise UnsupportedError(f"{' and '.join(only_read)}: this is read here, and not written", key=name)
        named = _newest([one for one in makers if one.names_file(name) or one.names_folder(name)])
        if len(named) == 1:
            return named[0].name
    raise TypeError(f"the name {dst!s} does not tell which format it shall have: name one (format=)")


def _newest(named: list[Format]) -> list[Format]:
    """These formats, of those that are versions of one only the newest."""
    newest: dict[str, Format] = {}
    for one in sorted(named, key=lambda one: one.version):
        newest[one.family or one.name] = one
    return list(newest.values())
