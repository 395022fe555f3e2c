"""The chains of a TIFF's directories, each of which says where the next one lies: walked to their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zvcore.errors import CorruptDataError, MetadataError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    import numpy.typing as npt

__all__ = ["Chains", "Rows"]

# More tags than any program writes: tifffile takes such a directory for the end of the chain.
_MOST_TAGS = 4096
# How many directories are asked for before it is known that they lie there: at equal distances, and at those that
# differ by no more than this part of them. Of these four times as many each time that all lay where they were to be.
_FORESEEN, _NEARLY, _ALIKE = 64, 8, 1 / 64
_SLACK = 1 << 13
# Those at equal distances are read at once where most of what is read is theirs: how many times as long as one the
# distance may be, and how many bytes are read.
_DENSE, _AT_ONCE = 4, 1 << 16
# How many bytes of directories wait to be looked at together.
_MOST_BYTES = 1 << 20


class Rows(NamedTuple):
    """Directories that are equally long: where they lie, the bytes of each, and some that lie behind it, if any."""

    places: Sequence[int]
    raw: npt.NDArray[np.uint8]
    behind: npt.NDArray[np.uint8]


class _Foreseen:
    """Directories that were asked for where they are expected, or so many bytes off; `number` of them were passed."""

    def __init__(self, places: Sequence[int], slack: int) -> None:
        self.places, self.slack = places, slack
        self.number = 0

    def passed(self, at: int) -> bool | None:
        """Whether the next directory, which lies here, is behind all of them; None: it is one of them, but elsewhere
        than it was expected.
        """
        self.number += 1
        if self.number >= len(self.places):
            return True
        return False if abs(at - self.places[self.number]) <= self.slack else None


class Chains:
    """Walks chains of directories, with what was seen of others.

    tifffile follows a circle for ever, and takes what leads nowhere for the end: of a file that was cut off, the pages
    behind would be missing without a word.

    `look` is called with the directories, and
    `expect` with the places in the file where some are expected, and how far off they may lie.
    `behind`: how many bytes behind each are read with it.
    """

    def __init__(
        self,
        file: Any,
        key: str,
        look: Callable[[Rows], None],
        expect: Callable[[Sequence[int], int], None],
        behind: int = 0,
    ) -> None:
        self._look, self._expect, self._behind = look, expect, behind
        self._form, self._handle, self._key = file.tiff, file.filehandle, key
        self._order = np.dtype(f"{file.byteorder}u{file.tiff.offsetsize}")
        self._is_little = file.byteorder == "<"
        self._size = int(self._handle.size)
        self._nbytes = 0
        # How many bytes the directory has that was read last; at first, what is surely needed of one.
        self._usual = int(self._form.tagnosize)
        self._step = self._gathered = 0
        self._foreseen: _Foreseen | None = None
        # By their lengths, and how many bytes behind them are known: where directories lie that nobody has looked at,
        # and their bytes.
        self._waiting: dict[tuple[int, int], tuple[list[int], list[bytes]]] = {}

    def walk(self, at: int, known: Set[int]) -> list[int]:
        """Where the directories of a chain lie, to its end, or to where it meets one of those that are `known`."""
        error = None
        seen: dict[int, None] = {}
        try:
            self._to_the_end(at, known, seen)
        except ZvcoreError as raised:
            error = raised
        # What is wrong with those before is told first.
        self._hand_over()
        if error is not None:
            raise error
        return [*seen]

    def take(self, nbytes: int, at: int) -> None:
        """That directories do not share bytes: they would be more than there is room for, each with all the others."""
        self._nbytes += nbytes
        if self._nbytes > self._size:
            raise MetadataError("the directories of this TIFF share bytes", key=self._key, offset=at)

    def _to_the_end(self, at: int, known: Set[int], seen: dict[int, None]) -> None:
        self._step, self._foreseen = 0, None
        while at:
            if at in seen:
                raise MetadataError("the directories of this TIFF lead in a circle", key=self._key, found=at)
            if at in known:
                break
            seen[at] = None
            stored, nbytes = self._read(at, len(seen) - 1)
            self._keep([at], stored, nbytes)
            following = self._number(stored[nbytes - self._form.offsetsize : nbytes])
            before, self._step = self._step, following - at
            if self._step == before and nbytes <= before <= _DENSE * nbytes:
                following = self._equally_far(following, before, known, seen)
            else:
                self._foresee(following, before)
            at = following

    def _equally_far(self, at: int, step: int, known: Set[int], seen: dict[int, None]) -> int:
        """Look at directories from here on that are as long as the one before, and lie at equal distances that each of
        them tells, many at a time; where the one behind them lies.
        """
        usual = self._usual
        while at > 0 and at + usual <= self._size:
            count = min((self._size - at - usual) // step + 1, _AT_ONCE // step or 1)
            self._handle.seek(at)
            read = self._handle.read((count - 1) * step + usual)
            if len(read) != (count - 1) * step + usual:
                break  # which is told when it is read alone
            rows = np.frombuffer(read.ljust(count * step, b"\0"), np.uint8).reshape(count, step)[:, :usual]
            following = rows[:, -self._form.offsetsize :].copy().view(self._order).ravel()
            places = np.arange(at, at + count * step, step, dtype=np.uint64)
            # Each is one that the one before leads to, and has as many tags as those before.
            here = 1 + _as_long_as(following[:-1] == places[1:])
            here = min(here, _as_long_as((rows[:, : self._form.tagnosize] == self._head).all(axis=1)))
            found = places[:here].tolist()
            if not (seen.keys().isdisjoint(found) and known.isdisjoint(found)):
                here = next(n for n, place in enumerate(found) if place in seen or place in known)
            if not here:
                break
            self.take(here * usual, at)
            seen.update(dict.fromkeys(found[:here]))
            self._keep(found[:here], rows[:here].tobytes(), usual)
            before, at = found[here - 1], int(following[here - 1])
            if here < count or at != before + step:
                break
        return at

    def _keep(self, places: Sequence[int], raw: bytes, nbytes: int) -> None:
        """These directories of so many bytes, each with what is known behind it, wait to be looked at with others."""
        known, raws = self._waiting.setdefault((nbytes, len(raw) // len(places) - nbytes), ([], []))
        known += places
        raws.append(raw)
        self._gathered += len(raw)
        if self._gathered > _MOST_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        """Have those looked at that wait for it."""
        waiting, self._waiting, self._gathered = self._waiting, {}, 0
        for (nbytes, behind), (places, raws) in waiting.items():
            rows = np.frombuffer(b"".join(raws), np.uint8).reshape(len(places), nbytes + behind)
            self._look(Rows(places, rows[:, :nbytes], rows[:, nbytes:]))

    def _read(self, at: int, number: int) -> tuple[bytes, int]:
        """(a whole directory, with where the next one lies and what else was read, how long the directory is)."""
        form, handle = self._form, self._handle
        if at >= self._size:
            raise CorruptDataError(
                f"the directory behind the first {number} lies behind the end of this TIFF, which was cut off",
                key=self._key, offset=at, expected=f"an offset below {self._size}, or 0", found=at,
            )  # fmt: skip
        handle.seek(at)
        # In one piece where it is as long as the one before, as most are.
        stored: bytes = handle.read(self._usual + self._behind)
        self._head = np.frombuffer(stored, np.uint8, form.tagnosize) if len(stored) >= form.tagnosize else None
        count = self._number(stored[: form.tagnosize])
        nbytes = form.tagnosize + count * form.tagsize + form.offsetsize
        if not 0 < count <= _MOST_TAGS or at + nbytes > self._size:
            raise CorruptDataError(
                f"what should be directory {number} of this TIFF is none", key=self._key, offset=at,
                expected=f"1 to {_MOST_TAGS} tags in the file", found=count,
            )  # fmt: skip
        self.take(nbytes, at)
        if len(stored) < nbytes:
            stored += handle.read(nbytes - len(stored))
        self._usual = nbytes
        return stored[: nbytes + self._behind], nbytes

    def _foresee(self, following: int, before: int) -> None:
        """Tell which directories are likely to come next: those of pages of one size often lie at equal distances."""
        step, foreseen = self._step, self._foreseen
        if foreseen is not None:
            passed = foreseen.passed(following)
            if passed is None:
                self._foreseen = foreseen = None
            elif not passed:
                return
        if step <= 0 or abs(step - before) > step * _ALIKE:
            self._foreseen = None
            return
        if step == before:
            count, slack = _FORESEEN, 0
        else:
            # Those of packed pages lie near the places at which equal distances would have them, the less near the more
            # of them lie between.
            count = _NEARLY
            if foreseen is not None:
                count = min(_FORESEEN, 4 * len(foreseen.places))
                step = (following - foreseen.places[0]) // foreseen.number
            slack = min(step // 4, _SLACK * max(1, count // 16))
        places = range(following, self._size, step)[:count]
        if places:
            self._expect(places, slack)
            self._foreseen = _Foreseen(places, slack)

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, "little" if self._is_little else "big")


def _as_long_as(true: npt.NDArray[np.bool_]) -> int:
    """How many of the first are so."""
    return len(true) if true.all() else int(np.argmin(true))
