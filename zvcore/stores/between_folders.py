"""Objects copied from one folder of this machine to another, many at a time, as the system copies files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.stores.confined import ConfinedStore
from zvcore.stores.durability import durability_code
from zvcore.stores.file_copies import FileCopies
from zvcore.stores.files import encode_key
from zvcore.stores.local import LocalStore
from zvcore.stores.request_threads import Ahead

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from zvcore.stores.base import Store

__all__ = ["BetweenFolders", "between_folders"]

# For fewer files no other thread is asked.
_WORTH_A_THREAD = 8
# Larger ones are left to those who copy them in steps.
_LARGEST = 8 << 20


def between_folders(source: Store, target: Store, *, creates: bool, compares: bool) -> BetweenFolders | None:
    """None where the system does not copy by itself, since one of both is no folder, or links cannot be told."""
    # Others may be derived from them, which store in another way.
    if type(source) is not ConfinedStore or type(target) is not LocalStore:
        return None
    beneath = source.beneath()
    return None if beneath is None else BetweenFolders(*beneath, target, creates and not target.read_only, compares)


class BetweenFolders:
    """`descriptor` is an open folder, and `way` leads from there to where the keys begin, "" or with a slash behind.

    creates    copy what is not there yet
    compares   else objects of the same size are taken for the same
    """

    def __init__(self, descriptor: int, way: bytes, target: LocalStore, creates: bool, compares: bool) -> None:
        self._descriptor, self._way = descriptor, way
        self._creates, self._compares = creates, compares
        self._target = target.local_root.rstrip(b"/") + b"/"
        self._durability = durability_code(target.durability)

    def done(
        self, batches: Iterable[Sequence[str]], at_once: int
    ) -> Generator[tuple[Sequence[str], list[tuple[str, int] | None]]]:
        """The keys of each batch, and what was done about each: "copied" or "the same", and how many bytes it has; None
        where something else is to be done, or said. Others work on the next batch already while the caller has one.
        """
        begun = None
        try:
            for keys in batches:
                told = None if begun is None else begun.told()
                begun = _Batch(keys, self._copies(keys), at_once)
                if told is not None:
                    yield told
            if begun is not None:
                yield begun.told()
        finally:
            if begun is not None:
                begun.give_up()

    def _copies(self, keys: Sequence[str]) -> FileCopies:
        wanted = []
        for name in map(encode_key, keys):
            above, _, last = (self._way + name).rpartition(b"/")
            wanted.append((above or b".", last, self._target + name))
        return FileCopies(
            self._descriptor, wanted, root=len(self._target) - 1, durability=self._durability, largest=_LARGEST,
            creates=self._creates, compares=self._compares,
        )  # fmt: skip


class _Batch:
    """Copies that other threads have begun with."""

    def __init__(self, keys: Sequence[str], copies: FileCopies, at_once: int) -> None:
        self._keys, self._copies = keys, copies
        self._helpers = [Ahead(self._work) for _ in range(min(at_once - 1, len(keys) // _WORTH_A_THREAD))]

    def _work(self) -> None:
        while self._copies.work():
            pass  # and signals were seen to

    def told(self) -> tuple[Sequence[str], list[tuple[str, int] | None]]:
        self._work()
        for helper in self._helpers:
            helper.result()
        return self._keys, self._copies.outcomes()

    def give_up(self) -> None:
        self._copies.stop()
        for helper in self._helpers:
            helper.give_up()
