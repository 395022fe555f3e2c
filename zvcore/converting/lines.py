"""Conversions of lines: between formats that have such, as skeletons or as streamlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.format import formats, get_format

if TYPE_CHECKING:
    from zvcore.exchange.lines import Lines

__all__ = ["lines_of"]


def lines_of(source: Any, format: str) -> Lines | None:
    """The lines of something open, if the destination's format takes such from another."""
    name = getattr(source, "format", None)
    if not isinstance(name, str) or format not in formats() or not get_format(format).takes_lines:
        return None
    # Within a format of several objects, these are copied as they are.
    if name == format and not get_format(format).suffixes:
        return None
    return get_format(name).read_lines(source)
