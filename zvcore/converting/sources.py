"""What there is to convert: single arrays, pyramids that some convention describes, and the folders they lie in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.array import Array
from zvcore.converting.describing import read_ome
from zvcore.converting.geometry import Axes, Axis, read_axes
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Folder", "Leaf", "Node", "Pyramid", "collect"]


@dataclass
class Leaf:
    """An array, and what is known of its axes, in its own order of them."""

    path: str
    array: Array
    axes: Axes


@dataclass
class Pyramid:
    """A multiscale set: its levels from the finest on; their paths count from the set's own."""

    path: str
    levels: list[Leaf]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    kind: str | None = None
    name: str | None = None
    method: str | None = None

    @property
    def method_of_ours(self) -> str | None:
        """By which method the levels that are there were made, if it is one of those that we have."""
        return self.method if self.method in ("mean", "mode") else None


@dataclass
class Folder:
    path: str
    attrs: Mapping[str, Any]


Node = Leaf | Pyramid | Folder


def collect(source: Any) -> list[Node]:
    """The nodes of an opened source, folders before what lies in them."""
    if isinstance(source, Array):
        return [Leaf("", source, read_axes(source))]
    format = _format_of(source)
    if format == "precomputed":
        return [_volume(source)]
    nodes = list(_group(source, format, ""))
    if not any(isinstance(node, Leaf | Pyramid) for node in nodes):
        raise NotFoundError("there is no array here to convert", key=source.store.root)
    return nodes


def _format_of(source: Any) -> str:
    if isinstance(source, opening.package("n5").N5Group):
        return "n5"
    if isinstance(source, opening.package("zarr3").Zarr3Group):
        return "zarr3"
    if isinstance(source, opening.package("precomputed").Volume):
        return "precomputed"
    if type(source).__module__.startswith("zvcore.zvf"):
        raise UnsupportedError("a Zarr Vectors store holds points and lines, not arrays; see zvcore.zvf")
    raise UnsupportedError(f"a {type(source).__name__} is neither an array nor a group of arrays")


def _volume(volume: Any) -> Node:
    levels = [Leaf(key, volume[key], ()) for key in volume]
    for leaf in levels:
        leaf.axes = read_axes(leaf.array)
    # Within one frame: the centre of the finest scale's first voxel lies at its offset.
    finest = levels[0].axes
    for leaf in levels:
        leaf.axes = tuple(
            axis
            if axis.scale is None or first.scale is None
            else Axis(axis.name, axis.unit, axis.scale, axis.offset + (axis.scale - first.scale) / 2)
            for axis, first in zip(leaf.axes, finest, strict=True)
        )
    return Pyramid("", levels, {}, volume.type)


def _group(group: Any, format: str, path: str) -> Iterator[Node]:
    below = f"{path}/" if path else ""
    found = _n5_set(group, path) if format == "n5" else _ome_set(group, path)
    taken: set[str] = set()
    if found is not None:
        yield found
        taken = {leaf.path for leaf in found.levels}
    else:
        yield Folder(path, group.attrs)
    for name in group:
        if name in taken:
            continue
        member = group[name]
        if isinstance(member, Array):
            yield Leaf(below + name, member, read_axes(member))
        else:
            within = {one.removeprefix(f"{name}/") for one in taken if one.startswith(f"{name}/")}
            yield from _without(_group(member, format, below + name), below + name, within)


def _without(nodes: Iterator[Node], path: str, taken: set[str]) -> Iterator[Node]:
    """The nodes of a folder, apart from arrays that a pyramid above has already."""
    gone = {f"{path}/{one}" for one in taken}
    for node in nodes:
        if isinstance(node, Leaf) and node.path in gone:
            continue
        if isinstance(node, Pyramid) and gone >= {f"{node.path}/{leaf.path}" for leaf in node.levels}:
            continue
        if (
            isinstance(node, Folder)
            and gone
            and any(one.startswith(f"{node.path}/") for one in gone)
            and not node.attrs
        ):
            continue
        yield node


def _n5_set(group: Any, path: str) -> Pyramid | None:
    try:
        scales = group.multiscale()
    except (NotFoundError, UnsupportedError, MetadataError):
        # Not described by any convention that we know: the arrays are converted one by one.
        return None
    levels = []
    for level in scales.levels:
        array = group[level.path]
        axes = tuple(
            Axis(name, unit, float(size), float(place))
            for name, unit, size, place in zip(level.axes, level.units, level.resolution, level.offset, strict=True)
        )
        turned = array.order == "C" and array.ndim > 1
        levels.append(Leaf(level.path, array, axes[::-1] if turned else axes))
    kind = "segmentation" if {"isLabelMultiset", "maxId"} & set(group.attrs) else None
    return Pyramid(path, levels, group.attrs, kind)


def _ome_set(group: Any, path: str) -> Pyramid | None:
    found = read_ome(group.attrs, f"{group.store.root}/zarr.json")
    if found is None:
        return None
    levels = []
    for name, axes in zip(found.paths, found.axes, strict=True):
        array = group[name]
        if len(axes) != array.ndim:
            raise MetadataError(
                "multiscales has another number of axes than its arrays", key=f"{group.store.root}/{name}",
                expected=array.ndim, found=len(axes),
            )  # fmt: skip
        levels.append(Leaf(name, array, axes))
    ome = group.attrs.get("ome")
    kind = "segmentation" if isinstance(ome, dict) and "image-label" in ome else None
    return Pyramid(path, levels, group.attrs, kind, found.name, found.method)


def finest_array(source: Any) -> Array:
    """The array that a region of a source speaks of: itself, or the finest level of the one pyramid that it is."""
    images = [node for node in collect(source) if isinstance(node, Leaf | Pyramid)]
    if len(images) != 1:
        raise UnsupportedError("a region is of one array or one multiscale set; this is a group of several")
    only = images[0]
    return only.array if isinstance(only, Leaf) else only.levels[0].array
