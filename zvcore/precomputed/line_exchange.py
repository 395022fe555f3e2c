"""Skeletons in conversions: lines become skeletons, and skeletons the lines that they consist of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import ConflictError
from zvcore.exchange.line_positions import StoredPositions, narrowed
from zvcore.exchange.lines import LineBatch, Lines
from zvcore.exchange.options import refuse_unknown
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.precomputed.skeletons import Skeleton, VertexAttribute, write_skeletons
from zvcore.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from zvcore.precomputed.skeletons import Skeletons
    from zvcore.stores import Store

__all__ = ["lines_lost", "lines_of", "read_lines", "refuse_lines", "write_lines"]

# Skeletons that are read at once, and from how many on they are sharded.
_BATCH = 1024
_MANY = 1000
_LARGEST_ID = 2**63 - 1
_MEMBERS = ("@type", "transform", "vertex_attributes", "sharding")
_STORED = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32")


def refuse_lines(store: Store, options: Mapping[str, Any], overwrite: bool) -> None:
    """Raise what is wrong with the options, or with what is there."""
    refuse_unknown("precomputed", options, write_skeletons, but=("vertex_attributes", "overwrite"))
    if store.exists("info") and not overwrite:
        raise ConflictError("there is an info already; overwrite=True replaces it", key=f"{store.root}/info")


def lines_lost(lines: Lines) -> Report:
    """What of these lines has no place in skeletons."""
    report = Report()
    for name, (dtype, _) in lines.attributes.items():
        kind = _stored_type(dtype)
        if np.dtype(kind) != dtype:
            report.lose("", f"the vertex attribute {name!r} of type {dtype} is stored as {kind}")
    for name in lines.of_objects:
        report.lose("", f"the attribute {name!r} of whole lines has no place in skeletons")
    for name in lines.groups:
        report.lose("", f"the group {name!r} of lines has no place in skeletons")
    for name in lines.attrs:
        report.lose("", f"the header of the {name} has no place in skeletons")
    return report


def write_lines(store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
    """Each line as a skeleton, whose vertices are in nanometers; `options` are those of `write_skeletons`."""
    report = lines_lost(lines)
    kinds = {name: np.dtype(_stored_type(dtype)) for name, (dtype, _) in lines.attributes.items()}
    declared = [VertexAttribute(name, kinds[name].name, number) for name, (_, number) in lines.attributes.items()]
    given = dict(options)
    sharding = given.pop("sharding", "advise" if lines.count > _MANY else None)
    if sharding == "advise":
        per_vertex = 20 + sum(one.dtype.itemsize * one.num_components for one in declared)
        size = per_vertex * (lines.vertices or 0)
        sharding = ShardingSpec.advise(count=lines.count, bytes=size)

    stored = StoredPositions(np.float32, np.diag([*[lines.nanometers] * 3, 1]), store.root, finite=True)

    def skeletons() -> Iterator[tuple[int, Skeleton]]:
        for batch in lines.batches():
            positions = stored(batch.positions)
            bounds = batch.offsets.tolist()
            for row, id in enumerate(batch.ids.tolist()):
                span = slice(bounds[row], bounds[row + 1])
                first = np.arange(max(bounds[row + 1] - bounds[row] - 1, 0), dtype=np.uint32)
                values = {name: narrowed(batch.attributes[name][span], kinds[name], name, store.root) for name in kinds}
                yield id, Skeleton(positions[span], np.stack([first, first + 1], -1), values)

    count = write_skeletons(
        store, skeletons(), vertex_attributes=declared, sharding=sharding, overwrite=overwrite, **given
    )
    stored.tell(report)
    report.count("skeletons", count)
    return report


def _stored_type(dtype: np.dtype[Any]) -> str:
    if dtype.name in _STORED:
        return dtype.name
    return "uint8" if dtype.kind == "b" else "float32"


def read_lines(skeletons: Skeletons) -> Lines:
    """The lines of skeletons: the whole of one without branches, or else the parts between branches and ends.

    All are looked at first: whether each is one line decides whose the ids are.
    """
    ids = skeletons.ids()
    counts = np.zeros(len(ids), np.int64)
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    vertices = 0
    for first, found in _skeletons(skeletons, ids):
        for row, skeleton in enumerate(found, first):
            parts = lines_of(skeleton)
            counts[row] = len(parts)
            vertices += sum(map(len, parts))
            if len(skeleton.vertices):
                low = np.minimum(low, skeleton.vertices.min(0))
                high = np.maximum(high, skeleton.vertices.max(0))
    losses = []
    kept = bool((counts <= 1).all()) and (not len(ids) or int(ids[-1]) <= _LARGEST_ID)
    several = int((counts > 1).sum())
    if several:
        losses.append(f"{several} skeletons with branches become several lines; `segment` says whose each is")
    elif not kept:
        losses.append("ids from 2**63 on have no place; `segment` says whose each line is")
    if (counts == 0).any():
        losses.append(f"{int((counts == 0).sum())} skeletons without vertices are left out")
    losses += [f"the member {name!r:.60} of info is left out" for name in skeletons.info if name not in _MEMBERS]
    attributes = {one.id: (one.dtype.newbyteorder("="), one.num_components) for one in skeletons.vertex_attributes}
    count = int(counts.sum())

    def batches() -> Iterator[LineBatch]:
        done = 0
        for first, found in _skeletons(skeletons, ids):
            rows = [(first + i, skeleton, line) for i, skeleton in enumerate(found) for line in lines_of(skeleton)]
            if not rows:
                continue
            numbers = ids[[row for row, _, _ in rows]] if kept else np.arange(done, done + len(rows))
            done += len(rows)
            yield LineBatch(
                numbers.astype(np.int64),
                np.concatenate([skeleton.vertices[line] for _, skeleton, line in rows]),
                np.cumsum([0, *(len(line) for _, _, line in rows)]),
                {name: np.concatenate([one.attributes[name][line] for _, one, line in rows]) for name in attributes},
            )

    whose = {} if kept else {"segment": np.repeat(ids, counts)}
    bounds = (low, high) if vertices else None
    numbered = not kept or np.array_equal(ids[counts > 0], np.arange(count))
    return Lines(count, batches, attributes, vertices, bounds, whose, losses, numbered=numbered)


def _skeletons(skeletons: Skeletons, ids: npt.NDArray[np.uint64]) -> Iterator[tuple[int, list[Skeleton]]]:
    """(row of the first, skeletons in nanometers), some at a time."""
    for first in range(0, len(ids), _BATCH):
        some = ids[first : first + _BATCH]
        found = skeletons.get_many(some)
        empty = Skeleton(np.zeros((0, 3), np.float32), np.zeros((0, 2), np.uint32))
        yield first, [found[id].in_nanometers(skeletons.transform) if id in found else empty for id in some.tolist()]


def lines_of(skeleton: Skeleton) -> list[npt.NDArray[np.int64]]:
    """The lines of a skeleton, each the numbers of its vertices: cut where other than two edges meet.

    A ring begins and ends at its first vertex; a vertex without edges is a line by itself.
    """
    count = len(skeleton.vertices)
    edges = skeleton.edges.astype(np.int64)
    first = np.arange(count - 1)
    if count and len(edges) == count - 1 and (edges == np.stack([first, first + 1], -1)).all():
        return [np.arange(count)]
    edges = edges[edges[:, 0] != edges[:, 1]]
    edges = np.unique(np.sort(edges, 1), axis=0)
    ends = np.concatenate([edges, edges[:, ::-1]])
    numbers = np.concatenate([np.arange(len(edges))] * 2)
    order = np.argsort(ends[:, 0], kind="stable")
    starts = np.searchsorted(ends[order, 0], np.arange(count + 1)).tolist()
    beside, along = ends[order, 1].tolist(), numbers[order].tolist()
    degree = np.diff(starts) if count else np.zeros(0, np.int64)
    used = bytearray(len(edges))
    found: list[npt.NDArray[np.int64]] = []
    # Ends and branches first; what is left then are rings.
    for vertex in [*np.flatnonzero(degree != 2).tolist(), *np.flatnonzero(degree == 2).tolist()]:
        if degree[vertex] == 0:
            found.append(np.array([vertex]))
        for at in range(starts[vertex], starts[vertex + 1]):
            if used[along[at]]:
                continue
            line, here = [vertex], at
            while True:
                used[along[here]] = 1
                line.append(beside[here])
                if degree[line[-1]] != 2 or line[-1] == vertex:
                    break
                begin = starts[line[-1]]
                here = begin if not used[along[begin]] else begin + 1
            found.append(np.array(line))
    return found
