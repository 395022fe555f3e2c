"""What a check, a repair or a conversion reports: problems, each with its place."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from zvcore.wording import human_size, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.errors import ZvcoreError

__all__ = ["MOST_KEPT", "STATUSES", "ConversionReport", "Outcome", "Problem", "Report", "What", "join", "keeping"]

# How many problems of each kind a check keeps, unless it is asked for more: some MiB of them.
MOST_KEPT = 10_000

# What data that is not sound may be, the worst first.
STATUSES = ("damaged", "unfinished", "unsupported")


class What(StrEnum):
    """The kind of a problem, for programs; its words are for people."""

    # Bytes that are not what they must be.
    DATA = "data"
    # An object, or a stored value, that has the wrong size.
    SIZE = "size"
    # A metadata document, or what it says.
    DOCUMENT = "document"
    # The index of a shard or of a minishard, as a whole.
    INDEX = "index"
    # One entry of such an index.
    INDEX_ENTRY = "index_entry"
    # Ranges that share bytes.
    OVERLAP = "overlap"
    # Two places that should say the same, and do not.
    DISAGREEMENT = "disagreement"
    # Something that is named or needed, and is not there.
    MISSING = "missing"
    # Something where no reader looks for it.
    STRAY = "stray"
    # Against a manifest: an object that is not there, one that is not the same, one that was not there.
    GONE = "gone"
    CHANGED = "changed"
    EXTRA = "extra"
    # A conversion, or a change of one object, that has not ended.
    UNFINISHED = "unfinished"
    # Valid, but zvcore cannot read it.
    UNSUPPORTED = "unsupported"
    # It may be sound: there was not enough memory to look at it.
    MEMORY = "memory"
    # The store does not answer, or keeps changing.
    STORE = "store"


# Not `sys.intern`: some versions of Python keep for ever what that is given, and others' files may say anything.
_MOST_SHARED, _LONGEST_SHARED = 1024, 512
_shared: dict[str, str] = {}


def shared(told: Any) -> Any:
    """The same words as those of other problems: what is wrong with a folder's chunks is wrong with most of them."""
    if type(told) is not str or len(told) > _LONGEST_SHARED:
        return told
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    return _shared.setdefault(told, told)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, or at least odd.

    where     the object's key, or an array's path
    what      what is wrong, in words
    chunk     which chunk of it: a grid position, an id, or such words as "minishard 5"
    offset    the first byte that is meant, and
    length    how many
    expected  what should be there, and
    found     what is, where `what` does not go without
    fatal     False for what is unusual but does no harm to readers
    status    what a fatal one makes of the data: "damaged", "unfinished" or "unsupported"
    kind      what it is, for programs
    """

    where: str
    what: str
    chunk: Any = None
    offset: int | None = None
    length: int | None = None
    fatal: bool = True
    expected: Any = None
    found: Any = None
    status: str = "damaged"
    kind: What = What.DATA

    @property
    def standing(self) -> str:
        """What it makes of the data: nothing bad, if it is only odd."""
        return self.status if self.fatal else "sound"

    @property
    def damage(self) -> bool:
        """Whether something is broken, and not merely odd, unfinished, unreadable for zvcore, or out of its reach."""
        return self.fatal and self.status == "damaged" and self.kind is not What.STORE

    @classmethod
    def of(cls, error: ZvcoreError, where: str = "", chunk: Any = None, kind: What | None = None) -> Problem:
        """The problem that an error tells of; the error's own words for the place come first."""
        text = error.told
        if error.codec is not None:
            text = f"{error.codec}: {text}"
        place = error.chunk if error.chunk is not None else chunk
        told = What(error.kind)
        return cls(
            error.key or where, shared(text), place, error.offset, error.length, expected=shared(error.expected),
            found=shared(error.found),
            status="unsupported" if told in (What.UNSUPPORTED, What.MEMORY) else "damaged",
            kind=told if kind is None or told is not What.DATA else kind,
        )  # fmt: skip

    def below(self, prefix: str) -> Problem:
        """The same problem as seen from further up: `where` begins with the prefix."""
        return replace(self, where=join(prefix, self.where)) if prefix else self

    def to_json(self) -> dict[str, Any]:
        """Everything that is known of it, for programs."""
        return {
            "kind": str(self.kind),
            "where": self.where,
            "chunk": self.chunk,
            "offset": self.offset,
            "length": self.length,
            "what": self.what,
            "expected": None if self.expected is None else str(self.expected),
            "found": None if self.found is None else str(self.found),
            "fatal": self.fatal,
            "status": self.standing,
        }

    def __str__(self) -> str:
        parts = [self.where]
        if self.chunk is not None:
            parts.append(f"id {self.chunk}" if isinstance(self.chunk, int) else str(self.chunk))
        if self.offset is not None:
            end = "" if self.length is None else f"..{self.offset + self.length}"
            parts.append(f"bytes {self.offset}{end}")
        return ": ".join([*(part for part in parts if part), self.what])


