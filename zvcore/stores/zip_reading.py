"""Bytes of several entries of an archive, read together.

Where an entry's bytes begin, only the header in front of them tells. To read all headers first would be to wait twice
for an archive behind a network, so the bytes are asked for together with the headers, from where they begin in nearly
all archives; where they do not, they are read once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zvcore.stores.zip_directory import data_offset, least_offset, size_of_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.stores.within import Inside
    from zvcore.stores.zip_directory import Entry

__all__ = ["Beginnings", "Ranges", "Wanted"]

# (offset, length) of each.
Ranges: TypeAlias = "Sequence[tuple[int, int]]"
# An entry's name, the entry, and ranges of its bytes as they are stored.
Wanted: TypeAlias = "tuple[str, Entry, Ranges]"


# So much may a header be longer than it must.
_MOST_MORE = 0xFFFF


class Beginnings:
    """Where the bytes of entries begin, as far as their headers were read, of one version of an archive."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: dict[str, int] = {}
        # What is told of those that are stored as they are.
        self.places: dict[str, Inside] = {}
        # How many bytes more than they must have the headers take, once an entry did not reach up to the next one.
        self._more: int | None = None

    def read(self, wanted: Sequence[Wanted], ranges: Callable[[Ranges], list[memoryview]]) -> list[list[memoryview]]:
        """The bytes of each; `ranges` gives those of the archive."""
        guesses = [self._known.get(key) or self._guess(key, entry) for key, entry, _ in wanted]
        is_known = [key in self._known for key, _, _ in wanted]
        asked: list[tuple[int, int]] = []
        for (key, entry, parts), begin, known in zip(wanted, guesses, is_known, strict=True):
            if not known:
                asked.append((entry.at, size_of_header(key, entry)))
            asked += [(begin + at, length) for at, length in parts]
        got = iter(ranges(asked))
        found = []
        elsewhere = []
        for number, (key, entry, parts) in enumerate(wanted):
            if not is_known[number] and self._see(key, entry, bytes(next(got))) != guesses[number]:
                elsewhere.append(number)
            found.append([next(got) for _ in parts])
        if elsewhere:
            again = [(self._known[key] + at, n) for key, _, parts in (wanted[i] for i in elsewhere) for at, n in parts]
            late = iter(ranges(again))
            for number in elsewhere:
                found[number] = [next(late) for _ in found[number]]
        return found

    def whole(self, key: str, entry: Entry, ranges: Callable[[Ranges], list[memoryview]]) -> memoryview:
        """All bytes of one, with the header in front of them, where that is not known, in one piece."""
        begin = self._known.get(key)
        if begin is None:
            guess = self._guess(key, entry)
            if guess - least_offset(key, entry) > _MOST_MORE:
                # What lies between is not the header's.
                return self.read([(key, entry, [(0, entry.stored)])], ranges)[0][0]
            data = ranges([(entry.at, guess + entry.stored - entry.at)])[0]
            begin = self._see(key, entry, bytes(data[: size_of_header(key, entry)]))
            if begin == guess:
                return data[begin - entry.at :]
        return ranges([(begin, entry.stored)])[0]

    def of(
        self, keys: Sequence[str], entries: Sequence[Entry | None], ranges: Callable[[Ranges], list[memoryview]]
    ) -> list[int]:
        """Where those of each entry begin, 0 where there is none."""
        known = self._known
        new = [(k, e) for k, e in zip(keys, entries, strict=True) if e is not None and k not in known]
        if new:
            headers = ranges([(entry.at, size_of_header(key, entry)) for key, entry in new])
            for (key, entry), header in zip(new, headers, strict=True):
                self._see(key, entry, bytes(header))
        return [0 if entry is None else known[key] for key, entry in zip(keys, entries, strict=True)]

    def _guess(self, key: str, entry: Entry) -> int:
        """Right before the next entry, unless entries of this archive have something behind them."""
        last = entry.limit - entry.stored
        return last if self._more is None else min(last, least_offset(key, entry) + self._more)

    def _see(self, key: str, entry: Entry, header: bytes) -> int:
        begin = self._known[key] = data_offset(header, key, entry, self._where)
        if begin + entry.stored != entry.limit:
            self._more = begin - least_offset(key, entry)
        return begin
