"""Annotations and points on their way from one format to another: columns in batches, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zvcore.errors import UnfitValueError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zvcore.stores import Store

__all__ = ["Rows", "names_of_values", "unfit", "value_of_text"]


@dataclass
class Rows:
    """What a format gives of its points, lines, boxes and so on.

    type           point, line, axis_aligned_bounding_box, ellipsoid or polyline
    dimensions     {name: (scale, unit)} in the order of coordinates
    batches        gives columns by their names, some rows at a time: "id", positions, properties, relationships; a
                   column whose rows have different lengths has `values` and `offsets`
    properties     {column: {"type":, "description":, "enum_values":, "enum_labels":}}, as far as something is declared
    relationships  the columns that hold ids of segments
    count          how many there are, if that is known
    bounds         (lowest corner, highest corner), if they are known
    losses         what could not be given
    source         the file that they come from, which errors name; None: they come from no file
    types          {column: name of the type of its numbers}, as far as that is known before they are read
    texts          {column: the different texts in it}, as far as these are known
    missing        the columns in which values may be missing
    """

    type: str
    dimensions: dict[str, tuple[float, str]]
    batches: Callable[[], Iterator[dict[str, Any]]]
    properties: dict[str, dict[str, Any]] = field(default_factory=dict)
    relationships: list[str] = field(default_factory=list)
    count: int | None = None
    bounds: tuple[Any, Any] | None = None
    losses: list[str] = field(default_factory=list)
    source: str | None = None
    types: dict[str, str] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def unfit(error: ValueError, rows: Rows, store: Store) -> ValueError:
    """An error about values that come from a store, which are no mistake of the caller's. Of a file, others tell."""
    if rows.source is not None or isinstance(error, ZvcoreError):
        return error
    return UnfitValueError(str(error), key=store.root)


def names_of_values(declared: Mapping[str, Any]) -> dict[Any, str]:
    """{value: its name}, as a property declares them."""
    labels = declared.get("enum_labels") or ()
    return dict(zip(declared.get("enum_values") or range(len(labels)), labels, strict=False))


def value_of_text(text: str, names: Mapping[Any, str]) -> Any:
    """The value that a text stands for: the one of this name, or the number written so; None if none is."""
    for value, name in names.items():
        if name == text:
            return value
    for number in (int, float):
        try:
            value = number(text)
        except ValueError:
            continue
        if str(value) == text:
            return value
    return None