# How many problems of each kind reports keep that are made now; None: all.
_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def keeping(most: int | None) -> Iterator[None]:
    """Reports that are made meanwhile keep so many problems of each kind, and count the others."""
    before = _most.set(most)
    try:
        yield
    finally:
        _most.reset(before)


@dataclass
class Report:
    """The outcome: `ok` when nothing is wrong.

    problems  what was found; where there is a bound, the first of each kind
    status  "sound", or the worst of what its fatal problems say: "damaged", "unfinished", "unsupported"
    counts  what was checked, or done
    losses  what a repair had to leave out, or what has no place in the destination of a conversion
    watch   is called with the number of further objects checked, while the check runs
    datasets  the verdict on each, where those of a folder of several were checked
    left_out  how many problems there were beyond those kept, by kind and by what they make of the data
    most      how many problems of each such kind are kept; None: all
    """

    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    losses: list[Problem] = field(default_factory=list)
    watch: Callable[[int], Any] | None = field(default=None, repr=False, compare=False)
    datasets: dict[str, str] = field(default_factory=dict)
    left_out: Counter[tuple[What, str]] = field(default_factory=Counter)
    most: int | None = field(default_factory=_most.get, repr=False, compare=False)
    _kept: Counter[tuple[What, str]] = field(default_factory=Counter, init=False, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return not any(problem.fatal for problem in self.problems) and not any(
            standing != "sound" for _, standing in self.left_out
        )

    @property
    def status(self) -> str:
        said = {problem.standing for problem in self.problems} | {standing for _, standing in self.left_out}
        return next((status for status in STATUSES if status in said), "sound")

    @property
    def verdict(self) -> str:
        """The status in words: what zvcore cannot read may well be sound."""
        return self.status if self.status in ("sound", "unsupported") else f"NOT sound, {self.status}"

    @property
    def skipped(self) -> bool:
        """Whether something was left out as a whole because it is not supported, and not only had no place."""
        return any(loss.kind is What.UNSUPPORTED for loss in self.losses)

    def __bool__(self) -> bool:
        return self.ok

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def looked_at(self, objects: int = 1) -> None:
        """Report progress to the watcher."""
        if self.watch is not None:
            self.watch(objects)

    def part(self) -> Report:
        """An empty report with the same watcher, by which this one will be extended."""
        # Threads of a pool do not know what `keeping` says.
        return Report(watch=self.watch, most=self.most)

    def tell(self, *problems: Problem) -> None:
        """Take these in, or only count them where there are enough of their kind."""
        for problem in problems:
            sort = (problem.kind, problem.standing)
            if self.most is None or self._kept[sort] < self.most:
                self._kept[sort] += 1
                self.problems.append(problem)
            else:
                self.left_out[sort] += 1

    def only(self, keep: Callable[[Problem], bool]) -> None:
        """Keep these of the problems, within the bound, also those that somebody appended to the list of them."""
        problems, self.problems = self.problems, []
        self._kept.clear()
        self.tell(*filter(keep, problems))

    def add(self, where: str, what: str, **place: Any) -> None:
        self.tell(Problem(where, what, **place))

    def mark(self) -> Any:
        """What was told so far, for `back_to`."""
        return len(self.problems), self.left_out.copy(), self._kept.copy()

    def back_to(self, mark: Any) -> None:
        """Forget what was told since, because it no longer holds."""
        count, left_out, kept = mark
        del self.problems[count:]
        self.left_out, self._kept = left_out.copy(), kept.copy()

    def lose(self, where: str, what: str, **place: Any) -> None:
        """Note what a repair leaves out."""
        self.losses.append(Problem(where, what, **place))

    def extend(self, other: Report, prefix: str = "") -> None:
        """Take over what another report says; its places lie below `prefix`."""
        self.tell(*(problem.below(prefix) for problem in other.problems))
        self.left_out.update(other.left_out)
        self.losses.extend(problem.below(prefix) for problem in other.losses)
        for what, number in other.counts.items():
            self.count(what, number)

    def kinds(self) -> dict[str, int]:
        """How many problems there are of each kind, the most frequent first."""
        counted = Counter(problem.kind for problem in self.problems)
        for (kind, _), number in self.left_out.items():
            counted[kind] += number
        return {str(kind): number for kind, number in counted.most_common()}

    @property
    def wrong(self) -> int:
        """How many problems there are, those that are only counted among them, and oddities not."""
        beyond = sum(number for (_, standing), number in self.left_out.items() if standing != "sound")
        return beyond + sum(problem.fatal for problem in self.problems)

    @property
    def odd(self) -> int:
        """How many oddities there are, those that are only counted among them."""
        return len(self.problems) + self.left_out.total() - self.wrong

    def beyond(self, shown: int) -> str:
        """What to say where so many problems are shown; nothing where these are all."""
        number = len(self.problems) + self.left_out.total() - shown
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds().items())
        return f"and {number} more, of these kinds in all: {kinds}" if number else ""

    def first(self, limit: int | None) -> list[Problem]:
        """So many problems, or all of them (None). Where some are left out, what is only odd comes last."""
        if limit is None or len(self.problems) <= limit:
            return self.problems
        return sorted(self.problems, key=lambda problem: not problem.fatal)[:limit]

    def to_json(self, limit: int | None = None) -> dict[str, Any]:
        """Everything in it, as JSON values; with a `limit` the first problems only, and how many are left out."""
        shown = self.first(limit)
        beyond = len(self.problems) + self.left_out.total() - len(shown)
        return {
            "ok": self.ok,
            "status": self.status,
            "kinds": self.kinds(),
            "problems": [problem.to_json() for problem in shown],
            **({"left_out": beyond} if beyond else {}),
            "losses": [problem.to_json() for problem in self.losses],
            "counts": dict(self.counts),
            **({"datasets": dict(self.datasets)} if self.datasets else {}),
        }

    def __str__(self) -> str:
        told = ", ".join(f"{number} {what}" for what, number in self.counts.items() if number)
        beyond = self.beyond(len(self.problems))
        verdict = f"{self.verdict}{': ' if told else ''}{told}"
        return printable_lines([*self.problems, *filter(None, [beyond]), verdict])

    def _repr_html_(self) -> str:
        from zvcore import html

        losses = (f"lost: {loss}" for loss in self.losses)
        rows = {**self.counts, **({"problems": beyond} if (beyond := self.beyond(len(self.problems))) else {})}
        return html.listing(f"zvcore: {self.verdict}", rows, [*self.problems, *losses])


