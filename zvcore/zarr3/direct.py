"""Reads of zarr-python's arrays in the thread that asks, without its event loop and without cutting selections.

For what is nearly always asked: boxes of an array in a folder or an object store, as numpy arrays. Everything else goes
zarr-python's own way.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import zarr
from zarr.core.array import Array
from zarr.storage import FsspecStore, LocalStore, ObjectStore

from zvcore import transfer
from zvcore.acceleration import Acceleration
from zvcore.engine import Selection, Work
from zvcore.zarr3.pipeline import CodecPipeline, fills_with_zero

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.layout import Layout

__all__ = ["accelerate"]

_PIPELINE = "zvcore.zarr3.CodecPipeline"
_NUMPY = "zarr.buffer.cpu.NDBuffer"
# The stores that may be folders, or become object stores of ours.
_KINDS = (LocalStore, ObjectStore, FsspecStore)

# How many accelerations are in force, and what they have replaced.
_lock = threading.Lock()
_count = 0
_original: Callable[..., Any] = Array.__getitem__


class DirectReads(Acceleration):
    """zarr-python's arrays read by zvcore."""

    def __init__(self) -> None:
        self._config: Any = zarr.config.set({"codec_pipeline.path": _PIPELINE})
        _change(1)

    def restore(self) -> None:
        config, self._config = self._config, None
        if config is not None:
            config.__exit__(None, None, None)
            _change(-1)


def accelerate() -> Acceleration:
    """Use `CodecPipeline` for arrays that zarr-python opens from now on, and read them in the thread that asks."""
    return DirectReads()


def _change(by: int) -> None:
    global _count
    with _lock:
        _count += by
        setattr(Array, "__getitem__", _getitem if _count else _original)  # noqa: B010


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@functools.wraps(_original)
def _getitem(self: Any, selection: Any) -> Any:
    if zarr.config.get("ndbuffer") == _NUMPY:
        way = _way_of(self)
        chosen = None if way is None else _chosen(selection, self.shape)
        if way is not None and chosen is not None:
            return way.read(chosen)
    return _original(self, selection)


class DirectWay:
    """How an array is read as long as its handle holds this metadata and its store stays where it is."""

    def __init__(self, inner: Any, layout: Layout | None) -> None:
        self.metadata = inner.metadata
        self.config = inner.config
        self.store = inner.store_path.store
        self.root = _root_of(self.store)
        # None: it is not.
        self.layout = layout
        own = inner.metadata if inner.metadata.zarr_format == 2 else inner.config
        self.order: Literal["C", "F"] = own.order

    def holds(self, inner: Any) -> bool:
        same = inner.metadata is self.metadata and inner.config is self.config
        store = inner.store_path.store
        return same and store is self.store and _root_of(store) == self.root

    def read(self, selection: Selection) -> Any:
        assert self.layout is not None
        values = transfer.empty(selection.result_shape, self.layout.form.dtype, self.order)
        transfer.read(self.layout, selection, values, Work())
        return values


def _root_of(store: Any) -> Any:
    """Where a store is that may be moved."""
    return store.root if type(store) is LocalStore else None


def _way_of(array: Any) -> DirectWay | None:
    inner = array.async_array
    pipeline = inner.codec_pipeline
    if type(pipeline) is not CodecPipeline or type(inner.store_path.store) not in _KINDS:
        return None
    way = pipeline.direct
    if way is None or not way.holds(inner):
        way = pipeline.direct = DirectWay(inner, _layout_of(inner, pipeline))
    return None if way.layout is None else way


def _layout_of(inner: Any, pipeline: CodecPipeline) -> Layout | None:
    """The layout of an array whose items numpy's memory holds as they are; None: zarr-python is to see to it."""
    config = inner.config
    unfilled = inner.metadata.fill_value is None and not fills_with_zero(np.dtype(inner.dtype))
    if unfilled or not getattr(config, "read_missing_chunks", True):
        return None
    layout = pipeline.layout_at(inner.store_path.path, bool(config.write_empty_chunks), tuple(inner.metadata.shape))
    if not layout.store.remote and layout.store.local_root is None:
        return None  # which zarr-python is asked for
    dtype = np.dtype(inner.dtype)
    return layout if layout.value_codec is None and dtype.isnative and dtype == layout.form.dtype else None


def _chosen(selection: Any, shape: tuple[int, ...]) -> Selection | None:
    """A selection of several items by numbers and slices; None for others, and for what zarr-python refuses itself."""
    for one in selection if type(selection) is tuple else (selection,):
        if type(one) is slice:
            if one.step is not None and (type(one.step) is not int or one.step < 1):
                return None
        elif one is not Ellipsis and (not isinstance(one, (int, np.integer)) or isinstance(one, bool)):
            return None
    try:
        chosen = Selection.basic(selection, shape)
    except (IndexError, TypeError, ValueError):
        return None
    # Single items come out of zarr-python in several forms.
    return chosen if chosen.result_shape else None
