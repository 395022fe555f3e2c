"""What of a store goes into no other format, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.exchange.tractogram_header import ATTRIBUTE
from zvcore.zvf.attributes import GROUP_NAMES
from zvcore.zvf.nodes import child_nodes, join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.zvf.nodes import Node
    from zvcore.zvf.vector_store import Level, VectorStore

__all__ = ["untold_of_lines", "untold_of_points"]

# Attributes of the root that conversions take, or that say how the store is laid out.
_TAKEN = {"zarr_vectors", "multiscales", "ome", ATTRIBUTE, GROUP_NAMES}
_OF_ATTRIBUTES = ("unit", "description")


def untold_of_lines(source: VectorStore, level: Level) -> list[str]:
    """What conversions of lines leave out."""
    return [*_of_root(source), *_of_level(level), *_of_attributes(level, ("vertex_attributes", "object_attributes"))]


def untold_of_points(source: VectorStore, level: Level) -> list[str]:
    """What conversions of points leave out: all that makes more of them than points, too."""
    found = [*_of_root(source), *_of_level(level), *_of_attributes(level, ("vertex_attributes",))]
    if level.objects is not None:
        found.append("which object a point belongs to has no place among annotations")
    found += [f"the attribute {name!r} of objects is left out" for name in level.object_attribute_names()]
    if level.groups():
        found.append("groups of objects are left out")
    if level.link_deltas():
        found.append("links between vertices (edges, faces) are left out")
    return found


def _of_root(source: VectorStore) -> Iterator[str]:
    if len(source.levels) > 1:
        yield "coarser levels are left out"
    if source.metadata.get("crs") is not None:
        yield "the coordinate reference system (crs) is left out"
    for name in source.node.attrs:
        if name not in _TAKEN:
            yield f"the attribute {name!r:.60} of the store is left out"
    levels = {str(number) for number in source.levels}
    for node in child_nodes(source.store, ""):
        if node.path not in levels:
            yield f"{node.path!r} beside the levels is left out"


def _of_level(level: Level) -> Iterator[str]:
    for what in ("fragment", "group", "link"):
        for node in child_nodes(level.store, join(level.path, f"{what}_attributes")):
            yield f"the attribute {_name(node)!r} of {what}s is left out"


def _of_attributes(level: Level, families: tuple[str, ...]) -> Iterator[str]:
    for family in families:
        for node in child_nodes(level.store, join(level.path, family)):
            for member in _OF_ATTRIBUTES:
                if node.attrs.get(member) is not None:
                    yield f"the {member} of the attribute {_name(node)!r} is left out: {node.attrs[member]!r:.60}"


def _name(node: Node) -> str:
    return node.path.rpartition("/")[2]
