"""What there is to convert: single arrays, images that some convention describes, and the folders they lie in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.converting import TABLES
from zvcore.errors import (
    CorruptDataError,
    MetadataError,
    NotFoundError,
    OutOfMemoryError,
    PluginError,
    UnsupportedError,
    ZvcoreError,
)
from zvcore.format import Node as _Opened
from zvcore.format import formats, get_format
from zvcore.images import Axis, Image, Level
from zvcore.images.ome import LABELS
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.stores import Store

__all__ = [
    "Beside",
    "Folder",
    "Leaf",
    "Node",
    "Pyramid",
    "chosen_image",
    "collect",
    "finest_array",
    "refuse_all_but_arrays",
]


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
    """A group. `untold`: what it holds that is not understood."""

    path: str
    attrs: Mapping[str, Any]
    untold: Sequence[str] = ()


@dataclass
class Beside:
    """What lies in the folder of a group, at `path`, and is none of its members: names of folders and of objects."""

    path: str
    store: Store
    folders: list[str]
    objects: list[str]


Node = Leaf | Pyramid | Folder | Beside

_UNLISTED = "what else lies here, as the server does not list what it has,"
# How many members of groups are opened before it is their turn.
_AHEAD = 32

# What keeps one thing from being converted, and others not.
_FAILURES = (UnsupportedError, PluginError, MetadataError, CorruptDataError, NotFoundError)


def collect(source: Any, failed: dict[str, ZvcoreError] | None = None) -> list[Node]:
    """The nodes of an opened source, folders before what lies in them.

    What cannot be opened is an error, or is noted in `failed` by its path.
    """
    if isinstance(source, Array):
        return [_alone("", source)]
    refuse_all_but_arrays(source)
    nodes = list(_nodes(source, failed))
    if not any(isinstance(node, Leaf | Pyramid) for node in nodes) and not failed:
        raise NotFoundError("there is no array here to convert", key=source.store.root)
    return nodes


def refuse_all_but_arrays(source: Any) -> None:
    """Raise what a source is, and to what it can be converted, where it is no array nor a group of such."""
    if isinstance(source, Array) or getattr(source, "kind", None) in ("group", "image"):
        return
    what = getattr(source, "kind", type(source).__name__)
    taken = ", ".join(_takers(source)) or None
    raise UnsupportedError(
        f"{what}: this is neither an array nor a group of arrays",
        key=source.store.root if isinstance(source, _Opened) else None,
        expected=taken and f"a conversion of what lies here to one of {taken}",
    )


def _takers(source: Any) -> list[str]:
    """The formats that points, annotations or lines are converted to, if a source has such."""
    if not isinstance(source, _Opened):
        return []
    own = get_format(source.format)
    rows, lines = own.read_rows(source) is not None, own.read_lines(source) is not None
    # Lines within a format of several objects are copied, not converted.
    lines_to = [one.name for one in formats().values() if one.takes_lines and (one is not own or own.suffixes)]
    there = [one.name for one in formats().values() if (rows and one.takes_rows) or (lines and one.name in lines_to)]
    return [*there, *(TABLES if rows else ())]


def _alone(path: str, array: Array) -> Leaf | Pyramid:
    """An array that no group has as a level: an image all the same, where its format describes it as one."""
    found = get_format(array.format).read_image(array)
    if found is None:
        return Leaf(path, array, (Axis(),) * array.ndim)
    if found.convention is not None:
        return Pyramid(**{**vars(found), "path": path})
    (only,) = found.levels
    return Leaf(path, array, only.axes, only.taken, only.untold, found.kind)


def _nodes(source: Any, failed: dict[str, ZvcoreError] | None) -> Iterator[Node]:
    """One after the other, not one in the other: there may be thousands of groups in each other.

    What a pyramid further up has as a level is not found once more.
    """
    # Paths, and the groups that they lie in; the last is the next.
    waiting: list[tuple[str, Any]] = [("", None)]
    taken: set[str] = set()
    opened: dict[str, _Opening] = {}
    while waiting:
        if waiting[-1][0] not in opened:
            _open_ahead(source, [one for one in waiting[: -1 - _AHEAD : -1] if one[0] not in opened], opened)
        path, group = waiting.pop()
        found = opened.pop(path)
        if found.error is not None:
            if failed is None or group is None:
                raise found.error
            failed[path] = found.error
            continue
        node, image = found.node, found.image
        if isinstance(node, Array):
            yield _alone(path, node)
            continue
        below = f"{path}/" if path else ""
        levels = {below + level.path for level in image.levels} if image is not None else set()
        names, unlisted = _members(node, image)
        if image is not None and not (levels and levels <= taken):
            yield Pyramid(**{**vars(image), "path": path, "untold": (*image.untold, *unlisted)})
        elif image is None:
            untold = [*get_format(node.format).untold(node), *unlisted]
            if node.attrs or untold or not any(one.startswith(below) for one in taken):
                yield Folder(path, node.attrs, untold)
        taken |= levels
        folders, objects = get_format(node.format).exchange().beside(node, names)
        if folders or objects:
            yield Beside(path, node.store, folders, objects)
        members = [below + name for name in names]
        waiting.extend((member, node) for member in reversed(members) if member not in taken)


def _members(node: Any, image: Image | None) -> tuple[list[str], tuple[str, ...]]:
    """(the members of a group, what is not known of them). Of a server that does not list what it has, those that an
    image, or the group of its label images, tells of itself.
    """
    try:
        # Of an iterator nobody asks how long it is, which would list a group a second time.
        return [*iter(node.children())], ()
    except UnlistedError:
        if image is not None:
            with suppress(UnlistedError):  # groups of some formats show by what lies in them
                return [LABELS] * (LABELS in node.children()), (_UNLISTED,)
            return [], (_UNLISTED,)
        told = get_format(node.format).exchange().words(node.attrs).members.get(LABELS)
        if not isinstance(told, list):
            raise
    names = dict.fromkeys(one for one in told if isinstance(one, str))
    return [name for name in names if name.strip(".") and "/" not in name], (_UNLISTED,)


@dataclass
class _Opening:
    """A node, and what it is an image of; or why it cannot be opened."""

    node: Any = None
    image: Image | None = None
    error: ZvcoreError | None = None


def _open_ahead(source: Any, some: Sequence[tuple[str, Any]], opened: dict[str, _Opening]) -> None:
    """Open the first of these, and the others with it where that means to wait for a network."""

    def opening(entry: tuple[str, Any]) -> _Opening:
        path, group = entry
        try:
            node = source if group is None else group.children()[path.rpartition("/")[2]]
            return _Opening(node, None if isinstance(node, Array) else get_format(node.format).read_image(node))
        except OutOfMemoryError:
            raise
        except _FAILURES as error:
            return _Opening(error=error)

    store = source.store if isinstance(source, _Opened) else None
    if store is None or not store.parts_ahead():
        opened[some[0][0]] = opening(some[0])
        return

    def opening_with_attributes(entry: tuple[str, Any]) -> _Opening:
        found = opening(entry)
        # They are kept; whoever asks for them next is told what is wrong with them.
        with suppress(ZvcoreError):
            len(getattr(found.node, "attrs", ()))
        return found

    opened.update(zip([path for path, _ in some], store.each(opening_with_attributes, some), strict=True))


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
    # Nothing but the image is asked for.
    return [replace(found[0], path="", untold=tuple(one for one in found[0].untold if one != _UNLISTED)), *beside]


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
