"""What of a conversion is done, kept beside its destination so that an interrupted one goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any

from zvcore.conversion_note import KEY, VERSION, checked_spans
from zvcore.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["Journal"]

# The journal is written as often as takes no more than this share of the time; what was done since is done again after
# a crash.
_SHARE = 0.02
_LONGEST = 5.0
# How much of an error's words is kept.
_WORDS = 500


def fingerprint(task: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(task, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


class Journal:
    """Which units of which step are done. `task` is what was asked for: a journal of another task is not gone on with.

    The whole is one small object, replaced at once, so that a crash leaves the old one or the new one.
    """

    def __init__(self, store: Store, task: Mapping[str, Any], found: Mapping[str, Any] | None) -> None:
        self._store = store
        self._task = dict(task)
        self._mark = fingerprint(task)
        self._lock = threading.Lock()
        self._next = 0.0
        self._done: dict[str, list[list[int]]] = {}
        self._units: Any = None
        self._failed: str | None = None
        self._clearing = False
        self.begun = False
        if found is not None:
            if found.get("mark") != self._mark:
                raise ConflictError(
                    "another conversion into this place was begun and has not ended; overwrite=True begins anew",
                    key=f"{store.root}/{KEY}", expected=self._task, found=found.get("task"),
                )  # fmt: skip
            self._done = checked_spans(found.get("done"))
            self._units = found.get("units")

    def begin(self, clearing: bool = False) -> None:
        """From now on the destination is that of an unfinished conversion, which may have to remove another first."""
        self.begun, self._clearing = True, clearing
        self._write()

    def plan(self, steps: Mapping[str, tuple[int, Sequence[str]]]) -> None:
        """Note how many units each step has, and which arrays they write: what is missing until all is done."""
        self._units = {name: {"count": count, "arrays": list(arrays)} for name, (count, arrays) in steps.items()}
        self._write()
        # The first unit that is done is noted at once.
        self._next = 0.0

    def fail(self, why: str) -> None:
        """Note what ended the conversion; the next run begins without it."""
        self._failed = why[:_WORDS]
        self.flush()

    def done(self, step: str, count: int) -> list[bool]:
        """For each unit of a step whether it is done."""
        flags = [False] * count
        for first, stop in self._done.get(step, []):
            for unit in range(first, min(stop, count)):
                flags[unit] = True
        return flags

    def add(self, step: str, unit: int) -> None:
        """Note that a unit is done; called after its objects are stored."""
        with self._lock:
            spans = self._done.setdefault(step, [])
            _insert(spans, unit)
            if time.monotonic() >= self._next:
                self._write()

    def flush(self) -> None:
        with self._lock:
            self._write()

    def end(self) -> None:
        """The conversion is complete."""
        self._store.delete(KEY)

    def _write(self) -> None:
        document = {
            "version": VERSION, "mark": self._mark, "task": self._task, "units": self._units, "done": self._done,
            "failed": self._failed, "clearing": self._clearing,
        }  # fmt: skip
        started = time.monotonic()
        self._store.put(KEY, json.dumps(document, default=str).encode())
        ended = time.monotonic()
        self._next = ended + min((ended - started) / _SHARE, _LONGEST)


def _insert(spans: list[list[int]], unit: int) -> None:
    """Add one number to sorted spans [first, stop) that do not touch. Numbers come nearly in order."""
    at = len(spans)
    while at and spans[at - 1][0] > unit:
        at -= 1
    if at and spans[at - 1][1] > unit:
        return
    joins_left = at > 0 and spans[at - 1][1] == unit
    joins_right = at < len(spans) and spans[at][0] == unit + 1
    if joins_left and joins_right:
        spans[at - 1][1] = spans[at][1]
        del spans[at]
    elif joins_left:
        spans[at - 1][1] += 1
    elif joins_right:
        spans[at][0] -= 1
    else:
        spans.insert(at, [unit, unit + 1])