def join(prefix: str, where: str) -> str:
    """A place below a folder; what is absolute stays so."""
    if not prefix or where.startswith("/") or "://" in where:
        return where
    return f"{prefix}/{where}" if where else prefix


@dataclass
class Outcome:
    """What one or more units of a conversion did.

    bytes_in   stored bytes read from the source
    bytes_out  stored bytes written to the destination; of shards that are remote, without the indexes
    values     bytes of values, not compressed
    copied     chunks that were taken over as they are stored
    encoded    chunks that were decoded and re-encoded
    empty      chunks that hold nothing but the fill value and are not stored
    objects    objects beside the arrays, such as meshes, that were copied
    """

    bytes_in: int = 0
    bytes_out: int = 0
    values: int = 0
    copied: int = 0
    encoded: int = 0
    empty: int = 0
    objects: int = 0

    def include(self, other: Outcome) -> None:
        for one in fields(Outcome):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def told_part(share: str | None, waiting: str | None) -> list[str]:
    """What to say at the end of one part of several."""
    if share is None:
        return []
    return [f"part {share} is done; {waiting or 'all of it is finished'}"]


@dataclass
class ConversionReport(Outcome, Report):
    """What a conversion did: what its units did together, and

    seconds      how long it took
    units        parts that the work was cut into, and
    resumed      those of them that an earlier run had done
    memory       the bound of the memory that values and encoded chunks took, in bytes
    verified     whether both sides were read back and compared; None: not requested
    already_finished  whether an earlier run had finished it, so that nothing was done
    share        which part of it was done, such as "3/64"; None: all of it
    waiting      what there is to say of the parts that are missing; None: nothing is missing
    notes        what else to know, such as which programs will not be able to read an array
    """

    seconds: float = 0.0
    units: int = 0
    resumed: int = 0
    memory: int = 0
    verified: bool | None = None
    already_finished: bool = False
    share: str | None = None
    waiting: str | None = None
    notes: list[Problem] = field(default_factory=list)

    @property
    def status(self) -> str:
        return "was already finished" if self.already_finished and self.ok else super().status

    @property
    def ratio(self) -> float:
        """How many bytes of values each byte written stands for."""
        return self.values / self.bytes_out if self.bytes_out else 0.0

    @property
    def throughput(self) -> float:
        """Bytes of values per second."""
        return self.values / self.seconds if self.seconds else 0.0

    def to_json(self, limit: int | None = None) -> dict[str, Any]:
        """Everything in it, as JSON values, for programs."""
        numbers = {
            name: getattr(self, name)
            for name in (
                "bytes_in", "bytes_out", "values", "ratio", "seconds", "throughput", "copied", "encoded", "empty",
                "objects", "units", "resumed", "memory", "verified", "already_finished", "share", "waiting",
            )
        }  # fmt: skip
        return {**super().to_json(limit), **numbers, "notes": [note.to_json() for note in self.notes]}

    def __str__(self) -> str:
        lines = [*map(str, self.problems), *filter(None, [self.beyond(len(self.problems))])]
        lines.extend(f"lost: {loss}" for loss in self.losses)
        lines.extend(f"note: {note}" for note in self.notes)
        if self.already_finished and self.verified is False:
            lines.append("was finished before, and was changed since: nothing was written; overwriting does it again")
        elif self.already_finished:
            lines.append("was already finished: nothing was written; overwriting does it again")
        else:
            lines.extend(self._work())
        if self.verified is not None:
            lines.append("verified: both sides are the same" if self.verified else "verified: NOT the same")
        lines.extend(told_part(self.share, self.waiting))
        return printable_lines(lines)

    def _work(self) -> list[str]:
        if not self.units and (self.counts or self.bytes_out):  # points, lines, files: these have no chunks
            done = [f"{number} {what}" for what, number in self.counts.items()]
            if self.bytes_out:
                done.append(f"{human_size(self.values)} of values in {human_size(self.bytes_out)}")
            return [f"{', '.join(done)}, {self.seconds:.1f} s"]
        resumed = f"; {self.resumed} of {self.units} parts were done before" if self.resumed else ""
        return [
            f"{human_size(self.bytes_in)} read, {human_size(self.bytes_out)} written, ratio {self.ratio:.2f}, "
            f"{self.seconds:.1f} s, {human_size(self.throughput)}/s of values",
            f"chunks: {self.copied} copied as they are, {self.encoded} re-encoded, {self.empty} empty{resumed}",
            *([f"beside the arrays: {self.objects} objects copied as they are"] if self.objects else []),
        ]
