"""Making what consists of several objects where nobody else does so: who comes second is told, and mixes nothing in."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.stores.base import Store

__all__ = ["make_first", "making", "sole_writer"]


@contextmanager
def sole_writer(store: Store) -> Iterator[None]:
    """Within this, this thread alone writes a set into the store's root; `ConflictError` if somebody else does already.

    Where there are no locks, as in object stores, it promises nothing: what is written last must have a condition.
    """
    with ExitStack() as stack:
        _lock(stack, store, ".zvcore-writing", 0)
        yield


@contextmanager
def making(store: Store, key: str) -> Iterator[Callable[[bytes], None]]:
    """Within this, nobody else begins what the document at `key`, which is not there yet, stands for.

    What is given stores the document; `ConflictError` if another was quicker.
    """
    with ExitStack() as stack:
        locked = _lock(stack, store, key, None)
        if locked and store.exists(key):
            raise _quicker(store)

        def put(data: bytes) -> None:
            if locked or store.can_lock:
                store.put(key, data)
                return
            try:
                store.put_if_unchanged(key, data, None)
            except ConflictError:
                raise _quicker(store) from None

        yield put


def make_first(store: Store, key: str, data: bytes) -> None:
    """`making` of what consists of this document alone."""
    try:
        store.put_first(key, data)
    except ConflictError:
        raise _quicker(store) from None


def _quicker(store: Store) -> ConflictError:
    return ConflictError("somebody else has made something here meanwhile", key=store.root)


def _lock(stack: ExitStack, store: Store, key: str, timeout: float | None) -> bool:
    if not store.can_lock:
        return False
    try:
        stack.enter_context(store.lock(key, timeout))
    except UnsupportedError:
        return False  # a file system without locks can be written to all the same
    except ConflictError:
        raise ConflictError("somebody else is writing here", key=store.root) from None
    return True
