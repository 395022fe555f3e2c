"""Trying what a disk may hold after a power cut at any moment of a recorded write."""

from __future__ import annotations

import random
import shutil
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.powercut.disk import Disk, in_pages
from tests.faults.powercut.kind import TORN
from tests.faults.powercut.kinds import KINDS, folder_of
from zvcore.errors import UnfinishedConversionWarning, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.faults.powercut.disk import State
    from tests.faults.powercut.recording import Call

__all__ = ["Outcome", "cuts", "try_kind"]

_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Cut:
    """A moment: what the disk may hold, the last value whose write had returned, and the last that was begun."""

    state: State
    written: int
    begun: int


@dataclass
class Outcome:
    """What became of the states: "sound", "told" (an error says what is broken), "gone" (an older version of something
    that was written), "wrong" (values that nobody has written, or a fill value where there was something)."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, text: str) -> None:
        self.counts[what] += 1
        self.examples.setdefault(what, text)


def moments(calls: Sequence[Call], name: str, ordered: bool) -> Iterator[tuple[Disk, int, int]]:
    """The disk after each call of a kind of writes, what was written by then, and what was begun."""
    disk = Disk(ordered)
    marks = calls[0].inode  # the file of marks is made first
    mine = False
    written = begun = 1
    for call in in_pages(calls, marks) if ordered else calls:
        if call.inode != marks or call.kind != "w":
            disk.take(call)
        else:
            word, _, rest = call.data.decode().strip().partition(" ")
            if word == "begin":
                disk.sync_all()
                mine = rest == name
            elif mine and word == "end":
                return
            elif mine:
                begun = int(rest)
                if word == "written":
                    written = begun
        if mine:
            yield disk, written, begun


def cuts(calls: Sequence[Call], name: str, ordered: bool, chances: int = 0, most: int = 0) -> Iterator[Cut]:
    """States, each once: those at the edges, or with `chances` so many for each moment that chance chooses.

    With `most`, not all of them, but so many, chosen by chance.
    """
    source = random.Random(f"{name} {ordered} {chances}")
    below = folder_of(name)
    share = 1.0
    if most:
        found = sum(chances or sum(1 for _ in disk.boundary()) for disk, _, _ in moments(calls, name, ordered))
        share = 3 * most / max(found, 1)  # many are the same
    seen = set()
    for disk, written, begun in moments(calls, name, ordered):
        for one in (disk.chance(source) for _ in range(chances)) if chances else disk.boundary():
            if share < 1 and source.random() > share:
                continue
            state = disk.state(one, below)
            key = (state.key(), written, begun)
            if key not in seen and not (most and len(seen) >= 2 * most):
                seen.add(key)
                yield Cut(state, written, begun)


def judge(name: str, cut: Cut, folder: Path, first: Callable[[Path], object] | None) -> tuple[str, str]:
    """What there is to say of a state: a word of `Outcome`, and the reason."""
    folder.mkdir()
    cut.state.build(folder)
    if first is not None:
        first(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedConversionWarning)
            found = KINDS[name].check(folder)
    except AssertionError as error:
        return "wrong", str(error)
    except (ZvcoreError, OSError) as error:
        return "told", f"{type(error).__name__}: {error}"
    nothing = {0} if "new" in name else set()  # was there before
    allowed = {*range(cut.written, cut.begun + 1), *(nothing if cut.written == 1 else ())}
    if cut.written < cut.begun:
        allowed.add(TORN)
    if set(found) <= allowed:
        return "sound", ""
    if TORN in found:
        return "told", f"{found}, where {sorted(allowed)} may be"
    if any((value == 0 and value not in nothing) or value > cut.begun for value in found):
        return "wrong", f"{found}, where {sorted(allowed)} may be"
    return "gone", f"{found}, where {sorted(allowed)} may be"


def try_kind(
    name: str, states: Sequence[Cut] | Iterator[Cut], first: Callable[[Path], object] | None = None
) -> Outcome:
    """`first` is done with each state before it is read."""
    outcome = Outcome()
    above = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        for number, cut in enumerate(states):
            folder = above / str(number)
            outcome.add(*judge(name, cut, folder, first))
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(above)
    return outcome
