"""One forging from beginning to end: boxes are cut, what came of them is listed and joined, and the set is finished."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore import documents, opening
from zvcore.converting.clearing import clear, occupied
from zvcore.converting.journal import Journal, StepNote, ended_badly, fingerprint
from zvcore.converting.note import FINISHED, VERSION, read_note, unfinished_at
from zvcore.converting.running import Parts, run_units
from zvcore.converting.sharing import Sharing
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
    part       the part of the boxes that is worked on, (3, 64): other processes do the others. The last joins
    finish     only close what all parts have done
    """

    memory: int
    overwrite: bool = False
    resume: bool = True
    threads: int | None = None
    client: Any = None
    progress: bool | Callable[[int, int], Any] = False
    part: tuple[int, int] | str | None = None
    finish: bool = False


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
        self.sharing = Sharing(self.store, manner.part, manner.finish, manner.overwrite)
        self.resuming = self.finished = self.replacing = False
        self.journal = self._journal()

    # --- before anything is written

    def _journal(self) -> Journal:
        there = any(self.store.list_dir())
        # Of what another part has begun since, the note came first.
        found = read_note(self.store)
        if self.manner.resume and (journal := self._begun(found)) is not None:
            return journal
        if found is None and not self.manner.overwrite and self._was_finished():
            self.finished = True
            return Journal(self.store, self.task, None)
        if found is not None or there:
            self._replace(found is not None)
        return self.sharing.journal(self.task, None)

    def _begun(self, found: Mapping[str, Any] | None) -> Journal | None:
        """The journal of what was begun before, if it is the same."""
        if found is None or found.get("clearing"):
            return None
        try:
            journal = self.sharing.journal(self.task, found)
        except ConflictError:
            if not self.manner.overwrite:
                raise
            return None
        self.resuming = True
        return journal

    def _join(self) -> None:
        """Look again whether another part has begun meanwhile."""
        if not self.resuming:
            self.journal = self._begun(read_note(self.store)) or self.journal

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
        report = ForgingReport(plan=self.plan(), done=True, already_finished=self.finished, share=self.sharing.name)
        try:
            if not self.finished:
                self._do(report)
            elif self.sharing.share is None:
                self.spool.clear()
        finally:
            self.store.finish()
        return report

    def _do(self, report: ForgingReport) -> None:
        what = f"the making of {self.craft.what}"
        if self.sharing.share is not None:
            with ended_badly(self.journal, f"this part of {what}"):
                closing = self._do_share(report)
            if closing is None:
                report.waiting = self._waiting()
                return
            self.journal, report.units, report.resumed = closing, 0, 0
        with self.sharing.closing(self.journal) as alone:
            if not alone:
                report.waiting = self._waiting()
                return
            with ended_badly(self.journal, what):
                self._run(report)

    def _waiting(self) -> str | None:
        unfinished = unfinished_at(self.store)
        return None if unfinished is None else unfinished.parts

    def _do_share(self, report: ForgingReport) -> Journal | None:
        """Cut the boxes of this part. What is given is by what to close the whole, if this was the last part."""
        self.sharing.begin(self._begin, self._join)
        self.resuming = True
        cutting = self._cutting()
        self._step(_CUT, cutting, self._noted(cutting), report)
        self.journal.end()
        return self.sharing.closed_by(self.task)

    def _cutting(self) -> Cutting:
        return Cutting(self.craft, self.store)

    def _noted(self, cutting: Cutting) -> StepNote:
        return StepNote(len(cutting), self.craft.grid.extent, [])

    def _begin(self) -> None:
        """Make room, and note what is to be done."""
        if self.replacing:
            self.journal.begin(clearing=True)
            clear(self.store)
        self.journal.begin()
        self.journal.plan({_CUT: self._noted(self._cutting()), _JOIN: StepNote(1, [], [])})

    def _run(self, report: ForgingReport) -> None:
        self._begin()
        cutting = self._cutting()
        self._step(_CUT, cutting, self._noted(cutting), report)
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
        mine = len(self.journal.mine(len(work)))
        report.units += mine
        report.resumed += resumed
        parts = Parts(self.journal.left(name, len(work)), mine - resumed, manner.memory)
        _log.info("%s: %d of %d units are to be done", name, parts.count, len(work))
        with shown(manner.progress, mine, name) as tell, self._elsewhere(work) as doing:
            tell(resumed)
            try:
                for unit, counts in run_units(doing, parts, threads=manner.threads, client=manner.client):
                    self.journal.add(name, unit)
                    for what, number in counts.items():
                        report.count(what, number)
                    tell(1)
            except BaseException:
                self.journal.note_ending()
                raise
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
