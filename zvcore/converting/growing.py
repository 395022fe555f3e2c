"""Coarser levels added to a pyramid where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.conversion_note import read_note
from zvcore.converting.destination import Destination, destination_of
from zvcore.converting.journal import Journal
from zvcore.converting.pyramids import CoarseView, factors_of, level_shapes, whole
from zvcore.converting.sources import Pyramid, collect
from zvcore.converting.steps import PART_BYTES, plan_copy
from zvcore.converting.target import Wishes, creation_options, smaller_sharding
from zvcore.converting.undertaking import Undertaking
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.images import coarser, is_labels

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.stores import Store

__all__ = ["Growing"]


class Growing(Undertaking):
    """Makes levels above the coarsest one of the pyramid that is stored at a place."""

    def __init__(
        self,
        source: Any,
        store: Store,
        *,
        levels: int,
        method: str | None,
        factors: tuple[int, ...] | None,
        memory: int,
    ) -> None:
        super().__init__(store, memory)
        nodes = collect(source)
        pyramids = [node for node in nodes if isinstance(node, Pyramid)]
        if len(pyramids) != 1 or pyramids[0].path:
            raise UnsupportedError(
                "levels are added to one pyramid: a volume, or a group that says which arrays are its levels. "
                "Of an array alone, downsample(src, dst) makes one",
                key=store.root,
            )
        self.node = pyramids[0]
        self.levels = levels
        self.method = method
        self.factors = factors
        task = {"grow": [repr(one) for one in (store.root, levels, method, factors)]}
        self.found = read_note(store)
        if self.found is not None:
            # Levels that the run before has made already are not the ones to begin from.
            named = self.found.get("task", {}).get("from")
            kept = [leaf for leaf in self.node.levels if isinstance(named, list) and leaf.path in named]
            self.node.levels = kept or self.node.levels
        task["from"] = [leaf.path for leaf in self.node.levels]
        self.journal = Journal(store, task, self.found)
        self.added: list[Array] = []

    def prepare(self) -> Destination:
        if self.found is None:
            self.rehearse(self._make)
        try:
            return self._make(self.store)
        except ZvcoreError:
            if self.found is None and not self.added:
                # Nothing was written: the pyramid is as sound as it was.
                self.journal.end()
            raise

    def _make(self, store: Store) -> Destination:
        """The levels, in the place itself or, to see whether they can be made, in another."""
        here = store is self.store
        node = self.node
        array = node.levels[-1].array
        format = array.format
        destination = destination_of(format, store, here and self.found is not None)
        view = whole(array)
        kind = node.kind or ("segmentation" if is_labels(array.dtype) else None)
        method = self.method or node.method_of_ours or ("mode" if kind == "segmentation" else "mean")
        names = [axis.name for axis in node.levels[-1].axes]
        shapes = level_shapes(array.shape, factors_of(self.factors, format, array.shape, names), self.levels)
        wishes = Wishes(format)
        axes = [leaf.axes for leaf in node.levels]
        paths = destination.level_names([*(leaf.path for leaf in node.levels), *[None] * len(shapes)])
        if format == "precomputed":
            destination.finest = axes[0]  # type: ignore[attr-defined]
            destination.kind = node.kind  # type: ignore[attr-defined]
        if here:
            self.journal.begin()
        added = self.added = []
        for (shape, factors), path in zip(shapes, paths[len(axes) :], strict=True):
            axes.append(coarser(axes[-1], factors))
            options = {**creation_options(view, wishes), "shape": shape}
            if format == "precomputed":
                options = smaller_sharding(options)
            if format == "zarr3" and any(names):
                options["dimension_names"] = names
            added.append(destination.array(path, options, {}, axes[-1] if format == "precomputed" else None))
        if not added:
            return destination
        if here:
            destination.pyramid("", paths, axes, node.name, node.method or method)
        first = CoarseView(view, shapes[0][1], method, max(1, min(PART_BYTES, self.memory // 8)))
        base = plan_copy(first, added[0], False, self.memory, paths[len(node.levels)] or str(array.shape), needed=True)
        self.fill_levels(base, added[1:], [factors for _, factors in shapes[1:]], method)
        return destination
