"""One conversion from beginning to end: what is made, in which steps it is filled, and what the report says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.converting.describing import carried
from zvcore.converting.destination import Destination, destination_of
from zvcore.converting.geometry import Axes, coarser, seen
from zvcore.converting.journal import Journal, read_journal
from zvcore.converting.progress import shown
from zvcore.converting.pyramids import CoarseView, factors_of, is_labels, level_shapes, plan_levels, whole
from zvcore.converting.running import run_units
from zvcore.converting.sources import Leaf, Node, Pyramid, collect
from zvcore.converting.steps import plan_copy
from zvcore.converting.target import Wishes, creation_options
from zvcore.converting.verifying import Comparison
from zvcore.converting.view import View, make_view, parse_region
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.report import ConversionReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from zvcore.array import Array
    from zvcore.stores import Store

__all__ = ["Job"]


@dataclass
class Step:
    """A part of the work whose units need nothing of each other; steps are done one after the other."""

    name: str
    work: Any


class Job:
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
        self.store = store
        self.wishes = wishes
        self.region = region
        self.dtype = dtype
        self.clip = clip
        self.levels = levels
        self.method = method
        self.factors = factors
        self.memory = memory
        self.nodes = collect(source)
        self._refuse_overlap()
        self._refuse_unclear()
        self.journal = self._journal(overwrite, resume)
        self.steps: list[Step] = []
        self.pairs: list[tuple[str, View | CoarseView, Array]] = []

    # --- before anything is written

    def _arrays(self) -> list[Leaf]:
        found: list[Leaf] = []
        for node in self.nodes:
            found.extend([node] if isinstance(node, Leaf) else node.levels if isinstance(node, Pyramid) else [])
        return found

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
        found = read_journal(self.store)
        task = self._task()
        if found is not None and resume:
            try:
                journal = Journal(self.store, task, found)
            except ConflictError:
                if not overwrite:
                    raise
            else:
                self.resuming = True
                return journal
        self.resuming = False
        present = found is not None or opening.detect(self.store) is not None
        if present:
            if not overwrite:
                raise ConflictError("something is here already; overwrite=True replaces it", key=self.store.root)
            self.store.delete_prefix("")
        return Journal(self.store, task, None)

    # --- making the destination

    def prepare(self) -> Destination:
        destination = destination_of(self.wishes.format, self.store, self.resuming)
        self.journal.begin()
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
                answer.append(Pyramid(node.path, [Leaf("", node.array, node.axes)], attrs))
            else:
                answer.append(node)
        return answer

    def _view(self, leaf: Leaf, region: Any) -> View:
        names = [axis.name for axis in leaf.axes]
        channel = next((i for i, name in enumerate(names) if name in ("c", "channel")), None)
        parsed = parse_region(region, leaf.array.shape)
        check = getattr(leaf.array, "_check_items", None)
        if check is not None:
            check()
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
        self._fill(view, target, leaf.path)

    def _options(self, view: View, axes: Axes) -> dict[str, Any]:
        options = creation_options(view, self.wishes)
        if self.wishes.format == "zarr3":
            names = [axis.name for axis in axes]
            if any(name is not None for name in names):
                options.setdefault("dimension_names", names)
        return options

    def _fill(self, view: View, target: Array, name: str) -> None:
        work = plan_copy(view, target, self.wishes.effort, self.memory, name)
        self.steps.append(Step(f"{len(self.steps)}:{name}", work))
        self.pairs.append((name, view, target))

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
                options = self._finer_sharding(options, last)
            known = coarse if destination.format == "precomputed" else None
            added.append(destination.array(below + name, options, {}, known))
        destination.pyramid(node.path, names, axes, node.name, node.method or (method if shapes else None))
        for view, target, name in zip(views[:-1], made[:-1], names, strict=False):
            self._fill(view, target, below + name)
        if not added:
            self._fill(views[-1], made[-1], below + names[len(views) - 1])
            return
        base = plan_copy(views[-1], made[-1], self.wishes.effort, self.memory, below + names[len(views) - 1])
        for work in plan_levels(base, added, [factors for _, factors in shapes], method, self.memory):
            self.steps.append(Step(f"{len(self.steps)}:{work.name}", work))
        self.pairs.append((base.name, views[-1], made[-1]))
        for finer, target, (_, factors) in zip([made[-1], *added], added, shapes, strict=False):
            coarse_view = CoarseView(whole(finer), factors, method, base.part)
            self.pairs.append((f"{base.name}: coarser", coarse_view, target))

    def _region_of(self, region: Any, finest: Leaf, leaf: Leaf) -> Any:
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

    def _finer_sharding(self, options: dict[str, Any], view: View) -> dict[str, Any]:
        """Bits that suit the size of a coarser scale, in place of those of the finest."""
        if options.get("sharding") not in (None, "advise"):
            options = {**options, "sharding": "advise"}
        if options.get("shards") is not None:
            chunks = options["chunks"]
            grid = [-(-n // c) for n, c in zip(options["shape"], chunks, strict=True)]
            wanted = [
                min(s, 2 ** (g - 1).bit_length() * c) for s, g, c in zip(options["shards"], grid, chunks, strict=False)
            ]
            options = {**options, "shards": tuple(wanted)}
        return options

    # --- running

    def run(
        self,
        *,
        threads: int | None,
        client: Any,
        progress: bool | Callable[[int, int], Any],
        verify: bool,
    ) -> ConversionReport:
        report = ConversionReport()
        destination = self.prepare()
        for note in destination.notes:
            report.add("", note, fatal=False)
        total = sum(len(step.work) for step in self.steps)
        report.units = total
        with shown(progress, total, "converting") as tell:
            for step in self.steps:
                self._run_step(step, report, threads, client, tell)
        if verify:
            self._verify(report, threads, client, progress)
        self.journal.end()
        return report

    def _run_step(self, step: Step, report: ConversionReport, threads: int | None, client: Any, tell: Any) -> None:
        work = step.work
        done = self.journal.done(step.name, len(work))
        report.resumed += sum(done)
        tell(sum(done))
        report.memory = max(report.memory, work.unit_memory)
        left = (unit for unit, is_done in enumerate(done) if not is_done)
        try:
            for unit, outcome in run_units(work, left, threads=threads, memory=self.memory, client=client):
                self.journal.add(step.name, unit)
                for name, number in vars(outcome).items():
                    setattr(report, name, getattr(report, name) + number)
                tell(1)
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
