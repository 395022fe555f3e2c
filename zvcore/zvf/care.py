"""Looking after whole stores: their arrays as Zarr arrays, then whether these agree with each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.care.describing import totals, unread
from zvcore.care.rewriting import Patient
from zvcore.errors import ZvcoreError
from zvcore.report import MOST_KEPT, Problem, Report, keeping
from zvcore.zarr3 import care as arrays
from zvcore.zarr3.metadata import DOCUMENT
from zvcore.zvf.salvage import settle
from zvcore.zvf.validation import Finding, validate
from zvcore.zvf.vector_store import VectorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.stores import Store

__all__ = ["compact", "inspect", "repair", "verify"]


def verify(
    store: Store,
    *,
    only: Sequence[str] | None = None,
    fast: bool = False,
    threads: int | None = None,
    watch: Callable[[int], Any] | None = None,
) -> Report:
    """Check all arrays, then whether they agree with each other, as `validate` does.

    With `fast`, neither chunks nor cells are decoded: structure, metadata and checksums are checked. `watch` is
    called with the number of further objects checked.
    """
    bounded = Report()
    # What is asked for may be too few to tell what follows from what.
    with keeping(None if bounded.most is None else max(bounded.most, MOST_KEPT)):
        report = arrays.verify(store, only=only, fast=fast, threads=threads, watch=watch)
    if not only:
        _agree(store, fast, report)
    bounded.extend(report)
    return bounded


def _agree(store: Store, fast: bool, report: Report) -> None:
    """Check whether arrays agree with each other, whose own problems are reported."""
    # What cannot be read is reported once, with its bytes.
    broken = [problem for problem in report.problems if problem.fatal]
    countless = report.wrong > len(broken)
    if countless and not fast:
        report.add("", "with so many problems, cells are not compared with each other", fatal=False)
    with keeping(None):
        findings = validate(VectorStore(store), level=2 if fast or countless else 5).problems
    for finding in findings:
        if not any(_leads_to(problem, finding) for problem in broken):
            report.tell(finding if finding.where else replace(finding, where=DOCUMENT))


def _leads_to(problem: Problem, finding: Problem) -> bool:
    """Whether a finding merely follows from a problem with an array's bytes."""
    if not finding.fatal or not finding.where or (isinstance(finding, Finding) and finding.object_id is not None):
        return False
    if problem.where == finding.where:
        return True
    array = finding.where.removesuffix(f"/{DOCUMENT}")
    if not problem.where.startswith(f"{array}/"):
        return False
    return not isinstance(finding.chunk, tuple) or problem.chunk in (None, finding.chunk)


def repair(
    store: Store,
    out: Store | None = None,
    *,
    only: Sequence[str] | None = None,
    threads: int | None = None,
) -> Report:
    """Remove chunks that cannot be decoded, as for Zarr, and everything that depends on them.

    A chunk that lost its vertices or fragments is removed with its attributes, and so is every object that had a part
    in it: its manifest becomes empty, as if the object had never existed. Each is reported as a loss.
    """
    report = arrays.repair(store, out, only=only, threads=threads)
    try:
        settle(Patient(store, True) if out is None else Patient(out, False), report)
    except ZvcoreError as error:
        report.tell(Problem.of(error))
    return report


def compact(store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
    """Rewrite shards that hold dead bytes."""
    return arrays.compact(store, only=only, threads=threads)


def inspect(store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """What a store holds: its geometry, and objects, vertices and bytes of each level."""
    if only is not None:
        return arrays.inspect(store, only=only, threads=threads)
    opened = VectorStore(store)
    levels = []
    for number in opened.levels:
        try:
            levels.append(_inspect_level(opened, number, threads))
        except ZvcoreError as error:
            levels.append({**unread("zvf", error), "level": number})
    return {
        "format": "zvf",
        "kind": "vectors",
        "version": opened.version,
        "geometry": opened.geometry_types,
        "ndim": opened.ndim,
        "chunk_shape": opened.chunk_shape,
        "bounds": opened.bounds,
        "attributes": dict(opened.node.attrs),
        "levels": levels,
    }


def _inspect_level(opened: VectorStore, number: int, threads: int | None) -> dict[str, Any]:
    level = opened.level(number)
    objects, size = totals(opened.store, opened.store.list(level.path), threads)
    index = level.objects
    return {
        "level": number,
        "chunk_shape": level.chunk_shape,
        "vertices": level.vertex_count,
        "objects_indexed": None if index is None else len(index),
        "chunks": len(level.vertices.stored()),
        "attributes": level.attribute_names(),
        "object_attributes": level.object_attribute_names(),
        "objects": objects,
        "stored_bytes": size,
    }
