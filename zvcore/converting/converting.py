"""A conversion from one place to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.converting.conversion import Conversion
from zvcore.converting.finished import record_finished, was_finished
from zvcore.converting.journal import Journal
from zvcore.converting.note import KEY, read_note
from zvcore.converting.planning import Request, arrays_of, draft_conversion
from zvcore.converting.sources import Leaf, Pyramid, chosen_image, collect
from zvcore.errors import ConflictError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from zvcore.converting.drafts import Draft
    from zvcore.converting.sources import Node
    from zvcore.stores import Store

__all__ = ["Converting"]


class Converting(Conversion):
    """Writes what a source holds to another place."""

    def __init__(
        self, source: Any, store: Store, request: Request, *, memory: int, overwrite: bool, resume: bool
    ) -> None:
        self.effort = request.target.effort
        super().__init__(store, memory)
        self.request = request
        nodes = collect(source)
        if request.image is not None:
            nodes = chosen_image(nodes, request.image)
        self.nodes = request.asked.applied(nodes, request.exchange.ome_version)
        self._leave_out()
        self._refuse_overlap()
        self._refuse_unclear()
        self.journal = self._journal(overwrite, resume)

    def _draft(self) -> Draft:
        return draft_conversion(self.nodes, self.request)

    # --- before anything is written

    def _leave_out(self) -> None:
        """One array that cannot be converted does not keep the others of its group from it."""
        kept: list[Node] = []
        for node in self.nodes:
            try:
                if isinstance(node, Leaf):
                    node.array.check_items()
            except UnsupportedError as error:
                if len(self.nodes) == 1:
                    raise
                self.left_out.append((node.path, error.told))
            else:
                kept.append(node)
        if self.left_out and not any(map(arrays_of, kept)):
            told = "; ".join(f"{path}: {why}" for path, why in self.left_out[:5])
            raise UnsupportedError(f"there is no array here that can be converted: {told}")
        self.nodes = kept

    def _refuse_overlap(self) -> None:
        target = self.store.root.rstrip("/")
        for node in self.nodes:
            for array in arrays_of(node):
                root = array.store.root.rstrip("/")
                if root == target or root.startswith(f"{target}/") or target.startswith(f"{root}/"):
                    raise ConflictError(
                        "source and destination are the same place, or one lies in the other", key=target
                    )

    def _refuse_unclear(self) -> None:
        images = [node for node in self.nodes if isinstance(node, Leaf | Pyramid)]
        if self.request.region is not None and len(images) > 1:
            raise UnsupportedError("a region is of one array or one multiscale set; this is a group of several")
        if self.request.exchange.holds != "group" and len(images) > 1:
            names = ", ".join(repr(node.path) for node in images[:5])
            title = self.request.target.format.title
            raise UnsupportedError(f"{title} holds one image; choose one with image=: this group has several: {names}")

    def _task(self) -> dict[str, Any]:
        """What was asked for, to know it again."""
        asked, target = self.request, self.request.target
        arrays = [
            [path, array.store.root, list(array.shape), str(array.dtype), list(array.chunks)]
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
        return {"arrays": arrays, "asked": [repr(one) for one in [*there, *rest]]}

    def _journal(self, overwrite: bool, resume: bool) -> Journal:
        found = read_note(self.store)
        task = self._task()
        if found is not None and resume and not found.get("clearing"):
            try:
                journal = Journal(self.store, task, found)
            except ConflictError:
                if not overwrite:
                    raise
            else:
                self.resuming = True
                return journal
        self.resuming = False
        self.replacing = found is not None or opening.detect(self.store) is not None
        if self.replacing and not overwrite:
            self.finished = found is None and self._was_finished(task)
            if not self.finished:
                raise _occupied(self.store.root)
            self.replacing = False
        return Journal(self.store, task, None)

    def _was_finished(self, task: dict[str, Any]) -> bool:
        try:
            return was_finished(self.store, task, *self.rehearse())
        except ZvcoreError:
            return False  # what is refused now was not made then

    def _record(self) -> None:
        record_finished(self.store, self.made, self._task())

    # --- making the destination

    def prepare(self) -> None:
        if not self.resuming:
            scratch, _ = self.rehearse()
            self.check(scratch)
            if self.replacing:
                self._clear()
        self.journal.begin()
        self.make(self.resuming)

    def _clear(self) -> None:
        """Remove what lies here. Half of it shall pass for sound no more than half of what is to come."""
        self.journal.begin(clearing=True)
        folders, objects = self.store.list_dir()
        for folder in folders:
            self.store.delete_prefix(folder)
        for key in objects:
            if key != KEY:
                self.store.delete(key)
        self._clean()

    def check(self, scratch: Store) -> None:
        """What others have stored within this place is not taken for what we have made, now or by the next run."""
        if self.resuming or self.replacing or self.finished:
            return
        keys = [*scratch.list()]
        for key, taken in zip(keys, self.store.each(self.store.exists, keys), strict=True):
            if taken:
                raise _occupied(f"{self.store.root}/{key}")


def _occupied(where: str) -> ConflictError:
    return ConflictError(
        "something is here already; overwrite=True replaces it",
        key=where,
    )
