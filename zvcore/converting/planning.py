"""From what there is and what is asked for to what will be made: nothing is read but metadata, and nothing written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zvcore.converting.asked import Asked
from zvcore.converting.carrying import Carrying
from zvcore.converting.coarse import check_downsampling
from zvcore.converting.drafts import Draft, DraftArray, DraftFolder, DraftImage
from zvcore.converting.geometry import seen
from zvcore.converting.sources import Beside, Folder, Leaf, Node, Pyramid
from zvcore.converting.view import Region, View, make_view, parse_region, whole
from zvcore.errors import UnsupportedError
from zvcore.exchange import Place, Target
from zvcore.format import get_format
from zvcore.images import Described, Level, coarser, is_labels, level_shapes
from zvcore.images.axes import all_named
from zvcore.report import What

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from zvcore.array import Array
    from zvcore.exchange import Exchange
    from zvcore.images import Axes

__all__ = ["Request", "channel_axis", "draft_conversion", "draft_levels"]


@dataclass
class Request:
    """What is asked of a conversion: a destination, a part of the source, what is said of it, and coarser levels."""

    target: Target
    region: Any = None
    dtype: np.dtype[Any] | None = None
    clip: bool = False
    levels: int = 0
    method: str | None = None
    factors: tuple[int, ...] | None = None
    image: str | None = None
    asked: Asked = field(default_factory=Asked)
    consolidating: bool = False
    of_files: bool = False

    def __post_init__(self) -> None:
        if self.levels < 0:
            raise ValueError(f"levels is how many coarser levels to make, not {self.levels}")
        if self.method not in (None, "mean", "mode"):
            raise ValueError(f"method is 'mean' or 'mode', not {self.method!r}")

    @property
    def exchange(self) -> Exchange:
        return self.target.format.exchange()


def draft_conversion(nodes: Sequence[Node], request: Request) -> Draft:
    """What becomes of these nodes."""
    draft = Draft(request.target.format)
    source = next(array for node in nodes for array in arrays_of(node)).format
    carrying = Carrying(draft, source, request.region is not None, request.consolidating, request.of_files)
    for node in nodes:
        if isinstance(node, Beside):
            continue
        if (what := _takes_the_place_of_a_document(node.path, request)) is not None:
            if arrays_of(node):
                raise UnsupportedError(what, key=node.path)
            draft.lose(node.path, what, What.UNSUPPORTED)
            continue
        held = _as_held(node, request)
        if isinstance(held, Leaf):
            _draft_array(carrying, held, request)
        elif isinstance(held, Pyramid) and request.exchange.holds == "array":
            _draft_only_level(carrying, held, request)
        elif isinstance(held, Pyramid):
            _draft_image(carrying, held, request)
        elif request.exchange.holds != "group":
            carrying.folder_around(held)
        else:
            draft.entries.append(DraftFolder(node.path, carrying.folder(held)))
    carrying.beside([node for node in nodes if isinstance(node, Beside)])
    return draft


def _takes_the_place_of_a_document(path: str, request: Request) -> str | None:
    # In one step, of paths that may be very deep.
    taken = request.exchange.documents & frozenset(path.split("/"))
    if not taken:
        return None
    return f"nothing in it can be called {min(taken)!r}, as {request.target.format.title} calls a document"


def arrays_of(node: Node) -> list[Array]:
    """The arrays of a node, the finest first."""
    return [node.array] if isinstance(node, Leaf) else node.arrays if isinstance(node, Pyramid) else []


def _as_held(node: Leaf | Pyramid | Folder, request: Request) -> Leaf | Pyramid | Folder:
    """A node as the destination has such things: an array with levels, or that is known as an image, is an image."""
    holds = request.exchange.holds
    if isinstance(node, Leaf) and (request.levels or holds == "image"):
        level = Level("", node.array, node.axes, node.taken, node.untold)
        return Pyramid(node.path, [level], {}, node.kind)
    if isinstance(node, Pyramid) and holds == "array" and (len(node.levels) > 1 or request.levels):
        raise UnsupportedError(f"{request.target.format.title} holds one array, and no levels: choose one to convert")
    return node


def _view(leaf: Leaf | Level, region: Any, request: Request) -> View:
    channel = channel_axis(leaf.axes)
    parsed = parse_region(region, leaf.array.shape)
    get_format(leaf.array.format).exchange().check_source(leaf.array)
    return make_view(
        leaf.array, request.target.format, parsed, channel_axis=channel, dtype=request.dtype, clip=request.clip
    )


def _draft_only_level(carrying: Carrying, node: Pyramid, request: Request) -> None:
    """An image of one level where arrays stand alone: the array has the attributes of both."""
    only = node.levels[0]
    image = carrying.image(node, [only.path], [only.axes], node.method)
    leaf = Leaf(only.path, only.array, only.axes, only.taken, only.untold, node.kind)
    _draft_array(carrying, leaf, request, image.attrs)


def _draft_array(carrying: Carrying, leaf: Leaf, request: Request, around: Mapping[str, Any] | None = None) -> None:
    """`around`: attributes of an image that it is the only level of."""
    view = _view(leaf, request.region, request)
    exact = request.region is None and view.axes == tuple(range(leaf.array.ndim))
    axes = seen(leaf.axes, view)
    options = request.exchange.array_options(view, request.target, Place(axes, axes, leaf.kind))
    attrs = {**(around or {}), **carrying.array(leaf, exact)}
    if not (exact and carrying.within_format):
        attrs.update(request.exchange.placing_attributes(axes))
        carrying.units(leaf.path, axes)
        carrying.names(leaf.path, axes)
    carrying.fill_value(leaf.path, leaf.array.fill_value, options.get("fill_value"))
    carrying.no_fill_value(leaf.path, leaf.array, options.get("fill_value", 0))
    carrying.masked_fill_value(leaf.path, leaf.array, options)
    carrying.codecs(leaf.path, leaf.array, options)
    carrying.notes(leaf.path, options)
    attrs.update(options.pop("attrs", None) or {})
    path = leaf.path if request.exchange.holds == "group" else ""
    carrying.draft.entries.append(DraftArray(path, leaf.path, options, attrs, view))


# --- images


def _draft_image(carrying: Carrying, node: Pyramid, request: Request) -> None:
    exchange = request.exchange
    finest = node.levels[0]
    region = parse_region(request.region, finest.array.shape)
    views = [
        _view(leaf, None if request.region is None else _region_of(region, finest, leaf), request)
        for leaf in node.levels
    ]
    axes = [seen(leaf.axes, view) for leaf, view in zip(node.levels, views, strict=True)]
    kind = node.kind or ("segmentation" if is_labels(views[0].value_dtype) else None)
    method = request.method or ("mode" if kind == "segmentation" else "mean")
    last = views[-1]
    shapes = _coarser_shapes(request, last.shape, axes[-1], last.order)
    names_levels = get_format(finest.array.format).exchange().names_levels
    wanted = [leaf.path if leaf.path and names_levels else None for leaf in node.levels]
    names = exchange.level_names([*wanted, *[None] * len(shapes)])
    below = f"{node.path}/" if node.path else ""
    levels = []
    for leaf, view, place, name in zip(node.levels, views, axes, names, strict=False):
        options = exchange.array_options(view, request.target, _place(request, place, axes[0], kind))
        carrying.fill_value(leaf.path, leaf.array.fill_value, options.get("fill_value"))
        carrying.no_fill_value(leaf.path, leaf.array, options.get("fill_value", 0))
        carrying.codecs("/".join(filter(None, (node.path, leaf.path))), leaf.array, options)
        carrying.notes(leaf.path, options, node.path)
        levels.append(_level(below + name, options, view, attrs=carrying.level(node.path, leaf)))
    made = _coarser_levels(request, last, axes, shapes, kind, method)
    levels.extend(_level(below + name, *one) for name, one in zip(names[len(views) :], made, strict=True))
    node = replace(node, words=_shown_words(node, region))
    image = carrying.image(node, names, axes, node.method or (method if shapes else None))
    carrying.draft.entries.append(DraftImage(node.path, image, levels, method, folder=exchange.holds == "group"))


def _shown_words(node: Pyramid, region: Region) -> dict[str, Any]:
    """The words of an image, with those of the channels that a region shows."""
    words = dict(node.words)
    omero = words.get("omero")
    finest = node.levels[0]
    channel = channel_axis(finest.axes)
    if not isinstance(omero, dict):
        return words
    channels = omero.get("channels")
    if channel is not None and isinstance(channels, list) and len(channels) == finest.array.shape[channel]:
        first, stop, _ = region[channel]
        words["omero"] = {**omero, "channels": channels[first:stop]}
    return words


def channel_axis(axes: Axes) -> int | None:
    """Which of these axes is that of channels, if one is called so."""
    return next((i for i, axis in enumerate(axes) if axis.name in ("c", "channel")), None)


def _level(
    path: str, options: dict[str, Any], view: View | None, factors: tuple[int, ...] = (),
    attrs: Mapping[str, Any] | None = None,
) -> DraftArray:  # fmt: skip
    extra = options.pop("attrs", None) or {}
    return DraftArray(path, path, options, {**(attrs or {}), **extra}, view, factors)


def _coarser_shapes(
    request: Request, shape: Sequence[int], axes: Axes, order: str
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(shape, factors) of the levels that are asked for above one of this shape."""
    exchange = request.exchange
    given = None if request.factors is None else exchange.given_factors(request.factors, len(shape))
    spatial = exchange.spatial_axes(axes, order)
    return level_shapes(shape, axes, request.levels, spatial=spatial, factors=given)


