"""What a destination lies in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.converting.note import places_above
from zvcore.errors import ZvcoreError
from zvcore.format import formats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.format import Format
    from zvcore.stores import Store

__all__ = ["surroundings"]


def surroundings(name: str, storage_options: Mapping[str, Any] | None) -> tuple[str, list[Format], bool]:
    """The nearest folder above that is a data set, all formats that it is of, and whether it is an array.

    Special cases go before others.
    """
    for above, _ in places_above(name if "://" in name else os.path.abspath(name)):
        try:
            store = opening.store_at(above, "r", storage_options)
            found = [one for one in formats().values() if one.marks and one.detect(store)]
        except (ZvcoreError, ValueError, OSError):
            continue
        if found:
            special = [one for one in found if not (one.makes_arrays or one.takes_arrays)]
            return above, special or found, _is_array(store)
    return "", [], False


def _is_array(store: Store) -> bool:
    """Whether an array lies here, among whose chunks nothing else may lie."""
    try:
        return getattr(opening.open_silently(store), "kind", None) == "array"
    except (ZvcoreError, ValueError, OSError):
        return False
