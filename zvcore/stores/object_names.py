"""Names of objects in a bucket, and the keys of a store that they are; some names are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.errors import InvalidKeyError
from zvcore.stores.files import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.stores.base import Refused

__all__ = ["keys_below", "tell_names"]


def keys_below(names: Iterable[str], folder: str) -> list[str]:
    """Keys from full names, without names that are no keys: no member of a folder is called so."""
    keys = []
    for name in names:
        if not name.startswith(folder):
            continue
        key = name[len(folder) :].rstrip("/")
        try:
            encode_key(key)
        except InvalidKeyError:
            continue
        keys.append(key)
    return keys


def tell_names(names: Iterable[str], folder: str, refused: Refused) -> None:
    """Of objects under names that are no keys: who asks for all objects would leave them out unawares."""
    for name in names:
        key = name[len(folder) :].rstrip("/")
        if name.startswith(folder) and key:
            try:
                encode_key(key)
            except InvalidKeyError as error:
                what = f"an object has a name by which it cannot be asked for ({error.message})"
                refused(key, InvalidKeyError(what, key=name))
