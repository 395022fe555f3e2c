"""One conversion done by several processes that know nothing of each other: array jobs of SLURM and the like.

Each is told which part it is, does its share of the units, and notes what it has done beside the destination. Parts may
run in any order, at once or one after the other, twice, and again after they were killed. Whichever is the last closes
the conversion: it does what needs the parts of the others.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.converting.journal import Journal, fingerprint
from zvcore.converting.note import KEY, read_note
from zvcore.converting.part_notes import FOLDER, is_closed, note_key, parts_of, with_parts
from zvcore.converting.share import Share
from zvcore.converting.spans import checked_spans
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores import MemoryStore
from zvcore.stores.again import give_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from zvcore.stores import Store

__all__ = ["PartJournal", "Sharing"]

# Whoever holds this lock closes the conversion; where there are no locks, whoever makes this object.
_LOCK = ".zvcore-convert.closing"
_CLAIM = f"{FOLDER}/closing.json"
# How often what several processes make at once is tried again, where there are no locks.
_ATTEMPTS = 12


class PartJournal(Journal):
    """What one part has done, and has to do. It leaves the conversion's own note as it is, but for beginning it."""

    def __init__(self, store: Store, task: Mapping[str, Any], found: Mapping[str, Any] | None, share: Share) -> None:
        super().__init__(store, task, None, share.total)
        self.share = share
        self.begun_by_others = found is not None
        if found is not None:
            # Refuses the note of another conversion.
            Journal(store, task, found)
            there = found.get("parts")
            if there != share.total:
                told = "as a whole" if there is None else f"in {there} parts"
                raise ConflictError(
                    f"this conversion was begun {told}, and is not finished: run it so, or begin again elsewhere",
                    key=f"{store.root}/{KEY}", expected=there, found=str(share),
                )  # fmt: skip
            adding, units = found.get("adding"), found.get("units")
            self.adding = list(adding) if isinstance(adding, list) else None
            self._planned = units if isinstance(units, dict) else None
        else:
            self._planned = None
        self.finished = False
        for done in (False, True):
            own = documents.read(store, note_key(self._mark, *share, done))
            if own is not None and own.get("mark") == self._mark:
                self._done, self._units = checked_spans(own.get("done"), KEY), own.get("units")
                self.finished = done
        if found is not None and is_closed(found):
            # Whoever closed the conversion has died while it removed the notes of the parts.
            self._done, self._units = checked_spans(found.get("done"), KEY), found.get("units")
            self.finished = True
        self.key = note_key(self._mark, *share, False)

    def begin(self, clearing: bool = False, adding: Any = None) -> None:
        """As of a journal: the first part writes the note of the whole."""
        if clearing:
            raise UnsupportedError("a part of a conversion replaces nothing", key=self._store.root)
        self.begun = True
        if adding is not None:
            self.adding = list(adding)
        if not self.begun_by_others:
            # Fails if another part was quicker.
            self._store.put_if_unchanged(KEY, self._whole(None), None)

    def plan(self, steps: Any) -> None:
        mine = {name: step.to_json() for name, step in steps.items()}
        if self._planned is None:
            self._store.put(KEY, self._whole(mine))
        else:
            cuts = [{name: one.get("cut") for name, one in units.items()} for units in (self._planned, mine)]
            if cuts[0] != cuts[1]:
                raise ConflictError(
                    "the other parts cut the work into other units: give all of them the same memory",
                    key=f"{self._store.root}/{KEY}", expected=cuts[0], found=cuts[1],
                )  # fmt: skip
        if self.finished:
            self._units = {**mine, **{name: one for name, one in (self._units or {}).items() if name in mine}}
        else:
            super().plan(steps)

    def _whole(self, units: Any) -> bytes:
        note = {**self._document(), "units": units, "done": {}, "failed": None}
        return json.dumps(note, default=str).encode()

    def mine(self, count: int) -> range:
        return self.share.among(count)

    @property
    def progress(self) -> tuple[int, int]:
        units = sum(len(self.mine(one["count"])) for one in (self._units or {}).values())
        return sum(map(self.done, self._done)), units

    def _write(self, first: bool = False) -> None:
        if not self.finished:
            super()._write(first)

    def end(self) -> None:
        """This part is done. Where the whole is finished and gone, nothing is left of it."""
        own = json.dumps(self._document(), default=str).encode()
        self._store.put(note_key(self._mark, *self.share, True), own)
        self._store.delete(self.key)
        self.finished = True
        if not self._store.exists(KEY):
            self._store.delete(note_key(self._mark, *self.share, True))


