"""What notebooks show of arrays, groups and reports: small tables in HTML. Every text in them is escaped."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["listing", "table"]

# Of more rows, and of longer texts, only the beginning is shown: both may come from anyone's documents.
_MOST_ROWS = 30
_LONGEST = 300


def table(title: str, rows: Mapping[str, Any]) -> str:
    """A heading and lines of two cells each."""
    lines = "".join(
        f'<tr><th style="text-align:left">{_cell(name)}</th><td style="text-align:left">{_cell(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption><b>{_cell(title)}</b></caption>{lines}</table>"


def listing(title: str, rows: Mapping[str, Any], items: Iterable[Any]) -> str:
    """A table, and a list below it."""
    shown = list(islice(items, _MOST_ROWS + 1))
    more = "<li>...</li>" if len(shown) > _MOST_ROWS else ""
    lines = "".join(f"<li>{_cell(item)}</li>" for item in shown[:_MOST_ROWS])
    return f"<div>{table(title, rows)}<ul>{lines}{more}</ul></div>"


def _cell(value: Any) -> str:
    text = str(value)
    return escape(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")
