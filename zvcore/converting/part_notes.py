"""The notes of parts: what each process has done of a conversion that several do together, and which of them are done.

They lie in a folder beside the conversion's own note, and go with it. Their names say of which conversion they are, so
that those that somebody has left behind of an older one mean nothing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.converting.share import MOST
from zvcore.converting.spans import checked_spans, checked_units, joined
from zvcore.errors import MetadataError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.converting.spans import Spans
    from zvcore.stores import Store

__all__ = ["FOLDER", "Parts", "is_closed", "note_key", "parts_of", "waiting_for", "with_parts"]

FOLDER = ".zvcore-convert.parts"
# How many missing parts are named, and how much of why one failed.
_NAMED = 20
_WORDS = 100
_NAME = re.compile(r"([0-9a-f]{8})-([0-9]{1,6})-of-([0-9]{1,6})(\.done)?\.json\Z")


def note_key(mark: str, number: int, count: int, done: bool) -> str:
    return f"{FOLDER}/{mark[:8]}-{number}-of-{count}{'.done' if done else ''}.json"


@dataclass(frozen=True)
class Parts:
    """What is known of the parts of a conversion by the names of their notes. They are counted from 1.

    count   how many there are
    done    those that have done all that they had to, and
    begun   those that have not, but have begun: they run, or have died
    closed  the conversion's own note tells of all that they have done: theirs may be gone
    """

    mark: str
    count: int
    done: frozenset[int]
    begun: frozenset[int]
    closed: bool = False

    @property
    def complete(self) -> bool:
        return len(self.done) == self.count

    def missing(self, why: Mapping[int, str] | None = None) -> str:
        """The parts that are not done, by name: "2/8 (begun), 4-7/8"."""
        told: list[str] = []
        left = [number for number in range(1, self.count + 1) if number not in self.done]
        at = 0
        while at < len(left) and len(told) < _NAMED:
            first = last = left[at]
            at += 1
            if first in self.begun:
                told.append(f"{first}/{self.count} ({(why or {}).get(first, 'begun')})")
                continue
            while at < len(left) and left[at] == last + 1 and left[at] not in self.begun:
                last, at = left[at], at + 1
            told.append(f"{first}/{self.count}" if first == last else f"{first}-{last}/{self.count}")
        return ", ".join([*told, *([f"and {len(left) - at} more"] if at < len(left) else [])])


def is_closed(found: Mapping[str, Any]) -> bool:
    """Whether all that was asked for is done, and nothing is left but to remove the notes."""
    return found.get("closed") is True


def parts_of(store: Store, found: Mapping[str, Any]) -> Parts | None:
    """The parts of the conversion whose note was found; None if it is not done in parts."""
    count, mark = found.get("parts"), found.get("mark")
    if count is None:
        return None
    if type(count) is not int or not 1 <= count <= MOST or not isinstance(mark, str):
        raise MetadataError(
            "the journal of a conversion is damaged", key=FOLDER, expected=f"1 to {MOST} parts", found=count
        )
    if is_closed(found):
        return Parts(mark, count, frozenset(range(1, count + 1)), frozenset(), closed=True)
    done: set[int] = set()
    begun: set[int] = set()
    for name in store.list_dir(FOLDER)[1]:
        match = _NAME.match(name)
        if match is None or match[1] != mark[:8] or int(match[3]) != count or not 1 <= int(match[2]) <= count:
            continue
        (begun if match[4] is None else done).add(int(match[2]))
    return Parts(mark, count, frozenset(done), frozenset(begun - done))


def with_parts(store: Store, found: Mapping[str, Any], parts: Parts) -> tuple[dict[str, Any], dict[int, str]]:
    """(the note of a conversion with all that its parts have done, why some of them have failed).

    What a part has done counts if its units were cut as those of the others, and listed from the same source.
    """
    if parts.closed:
        return dict(found), {}
    numbers = sorted(parts.done | parts.begun)

    def read(number: int) -> dict[str, Any] | None:
        return documents.read(store, note_key(parts.mark, number, parts.count, number in parts.done))

    units = _checked(found.get("units"))
    before = checked_spans(found.get("done") or {}, FOLDER)
    begun = {step for step, one in before.items() if one}
    spans: dict[str, list[Spans]] = {step: [one] for step, one in before.items()}
    failed = {}
    for number, note in zip(numbers, store.each(read, numbers), strict=True):
        if note is None or note.get("mark") != parts.mark:
            continue  # done in the meantime, and its other note is not read: nothing is lost by doing it again
        if isinstance(note.get("failed"), str) and number in parts.begun:
            failed[number] = f"failed: {note['failed'][:_WORDS]}"
        own = _checked(note.get("units"))
        for step, done in checked_spans(note.get("done"), FOLDER).items():
            known = units.get(step)
            if not done or known is None or step not in own or known.get("cut") != own[step].get("cut"):
                continue
            if step not in begun:
                begun.add(step)
                known = units[step] = own[step]
            if known.get("listed") == own[step].get("listed"):
                spans.setdefault(step, []).append(done)
    merged = {step: joined(several) for step, several in spans.items()}
    return {**found, "units": units, "done": merged}, failed


def _checked(units: Any) -> dict[str, Any]:
    """What a note says of the units of each step; nothing yet is nothing."""
    if not units:
        return {}
    checked_units(units, FOLDER)
    return dict(units)


def waiting_for(store: Store, found: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """(the note with what its parts have done, what there is to say of the parts that are missing; None: no parts)."""
    parts = parts_of(store, found)
    if parts is None:
        return dict(found), None
    failed: dict[int, str] = {}
    with suppress(ZvcoreError):
        found, failed = with_parts(store, found, parts)
    if parts.complete:
        return dict(found), f"all {parts.count} parts are done, but not what comes after them"
    return dict(found), f"of {parts.count} parts these are missing: {parts.missing(failed)}"