class Sharing:
    """How a process takes part in a conversion into a store.

    share   its part; None: it does all that is left
    finish  it closes a conversion of which all parts are done, and does nothing else
    """

    def __init__(self, store: Store, part: Any = None, finish: bool = False, overwrite: bool = False) -> None:
        self.store = store
        self.share = Share.of(part)
        self.finish = finish
        if self.share is None and not finish:
            return
        if self.share is not None and finish:
            raise ValueError("a process does its part, or closes what all parts have done: not both")
        if overwrite:
            raise ValueError(
                "overwrite=True with parts would let each of them remove what the others have made: remove what is "
                "there first"
            )
        reachable = store.local_root is not None or store.remote or isinstance(store, MemoryStore)
        if store.file is not None or not reachable:
            raise UnsupportedError(
                "several processes cannot write this together: parts are for folders and object stores", key=store.root
            )

    @property
    def name(self) -> str | None:
        return None if self.share is None else str(self.share)

    def journal(self, task: Mapping[str, Any], found: Mapping[str, Any] | None) -> Journal:
        """The journal of what this process is to do; `found` is the note that is there."""
        if self.share is not None:
            return PartJournal(self.store, task, found, self.share)
        if found is None:
            if self.finish:
                raise ConflictError("no unfinished conversion in parts is here to be closed", key=self.store.root)
            return Journal(self.store, task, None)
        journal = Journal(self.store, task, found)  # that of another conversion is refused
        parts = parts_of(self.store, found)
        if parts is None:
            if self.finish:
                raise ConflictError("the unfinished conversion here is not done in parts", key=self.store.root)
            return journal
        if self.finish and not parts.complete:
            raise ConflictError(
                f"of {parts.count} parts these are missing: {parts.missing(with_parts(self.store, found, parts)[1])}",
                key=f"{self.store.root}/{KEY}", expected=parts.count, found=len(parts.done),
            )  # fmt: skip
        return Journal(self.store, task, with_parts(self.store, found, parts)[0], parts.count)

    def begin(self, prepare: Callable[[], None], join: Callable[[], None]) -> None:
        """Let this process prepare the destination, while no other part does.

        `join` is called when another may have begun meanwhile. Where there are no locks, several do it at once; what
        each makes is the same, and who comes second tries again.
        """
        can_lock = self.store.can_lock
        with self.store.lock(KEY) if can_lock else nullcontext():
            for attempt in range(_ATTEMPTS):
                join()
                try:
                    prepare()
                except ConflictError:
                    if can_lock or attempt + 1 == _ATTEMPTS:
                        raise
                    give_way(attempt)
                else:
                    return

    def closed_by(self, task: Mapping[str, Any]) -> Journal | None:
        """The journal by which to close the conversion, if this part was the last one; else None."""
        found = read_note(self.store)
        if found is None or found.get("mark") != fingerprint(task):
            return None  # another has closed it
        parts = parts_of(self.store, found)
        if parts is None or not parts.complete:
            return None
        return Journal(self.store, task, with_parts(self.store, found, parts)[0], parts.count)

    def closing(self, journal: Journal) -> AbstractContextManager[bool]:
        """Within this, no other process closes the conversion. What is given is whether that is so."""
        return nullcontext(True) if journal.parts is None else self._alone()

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        if not self.store.can_lock:
            yield self._claimed()
            return
        lock = self.store.lock(_LOCK, 0)
        try:
            lock.__enter__()
        except ConflictError:
            yield False
            return
        try:
            yield True
        finally:
            lock.__exit__(None, None, None)

    def _claimed(self) -> bool:
        if self.share is None:
            return True  # whoever asks for it knows that nobody else does it
        claim = documents.encode({"part": str(self.share)})
        try:
            self.store.put_if_unchanged(_CLAIM, claim, None)
        except ConflictError:
            # A part that is run again closes what it died closing, or what an answer that was lost has let it close.
            there = self.store.get(_CLAIM)
            return there is not None and bytes(there) == claim
        return True
