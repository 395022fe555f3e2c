"""What there is to convert: single arrays, images that some convention describes, and the folders they lie in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.format import get_format
from zvcore.images import Axis, Image, Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["Beside", "Folder", "Leaf", "Node", "Pyramid", "chosen_image", "collect", "finest_array"]


@dataclass
class Leaf(Level):
    """An array alone. `kind`: "image" or "segmentation" where its format says it."""

    kind: str | None = None


class Pyramid(Image):
    """A multiscale set."""

    @property
    def method_of_ours(self) -> str | None:
        """By which method the levels that are there were made, if it is one of those that we have."""
        return self.method if self.method in ("mean", "mode") else None


@dataclass
class Folder:
    path: str
    attrs: Mapping[str, Any]


@dataclass
class Beside:
    """What lies in the folder of a group, at `path`, and is none of its members: names of folders and of objects."""

    path: str
    store: Store
    folders: list[str]
    objects: list[str]


Node = Leaf | Pyramid | Folder | Beside


def collect(source: Any) -> list[Node]:
    """The nodes of an opened source, folders before what lies in them."""
    if isinstance(source, Array):
        return [_leaf("", source)]
    if getattr(source, "kind", None) not in ("group", "image"):
        what = getattr(source, "kind", type(source).__name__)
        raise UnsupportedError(f"{what}: this is neither an array nor a group of arrays")
    nodes = list(_nodes(source, ""))
    if not any(isinstance(node, Leaf | Pyramid) for node in nodes):
        raise NotFoundError("there is no array here to convert", key=source.store.root)
    return nodes


def _leaf(path: str, array: Array) -> Leaf:
    found = get_format(array.format).read_image(array)
    if found is None:
        return Leaf(path, array, (Axis(),) * array.ndim)
    (only,) = found.levels
    return Leaf(path, array, only.axes, only.taken, only.untold, found.kind)


def _nodes(group: Any, path: str) -> Iterator[Node]:
    below = f"{path}/" if path else ""
    format = get_format(group.format)
    found = format.read_image(group)
    taken: set[str] = set()
    if found is not None:
        yield Pyramid(**{**vars(found), "path": path})
        taken = {level.path for level in found.levels}
    else:
        yield Folder(path, group.attrs)
    children = group.children()
    names = list(children)
    folders, objects = format.exchange().beside(group, names)
    if folders or objects:
        yield Beside(path, group.store, folders, objects)
    for name in names:
        member = children[name]
        if name in taken:
            continue
        if isinstance(member, Array):
            yield _leaf(below + name, member)
        else:
            within = {one.removeprefix(f"{name}/") for one in taken if one.startswith(f"{name}/")}
            yield from _without(_nodes(member, below + name), below + name, within)


def _without(nodes: Iterator[Node], path: str, taken: set[str]) -> Iterator[Node]:
    """The nodes of a folder, apart from arrays that a pyramid above has already."""
    gone = {f"{path}/{one}" for one in taken}
    for node in nodes:
        if isinstance(node, Leaf) and node.path in gone:
            continue
        if isinstance(node, Pyramid) and gone >= {f"{node.path}/{level.path}" for level in node.levels}:
            continue
        if (
            isinstance(node, Folder)
            and gone
            and any(one.startswith(f"{node.path}/") for one in gone)
            and not node.attrs
        ):
            continue
        yield node


def chosen_image(nodes: Sequence[Node], path: str) -> list[Node]:
    """One image among several; "" is the one that the group itself is. It is converted as if it stood alone."""
    wanted = path.strip("/")
    found = [node for node in nodes if node.path == wanted and isinstance(node, Leaf | Pyramid)]
    if not found:
        there = [node.path for node in nodes if isinstance(node, Leaf | Pyramid)]
        raise NotFoundError(
            f"there is no image {path!r} here; there are {', '.join(map(repr, there[:10]))}", key=wanted or None
        )
    beside = [replace(node, path="") for node in nodes if isinstance(node, Beside) and node.path == wanted]
    return [replace(found[0], path=""), *beside]


def finest_array(source: Any, image: str | None = None) -> Array:
    """The array that a region of a source speaks of: itself, or the finest level of the one image that it is, or of the
    one that is chosen.
    """
    nodes = collect(source)
    if image is not None:
        nodes = chosen_image(nodes, image)
    images = [node for node in nodes if isinstance(node, Leaf | Pyramid)]
    if len(images) != 1:
        raise UnsupportedError("a region is of one array or one multiscale set; this is a group of several")
    only = images[0]
    return only.array if isinstance(only, Leaf) else only.levels[0].array
