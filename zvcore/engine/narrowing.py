"""Parts of chunks: of those that are stored as they are, what a selection looks at is all that need come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine.read import narrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.engine.chunks import Chunks
    from zvcore.engine.sources import Sources
    from zvcore.stores import Store

__all__ = ["narrowed", "parts_at_hand"]


def narrowed(store: Store, chunks: Chunks, wanted: Callable[[Chunks], npt.NDArray[np.uint64] | None]) -> Sources:
    """The sources of these chunks, of which no more is asked for than is `wanted`, as `parts_wanted` says it: parts of
    those that are stored as they are.
    """
    sources = chunks.sources
    assert sources is not None
    if sources.blobs is not None or (sources.offset is None and not store.gives_parts()):
        return sources
    parts = wanted(chunks)
    if parts is None:
        return sources
    if sources.offset is None or sources.length is None:
        return replace(sources, parts=parts)
    offset, length = np.array(sources.offset, np.uint64), np.array(sources.length, np.uint64)
    narrow(parts, offset, length)
    return replace(sources, parts=parts, offset=offset, length=length)


def parts_at_hand(
    store: Store, names: list[str], parts: npt.NDArray[np.uint64]
) -> tuple[list[Any], npt.NDArray[np.uint64]]:
    """(the wanted part of each of these objects, None of those that are not there; what parts these are)."""
    wanted = parts.tolist()
    found = store.snapshots(names, [(begin, end - begin if end else None) for begin, end, _ in wanted])
    blobs: list[Any] = [None if one is None else one.data for one in found]
    # Those of another size than a chunk has: what is wrong with them is said when all of it is there.
    others = [
        row
        for row, (one, (begin, end, size)) in enumerate(zip(found, wanted, strict=True))
        if one is not None and end and (one.size != size or len(one.data) != end - begin)
    ]
    if others:
        parts = parts.copy()
        parts[others] = 0
        for row, data in zip(others, store.get_many([names[row] for row in others]), strict=True):
            blobs[row] = data
    return blobs, parts
