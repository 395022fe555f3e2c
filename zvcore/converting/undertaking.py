"""What conversions have in common: steps that are done one after the other, a journal, a report."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.converting.pyramids import CoarseView, plan_levels, whole
from zvcore.converting.running import run_units
from zvcore.converting.steps import Copying, plan_copy
from zvcore.converting.verifying import Comparison
from zvcore.errors import ZvcoreError
from zvcore.progress import shown
from zvcore.report import ConversionReport
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.array import Array
    from zvcore.converting.destination import Destination
    from zvcore.converting.journal import Journal
    from zvcore.converting.pyramids import Factors
    from zvcore.converting.view import View
    from zvcore.stores import Store

__all__ = ["Undertaking"]


@dataclass
class Step:
    """A part of the work whose units need nothing of each other; steps are done one after the other."""

    name: str
    work: Any


class Undertaking(ABC):
    """Something that fills arrays of a destination.

    steps      the work
    pairs      what to compare in the end: (name, what an array should hold, the array)
    left_out   what the destination will lack: (path, why)
    """

    journal: Journal

    def __init__(self, store: Store, memory: int) -> None:
        self.store = store
        self.memory = memory
        self.steps: list[Step] = []
        self.pairs: list[tuple[str, View | CoarseView, Array]] = []
        self.left_out: list[tuple[str, str]] = []

    def rehearse(self, make: Callable[[Store], Any]) -> Store:
        """Make the destination in memory first: what cannot be made is refused before anything is written."""
        scratch = MemoryStore()
        make(scratch)
        self.steps.clear()
        self.pairs.clear()
        return scratch

    @abstractmethod
    def prepare(self) -> Destination:
        """Make the arrays, and the steps that fill them."""

    def fill(self, view: View, target: Array, name: str, effort: bool) -> None:
        """A step that fills an array from a view."""
        work = plan_copy(view, target, effort, self.memory, name)
        self._add(work)
        self.pairs.append((name, view, target))

    def fill_levels(self, base: Copying, added: Sequence[Array], factors: Sequence[Factors], method: str) -> None:
        """Steps that fill an array as `base` says, and coarser ones above it."""
        for work in plan_levels(base, added, factors, method, self.memory):
            self._add(work)
        self.pairs.append((base.name, base.view, base.target))
        for finer, target, step in zip([base.target, *added], added, factors, strict=False):
            self.pairs.append((f"{base.name}: coarser", CoarseView(whole(finer), step, method, base.part), target))

    def _add(self, work: Any) -> None:
        self.steps.append(Step(f"{len(self.steps)}:{work.name}", work))

    # --- running

    def run(
        self,
        *,
        threads: int | None,
        client: Any,
        progress: bool | Callable[[int, int], Any],
        verify: bool,
    ) -> ConversionReport:
        try:
            return self._run(threads, client, progress, verify)
        except Exception as error:
            if self.journal.begun:
                # What cannot be noted is not: the journal says that it is unfinished, in any case.
                with suppress(ZvcoreError, OSError):
                    self.journal.fail(f"{type(error).__name__}: {error}")
            raise

    def _run(self, threads: int | None, client: Any, progress: Any, verify: bool) -> ConversionReport:
        report = ConversionReport()
        destination = self.prepare()
        self.journal.plan({
            step.name: (len(step.work), [destination.path_of(array) for array in step.work.targets])
            for step in self.steps
        })  # fmt: skip
        for path, why in self.left_out:
            report.add(path, f"left out: {why}")
        for note in destination.notes:
            report.add("", note, fatal=False)
        total = sum(len(step.work) for step in self.steps)
        report.units = total
        with shown(progress, total, "converting") as tell:
            for step in self.steps:
                self._run_step(step, report, threads, client, tell)
        if verify:
            self._verify(report, threads, client, progress)
            if not report.verified:
                self.journal.fail("what was written is not what the source holds")
                return report
        if report.resumed or client is not None:
            self._clean()
        self.journal.end()
        return report

    def _run_step(self, step: Step, report: ConversionReport, threads: int | None, client: Any, tell: Any) -> None:
        work = step.work
        done = self.journal.done(step.name, len(work))
        report.resumed += sum(done)
        tell(sum(done))
        report.memory = max(report.memory, work.unit_memory)
        left = [unit for unit, is_done in enumerate(done) if not is_done]
        try:
            for unit, outcome in run_units(work, left, threads=threads, memory=self.memory, client=client):
                self.journal.add(step.name, unit)
                for name, number in vars(outcome).items():
                    setattr(report, name, getattr(report, name) + number)
                tell(1)
        except ZvcoreError as error:
            # The array's own keys do not say which array of the group it is.
            if work.name and error.key is not None and not os.path.isabs(error.key) and "://" not in error.key:
                error.key = f"{work.name}/{error.key}"
            raise
        finally:
            self.journal.flush()

    def _verify(self, report: ConversionReport, threads: int | None, client: Any, progress: Any) -> None:
        comparisons = [Comparison(view, target, name, self.memory) for name, view, target in self.pairs]
        total = sum(len(one) for one in comparisons)
        report.verified = True
        with shown(progress, total, "verifying") as tell:
            for comparison in comparisons:
                units = range(len(comparison))
                for _, problems in run_units(comparison, units, threads=threads, memory=self.memory, client=client):
                    report.problems.extend(problems)
                    report.verified = report.verified and not problems
                    tell(1)
        report.count("parts compared", total)

    def _clean(self) -> None:
        """Remove what processes that were killed have left beside their objects."""
        if isinstance(self.store, LocalStore):
            self.store.clean(older_than=0)
