"""How many examples a test tries: under `make test` fewer than otherwise, and the same ones each time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Item = TypeVar("Item")

QUICK = settings.get_current_profile_name() == "zvcore-quick"
# Of many examples that are alike, a quick run takes one in so many.
SHARE = 5


def examples(number: int, **others: Any) -> settings:
    """Settings for a test that tries this many examples."""
    return settings(max_examples=number // SHARE if QUICK else number, **others)


def some(items: Iterable[Item]) -> Iterator[Item]:
    """All items, or one in `SHARE` of them."""
    return islice(items, 0, None, SHARE if QUICK else 1)
