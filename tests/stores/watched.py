"""A store of zarr-python that counts what it is asked for."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from zarr.storage import MemoryStore, WrapperStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["Watched"]


class Watched(WrapperStore[MemoryStore]):
    """Each answer takes a moment. Counts what is asked for, and how much of it at once."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.asked: Counter[str] = Counter()
        self.keys: list[str] = []
        self.under_way: set[str] = set()
        # For each object, which others were asked for before it was there.
        self.beside: dict[str, set[str]] = {}
        self.before: Callable[[str, str], None] = lambda what, key: None

    async def _wait(self, what: str, key: str) -> None:
        self.asked[what] += 1
        self.keys.append(key)
        self.under_way.add(key)
        await asyncio.sleep(0.01)
        self.beside[key] = {*self.under_way}
        self.under_way.discard(key)
        self.before(what, key)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        await self._wait("get", key)
        return await self._store.get(key, prototype, byte_range)

    async def set(self, key: str, value: Any) -> None:
        await self._wait("set", key)
        await self._store.set(key, value)

    async def getsize(self, key: str) -> int:
        await self._wait("getsize", key)
        return await self._store.getsize(key)

    async def exists(self, key: str) -> bool:
        await self._wait("exists", key)
        return await self._store.exists(key)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        self.asked["list"] += 1
        async for name in self._store.list_dir(prefix):
            yield name

    def forget(self) -> None:
        self.asked.clear()
        self.keys.clear()
        self.beside.clear()

    @property
    def together(self) -> int:
        """How many objects were under way at once."""
        return max(map(len, self.beside.values()))
