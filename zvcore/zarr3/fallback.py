"""zarr-python's own pipeline for what the engine cannot do, under the locks that the engine takes and with our codecs.

Changing a part of a shard means reading and replacing it. zarr-python does that without a lock, so two processes that
write different inner chunks of one shard would lose one of the writes.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from zarr.codecs import ShardingCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline

from zvcore.errors import ZvcoreError
from zvcore.zarr3.foreign_stores import as_store
from zvcore.zarr3.zarr_codecs import decoding_with_ours

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from zarr.abc.codec import Codec

__all__ = ["LockedPipeline"]

# How many shards are locked at once.
_LOCKS = 64


class LockedPipeline(BatchedCodecPipeline):
    """`BatchedCodecPipeline` that holds the locks of the shards that it writes to, and decodes with our codecs."""

    @classmethod
    def from_codecs(cls, codecs: Iterable[Codec], **options: Any) -> Self:
        return super().from_codecs([decoding_with_ours(codec) for codec in codecs], **options)

    async def read_batch(self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        batch = list(batch_info)
        with _located(batch):
            return await super().read_batch(batch, out, drop_axes)

    async def write_batch(self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        batch = list(batch_info)
        with _located(batch):
            await super().write_batch(batch, value, drop_axes)

    async def write(self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        batch = list(batch_info)
        # The inner chunks of a shard come here too; their place is in memory.
        if not isinstance(self.array_bytes_codec, ShardingCodec) or not all(hasattr(one[0], "store") for one in batch):
            await super().write(batch, value, drop_axes)
            return
        for start in range(0, len(batch), _LOCKS):
            some = batch[start : start + _LOCKS]
            stores = {one[0].path: as_store(one[0].store) for one in some if not one[0].store.read_only}
            holder = _Holder([stores[path].edit(path) for path in sorted(stores)])
            try:
                await holder.taken()
                await super().write(some, value, drop_axes)
            finally:
                holder.release()


@contextmanager
def _located(batch: list[Any]) -> Iterator[None]:
    """Errors say in which chunk they are, where there is but one. Inner chunks have no path; their shard has."""
    try:
        yield
    except ZvcoreError as error:
        raise error.located(key=getattr(batch[0][0], "path", None) if len(batch) == 1 else None)


class _Holder(threading.Thread):
    """Holds locks for a coroutine.

    Locks belong to threads and make them wait, which neither the thread of the event loop nor one of its few workers
    may do: what the lock's holder waits for could need it.
    """

    def __init__(self, locks: list[AbstractContextManager[Any]]) -> None:
        super().__init__(name="zvcore-locks", daemon=True)
        self._locks = locks
        self._taken: Future[None] = Future()
        self._enough = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            with ExitStack() as stack:
                for lock in self._locks:
                    stack.enter_context(lock)
                self._taken.set_result(None)
                self._enough.wait()
        except BaseException as error:
            if self._taken.done():
                raise
            self._taken.set_exception(error)

    async def taken(self) -> None:
        await asyncio.shield(asyncio.wrap_future(self._taken))

    def release(self) -> None:
        self._enough.set()
        # A caller that gave up waiting does not wait here either: the thread ends when it has got its locks.
        if self._taken.done():
            self.join()
