"""What looking after data gives: a report of problems, each with its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zvcore.errors import ZvcoreError

__all__ = ["Problem", "Report"]


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, or at least odd.

    where     the object's key, or an array's path
    what      what is wrong, in words
    chunk     which chunk of it: a grid position, an id, or such words as "minishard 5"
    offset    the first byte that is meant, and
    length    how many
    fatal     False for what is unusual but does no harm to readers
    """

    where: str
    what: str
    chunk: Any = None
    offset: int | None = None
    length: int | None = None
    fatal: bool = True

    @classmethod
    def of(cls, error: ZvcoreError, where: str = "", chunk: Any = None) -> Problem:
        """The problem that an error tells of; the error's own words for the place come first."""
        facts = [
            f"{word} {fact}"
            for word, fact in (("expected", error.expected), ("found", error.found))
            if fact is not None
        ]
        text = f"{error.message} ({', '.join(facts)})" if facts else error.message
        if error.codec is not None:
            text = f"{error.codec}: {text}"
        place = error.chunk if error.chunk is not None else chunk
        return cls(error.key or where, text, place, error.offset, error.length)

    def __str__(self) -> str:
        parts = [self.where]
        if self.chunk is not None:
            parts.append(f"id {self.chunk}" if isinstance(self.chunk, int) else str(self.chunk))
        if self.offset is not None:
            end = "" if self.length is None else f"..{self.offset + self.length}"
            parts.append(f"bytes {self.offset}{end}")
        return ": ".join([*(part for part in parts if part), self.what])


@dataclass
class Report:
    """The outcome: `ok` when nothing is wrong. `counts` says what was looked at, or done."""

    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not any(problem.fatal for problem in self.problems)

    def __bool__(self) -> bool:
        return self.ok

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def add(self, where: str, what: str, **place: Any) -> None:
        self.problems.append(Problem(where, what, **place))

    def extend(self, other: Report) -> None:
        """Take over what another report says."""
        self.problems.extend(other.problems)
        for what, number in other.counts.items():
            self.count(what, number)

    def __str__(self) -> str:
        told = ", ".join(f"{number} {what}" for what, number in self.counts.items())
        return "\n".join(
            [*map(str, self.problems), f"{'sound' if self.ok else 'NOT sound'}{': ' if told else ''}{told}"]
        )
