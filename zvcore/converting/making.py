"""Makes the documents of what was drafted, and says in which steps its arrays are filled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zvcore.converting.coarse import CoarseView
from zvcore.converting.companions import CopyingObjects
from zvcore.converting.copying import Copying, plan_copy
from zvcore.converting.drafts import Draft, DraftArray, DraftFolder, DraftImage
from zvcore.converting.parts import PART_BYTES
from zvcore.converting.pyramids import plan_levels
from zvcore.converting.view import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zvcore.array import Array
    from zvcore.converting.companions import Companion
    from zvcore.converting.view import View
    from zvcore.exchange import ImageWriter
    from zvcore.stores import Store

__all__ = ["Made", "Step", "make", "path_in"]


@dataclass
class Step:
    """A part of the work whose units need nothing of each other; steps are done one after the other.

    follows  whether it reads what the steps before it write
    """

    name: str
    work: Any
    follows: bool = False


@dataclass
class Made:
    """The arrays of a destination and the work that fills them.

    local       whether the destination, not only what is made in its place, has files
    rehearsing  whether this is not the destination itself: levels that are there already are not
    arrays      what was made of each draft, in order
    steps       the work
    pairs       what to compare in the end: (name, what an array should hold, the array)
    beside      what copies the objects beside the arrays
    """

    memory: int
    effort: bool
    local: bool = False
    rehearsing: bool = False
    arrays: list[tuple[DraftArray, Array]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    pairs: list[tuple[str, View | CoarseView, Array]] = field(default_factory=list)
    beside: list[CopyingObjects] = field(default_factory=list)

    def copy(self, companion: Companion, target: Store) -> None:
        """A step that copies what lies beside the arrays."""
        work = CopyingObjects(companion, target)
        self._add(work)
        self.beside.append(work)

    def fill(self, draft: DraftArray, target: Array) -> None:
        """A step that fills an array from the source."""
        assert draft.view is not None
        self._add(plan_copy(draft.view, target, self.effort, self.memory, draft.name, local=self.local))
        self.pairs.append((draft.name, draft.view, target))

    def fill_image(self, draft: DraftImage, made: list[tuple[DraftArray, Array]]) -> None:
        """Steps that fill the levels that the source has, and those above them."""
        shown = [one for one in made if one[0].view is not None]
        coarser = made[len(shown) :]
        for one, target in shown if not coarser else shown[:-1]:
            self.fill(one, target)
        if coarser:
            self._fill_coarser(draft, shown, coarser)

    def _fill_coarser(
        self, draft: DraftImage, shown: list[tuple[DraftArray, Array]], coarser: list[tuple[DraftArray, Array]]
    ) -> None:
        if shown:
            (last, target), *_ = shown[-1:]
            assert last.view is not None
            base = plan_copy(last.view, target, self.effort, self.memory, last.name, needed=True)
        else:
            assert draft.base is not None
            (first, target), *coarser = coarser
            part = max(1, min(PART_BYTES, self.memory // 8))
            view = CoarseView(whole(draft.base), first.factors, draft.by, part)
            name = first.name or str(draft.base.shape)
            base = plan_copy(view, target, False, self.memory, name, needed=True)
        self._fill_levels(base, coarser, draft.by)

    def _fill_levels(self, base: Copying, coarser: list[tuple[DraftArray, Array]], method: str) -> None:
        """Steps that fill an array as `base` says, and coarser ones above it."""
        added = [target for _, target in coarser]
        factors = [one.factors for one, _ in coarser]
        for number, work in enumerate(plan_levels(base, added, factors, method, self.memory)):
            self._add(work, number > 0)
        self.pairs.append((base.name, base.view, base.target))
        for finer, target, step in zip([base.target, *added], added, factors, strict=False):
            self.pairs.append((f"{base.name}: coarser", CoarseView(whole(finer), step, method, base.part), target))

    def _add(self, work: Any, follows: bool = False) -> None:
        self.steps.append(Step(f"{len(self.steps)}:{work.name}", work, follows))


def make(draft: Draft, writer: ImageWriter, made: Made) -> None:
    """Make all that was drafted: the only stage that writes documents."""
    for entry in _together(draft.entries):
        if isinstance(entry, list):
            for one, array in _made(entry, writer, made):
                made.fill(one, array)
        elif isinstance(entry, DraftFolder):
            if not writer.landed:
                writer.folder(entry.path, entry.attrs)
        elif entry.levels:
            if entry.folder and not writer.landed:
                writer.folder(entry.path, entry.image.attrs)
            elif entry.base is not None and not made.rehearsing:
                writer.made.add(entry.path)  # the image that gets further levels
            levels = _made(entry.levels, writer, made)
            if not writer.landed and (entry.base is None or not made.rehearsing):
                writer.image(entry.path, entry.image)
            made.fill_image(entry, levels)
    for companion in draft.companions:
        made.copy(companion, writer.store)


def _together(
    entries: Iterable[DraftFolder | DraftArray | DraftImage],
) -> Iterator[DraftFolder | DraftImage | list[DraftArray]]:
    """The same in their order; arrays of one folder that follow each other are a list."""
    waiting: list[DraftArray] = []
    for entry in entries:
        if waiting and not (isinstance(entry, DraftArray) and _folder_of(entry) == _folder_of(waiting[0])):
            yield waiting
            waiting = []
        if isinstance(entry, DraftArray):
            waiting.append(entry)
        else:
            yield entry
    if waiting:
        yield waiting


def _folder_of(draft: DraftArray) -> str:
    return draft.path.rpartition("/")[0]


def _made(drafts: Sequence[DraftArray], writer: ImageWriter, made: Made) -> list[tuple[DraftArray, Array]]:
    """The arrays of drafts, which lie in one folder."""
    before = len(made.arrays)

    def make_one(draft: DraftArray) -> tuple[DraftArray, Array]:
        array = writer.array(draft.path, draft.options, draft.attrs)
        # At once, for whoever has to remove what was made when another fails.
        made.arrays.append((draft, array))
        return draft, array

    # Of those that are made at once, none has to make the groups that it lies in.
    first = 0 if _folder_of(drafts[0]) in writer.made else 1
    found = [*map(make_one, drafts[:first]), *writer.store.each(make_one, drafts[first:])]
    made.arrays[before:] = found
    return found


def path_in(store: Store, array: Array) -> str:
    """Where an array lies, counted from a store in which it does."""
    folder = array.store.root.removeprefix(store.root).strip("/")
    return "/".join(filter(None, (folder, array.path)))