def _coarser_levels(
    request: Request, view: View, axes: list[Axes], shapes: Sequence[tuple[Any, Any]], kind: str | None, method: str
) -> list[tuple[dict[str, Any], None, tuple[int, ...]]]:
    """(options, no view, factors) of the levels above a view; their axes are added to those of the levels below."""
    found = []
    for shape, factors in shapes:
        check_downsampling(view.value_dtype, factors, method)
        axes.append(coarser(axes[-1], factors))
        place = _place(request, axes[-1], axes[0], kind, shape)
        found.append((request.exchange.array_options(view, request.target, place), None, factors))
    return found


def _place(request: Request, axes: Axes, finest: Axes, kind: str | None, shape: tuple[int, ...] | None = None) -> Place:
    """What a level shows. Its axes are called what OME-Zarr calls them, where nobody else has named them."""
    named = axes if request.exchange.ome_version is None else all_named(axes)
    return Place(named, finest, kind, shape, level=True)


def _region_of(region: Any, finest: Level, leaf: Level) -> Any:
    """The part of a coarser level that shows the region of the finest one."""
    found: list[Any] = []
    for (first, stop, stays), fine, coarse in zip(region, finest.array.shape, leaf.array.shape, strict=True):
        factor = max(1, round(fine / coarse)) if coarse else 1
        found.append(
            slice(first // factor, min(coarse, -(-stop // factor))) if stays else min(first // factor, coarse - 1)
        )
    return tuple(found)


def draft_levels(node: Pyramid, request: Request) -> Draft:
    """Coarser levels above those that an image has."""
    exchange = request.exchange
    array = node.levels[-1].array
    view = whole(array)
    axes = [leaf.axes for leaf in node.levels]
    method = request.method or node.method_of_ours or ("mode" if node.labels else "mean")
    shapes = _coarser_shapes(request, array.shape, axes[-1], view.order)
    paths = exchange.level_names([*(leaf.path for leaf in node.levels), *[None] * len(shapes)])
    made = _coarser_levels(request, view, axes, shapes, node.kind, method)
    levels = [_level(path, *one) for path, one in zip(paths[len(node.levels) :], made, strict=True)]
    draft = Draft(request.target.format)
    for what in node.untold:
        draft.lose(node.path, f"{what} is not known, and is not carried")
    image = Described(paths, axes, node.name, node.method or method, node.kind, node.words, node.rest)
    draft.entries.append(DraftImage("", image, levels, method, base=array))
    return draft
