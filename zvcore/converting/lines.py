"""Conversions of lines: between formats that have such, as skeletons or as streamlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError
from zvcore.format import formats, get_format
from zvcore.report import ConversionReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.exchange.lines import Lines
    from zvcore.stores import Store

__all__ = ["convert_lines", "lines_of"]


def lines_of(source: Any, format: str) -> Lines | None:
    """The lines of something open, if the destination's format takes such from another."""
    name = getattr(source, "format", None)
    # Within a format, its objects are copied as they are.
    if not isinstance(name, str) or name == format or format not in formats() or not get_format(format).takes_lines:
        return None
    return get_format(name).read_lines(source)


def convert_lines(
    lines: Lines, store: Store, format: str, options: Mapping[str, Any], *, overwrite: bool, strict: bool
) -> ConversionReport:
    """Write lines in another format, in batches."""
    if strict and lines.losses:
        raise UnsupportedError("something would be lost", found="; ".join(lines.losses))
    report = ConversionReport()
    done = get_format(format).write_lines(store, lines, options, overwrite)
    for loss in lines.losses:
        report.lose("", loss)
    report.extend(done)
    return report
