"""An array as an array of Dask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.boxes import count_of
from zvcore.errors import UnsupportedError
from zvcore.lazy import needed_by

if TYPE_CHECKING:
    import dask.array

    from zvcore.array import Array

__all__ = ["as_dask"]

# Dask lists all pieces of an axis: what a document claims must not decide how long this takes.
_MOST_ALONG_AN_AXIS = 1 << 24


def as_dask(array: Array, chunks: Any) -> dask.array.Array:
    """Cut along shards (or chunks) unless `chunks` says otherwise."""
    with needed_by("to_dask"):
        import dask.array
    wanted = chunks or array.shards or array.chunks
    if not chunks and max(count_of(array.shape, wanted), default=0) > _MOST_ALONG_AN_AXIS:
        what = "more chunks along an axis than dask should list: say chunks="
        raise UnsupportedError(what, key=array.store.root, found=array.grid)
    lazy: dask.array.Array = dask.array.from_array(array, chunks=wanted, lock=False, asarray=True)
    return lazy
