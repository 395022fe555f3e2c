"""What several edits put, stored together: many requests under way at once cost less than one after the other."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from zvcore.errors import ConflictError
from zvcore.stores.request_threads import Ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Stamp, Store
    from zvcore.stores.writing import Anything

__all__ = ["Kept", "KeptOf", "Put", "PutsTogether", "whole"]

Ranges: TypeAlias = "dict[tuple[str, Kept], memoryview]"

# With so many bytes nothing more is waited for.
_ENOUGH = 64 << 20


class Kept(NamedTuple):
    """Bytes of an object's old version that its new one has too."""

    offset: int
    size: int


class KeptOf(NamedTuple):
    """What is kept of the version of an object that has this stamp."""

    key: str
    stamp: Stamp | None
    ranges: Sequence[Kept]


class Put(NamedTuple):
    """An object to be stored, where it is what `condition` says; what is kept is of the version with the stamp `of`."""

    key: str
    parts: Sequence[Buffer | Kept]
    condition: Stamp | Anything | None
    of: Stamp | None

    def kept(self, known: Ranges) -> KeptOf:
        """What is kept and not known."""
        wanted = [part for part in self.parts if isinstance(part, Kept) and (self.key, part) not in known]
        return KeptOf(self.key, self.of, wanted)

    def whole(self, kept: Ranges) -> list[Buffer]:
        return [kept[self.key, part] if isinstance(part, Kept) else part for part in self.parts]


def whole(store: Store, key: str, parts: Sequence[Buffer | Kept], stamp: Stamp | None) -> Sequence[Buffer]:
    """The parts of one object, with the bytes that are kept."""
    kept = [part for part in parts if isinstance(part, Kept)]
    if not kept:
        return cast("Sequence[Buffer]", parts)
    old = store.get_ranges(key, kept, stamp=stamp)
    if old is None:
        raise _gone(key)
    rest = iter(old)
    return [next(rest) if isinstance(part, Kept) else part for part in parts]


def _gone(key: str) -> ConflictError:
    return ConflictError("the object went away while it was rewritten", key=key)


def _ranges(store: Store, wanted: Iterable[KeptOf]) -> Ranges:
    asked = [(one.key, one.ranges, one.stamp) for one in wanted if one.ranges]
    found: Ranges = {}
    for (key, ranges, _), parts in zip(asked, store.get_ranges_many(asked), strict=True):
        if parts is None:
            raise _gone(key)
        found.update(zip([(key, one) for one in ranges], parts, strict=True))
    return found


def _all_of(store: Store, wanted: Iterable[KeptOf]) -> Ranges:
    asked = []
    size = 0
    for one in wanted:
        size += sum(kept.size for kept in one.ranges)
        if size > _ENOUGH:
            break
        asked.append(one)
    return _ranges(store, asked)


class PutsTogether:
    """Objects that wait to be stored. What is given may come from several threads and stays as it is until `refused`.

    Whoever brings more than is to be held in memory stores what has come so far.

    stamps  of what was stored, where they are told
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: list[Put] = []
        self._nbytes = 0
        self._refused: set[str] = set()
        self.stamps: dict[str, Stamp] = {}
        self._changing = threading.Lock()
        self._coming: Ahead[Ranges] | None = None
        self._known: Ranges | None = None
        self._asking = threading.Lock()

    def foresee(self, wanted: Iterable[KeptOf]) -> None:
        """Begin to ask for what will be kept, as far as there is memory for it."""
        self._coming = Ahead(partial(_all_of, self._store, wanted))

    def add(self, put: Put) -> None:
        size = sum(part.size if isinstance(part, Kept) else memoryview(part).nbytes for part in put.parts)
        with self._changing:
            self._held.append(put)
            self._nbytes += size
            full = self._take() if self._nbytes >= _ENOUGH else []
        self._put(full)

    def refused(self) -> set[str]:
        """Store what is left. The keys of all objects whose condition did not hold: they are as they were."""
        with self._changing:
            left = self._take()
        self._put(left)
        return self._refused

    def give_up(self) -> None:
        """What was foreseen is no longer wanted. Returns when nothing is under way."""
        if self._coming is not None:
            self._coming.give_up()

    def _foreseen(self) -> Ranges:
        with self._asking:
            if self._known is None:
                self._known = {} if self._coming is None else self._coming.result()
            return self._known

    def _take(self) -> list[Put]:
        taken, self._held, self._nbytes = self._held, [], 0
        return taken

    def _put(self, puts: list[Put]) -> None:
        if puts:
            known = self._foreseen()
            # Chunks that come to nothing may leave other bytes than were foreseen.
            kept = {**known, **_ranges(self._store, [put.kept(known) for put in puts])}
            given = [(put.key, put.whole(kept), put.condition) for put in puts]
            for put, stamp in zip(puts, self._store.put_stamped(given), strict=True):
                if not stamp:
                    self._refused.add(put.key)
                elif stamp is not True:
                    self.stamps[put.key] = stamp
