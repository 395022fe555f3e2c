"""Options that a user gives for the function of a format which makes something, checked before anything is written."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = ["refuse_unknown"]


def refuse_unknown(
    format: str, options: Mapping[str, Any], function: Callable[..., Any], *, but: Collection[str] = (),
    besides: Collection[str] = (),
) -> None:  # fmt: skip
    """TypeError for an option that is no keyword of the function, or one of those (`but`) that a conversion gives."""
    found = inspect.signature(function).parameters.values()
    known = {one.name for one in found if one.kind is inspect.Parameter.KEYWORD_ONLY}.difference(but).union(besides)
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(
            f"{format} has no option {unknown[0]!r} for such a conversion; it has {', '.join(sorted(known))}"
        )
