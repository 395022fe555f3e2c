"""What a conversion would do, for people and programs to read before it does."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from zvcore.converting.coarse import CoarseView
from zvcore.converting.companions import CopyingObjects
from zvcore.converting.making import Made, path_in
from zvcore.converting.pyramids import Pyramiding
from zvcore.report import What
from zvcore.wording import human_size, printable_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.array import Array
    from zvcore.converting.copying import Copying
    from zvcore.converting.drafts import Draft
    from zvcore.report import Problem
    from zvcore.stores import Store

__all__ = ["Plan", "PlannedArray", "PlannedCompanion", "PlannedObjects", "planned", "planned_beside"]

# What of the options of an array stands among its properties already.
_TOLD = ("shape", "dtype", "chunks", "shards", "codec")


@dataclass(frozen=True)
class PlannedArray:
    """One array of the destination.

    path     where it will lie, counted from the destination; "" is the destination itself
    codecs   by which chunks are compressed, each with its parameters
    options  what else `zvcore.create` would be given
    how      "verbatim": stored chunks are taken over where they are whole, others are encoded again; "recode": chunk by
             chunk decoded and encoded; "gather": values are gathered from the chunks of the other side
    made_of  "source", or the path of the finer level that it is made of
    units    parts into which the work is cut; 0 for a level that is made while the one below it is written
    bytes    of values, not compressed
    memory   what one unit takes at most
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]
    how: str
    made_of: str
    units: int
    bytes: int
    memory: int

    def __str__(self) -> str:
        parts = [
            f"{self.path or '.'}: {self.dtype} {_times(self.shape)}, {human_size(self.bytes)}",
            f"chunks {_times(self.chunks)}" + (f" in shards {_times(self.shards)}" if self.shards else ""),
            "+".join(codec["name"] for codec in self.codecs) or "not compressed",
        ]
        if "encoding" in self.options:
            parts.insert(2, str(self.options["encoding"]))
        if self.options.get("sharding") is not None:
            parts.insert(2, "sharded")
        made = "" if self.made_of == "source" else f" made of {self.made_of or '.'}"
        work = f"{self.units} units" if self.units else "on the way"
        return f"{', '.join(parts)}: {_HOW[self.how]}{made}, {work}"


_HOW = {"verbatim": "copied as stored", "recode": "encoded again", "gather": "gathered"}


@dataclass(frozen=True)
class PlannedCompanion:
    """What lies beside the arrays, such as meshes, and is copied as it is.

    path     of a folder, or of a single object, counted from the destination
    objects  how many it has; None: more than were counted
    units    parts into which the work is cut
    memory   what one unit takes at most
    """

    path: str
    objects: int | None
    units: int
    memory: int

    def __str__(self) -> str:
        objects = "many objects" if self.objects is None else f"{self.objects} objects"
        return f"{self.path}: {objects} beside the arrays: copied as they are, {self.units} units"


@dataclass(frozen=True)
class PlannedObjects:
    """What is not arrays and is converted in one piece.

    what   points, lines, boxes and so on
    count  how many; None: that is known only once they are read
    """

    what: str
    count: int | None

    def __str__(self) -> str:
        return f"{'all' if self.count is None else f'{self.count:,}'} {self.what}, in one piece"


