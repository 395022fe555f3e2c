"""Annotations and points on their way from one format to another: columns in batches, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Rows"]


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
