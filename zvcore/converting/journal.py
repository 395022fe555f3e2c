"""What of a conversion is done, kept beside its destination so that an interrupted one goes on where it stopped."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import time
from typing import TYPE_CHECKING, Any

from zvcore.errors import ConflictError, MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zvcore.stores import Store

__all__ = ["KEY", "Journal", "read_journal"]

KEY = ".zvcore-convert.json"
_VERSION = 1
# The journal is written as often as takes no more than this share of the time; what was done since is done again after
# a crash.
_SHARE = 0.02
_LONGEST = 5.0


def fingerprint(task: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(task, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def read_journal(store: Store) -> dict[str, Any] | None:
    """The journal of a conversion into this store that has not ended, or None."""
    data = store.get(KEY)
    if data is None:
        return None
    try:
        document = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"the journal of a conversion is not JSON: {error}", key=KEY) from error
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise MetadataError("the journal of a conversion by another version", key=KEY, expected=_VERSION)
    return document


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
        if found is not None:
            if found.get("mark") != self._mark:
                raise ConflictError(
                    "another conversion into this place was begun and has not ended; overwrite=True begins anew",
                    key=f"{store.root}/{KEY}", expected=self._task, found=found.get("task"),
                )  # fmt: skip
            self._done = _checked(found.get("done"))

    def begin(self) -> None:
        self._write()
        self._next = 0.0

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
        document = {"version": _VERSION, "mark": self._mark, "task": self._task, "done": self._done}
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


def _checked(done: Any) -> dict[str, list[list[int]]]:
    if not isinstance(done, dict):
        raise MetadataError("the journal of a conversion names no steps", key=KEY, found=repr(done)[:80])
    answer: dict[str, list[list[int]]] = {}
    for step, spans in done.items():
        if not isinstance(spans, list) or not all(_is_span(span) for span in spans):
            raise MetadataError("the journal of a conversion is damaged", key=KEY, found=repr(spans)[:80])
        flat = [number for span in spans for number in span]
        if any(a >= b for a, b in itertools.pairwise(flat)):
            raise MetadataError("the journal of a conversion is damaged", key=KEY, found=repr(spans)[:80])
        answer[step] = [list(span) for span in spans]
    return answer


def _is_span(span: Iterable[Any]) -> bool:
    return isinstance(span, list) and len(span) == 2 and all(type(n) is int and 0 <= n < 2**62 for n in span)
