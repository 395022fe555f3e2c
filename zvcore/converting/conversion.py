"""One conversion from beginning to end: it is drafted, made, run, and in the end a report is given."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from math import prod
from typing import TYPE_CHECKING, Any

from zvcore.boxes import count_of
from zvcore.cached import cached_property
from zvcore.care.manifest import MANIFEST, write_manifest
from zvcore.converting.companions import ComparingObjects
from zvcore.converting.journal import StepNote, ended_badly
from zvcore.converting.making import Made, Step, make, path_in
from zvcore.converting.note import unfinished_at
from zvcore.converting.plan import Plan, planned, planned_beside
from zvcore.converting.present import Units, units_of
from zvcore.converting.running import Parts, run_units
from zvcore.converting.sharing import Sharing
from zvcore.converting.verifying import Comparison
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.logs import Log
from zvcore.progress import shown
from zvcore.report import MOST_KEPT, ConversionReport
from zvcore.stores import LocalStore, MemoryStore
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.converting.drafts import Draft
    from zvcore.converting.journal import Journal
    from zvcore.stores import Store

__all__ = ["Conversion"]


_log = Log("converting")


class Conversion(ABC):
    """Something that fills arrays of a destination.

    made       what it has made there
    effort     whether a codec that encodes with another effort counts as another codec
    replacing  whether something is removed from there first
    finished   whether an earlier run has finished it, so that there is nothing to do
    resuming   whether what was begun before is there
    consolidating  whether the destination will tell of all that lies in it
    manifest   whether it will have a checksum of every object
    sharing    which part of it this process does
    """

    journal: Journal
    effort = False
    replacing = False
    finished = False
    resuming = False
    consolidating = False
    manifest = False

    def __init__(self, store: Store, memory: int, sharing: Sharing | None = None) -> None:
        if memory < 1:
            raise ValueError(f"memory is a number of bytes, not {memory}")
        self.store = store
        self.memory = memory
        self.sharing = Sharing(store) if sharing is None else sharing
        self.made = self._nothing()

    @abstractmethod
    def _draft(self) -> Draft: ...

    @cached_property
    def draft(self) -> Draft:
        """What will be made."""
        return self._draft()

    def _nothing(self, rehearsing: bool = False) -> Made:
        return Made(self.memory, self.effort, self.store.local_root is not None, rehearsing)

    def rehearse(self) -> tuple[Store, Made]:
        """Make the destination in memory first: what cannot be made is refused before anything is written."""
        return self.made_in_memory(self.draft)

    def made_in_memory(self, draft: Draft) -> tuple[Store, Made]:
        memory = MemoryStore()
        # Formats may store chunks in files in another way, and call an image as its place is called.
        memory.of_files, memory.root = self.store.of_files, self.store.root
        scratch = memory if self.store.file is None else SingleFileStore(memory, self.store.file)
        made = self._nothing(rehearsing=True)
        writer = draft.format.exchange().writer(scratch, False)
        make(draft, writer, made)
        if self.consolidating:
            writer.consolidate()
        return scratch, made

    def plan(self) -> Plan:
        """What would be done; nothing is written."""
        scratch, made = self.rehearse()
        self.check(scratch, made)
        arrays = planned(self.draft, made, self.store, scratch)
        return Plan(
            self.store.root, self.draft.format.name, self.replacing, arrays, self.draft.losses, self.finished,
            planned_beside(made), self.draft.notes,
        )  # fmt: skip

    def refuse_losses(self) -> None:
        """An error that names everything that the destination would lack, if that is anything."""
        told = [str(loss) for loss in self.draft.losses]
        if told:
            raise UnsupportedError(
                f"{self.draft.format.title} would lack {len(told)} things that the source has:\n  " + "\n  ".join(told)
            )

    def check(self, scratch: Store, made: Made) -> None:
        """Refuse what would be written over others' objects, now that it was made in memory."""

    def make(self, found: bool, landed: bool = False) -> None:
        """Make the arrays, and the steps that fill them. `found`: something is there that is used, not made; `landed`:
        all of it, as it was rehearsed.
        """
        self.made = self._nothing()
        writer = self.draft.format.exchange().writer(self.store, found)
        writer.landed = landed
        make(self.draft, writer, self.made)
        if self.consolidating and not landed:
            writer.consolidate()

    @abstractmethod
    def prepare(self) -> None:
        """Make the destination, or find what an earlier run has made."""

    @abstractmethod
    def task(self) -> dict[str, Any]:
        """What was asked for, to know it again."""

    @abstractmethod
    def join(self) -> None:
        """Look again whether another part has begun meanwhile."""

    # --- running

    def run(
        self,
        *,
        threads: int | None,
        client: Any,
        progress: bool | Callable[[int, int], Any],
        verify: bool,
    ) -> ConversionReport:
        report = ConversionReport(
            already_finished=self.finished, share=self.sharing.name, most=MOST_KEPT, notes=[*self.draft.notes]
        )  # fmt: skip
        try:
            if self.sharing.share is not None and not self.finished:
                with ended_badly(self.journal, "this part of the conversion"):
                    closing = self._run_share(report, threads, client, progress)
                if closing is None:
                    return self._part_done(report)
                self.journal, report.units, report.resumed = closing, 0, 0
            with self.sharing.closing(self.journal) as alone:
                if not alone:
                    return self._part_done(report)
                with ended_badly(self.journal, "the conversion"):
                    return self._run(report, threads, client, progress, verify)
        finally:
            self.store.finish()

    def _run_share(self, report: ConversionReport, threads: int | None, client: Any, progress: Any) -> Journal | None:
        """Do what this part has to do. What is given is by what to close the whole, if this was the last part."""
        self.sharing.begin(self._begin, self.join)
        self.resuming = True
        steps = [step for step in self.made.steps if not step.follows]
        report.losses.extend(self.draft.losses)
        total = sum(len(self.journal.mine(len(step.work))) for step in steps)
        _log.info("part %s of a conversion into %s: %d units at most", self.sharing.name, self.store.root, total)
        with shown(progress, total, "converting") as tell:
            for step in steps:
                self._run_step(step, report, threads, client, tell)
        self.journal.end()
        return self.sharing.closed_by(self.task())

    def _part_done(self, report: ConversionReport) -> ConversionReport:
        unfinished = unfinished_at(self.store)
        report.waiting = None if unfinished is None else unfinished.parts
        return report

    def _begin(self) -> None:
        """Prepare the destination, and note what is to be done."""
        self.prepare()
        self.journal.plan(self._steps_noted(self.made, self.store))

    def _steps_noted(self, made: Made, store: Store) -> dict[str, StepNote]:
        """What is noted of the steps before they begin, where it was made in a store."""
        return {step.name: self._noted(step, Units(range(len(step.work))), store) for step in made.steps}

    def _run(
        self, report: ConversionReport, threads: int | None, client: Any, progress: Any, verify: bool
    ) -> ConversionReport:
        if self.finished:
            report.losses.extend(self.draft.losses)
            if verify:
                self.make(True)
                if self._verify(report, threads, client, progress):
                    self._doubt()
                    return report
            if self.manifest and not self.store.exists(MANIFEST):
                self._write_manifest(progress, threads)
            return report
        self._begin()
        steps = self.made.steps
        report.losses = [*self.draft.losses]
        total = sum(len(step.work) for step in steps)
        _log.info("converting into %s: %d steps, %d units", self.store.root, len(steps), total)
        with shown(progress, total, "converting") as tell:
            for step in steps:
                self._run_step(step, report, threads, client, tell)
        self._check_sources()
        if verify or self.manifest:
            self.journal.flush()
        if verify:
            wrong = self._verify(report, threads, client, progress)
            if wrong:
                self.journal.undo(self._steps_of(wrong), "what was written is not what the source holds")
                return report
        if report.resumed or client is not None:
            self._clean()
        self._record()
        if self.manifest:
            self._write_manifest(progress, threads)
        self.journal.end()
        return report

    def _check_sources(self) -> None:
        """What has been removed or replaced by others while it was read may have been read as nothing."""
        try:
            arrays = [*{id(view.array): view.array for _, view, _ in self.made.pairs}.values()]
            self.store.each(lambda array: array.standing.check_source(array, forced=True), arrays)
        except ZvcoreError as error:
            # Which units have read it before, and which after, is not known.
            self.journal.undo([step.name for step in self.made.steps], str(error))
            raise

    def _write_manifest(self, progress: Any, threads: int | None) -> None:
        # Functions of the caller are told of units, not of objects.
        with shown(progress is True, self.store.list(), "checksums", "object") as watch:
            write_manifest(self.store, threads, watch)

    def _noted(self, step: Step, units: Units, store: Store | None = None) -> StepNote:
        arrays = [path_in(store or self.store, array) for array in step.work.targets]
        return StepNote(len(units), step.work.span, arrays, units.listed)

    def _record(self) -> None:
        """Leave word that this conversion is finished."""

    def _doubt(self) -> None:
        """What was finished is no longer what it should be, which is found after the record of it was made."""

    def _run_step(self, step: Step, report: ConversionReport, threads: int | None, client: Any, tell: Any) -> None:
        work = step.work
        units = units_of(work)
        self.journal.begin_step(step.name, self._noted(step, units))
        resumed = self.journal.done(step.name)
        mine = len(self.journal.mine(len(units)))
        report.units += mine
        report.resumed += resumed
        # What nothing is stored of is done already.
        tell(len(self.journal.mine(len(work))) - mine + resumed)
        report.memory = max(report.memory, work.unit_memory)
        _log.info("%s: %d of %d units are to be done", step.name, mine - resumed, len(work))
        left = (units[ordinal] for ordinal in self.journal.left(step.name, len(units)))
        parts = Parts(left, mine - resumed, self.memory)
        chunks = report.copied + report.encoded + report.empty
        try:
            for unit, outcome in run_units(work, parts, threads=threads, client=client):
                self.journal.add(step.name, units.ordinal(unit))
                report.include(outcome)
                _log.debug("%s: unit %d is done: %s", step.name, unit, outcome)
                tell(1)
            if units.listed is not None and mine == len(units) and not resumed:
                seen = report.copied + report.encoded + report.empty - chunks
                report.empty += sum(prod(count_of(one.shape, one.chunks)) for one in work.targets) - seen
        except BaseException as error:
            self.journal.note_ending()
            # The array's own keys do not say which array of the group it is.
            if isinstance(error, ZvcoreError) and work.name and error.key is not None and _within(error.key):
                error.key = f"{work.name}/{error.key}"
            elif isinstance(error, OSError) and isinstance(error.filename, str) and _within(error.filename):
                error.filename = "/".join(filter(None, (self.store.root.rstrip("/"), work.name, error.filename)))
            raise
        self.journal.end_step()
        _log.info(
            "%s is done; so far %d chunks are copied as they are, %d computed, %d empty",
            step.name, report.copied, report.encoded, report.empty,
        )  # fmt: skip

    def _verify(
        self, report: ConversionReport, threads: int | None, client: Any, progress: Any
    ) -> list[Comparison | ComparingObjects]:
        """Compare what was written with what it was made of: those of the comparisons that found a difference."""
        comparisons: list[Comparison | ComparingObjects] = [
            Comparison(view, target, name, self.memory) for name, view, target in self.made.pairs
        ]
        comparisons.extend(map(ComparingObjects, self.made.beside))
        wanted = [one.units for one in comparisons]
        total = sum(map(len, wanted))
        wrong: list[Comparison | ComparingObjects] = []
        with shown(progress, total, "verifying") as tell:
            for comparison, units in zip(comparisons, wanted, strict=True):
                parts = Parts((units[ordinal] for ordinal in range(len(units))), len(units), self.memory)
                for _, problems in run_units(comparison, parts, threads=threads, client=client):
                    report.tell(*problems)
                    if problems and comparison not in wrong:
                        wrong.append(comparison)
                    tell(1)
        report.verified = not wrong
        report.count("parts compared", total)
        return wrong

    def _steps_of(self, wrong: Sequence[Comparison | ComparingObjects]) -> list[str]:
        """The steps that have written what is wrong, and those that may have read it."""
        arrays = [one.target for one in wrong if isinstance(one, Comparison)]
        objects = [one.copying for one in wrong if isinstance(one, ComparingObjects)]
        found: list[str] = []
        for step in self.made.steps:
            writes = any(one is array for one in step.work.targets for array in arrays)
            if writes or any(step.work is one for one in objects) or (step.follows and found):
                found.append(step.name)
        return found

    def _clean(self) -> None:
        """Remove what processes that were killed have left beside their objects."""
        if isinstance(self.store, LocalStore):
            self.store.clean(older_than=0)


def _within(key: str) -> bool:
    """Whether a key says where something is in its store, not where it is in the world."""
    return not os.path.isabs(key) and "://" not in key
