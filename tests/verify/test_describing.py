"""Describing groups of which only documents tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.care.describing import Inspector
from zvcore.errors import NotFoundError
from zvcore.stores import MemoryStore
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.stores import Store

cuts = 0


class Told(str):
    """A path that counts how often it is looked at."""

    __slots__ = ()

    def startswith(self, *args: Any) -> bool:
        global cuts
        cuts += 1
        return super().startswith(*args)

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        global cuts
        cuts += 1
        return super().partition(sep)


class Unlisted(Inspector[Any]):
    format = "zarr3"

    def __init__(self, paths: list[str]) -> None:
        super().__init__()
        self.paths = paths

    def array(self, store: Store) -> dict[str, Any]:
        if self.paths:
            return {}
        raise NotFoundError("nothing is there")

    def members(self, store: Store) -> Iterable[str]:
        raise UnlistedError("not listed")

    def copied(self, store: Store) -> Iterable[str]:
        paths, self.paths = self.paths, []
        return paths


def test_work_grows_with_the_paths_that_a_document_tells_of_not_with_their_square() -> None:
    """Each member looked at the paths of all: some megabytes of consolidated metadata took hours."""
    found = Unlisted([Told(f"g{number}/a") for number in range(500)]).inspect(MemoryStore())
    assert len(found["members"]) == 500
    assert cuts <= 4 * 500
