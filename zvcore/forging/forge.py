"""One forging from beginning to end: boxes are cut, what came of them is listed and joined, and the set is finished."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore import documents, opening
from zvcore.converting.clearing import clear, occupied
from zvcore.converting.journal import Journal, StepNote, ended_badly, fingerprint
from zvcore.converting.note import FINISHED, VERSION, read_note
from zvcore.converting.running import Parts, run_units
from zvcore.errors import ConflictError, ZvcoreError
from zvcore.forging.helpers import apart
from zvcore.forging.report import ForgingPlan, ForgingReport
from zvcore.forging.spool import Spool
from zvcore.forging.work import Cutting, Joining, arranged
from zvcore.logs import Log
from zvcore.precomputed.kinds import LEGACY_MESHES, MESHES, SKELETONS
from zvcore.precomputed.metadata import INFO, write_info
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.progress import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from zvcore.converting.running import Work
    from zvcore.forging.craft import Craft
    from zvcore.forging.destination import Destination
    from zvcore.forging.spool import Catalog

__all__ = ["Forge", "Manner"]

_log = Log("forging")
# The steps, as the journal knows them.
_CUT, _JOIN = "pieces", "objects"


@dataclass(frozen=True)
class Manner:
    """How it is done, which makes no difference to what is made.

    memory     how many bytes the boxes may take that are worked on at once
    overwrite  replace the set that is there
    resume     resume what was begun
    threads    how many boxes are worked on at once; None: as many as there are processors
    client     a dask.distributed Client, to work on a cluster
    progress   True for a bar, or a function that is told (done, total) parts of each of the two steps
    """

    memory: int
    overwrite: bool = False
    resume: bool = True
    threads: int | None = None
    client: Any = None
    progress: bool | Callable[[int, int], Any] = False


class Forge:
    """Makes the objects of a craft at a destination.

    sharding  how they lie in shards; None: as suits what is found
    task      what was asked for, to know it again
    """

    def __init__(
        self,
        craft: Craft[Any],
        destination: Destination,
        sharding: ShardingSpec | None,
        task: Mapping[str, Any],
        manner: Manner,
    ) -> None:
        for name in craft.libraries():
            craft.library(name)
        self.craft = craft
        self.destination = destination
        self.store = destination.store
        self.sharding = sharding
        self.manner = manner
        self.task = dict(task)
        self.spool = Spool(self.store)
        self.resuming = self.finished = self.replacing = False
        self.journal = self._journal()

    # --- before anything is written

    def _journal(self) -> Journal:
        found = read_note(self.store)
        if found is not None and self.manner.resume and not found.get("clearing"):
            try:
                journal = Journal(self.store, self.task, found)
            except ConflictError:
                if not self.manner.overwrite:
                    raise
            else:
                self.resuming = True
                return journal
        if found is None and not self.manner.overwrite and self._was_finished():
            self.finished = True
        elif found is not None or any(self.store.list_dir()):
            self._replace(found is not None)
        return Journal(self.store, self.task, None)

    def _replace(self, unfinished: bool) -> None:
        """Decide to remove what lies here: if that was asked for, and if it is what can be made again."""
        if not self.manner.overwrite:
            raise occupied(self.store)
        kind = None
        if not unfinished:
            with suppress(ZvcoreError):
                kind = getattr(opening.open_silently(self.store), "kind", None)
        if not unfinished and kind not in (MESHES, LEGACY_MESHES, SKELETONS):
            raise ConflictError(
                "what lies here is neither meshes nor skeletons, and is not replaced", key=self.store.root, found=kind
            )
        self.replacing = True

    def _was_finished(self) -> bool:
        try:
            record = documents.read(self.store, FINISHED)
        except ZvcoreError:
            return False
        made = None if record is None else (record.get("version"), record.get("mark"))
        return made == (VERSION, fingerprint(self.task)) and self.store.exists(INFO)

    def plan(self) -> ForgingPlan:
        """What would be done."""
        labels, grid = self.craft.labels, self.craft.grid
        return ForgingPlan(
            labels.view.array.store.root, labels.shape, labels.resolution, self.store.root,
            self.destination.volume is not None, self.craft.what, grid.extent, len(grid), self.craft.unit_memory,
            self.replacing, self.finished, self.resuming,
        )  # fmt: skip

    # --- doing it

    def run(self) -> ForgingReport:
        report = ForgingReport(plan=self.plan(), done=True, already_finished=self.finished)
        try:
            if self.finished:
                self.spool.clear()
            else:
                with ended_badly(self.journal, f"the making of {self.craft.what}"):
                    self._run(report)
        finally:
            self.store.finish()
        return report

    def _run(self, report: ForgingReport) -> None:
        if self.replacing:
            self.journal.begin(clearing=True)
            clear(self.store)
        self.journal.begin()
        cutting = Cutting(self.craft, self.store)
        cut = StepNote(len(cutting), self.craft.grid.extent, [])
        self.journal.plan({_CUT: cut, _JOIN: StepNote(1, [], [])})
        self._step(_CUT, cutting, cut, report)
        catalog = self.spool.catalog() or self._listed(len(cutting))
        spec = None if catalog.sharding is None else ShardingSpec.from_json(catalog.sharding)
        joining = Joining(self.craft, self.store, spec, catalog.batches, catalog.largest)
        self._step(_JOIN, joining, StepNote(len(joining), [], []), report)
        report.objects = catalog.objects
        self._finish(spec)

    def _listed(self, units: int) -> Catalog:
        """The list of all pieces, made now that all are there; with it is decided how objects lie in shards."""
        listed = self.spool.listed(units, self.craft.fewest_voxels)
        spec = None
        if self.craft.sharded:
            size = int(int(listed.sizes.sum()) / self.craft.ratio)
            spec = self.sharding or ShardingSpec.advise(
                count=len(listed.ids), bytes=size, data_encoding=self.craft.data_encoding
            )
        _log.info("%d segments have %d pieces", len(listed.ids), len(listed.rows))
        return self.spool.keep(listed, *arranged(spec, listed), None if spec is None else spec.to_json())

    def _step(self, name: str, work: Work, note: StepNote, report: ForgingReport) -> None:
        manner = self.manner
        self.journal.begin_step(name, note)
        resumed = self.journal.done(name)
        report.units += len(work)
        report.resumed += resumed
        parts = Parts(self.journal.left(name, len(work)), len(work) - resumed, manner.memory)
        _log.info("%s: %d of %d units are to be done", name, parts.count, len(work))
        with shown(manner.progress, len(work), name) as tell, self._elsewhere(work) as doing:
            tell(resumed)
            try:
                for unit, counts in run_units(doing, parts, threads=manner.threads, client=manner.client):
                    self.journal.add(name, unit)
                    for what, number in counts.items():
                        report.count(what, number)
                    tell(1)
            finally:
                self.journal.flush()

    def _elsewhere(self, work: Work) -> AbstractContextManager[Work]:
        """Work in processes of its own, where it can be sent there, and where several units run at once."""
        source = self.craft.labels.view.array.store
        alone = self.manner.threads == 1 or len(work) < 2
        reachable = all(store.local_root is not None or store.remote for store in (source, self.store))
        return nullcontext(work) if self.manner.client is not None or alone or not reachable else apart(work)

    def _finish(self, spec: ShardingSpec | None) -> None:
        """Tell of what was made, when all of it is there."""
        write_info(self.store, self.craft.document(spec))
        self.destination.name_it()
        self.store.put(FINISHED, documents.encode({"version": VERSION, "mark": fingerprint(self.task)}))
        self.journal.end()
        self.spool.clear()
