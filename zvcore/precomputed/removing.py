"""Taking a scale out of a volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore import documents
from zvcore.precomputed.metadata import INFO, encode_info
from zvcore.stores.again import again

if TYPE_CHECKING:
    from zvcore.precomputed.array import ScaleArray
    from zvcore.stores import Store

__all__ = ["remove_scale"]


def remove_scale(array: ScaleArray) -> None:
    """Remove a scale with its chunks. Without any scale there is no volume: then `info` goes, too."""
    store = array.store
    # First what tells of it: chunks that nobody knows of are nothing, and not a scale with holes.
    for attempt in again(INFO):
        with attempt:
            _forget(store, array.key)
    store.delete_prefix(array.scale.folder)


def _forget(store: Store, key: str) -> None:
    with store.edit(INFO) as edit:
        raw = edit.get()
        if raw is None:
            return
        document = documents.parse(bytes(raw), INFO)
        scales = document.get("scales")
        others = [one for one in scales if not (isinstance(one, dict) and one.get("key") == key)] if scales else []
        if others:
            edit.put(encode_info({**document, "scales": others}))
        else:
            # No object store removes an object under a condition.
            store.delete(INFO)
