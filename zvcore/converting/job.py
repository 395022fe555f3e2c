"""One conversion from beginning to end: what is made, in which steps it is filled, and what the report says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.conversion_note import KEY, read_note
from zvcore.converting.describing import carried
from zvcore.converting.destination import Destination, destination_of
from zvcore.converting.geometry import seen
from zvcore.converting.journal import Journal
from zvcore.converting.pyramids import factors_of, level_shapes
from zvcore.converting.sources import Leaf, Node, Pyramid, collect
from zvcore.converting.steps import plan_copy
from zvcore.converting.target import Wishes, creation_options, smaller_sharding
from zvcore.converting.undertaking import Undertaking
from zvcore.converting.view import View, make_view, parse_region
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.images import Level, coarser, is_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from zvcore.array import Array
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["Job"]


class Job(Undertaking):
    """A conversion from one place to another."""

    def __init__(
        self,
        source: Any,
        store: Store,
        wishes: Wishes,
        *,
        region: Any,
        dtype: np.dtype[Any] | None,
        clip: bool,
        levels: int,
        method: str | None,
        factors: tuple[int, ...] | None,
        memory: int,
        overwrite: bool,
        resume: bool,
    ) -> None:
        if levels < 0:
            raise ValueError(f"levels is how many coarser levels to make, not {levels}")
        if memory < 1:
            raise ValueError(f"memory is a number of bytes, not {memory}")
        if method not in (None, "mean", "mode"):
            raise ValueError(f"method is 'mean' or 'mode', not {method!r}")
        super().__init__(store, memory)
        self.wishes = wishes
        self.region = region
        self.dtype = dtype
        self.clip = clip
        self.levels = levels
        self.method = method
        self.factors = factors
        self.nodes = collect(source)
        self._leave_out()
        self._refuse_overlap()
        self._refuse_unclear()
        self.journal = self._journal(overwrite, resume)

    # --- before anything is written

    def _arrays(self) -> list[Leaf | Level]:
        found: list[Leaf | Level] = []
        for node in self.nodes:
            found.extend([node] if isinstance(node, Leaf) else node.levels if isinstance(node, Pyramid) else [])
        return found

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
        self.nodes = kept

    def _refuse_overlap(self) -> None:
        target = self.store.root.rstrip("/")
        for leaf in self._arrays():
            root = leaf.array.layout.store.root.rstrip("/")
            if root == target or root.startswith(f"{target}/") or target.startswith(f"{root}/"):
                raise ConflictError("source and destination are the same place, or one lies in the other", key=target)

    def _refuse_unclear(self) -> None:
        images = [node for node in self.nodes if isinstance(node, Leaf | Pyramid)]
        if self.region is not None and len(images) > 1:
            raise UnsupportedError("a region is of one array or one multiscale set; this is a group of several")
        if self.wishes.format == "precomputed" and len(images) > 1:
            names = ", ".join(repr(node.path) for node in images[:5])
            raise UnsupportedError(f"a precomputed volume is one image; this group has several: {names}")

    def _task(self) -> dict[str, Any]:
        """What was asked for, to know it again."""
        wishes = self.wishes
        arrays = [
            [
                leaf.path,
                leaf.array.layout.store.root,
                list(leaf.array.shape),
                str(leaf.array.dtype),
                list(leaf.array.chunks),
            ]
            for leaf in self._arrays()
        ]
        asked = [wishes.format, wishes.chunks, wishes.shards, wishes.codec, wishes.sharding, wishes.options]
        rest = [self.region, self.dtype, self.clip, self.levels, self.method, self.factors]
        return {"arrays": arrays, "asked": [repr(one) for one in [*asked, *rest]]}

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
            raise _occupied(self.store.root)
        return Journal(self.store, task, None)

    # --- making the destination

    def prepare(self) -> Destination:
        if not self.resuming:
            scratch = self.rehearse(self._make)
            if self.replacing:
                self._clear()
            else:
                self._refuse_occupied(scratch)
        self.journal.begin()
        return self._make(self.store)

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

    def _refuse_occupied(self, scratch: Store) -> None:
        """What others have stored within this place is not taken for what we have made, now or by the next run."""
        keys = [*scratch.list()]
        for key, taken in zip(keys, self.store.each(self.store.exists, keys), strict=True):
            if taken:
                raise _occupied(f"{self.store.root}/{key}")

    def _make(self, store: Store) -> Destination:
        destination = destination_of(self.wishes.format, store, self.resuming)
        for node in self._wanted(destination):
            if isinstance(node, Leaf):
                self._leaf(destination, node)
            elif isinstance(node, Pyramid):
                self._pyramid(destination, node)
            else:
                attrs, lost = carried(node.attrs, self._source_format, self.wishes.format, True)
                self._lost(destination, node.path, lost)
                destination.folder(node.path, attrs)
        return destination

    @property
    def _source_format(self) -> str:
        return self._arrays()[0].array.format

    def _wanted(self, destination: Destination) -> list[Node]:
        """The nodes as they will be: one scale alone is an array, an array with levels a pyramid."""
        answer: list[Node] = []
        for node in self.nodes:
            if isinstance(node, Pyramid) and len(node.levels) == 1 and not self.levels and not node.attrs:
                leaf = node.levels[0]
                if destination.format == "precomputed":
                    answer.append(node)
                else:
                    answer.append(Leaf(node.path, leaf.array, leaf.axes))
            elif isinstance(node, Leaf) and (self.levels or destination.format == "precomputed"):
                attrs: Any = node.array.attrs if node.array.format != "precomputed" else {}
                answer.append(Pyramid(node.path, [Level("", node.array, node.axes)], attrs))
            else:
                answer.append(node)
        return answer

    def _view(self, leaf: Leaf | Level, region: Any) -> View:
        names = [axis.name for axis in leaf.axes]
        channel = next((i for i, name in enumerate(names) if name in ("c", "channel")), None)
        parsed = parse_region(region, leaf.array.shape)
        leaf.array.check_items()
        return make_view(leaf.array, self.wishes.format, parsed, channel_axis=channel, dtype=self.dtype, clip=self.clip)

    def _lost(self, destination: Destination, path: str, names: Sequence[str]) -> None:
        for name in names:
            destination.notes.append(f"the attribute {name!r} of {path or 'the root'} has no place in this format")

    def _leaf(self, destination: Destination, leaf: Leaf) -> None:
        view = self._view(leaf, self.region)
        same_place = self.region is None and view.axes == tuple(range(leaf.array.ndim))
        attrs, lost = carried(leaf.array.attrs, leaf.array.format, destination.format, same_place)
        self._lost(destination, leaf.path, lost)
        axes = seen(leaf.axes, view)
        options = self._options(view, axes)
        kept = same_place and leaf.array.format == destination.format
        target = destination.array(leaf.path, options, attrs, None if kept else axes)
        self.fill(view, target, leaf.path, self.wishes.effort)

    def _options(self, view: View, axes: Axes) -> dict[str, Any]:
        options = creation_options(view, self.wishes)
        if self.wishes.format == "zarr3":
            names = [axis.name for axis in axes]
            if any(name is not None for name in names):
                options.setdefault("dimension_names", names)
        return options

    # --- pyramids

    def _pyramid(self, destination: Destination, node: Pyramid) -> None:
        finest = node.levels[0]
        region = parse_region(self.region, finest.array.shape)
        views = [self._view(leaf, self._region_of(region, finest, leaf)) for leaf in node.levels]
        axes = [seen(leaf.axes, view) for leaf, view in zip(node.levels, views, strict=True)]
        kind = node.kind or ("segmentation" if is_labels(views[0].value_dtype) else None)
        method = self.method or ("mode" if kind == "segmentation" else "mean")
        if destination.format == "precomputed":
            destination.kind = node.kind or kind  # type: ignore[attr-defined]
        wanted: list[str | None] = [
            leaf.path if leaf.path and leaf.array.format != "precomputed" else None for leaf in node.levels
        ]
        last = views[-1]
        names_here = [axis.name for axis in axes[-1]]
        shapes = level_shapes(
            last.shape, factors_of(self.factors, destination.format, last.shape, names_here), self.levels
        )
        names = destination.level_names([*wanted, *[None] * len(shapes)])
        if destination.format != "precomputed":
            attrs, lost = carried(node.attrs, finest.array.format, destination.format, False)
            self._lost(destination, node.path, lost)
            destination.folder(node.path, attrs)
        below = f"{node.path}/" if node.path else ""
        said = axes if destination.format == "precomputed" else [None] * len(axes)
        made: list[Array] = []
        for view, place, known, name in zip(views, axes, said, names, strict=False):
            made.append(destination.array(below + name, self._options(view, place), {}, known))
        coarse = axes[-1]
        added: list[Array] = []
        for (shape, factors), name in zip(shapes, names[len(views) :], strict=True):
            coarse = coarser(coarse, factors)
            axes.append(coarse)
            options = {**self._options(last, coarse), "shape": shape}
            if destination.format == "precomputed":
                options = smaller_sharding(options)
            known = coarse if destination.format == "precomputed" else None
            added.append(destination.array(below + name, options, {}, known))
        destination.pyramid(node.path, names, axes, node.name, node.method or (method if shapes else None))
        for view, target, name in zip(views[:-1], made[:-1], names, strict=False):
            self.fill(view, target, below + name, self.wishes.effort)
        if not added:
            self.fill(views[-1], made[-1], below + names[len(views) - 1], self.wishes.effort)
            return
        name = below + names[len(views) - 1]
        base = plan_copy(views[-1], made[-1], self.wishes.effort, self.memory, name, needed=True)
        self.fill_levels(base, added, [factors for _, factors in shapes], method)

    def _region_of(self, region: Any, finest: Level, leaf: Level) -> Any:
        """The part of a coarser level that shows the region of the finest one."""
        if self.region is None or leaf is finest:
            return self.region
        found: list[Any] = []
        for (first, stop, stays), fine, coarse in zip(region, finest.array.shape, leaf.array.shape, strict=True):
            factor = max(1, round(fine / coarse)) if coarse else 1
            found.append(
                slice(first // factor, min(coarse, -(-stop // factor))) if stays else min(first // factor, coarse - 1)
            )
        return tuple(found)


def _occupied(where: str) -> ConflictError:
    return ConflictError(
        "something is here already; overwrite=True replaces it (if it is this conversion, it has ended already)",
        key=where,
    )
