"""Conversions of annotations and points: between formats that have such, and tables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from zvcore.converting.table_reading import faults_of
from zvcore.converting.table_writing import write_table
from zvcore.converting.tables import READ, ending_of
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.format import get_format
from zvcore.report import ConversionReport, Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.exchange.rows import Rows
    from zvcore.stores import Store

__all__ = ["convert_rows", "is_table", "rows_of", "table_format"]


def table_format(format: str) -> str | None:
    """How files of a table format end; None for formats of arrays."""
    ending = f".{format}"
    return ending if ending in READ else None


def is_table(src: Any) -> bool:
    """Whether a source is a table by its name."""
    return ending_of(src) in READ and os.path.isfile(src)


def rows_of(source: Any) -> Rows | None:
    """The rows of something that is open; None where it has none."""
    format = getattr(source, "format", None)
    return get_format(format).read_rows(source) if isinstance(format, str) else None


def convert_rows(
    rows: Rows, dst: Any, store: Store | None, format: str, options: Mapping[str, Any], *, overwrite: bool,
    strict: bool, fsync: bool = False,
) -> ConversionReport:  # fmt: skip
    """Write rows into a table, where `store` is None (then `fsync` says how), or in a format that has rows."""
    if strict and rows.losses:
        raise UnsupportedError("something would be lost", found="; ".join(rows.losses))
    report = ConversionReport()
    if store is None:
        if options:
            raise TypeError(f"a table has no option {min(options)!r}")
        if os.path.exists(dst) and not overwrite:
            raise ConflictError("there is a file already; overwrite=True replaces it", key=os.fspath(dst))
        done = Report()
        ending = table_format(format)
        if ending_of(dst) != ending:
            raise ValueError(f"the name of a file of {format} ends with {ending}")
        with faults_of(rows.source):
            done.count("rows", write_table(os.fspath(dst), rows, fsync=fsync))
        for loss in rows.losses:
            done.lose("", loss)
    else:
        with faults_of(rows.source):
            done = get_format(format).write_rows(store, rows, options, overwrite)
    report.extend(done)
    return report
