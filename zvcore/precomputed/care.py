"""Looking after precomputed data: volumes with what belongs to them, meshes, skeletons, annotations, bare shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.care.refusals import refusal
from zvcore.care.rewriting import Patient
from zvcore.care.walking import below, look_at_all
from zvcore.errors import InvalidKeyError, MetadataError, ZvcoreError
from zvcore.precomputed.inspection import inspect
from zvcore.precomputed.kinds import MESHES, kind_of
from zvcore.precomputed.metadata import INFO, read_info
from zvcore.precomputed.parts import Shards, members_of, parts_of
from zvcore.precomputed.shard_check import Judge
from zvcore.precomputed.shard_reader import ShardReader
from zvcore.precomputed.sharded_store import as_spec
from zvcore.report import Problem, Report, What
from zvcore.stores import open_store
from zvcore.stores.copying import is_backup

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.precomputed.part import Part
    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["compact", "inspect", "repair", "verify"]


def verify(
    store: str | os.PathLike[str] | Store,
    *,
    only: Sequence[str] | None = None,
    fast: bool = False,
    threads: int | None = None,
    watch: Callable[[int], Any] | None = None,
    spec: ShardingSpec | Mapping[str, Any] | str | None = None,
) -> Report:
    """Check everything in a folder and in the folders that it names, or, with `spec`, bare shards.

    With `fast`, values are not decoded: shards are checked by their indexes only. With `only`, only these
    objects (or what is in these folders) are checked; if it is empty, only the documents. `watch` is called with the
    number of further objects checked.
    """
    report = Report(watch=watch)

    def visit(part: Part, report: Report, only: Sequence[str] | None) -> None:
        try:
            part.verify(report, only, fast)
        except (ZvcoreError, OSError) as error:
            report.tell(Problem.of(refusal(error, part.store.root), part.folder or INFO))

    _visit_all(open_store(store, "r"), report, only, threads, spec, visit)
    return report


def repair(
    store: str | os.PathLike[str] | Store,
    out: str | os.PathLike[str] | Store | None = None,
    *,
    only: Sequence[str] | None = None,
    threads: int | None = None,
    spec: ShardingSpec | Mapping[str, Any] | str | None = None,
) -> Report:
    """Rewrite damaged shards with their sound values, and remove files that cannot be decoded.

    With `out`, that is done in a copy of everything; without, the damaged files stay beside the new ones with `.bak`
    behind their names. Values that no reader finds where they are go where they belong, unless there is one already.
    Documents are never changed. The report names every problem that was found; `counts` says how many values were
    kept, moved and dropped.
    """
    original = open_store(store, "r" if out is not None else "r+")
    report = Report()
    patient = Patient.of(original, None if out is None else open_store(out, "w"), report)

    def visit(part: Part, report: Report, only: Sequence[str] | None) -> None:
        within = part.store.root.removeprefix(patient.store.root).strip("/")
        source = original.child(within) if within else original
        try:
            part.repair(patient.within(part.store), source, report, only)
        except (InvalidKeyError, MetadataError) as error:
            # Documents are not repaired.
            report.tell(Problem.of(error, part.folder or INFO))

    _visit_all(patient.store, report, only, threads, spec, visit)
    return report


def compact(store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
    """Rewrite shards that hold dead bytes.

    Damaged shards are left alone, and reported. Shards of meshes are left alone because the bytes that their index does
    not mention are fragments.
    """
    report = Report()
    if kind_of(read_info(store), INFO) != MESHES:
        for part in parts_of(store, read_info(store), threads, Report()):
            meant = below(only, part.folder)
            if isinstance(part, Shards) and (meant is None or meant):
                part.compact(report, meant)
    return report


def _visit_all(
    store: Store,
    report: Report,
    only: Sequence[str] | None,
    threads: int | None,
    spec: ShardingSpec | Mapping[str, Any] | str | None,
    visit: Callable[[Part, Report, Sequence[str] | None], None],
) -> None:
    """Visit each part that was asked for, in this folder and in those that its document names."""
    if spec is not None:
        visit(Shards(Judge(ShardReader(store, as_spec(spec)), threads)), report, only)
        return
    documents = only is not None and not only

    def look(store: Store, report: Report, only: Sequence[str] | None) -> list[str]:
        try:
            info = read_info(store)
            parts = [*parts_of(store, info, threads, report)]
        except ZvcoreError as error:
            report.tell(Problem.of(error, INFO))
            return []
        members = members_of(store, info)
        if not documents:
            for part in parts:
                meant = below(only, part.folder)
                if meant is None or meant:
                    visit(part, report, meant)
            _tell_strays(report, only, [*(part.folder for part in parts), *members])
        return members

    look_at_all(store, report, None if documents else only, look)


def _tell_strays(report: Report, only: Sequence[str] | None, known: Sequence[str]) -> None:
    """Report what was asked for and is in none of the folders."""
    for key in only or ():
        inside = any(not folder or key == folder or key.startswith(f"{folder}/") for folder in known)
        if not inside and key != INFO and not is_backup(key):
            report.add(key, "it belongs to nothing that info names", fatal=False, kind=What.STRAY)
