"""Which format a destination has that nobody named: by its own name, or else by what it lies in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from zvcore.converting import TABLES
from zvcore.converting.tables import ending_of
from zvcore.errors import UnsupportedError
from zvcore.format import formats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zvcore.format import Format

__all__ = ["WAYS", "Chosen", "chosen_format"]

# By any of these a format says that a conversion can make something of it.
WAYS = ("makes_arrays", "takes_arrays", "takes_rows", "takes_lines", "takes_images")


class Chosen(NamedTuple):
    """The name of a format, and why it was chosen where neither the caller nor the destination's name said so."""

    name: str
    why: str = ""


def chosen_format(format: str | None, dst: Any, storage_options: Mapping[str, Any] | None = None) -> Chosen:
    """The format that was asked for; or else the only one whose datasets are called as `dst` is; or else that of the
    data set that `dst` lies in.

    Versions of one format count as one: the newest.
    """
    if format is not None:
        return Chosen(format)
    around = ""
    if isinstance(dst, str | os.PathLike):
        ending = ending_of(dst).removeprefix(".")
        if ending in TABLES:
            return Chosen(ending)
        name = os.fsdecode(dst)
        makers = [one for one in formats().values() if any(getattr(one, way) for way in WAYS)]
        only_read = [one.title for one in formats().values() if one not in makers and one.names_file(name)]
        if only_read:
            raise UnsupportedError(f"{' and '.join(only_read)}: this is read here, and not written", key=name)
        named = _newest(one for one in makers if one.names_file(name) or one.names_folder(name))
        if len(named) == 1:
            return Chosen(named[0].name)
        # Here, since it takes numpy to import, and the command line asks this module which formats there are.
        from zvcore.converting.surroundings import surroundings

        above, found, in_array = surroundings(name, storage_options)
        if in_array:
            raise TypeError(f"{dst!s} lies in {above}, an array, which holds nothing else: name another place")
        holders = _newest(one for one in found if one.makes_arrays)
        if len(holders) == 1 and len(_newest(found)) == 1:
            return Chosen(holders[0].name, f"format {holders[0].name}, as that of {above}, in which it lies")
        if found:
            around = f", nor does {above}, in which it lies and which is {' and '.join(one.title for one in found)}"
    raise TypeError(f"the name {dst!s} does not tell which format it shall have{around}: name one (format=)")


def _newest(named: Iterable[Format]) -> list[Format]:
    """These formats, of those that are versions of one only the newest."""
    newest: dict[str, Format] = {}
    for one in sorted(named, key=lambda one: one.version):
        newest[one.family or one.name] = one
    return list(newest.values())
