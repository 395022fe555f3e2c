"""What cannot be converted: all of it is named before anything is written, or it is left out and told as a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.converting.planning import arrays_of
from zvcore.errors import OutOfMemoryError, PluginError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.converting.sources import Node

__all__ = ["convertible", "refuse"]

# How many things an error names.
_NAMED = 50


def convertible(nodes: Sequence[Node], attempt: Callable[[Sequence[Node]], None]) -> dict[str, ZvcoreError]:
    """Why which of these nodes cannot be converted, by their paths; `attempt` makes some of them in memory."""
    failed: dict[str, ZvcoreError] = {}
    for node in nodes:
        if not arrays_of(node):
            continue
        try:
            attempt([node])
        except OutOfMemoryError:
            raise  # it may well be convertible, where there is more
        except (UnsupportedError, PluginError) as error:
            failed[node.path] = error
    return failed


def refuse(failed: Mapping[str, ZvcoreError], kept: bool, done: str = "converted") -> UnsupportedError:
    """The error that names all that cannot be converted; `kept`: something else can. `done` says it of other things."""
    told = [f"{path}: {error.told}" for path, error in failed.items()]
    more = [f"and {len(told) - _NAMED} more"] if len(told) > _NAMED else []
    what = (
        f"{len(told)} of the things here cannot be {done} (skip_unsupported=True leaves them out)"
        if kept
        else f"there is no array here that can be {done}"
    )
    return UnsupportedError(f"{what}: " + "; ".join([*told[:_NAMED], *more]))
