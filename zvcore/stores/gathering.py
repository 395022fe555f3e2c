"""Many questions at once in a loop of events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["gathered"]

T = TypeVar("T")


async def gathered(
    function: Callable[[T], Awaitable[Any]], items: Sequence[T], at_once: int, *, errors: bool = False
) -> list[Any]:
    """What `function` gives for each item, so many `at_once`. The first error is raised; with `errors`, each stands in
    the place of what was wanted, once all have ended.
    """
    turn = asyncio.Semaphore(at_once)

    async def one(item: T) -> Any:
        async with turn:
            return await function(item)

    return await asyncio.gather(*map(one, items), return_exceptions=errors)
