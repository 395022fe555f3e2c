"""Conversions of annotations and points: between formats that have such, and tables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from zvcore.converting.tables import READ, ending_of
from zvcore.format import get_format

if TYPE_CHECKING:
    from zvcore.exchange.rows import Rows

__all__ = ["is_table", "rows_of", "table_format"]


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
