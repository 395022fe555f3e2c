"""Annotations in conversions: to and from points of other formats, and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError
from zvcore.exchange.options import refuse_unknown
from zvcore.exchange.rows import Rows, unfit
from zvcore.precomputed.annotation_info import MEMBERS
from zvcore.precomputed.annotation_writing import what_is_there, write_annotations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.precomputed.annotation_records import Columns
    from zvcore.precomputed.annotation_set import Annotations
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["read_rows", "refuse_rows", "write_rows"]


def read_rows(source: Annotations) -> Rows:
    """All annotations with their relationships."""
    columns = {id: source.form.names[id] for id in source.properties}
    declared = {
        columns[id]: {name: value for name, value in one.to_json().items() if name not in ("id", "default")}
        for id, one in source.properties.items()
    }

    def batches() -> Iterator[Columns]:
        found = False
        for batch in source.batches():
            found = True
            yield batch
        if not found:
            yield source.form.empty()

    return Rows(
        source.type, source.dimensions, batches, declared, list(source.form.related.values()),
        bounds=(source.lower_bound, source.upper_bound), losses=list(_untold(source)),
    )  # fmt: skip


def _untold(source: Annotations) -> Iterator[str]:
    """What `info` says besides, which goes into no other set."""
    for name in source.info:
        if name not in MEMBERS:
            yield f"the member {name!r:.60} of info is left out"
    for id, one in source.properties.items():
        if "default" in one.to_json():
            yield f"the default of the property {id!r} is left out"


def refuse_rows(store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> None:
    """Raise what is wrong with the rows, with the options, or with what is there."""
    given = ("properties", "relationships", "overwrite")
    refuse_unknown("precomputed", options, write_annotations, but=given, besides=("kind",))
    what_is_there(store, overwrite)
    if rows.missing:
        raise UnsupportedError(
            "values of annotations are not missing: fill them in", key=store.root, found=", ".join(sorted(rows.missing))
        )


def write_rows(store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> Report:
    """`options`: keyword arguments of `write_annotations`."""
    asked = dict(options)
    dimensions = asked.pop("dimensions", rows.dimensions)
    kind = asked.pop("kind", rows.type)
    # Batches need not have the same texts.
    texts = {
        name: {"type": _type_for(labels), "enum_labels": sorted(set(labels))} for name, labels in rows.texts.items()
    }
    try:
        report = write_annotations(
            store, kind, rows.batches(), dimensions=dimensions, properties={**texts, **rows.properties},
            relationships=rows.relationships, overwrite=overwrite, **asked,
        )  # fmt: skip
    except ValueError as error:
        raise unfit(error, rows, store) from error
    for loss in rows.losses:
        report.lose("", loss)
    return report


def _type_for(labels: Sequence[str]) -> str:
    """A type with a number for each text."""
    return next(f"uint{bits}" for bits in (8, 16, 32) if len(labels) <= 2**bits)