@dataclass(frozen=True)
class Plan:
    """What `zvcore.convert` would do; nothing is written to find out.

    destination  its path or URL, and
    format       the name of its format
    replaces     whether something that lies there is removed first
    arrays       what is made, in the order in which it is filled
    losses       what has no place in the destination
    companions   what is copied beside the arrays, object by object
    notes        what else to know before, such as which programs will not be able to read an array
    objects      what else is made, which is not arrays
    finished     whether an earlier run has finished the same conversion, so that nothing would be done
    """

    destination: str
    format: str
    replaces: bool = False
    arrays: list[PlannedArray] = field(default_factory=list)
    losses: list[Problem] = field(default_factory=list)
    finished: bool = False
    companions: list[PlannedCompanion] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    objects: list[PlannedObjects] = field(default_factory=list)

    @property
    def skipped(self) -> bool:
        """Whether something will be left out as a whole, as in the report of the conversion."""
        return any(loss.kind is What.UNSUPPORTED for loss in self.losses)

    @property
    def units(self) -> int:
        """Parts into which the work is cut."""
        return sum(one.units for one in self.arrays) + sum(one.units for one in self.companions)

    @property
    def bytes(self) -> int:
        """Bytes of values, not compressed."""
        return sum(array.bytes for array in self.arrays)

    @property
    def memory(self) -> int:
        """What one unit takes at most, in bytes."""
        return max([*(one.memory for one in self.arrays), *(one.memory for one in self.companions)], default=0)

    def to_json(self) -> dict[str, Any]:
        """All of it as values that JSON has."""
        return {
            "destination": self.destination,
            "format": self.format,
            "replaces": self.replaces,
            "finished": self.finished,
            "arrays": [asdict(array) for array in self.arrays],
            "companions": [asdict(companion) for companion in self.companions],
            "objects": [asdict(one) for one in self.objects],
            "losses": [loss.to_json() for loss in self.losses],
            "notes": [note.to_json() for note in self.notes],
            "units": self.units,
            "bytes": self.bytes,
            "memory": self.memory,
        }

    def __str__(self) -> str:
        said = ", replaces what is there" if self.replaces else ", was already finished" if self.finished else ""
        lines = [f"{self.destination}: {self.format}{said}"]
        lines += [f"  {array}" for array in self.arrays]
        lines += [f"  {companion}" for companion in self.companions]
        lines += [f"  {one}" for one in self.objects]
        lines += [f"  lost: {loss}" for loss in self.losses]
        lines += [f"  note: {note}" for note in self.notes]
        if not self.objects:
            work = f"{human_size(self.bytes)} of values in {self.units} units of at most {human_size(self.memory)}"
            lines.append(work)
        return printable_lines(lines)


def planned(draft: Draft, made: Made, root: Store, scratch: Store) -> list[PlannedArray]:
    """The arrays of a draft that were made in `scratch` and will lie in `root`."""
    drafts = {id(array): one for one, array in made.arrays}
    found: list[PlannedArray] = []

    def path_of(array: Array) -> str:
        return path_in(scratch if id(array) in drafts else root, array)

    def add(array: Array, how: str, made_of: str, units: int, memory: int) -> None:
        options = {name: _plain(value) for name, value in drafts[id(array)].options.items() if name not in _TOLD}
        codecs = tuple({"name": codec.name, **codec.config()} for codec in draft.format.exchange().codecs_of(array))
        found.append(
            PlannedArray(
                path_of(array), array.shape, str(array.dtype), array.chunks, array.shards, codecs, options, how,
                made_of, units, array.nbytes, memory,
            )
        )  # fmt: skip

    for step in made.steps:
        work = step.work
        if isinstance(work, CopyingObjects):
            continue
        base: Copying = work.base if isinstance(work, Pyramiding) else work
        below = path_of(base.view.finer.array) if isinstance(base.view, CoarseView) else "source"
        add(base.target, base.way.described(base is not work), below, len(work), work.unit_memory)
        for finer, array in zip(work.targets, work.targets[1:], strict=False):
            add(array, "gather", path_of(finer), 0, work.unit_memory)
    return found


def planned_beside(made: Made) -> list[PlannedCompanion]:
    """What of what was made is copied beside the arrays."""
    return [
        PlannedCompanion(work.companion.path, work.companion.objects, len(work), work.unit_memory)
        for work in made.beside
    ]


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def _plain(value: Any) -> Any:
    """A value as JSON has it; what it has not, in words."""
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    if hasattr(value, "item"):
        return _plain(value.item()) if value.item() is not value else str(value)
    return str(getattr(value, "name", value))
