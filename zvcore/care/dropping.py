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
    damaged = {
        problem.where: problem.chunk
        for problem in found.problems
        if problem.damage and isinstance(problem.chunk, tuple)
    }

    def dropped(key: str) -> tuple[int, str] | None:
        size = patient.store.size(key)
        return None if size is None else (size, patient.drop(key))

    for (key, place), gone in zip(damaged.items(), patient.store.each(dropped, [*damaged]), strict=True):
        if gone is not None:
            size, kept = gone
            what = f"the {chunk} is left out and reads as {fill}{kept}"
            report.lose(key, what, chunk=place, offset=0, length=size)
            report.count(f"{chunk}s dropped")
    return report


def nothing_to_compact() -> Report:
    """The report where chunks are replaced as a whole: there are no dead bytes."""
    report = Report()
    report.count("bytes saved", 0)
    return report
