"""Repair where each chunk is an object of its own: those that cannot be decoded are taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.care.rewriting import Patient
from zvcore.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.stores import Store

__all__ = ["drop_damaged", "nothing_to_compact"]


def drop_damaged(
    verify: Callable[..., Report],
    store: Store,
    out: Store | None,
    *,
    only: Sequence[str] | None,
    threads: int | None,
    chunk: str,
    fill: str,
) -> Report:
    """Remove the chunks that `verify` finds damaged, in a copy of everything or with a backup of each beside it.

    `chunk` and `fill` are what the format calls a chunk, and what those read as that are not stored.
    """
    report = Report()
    patient = Patient.of(store, out, report)
    found = verify(patient.store, only=only, threads=threads)
    report.extend(found)
    for problem in found.problems:
        key = problem.where
        if not problem.damage or not isinstance(problem.chunk, tuple) or not patient.store.exists(key):
            continue
        size = patient.store.size(key)
        what = f"the {chunk} is left out and reads as {fill}{patient.drop(key)}"
        report.lose(key, what, chunk=problem.chunk, offset=0, length=size)
        report.count(f"{chunk}s dropped")
    return report


def nothing_to_compact() -> Report:
    """The report where chunks are replaced as a whole: there are no dead bytes."""
    report = Report()
    report.count("bytes saved", 0)
    return report
