"""That a conversion does not write where it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.errors import ConflictError
from zvcore.stores.overlap import overlap

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["refuse_overlap"]


def refuse_overlap(source: Store | str, target: Store | str) -> None:
    """Neither a file nor a folder is written where the source is, by whichever name."""
    if overlap(source, target):
        where = target if isinstance(target, str) else target.root
        raise ConflictError("source and destination are the same place, or one lies in the other", key=where)
