"""What of a conversion is done, kept beside its destination so that an interrupted one is resumed where it stopped."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.converting.note import KEY, VERSION
from zvcore.converting.part_notes import FOLDER
from zvcore.converting.spans import checked_spans, checked_units, insert
from zvcore.errors import ConflictError, ZvcoreError
from zvcore.stores.sole import make_first
from zvcore.wording import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["Journal", "StepNote", "ended_badly", "fingerprint"]

# The journal is written as often as takes no more than this share of the time; what was done since is done again after
# a crash.
_SHARE = 0.02
_LONGEST = 5.0
# How much of an error's words is kept.
_WORDS = 500


def fingerprint(task: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(task, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class StepNote:
    """What the journal says of a step besides which of its units are done.

    count   how many units it has
    cut     how the work is cut into units, which the memory decides
    arrays  the paths of the arrays that it writes
    listed  which of the units there are, where that follows from what is stored in the source
    """

    count: int
    cut: Sequence[int]
    arrays: Sequence[str]
    listed: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "cut": list(self.cut), "arrays": list(self.arrays), "listed": self.listed}


class Journal:
    """Which units of which step are done. `task` is what was asked for: the journal of another task is refused.

    The whole is one small object, replaced at once, so that a crash leaves the old one or the new one.

    key    where it lies
    parts  in how many parts several processes do it, see `sharing`; None: one does all of it
    """

    def __init__(
        self, store: Store, task: Mapping[str, Any], found: Mapping[str, Any] | None, parts: int | None = None
    ) -> None:
        self.key = KEY
        self.parts = parts
        self._store = store
        self._task = dict(task)
        self._mark = fingerprint(task)
        self._lock = threading.Lock()
        self._next = 0.0
        self._done: dict[str, list[list[int]]] = {}
        self._units: Any = None
        self._failed: str | None = None
        self._clearing = False
        self._closed = False
        self.begun = False
        self.adding: list[str] | None = None
        if found is not None:
            if found.get("mark") != self._mark:
                raise ConflictError(
                    "another conversion into this place was begun and has not ended; overwrite=True starts over",
                    key=f"{store.root}/{KEY}", expected=self._task, found=found.get("task"),
                )  # fmt: skip
            self._done = checked_spans(found.get("done"), KEY)
            self._units = found.get("units")
            if self._units is not None:
                checked_units(self._units, KEY)
            adding = found.get("adding")
            self.adding = list(adding) if isinstance(adding, list) else None

    def begin(self, clearing: bool = False, adding: Sequence[str] | None = None) -> None:
        """From now on the destination is that of an unfinished conversion, which may have to remove another first.

        `adding`: the arrays that it adds to a group which was there before.
        """
        self._clearing = clearing
        if adding is not None:
            self.adding = list(adding)
        self._write()
        # What could not even be noted is nothing that can be resumed.
        self.begun = True

    def begin_anew(self, steps: Mapping[str, StepNote], first: bool) -> None:
        """`begin` and `plan` where nothing is. `first`: not even a note; `ConflictError` if there is one after all."""
        self._clearing = False
        self._units = {name: step.to_json() for name, step in steps.items()}
        self._write(first)
        self.begun = True

    def plan(self, steps: Mapping[str, StepNote]) -> None:
        """Note how many units each step has, and which arrays they write: what is missing until all is done."""
        noted = self._units
        before = noted if isinstance(noted, dict) else {}
        self._units = {name: step.to_json() for name, step in steps.items()}
        for name, step in self._units.items():
            known = before.get(name)
            if isinstance(known, dict) and all(known.get(one) == step[one] for one in ("cut", "arrays")):
                # How many units there are is known when the step begins.
                self._units[name] = known
            else:
                self._done.pop(name, None)
        if self._units != noted:
            self._write()
        # The first unit that is done is noted at once.
        self._next = 0.0

    def begin_step(self, name: str, step: StepNote) -> None:
        """Note the units of a step. What an earlier run has done of it counts if its units were the same ones."""
        said = step.to_json()
        if self._units.get(name) != said:
            if self._units[name].get("listed") != step.listed:
                self._done.pop(name, None)
            # What is kept still says what was listed before, which is what the units noted there are of.
            self._units[name] = said

    def fail(self, why: str) -> None:
        """Note what ended the conversion; the next run begins without it."""
        self._failed = why[:_WORDS]
        self.flush()

    def undo(self, steps: Sequence[str], why: str) -> None:
        """What these steps have written is not what it should be: the next run writes it anew, compared or not."""
        # Which part has done what of it is not known.
        for step in [*self._done] if self.parts is not None else steps:
            self._done.pop(step, None)
        self.fail(why)
        if self.parts is not None:
            self._store.delete_prefix(FOLDER)

    def done(self, step: str) -> int:
        """How many units of a step are done."""
        return sum(stop - first for first, stop in self._done.get(step, []))

    def left(self, step: str, count: int) -> Iterator[int]:
        """The units of a step that are not done, in order."""
        mine = self.mine(count)
        at = mine.start
        for first, stop in [*self._done.get(step, []), [mine.stop, mine.stop]]:
            yield from range(at, min(first, mine.stop))
            at = max(at, stop)

    def mine(self, count: int) -> range:
        """Which of the units of a step this process is to do, of so many."""
        return range(count)

    def add(self, step: str, unit: int) -> None:
        """Note that a unit is done; called after its objects are stored."""
        with self._lock:
            spans = self._done.setdefault(step, [])
            insert(spans, unit)
            if time.monotonic() >= self._next:
                self._write()

    def end_step(self) -> None:
        """A step is complete. There may be thousands, each done at once: it is noted when it is time."""
        with self._lock:
            if time.monotonic() >= self._next:
                self._write()

    @property
    def progress(self) -> tuple[int, int]:
        """(how many units are done, of how many)."""
        units = sum(one["count"] for one in (self._units or {}).values())
        return sum(map(self.done, self._done)), units

    def flush(self) -> None:
        with self._lock:
            self._write()

    def note_ending(self) -> None:
        """Note what was done before an error, which is told, and not that it cannot be noted (on a full disk)."""
        with suppress(ZvcoreError, OSError):
            self.flush()

    def end(self) -> None:
        """The conversion is complete."""
        if self.parts is not None:
            # While the notes of the parts go, one after the other, none of them shall be missed.
            self._closed = True
            self.flush()
            self._store.delete_prefix(FOLDER)
        # Whether it was there, nobody asks.
        self._store.delete_all([self.key])

    def _document(self) -> dict[str, Any]:
        return {
            "version": VERSION, "mark": self._mark, "task": self._task, "units": self._units, "done": self._done,
            "failed": self._failed, "clearing": self._clearing, "adding": self.adding,
            **({} if self.parts is None else {"parts": self.parts, "closed": self._closed}),
        }  # fmt: skip

    def _write(self, first: bool = False) -> None:
        started = time.monotonic()
        data = json.dumps(self._document(), default=str).encode()
        if first:
            make_first(self._store, self.key, data)
        else:
            self._store.put(self.key, data)
        ended = time.monotonic()
        self._next = ended + min((ended - started) / _SHARE, _LONGEST)


@contextmanager
def ended_badly(journal: Journal, what: str) -> Iterator[None]:
    """Within this, an error is noted, and says how to resume `what` was begun."""
    try:
        yield
    except BaseException as error:
        if journal.begun:
            if isinstance(error, Exception):
                # What cannot be noted is not: the journal says that it is unfinished, in any case.
                with suppress(ZvcoreError, OSError):
                    journal.fail(f"{kind_of(error)}: {error}")
            done, units = journal.progress
            error.add_note(
                f"{what} is not finished ({done} of {units} units are done): the same, run again, resumes it"
            )
        raise
