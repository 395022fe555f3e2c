"""Any store of zvcore as a store of zarr-python, with addresses, archives and plugins that it does not have.

Where the library of an object store is asynchronous itself, as obstore is, requests hold no thread: hundreds of them
wait at once. What has to be done in a thread goes to those of the event loop, of which there are a few.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

from zvcore.stores import Store as Objects
from zvcore.stores import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterable, Mapping

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

__all__ = ["AsyncStore"]

# How many keys are listed by one visit to a thread.
_LISTED_AT_ONCE = 1000


class AsyncStore(Store):
    """`zarr.open(AsyncStore("s3://bucket/a.zarr"))`: what lies at an address of zvcore, or in one of its stores."""

    supports_writes: bool = True
    supports_deletes: bool = True
    supports_listing: bool = True

    def __init__(
        self,
        path: str | os.PathLike[str] | Objects,
        *,
        read_only: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(read_only=read_only)
        mode = "r" if read_only else "w"
        self.objects = path if isinstance(path, Objects) else open_store(path, mode, storage_options)

    def with_read_only(self, read_only: bool = False) -> AsyncStore:
        return AsyncStore(self.objects, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AsyncStore)
            and other.objects.root == self.objects.root
            and other.read_only == self.read_only
        )

    def __hash__(self) -> int:
        return hash(self.objects.root)

    def __repr__(self) -> str:
        return f"AsyncStore({self.objects.root!r})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopened, (self.objects, self.read_only))

    # --- reading

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        await self._ensure_open()
        start, length = _span(byte_range)
        data = b"" if length == 0 else await self.objects.aget(key, start, length)
        if data is None or (length == 0 and not await self.exists(key)):
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*[self.get(key, prototype, one) for key, one in key_ranges]))

    async def exists(self, key: str) -> bool:
        await self._ensure_open()
        return await asyncio.to_thread(self.objects.exists, key)

    async def getsize(self, key: str) -> int:
        size = await asyncio.to_thread(self.objects.size, key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    # --- writing

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._ensure_open()
        if not hasattr(value, "as_buffer_like"):
            raise TypeError(
                f"AsyncStore.set(): `value` must be a Buffer instance. Got an instance of {type(value)} instead."
            )
        # Chunks are called by numbers, documents by words; of arrays without axes, the one chunk is called "c".
        name = key.rpartition("/")[-1]
        put = self.objects.aput_data if name[-1:].isdigit() or name == "c" else self.objects.aput
        await put(key, value.to_bytes())

    async def delete(self, key: str) -> None:
        self._check_writable()
        await self._ensure_open()
        await asyncio.to_thread(self.objects.delete, key)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await self._ensure_open()
        await asyncio.to_thread(self.objects.delete_prefix, prefix.rstrip("/"))

    async def clear(self) -> None:
        await self.delete_dir("")

    # --- listing

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys that begin with this, which need not end where a folder does."""
        await self._ensure_open()
        keys = iter(self.objects.list(prefix.rpartition("/")[0]))
        while found := await asyncio.to_thread(lambda: [*itertools.islice(keys, _LISTED_AT_ONCE)]):
            for key in found:
                if key.startswith(prefix):
                    yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        await self._ensure_open()
        folders, objects = await asyncio.to_thread(self.objects.list_dir, prefix.rstrip("/"))
        for name in [*folders, *objects]:
            yield name


def _reopened(objects: Objects, read_only: bool) -> AsyncStore:
    return AsyncStore(objects, read_only=read_only)


def _span(asked: ByteRequest | None) -> tuple[int, int | None]:
    """(start, length) of a request, as `Store.get` takes them."""
    match asked:
        case None:
            return 0, None
        case RangeByteRequest():
            return asked.start, max(0, asked.end - asked.start)
        case OffsetByteRequest():
            return asked.offset, None
        case SuffixByteRequest():
            return (-asked.suffix, None) if asked.suffix else (0, 0)
    raise ValueError(f"no request for bytes: {asked!r}")
