"""What a forging will do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zvcore.report import Report, told_part
from zvcore.wording import human_size, printable_lines

__all__ = ["ForgingPlan", "ForgingReport"]


@dataclass(frozen=True)
class ForgingPlan:
    """What would be made of a segmentation.

    source       where it lies,
    shape        its voxels along x, y and z, and
    resolution   how large they are, in nanometers
    destination  where the set will lie
    named        whether the volume will name it in its `info`
    what         the objects, in words
    box          the voxels that are worked on at once, and
    boxes        how many such boxes there are
    memory       how many bytes one of them takes, more or less
    replaces     whether a set that is there is removed
    finished     whether an earlier run has finished it
    resumes      whether an earlier run has begun it
    """

    source: str
    shape: tuple[int, int, int]
    resolution: tuple[float, float, float]
    destination: str
    named: bool
    what: str
    box: tuple[int, int, int]
    boxes: int
    memory: int
    replaces: bool
    finished: bool
    resumes: bool

    def to_json(self) -> dict[str, Any]:
        """All of it as values that JSON has."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    def __str__(self) -> str:
        said = [", replaces what is there"] * self.replaces
        said += [", was already finished"] * self.finished + [", resumes what was begun"] * self.resumes
        lines = [f"{self.destination}: {self.what}{''.join(said)}"]
        if self.named:
            lines.append("  will be named in the info of the volume")
        voxels = " x ".join(map(str, self.shape))
        size = " x ".join(f"{n:g}" for n in self.resolution)
        lines.append(f"  of {self.source}: {voxels} voxels of {size} nm")
        box = " x ".join(map(str, self.box))
        lines.append(f"{self.boxes} boxes of {box} voxels, each with about {human_size(self.memory)} of memory")
        return printable_lines(lines)


@dataclass
class ForgingReport(Report):
    """What was made.

    plan      what was asked for
    done      whether that was done, and not only planned
    objects   how many segments there are of which something was found
    seconds   how long it took
    units     parts that the work was cut into: boxes, and batches of segments
    resumed   those of them that an earlier run had done
    already_finished  whether an earlier run had finished it, so that nothing was done
    share     which part of it was done, and
    waiting   what there is to say of those that are missing, as of a conversion
    """

    plan: ForgingPlan | None = None
    done: bool = False
    objects: int = 0
    seconds: float = 0.0
    units: int = 0
    resumed: int = 0
    already_finished: bool = False
    share: str | None = None
    waiting: str | None = None

    def to_json(self, limit: int | None = None) -> dict[str, Any]:
        """Everything in it, as JSON values, for programs."""
        names = ("done", "objects", "seconds", "units", "resumed", "already_finished", "share", "waiting")
        plan = None if self.plan is None else self.plan.to_json()
        return {**super().to_json(limit), **{name: getattr(self, name) for name in names}, "plan": plan}

    def __str__(self) -> str:
        if not self.done:
            return str(self.plan)
        where = "" if self.plan is None else f"{self.plan.destination}: {self.plan.what}"
        if self.already_finished:
            return f"{where}, already finished: nothing was written; overwriting does it again"
        told = ", ".join(f"{number} {what}" for what, number in self.counts.items() if number)
        again = f"; {self.resumed} of {self.units} parts were done before" if self.resumed else ""
        work = f"{where}: {told or 'nothing'}, {self.seconds:.1f} s{again}"
        return printable_lines([*self.problems, work, *told_part(self.share, self.waiting)])
