"""A conversion from one place to another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.converting.adding import add_attributes, array_paths, can_take_members, refuse_touching
from zvcore.converting.clearing import clear, occupied
from zvcore.converting.conversion import Conversion
from zvcore.converting.finished import forget_finished, record_finished, was_finished
from zvcore.converting.journal import Journal
from zvcore.converting.lacking import lacking
from zvcore.converting.landing import is_vacant, land, lands
from zvcore.converting.note import KEY, read_note
from zvcore.converting.overlapping import refuse_overlap
from zvcore.converting.planning import Request, arrays_of, draft_conversion
from zvcore.converting.skipping import convertible, refuse
from zvcore.converting.sources import Leaf, Pyramid, chosen_image, collect
from zvcore.errors import (
    ConflictError,
    OutOfMemoryError,
    PluginError,
    UnsupportedError,
    ZvcoreError,
    without_credentials,
)
from zvcore.format import all_marks, get_format
from zvcore.report import What
from zvcore.stores.request_threads import Ahead

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.converting.drafts import Draft
    from zvcore.converting.making import Made
    from zvcore.converting.sharing import Sharing
    from zvcore.converting.sources import Node
    from zvcore.format import Format
    from zvcore.stores import Store

__all__ = ["Converting"]


class Converting(Conversion):
    """Writes what a source holds to another place.

    skip         whether what cannot be converted is left out, as a loss
    consolidate  whether the destination tells of all that lies in it; None: if the source does
    """

    def __init__(
        self,
        source: Any,
        store: Store,
        request: Request,
        *,
        memory: int,
        overwrite: bool,
        resume: bool,
        skip: bool = False,
        consolidate: bool | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        self.effort = request.target.effort
        super().__init__(store, memory, sharing)
        is_empty = Ahead(self._is_empty) if lands(store) else None
        self.failed: dict[str, ZvcoreError] = {}
        self._rehearsed: tuple[Store, Made] | None = None
        nodes = collect(source, self.failed)
        self.lacking = list(lacking(source, [node.path for node in nodes]))
        told = consolidate is None and get_format(source.format).exchange().is_consolidated(source)
        self.consolidating = bool(consolidate) or (told and request.exchange.consolidated_member is not None)
        self.request = replace(request, consolidating=self.consolidating, of_files=store.of_files)
        if request.image is not None:
            nodes = chosen_image(nodes, request.image)
            self.failed.clear()  # nothing else is asked for
        self.nodes = request.asked.applied(nodes, request.exchange.ome_version)
        self._refuse_overlap()
        self._refuse_unclear()
        self._set_aside(skip)
        # Whether members are added to a group that is there, and which ones an earlier attempt has begun to add.
        self.adding = False
        self.begun_before: list[str] = []
        # Whether nothing is here, or will be, when what was made in memory can be put here at once.
        self.vacant = is_empty is not None and is_empty.result()
        self.journal = self._journal(overwrite, resume)

    def _draft(self) -> Draft:
        draft = draft_conversion(self.nodes, self.request)
        for path, error in self.failed.items():
            draft.lose(path, f"it cannot be converted: {error.told}", What.UNSUPPORTED)
        for path, what in self.lacking:
            draft.lose(path, what, What.UNFINISHED)
        return draft

    def rehearse(self) -> tuple[Store, Made]:
        if self._rehearsed is None or self.consolidating:
            self._rehearsed = super().rehearse()
        return self._rehearsed

    # --- before anything is written

    def _set_aside(self, skip: bool) -> None:
        """What cannot be converted is an error that names all of it, or it is left out."""

        def attempt(nodes: Sequence[Node]) -> None:
            self.made_in_memory(draft_conversion(nodes, self.request))

        if self.nodes_with_arrays:
            try:
                self.rehearse()
            except OutOfMemoryError:
                raise
            except (UnsupportedError, PluginError):
                if len(self.nodes_with_arrays) + len(self.failed) == 1:
                    raise
                self.failed.update(convertible(self.nodes, attempt))
                if not self.failed:
                    raise
        if not self.failed:
            return
        self.nodes = [node for node in self.nodes if node.path not in self.failed]
        self.__dict__.pop("draft", None)
        self._rehearsed = None
        if not skip or not self.nodes_with_arrays:
            raise refuse(self.failed, bool(self.nodes_with_arrays))

    @property
    def nodes_with_arrays(self) -> list[Node]:
        return [node for node in self.nodes if arrays_of(node)]

    def _refuse_overlap(self) -> None:
        for node in self.nodes:
            for array in arrays_of(node):
                refuse_overlap(array.store, self.store)

    def _refuse_unclear(self) -> None:
        images = [node for node in self.nodes if isinstance(node, Leaf | Pyramid)]
        if self.request.region is not None and len(images) > 1:
            raise UnsupportedError("a region is of one array or one multiscale set; this is a group of several")
        if self.request.exchange.holds != "group" and len(images) > 1:
            names = ", ".join(repr(node.path) for node in images[:5])
            title = self.request.target.format.title
            raise UnsupportedError(f"{title} holds one image; choose one with image=: this group has several: {names}")

    def task(self) -> dict[str, Any]:
        """What was asked for, to know it again."""
        asked, target = self.request, self.request.target
        arrays = [
            # The note of it lies in the destination, for whoever may read that.
            [path, without_credentials(array.store.root), list(array.shape), str(array.dtype), list(array.chunks)]
            for node in self.nodes
            for path, array in (
                [(node.path, node.array)]
                if isinstance(node, Leaf)
                else [(level.path, level.array) for level in node.levels]
                if isinstance(node, Pyramid)
                else []
            )
        ]
        there = [target.format.name, target.chunks, target.shards, target.codec, target.sharding, target.options]
        rest = [asked.region, asked.dtype, asked.clip, asked.levels, asked.method, asked.factors]
        if asked.image is not None or asked.asked.anything:
            rest += [asked.image, asked.asked]
        # What was taken from a source that was not complete is not what the complete one would have given.
        lacking = {"lacking": [list(one) for one in self.lacking]} if self.lacking else {}
        return {"arrays": arrays, "asked": [repr(one) for one in [*there, *rest]], **lacking}

    def _journal(self, overwrite: bool, resume: bool) -> Journal:
        if self.vacant:
            return Journal(self.store, self.task(), None)
        likely, others = all_marks()
        with self.store.looking_at([KEY, *likely, *others]):
            found = read_note(self.store)
            there = opening.detect(self.store) if found is None else None
        task = self.task()
        if resume and (journal := self._begun(task, found, overwrite)) is not None:
            return journal
        self.resuming = False
        if found is not None:
            there = opening.detect(self.store)
        occupied_by = there if there is not None and any(self.store.list_dir()) else None
        if occupied_by is not None and found is None and self.sharing.share is not None:
            # What another part of this conversion makes is not there before its note is.
            found = read_note(self.store)
            if (journal := self._begun(task, found, overwrite)) is not None:
                return journal
        self._settle(found, occupied_by, overwrite, task)
        return self.sharing.journal(task, None) if not self.finished else Journal(self.store, task, None)

    def _begun(self, task: dict[str, Any], found: dict[str, Any] | None, overwrite: bool) -> Journal | None:
        """The journal of what was begun before, if it is this conversion."""
        if found is None or found.get("clearing"):
            return None
        try:
            journal = self.sharing.journal(task, found)
        except ConflictError:
            if not overwrite:
                raise
            return None
        self.resuming, self.adding = True, journal.adding is not None
        return journal

    def join(self) -> None:
        if not self.resuming:
            self.journal = self._begun(self.task(), read_note(self.store), False) or self.journal

    def _settle(
        self, found: Mapping[str, Any] | None, there: Format | None, overwrite: bool, task: dict[str, Any]
    ) -> None:
        """Decide what becomes of what lies here: it is replaced, or gets further members, or is in the way."""
        format = self.request.target.format
        if found is None and there is None:
            return
        begun = None if found is None else found.get("adding")
        if isinstance(begun, list) and overwrite:
            # What was there before that conversion was not its own.
            self.adding, self.begun_before = True, [path for path in begun if isinstance(path, str) and path]
        elif overwrite:
            self.replacing = True
        elif found is None and self._was_finished(task):
            self.finished = True
        elif found is None and can_take_members(self.store, format, there):
            self.adding = True
        else:
            raise occupied(self.store)
        if self.adding and there is not None and can_take_members(self.store, format, there):
            # Members that it does not tell of would not be found.
            self.consolidating = self.consolidating or format.exchange().is_consolidated(format.open(self.store, "r"))

    def _was_finished(self, task: dict[str, Any]) -> bool:
        try:
            return was_finished(self.store, task, *self.rehearse())
        except ZvcoreError:
            return False  # what is refused now was not made then

    def _record(self) -> None:
        record_finished(self.store, self.made, self.task())

    def _doubt(self) -> None:
        # Asked for again it is in the way, not finished. It is not resumed: others may have changed it on purpose.
        forget_finished(self.store, self.made)

    # --- making the destination

    def prepare(self) -> None:
        paths = None
        if not self.resuming:
            scratch, made = self.rehearse()
            self.check(scratch, made)
            if self.replacing:
                self._clear()
            if self.vacant:
                self._land(scratch, made)
                return
            if self.adding:
                paths = array_paths(scratch, made)
        self.journal.begin(adding=paths)
        for path in self.begun_before:
            self.store.delete_prefix(path)
        self.make(self.resuming or self.adding)
        if self.adding:
            add_attributes(self.store, self.draft)

    def _is_empty(self) -> bool:
        # What another part of this conversion makes may come at any time.
        return self.sharing.share is None and not self.sharing.finish and is_vacant(self.store)

    def _land(self, scratch: Store, made: Made) -> None:
        self.journal.begin_anew(self._steps_noted(made, scratch), first=not self.replacing)
        with land(self.store, scratch):
            self.make(True, landed=True)

    def _clear(self) -> None:
        """Remove what lies here. Half of it shall pass for sound no more than half of what is to come."""
        self.journal.begin(clearing=True)
        clear(self.store)
        self.vacant = lands(self.store)
        self._clean()

    def _clean(self) -> None:
        if self.adding:
            return  # others may be at work here
        super()._clean()

    def check(self, scratch: Store, made: Made) -> None:
        """What others have stored within this place is not taken for what we have made, now or by the next run."""
        if self.resuming or self.replacing or self.finished or self.vacant:
            return
        if self.adding:
            refuse_touching(self.store, scratch, made, self.request.target.format, self.begun_before)
            return
        keys = [*scratch.list()]
        for key, taken in zip(keys, self.store.each(self.store.exists, keys), strict=True):
            if taken:
                raise occupied(self.store, key)
