"""Images and arrays on their way into files that are written as a whole."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.errors import UnsupportedError
from zvcore.format import get_format
from zvcore.images.whole import WholeImage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["whole_image"]


def whole_image(node: Any, region: Sequence[Any] | None = None) -> WholeImage:
    """What there is to write of something open: an array, or the levels of an image. A region is one of an array."""
    format = get_format(node.format)
    image = format.read_image(node)
    if image is None:
        members = ", ".join(map(str, [*itertools.islice(node.children(), 5)])) if hasattr(node, "children") else ""
        raise UnsupportedError(
            "this is no image and no array, which a file could hold; name one of its members", key=node.store.root,
            found=members or None,
        )  # fmt: skip
    arrays = image.arrays if region is None else image.arrays[:1]
    first = arrays[0]
    if first.dtype.hasobject:
        raise UnsupportedError(
            "values of any length have no place in such a file", key=first.store.root, found=str(first.dtype)
        )
    full = [slice(None)] * first.ndim if region is None else list(region)
    kept = [axis for axis, part in enumerate(full) if isinstance(part, slice)]
    if get_format(first.format).fastest_first(first):
        kept.reverse()
        # Volumes always have channels, which are left out where there is one.
        while len(kept) > 3 and len(range(first.shape[kept[0]])[full[kept[0]]]) == 1:
            full[kept[0]] = range(first.shape[kept[0]])[full[kept[0]]][0]
            kept.pop(0)
    names = get_format(first.format).axis_names(first)
    sizes, units = _sizes(first)
    offsets = [float(axis.offset or 0) for axis in format.read_axes(first)] if node is first else _offsets(image, first)
    sizes, offsets, backwards = _of_region(full, first.shape, sizes, offsets)
    whole = WholeImage(
        arrays, full, kept, names, list(zip(sizes, units, strict=True)), offsets,
        image.name, _channels(image.words), _attributes(node, first, image),
    )  # fmt: skip
    whole.losses += [f"that the axis {names[axis]!r} runs backwards has no place in such a file" for axis in backwards]
    for untold in (image.untold, *(level.untold for level in image.levels)):
        whole.losses += [f"{what} is not known, and is not carried" for what in untold]
    for name in node.children() if not isinstance(node, Array) else ():
        if all(name != level.path for level in image.levels):
            whole.losses.append(f"the member {name!r} has no place in such a file")
    return whole


def _sizes(first: Array) -> tuple[list[float | None], list[str | None]]:
    """(sizes of voxels, their units) along each axis. A size may have no unit; 1 without a unit says nothing."""
    spans, (axes, _) = first.at.spans, get_format(first.format).places(first)
    bare = [None if axis.scale in (None, 1) else float(axis.scale or 0) for axis in axes]
    sizes = [one if span.size is None else float(span.size) for span, one in zip(spans, bare, strict=True)]
    return sizes, [span.unit for span in spans]


def _of_region(
    region: Sequence[Any], shape: Sequence[int], sizes: Sequence[float | None], offsets: Sequence[float]
) -> tuple[list[float | None], list[float], list[int]]:
    """(sizes of voxels, places of the first one, which axes run backwards) of a region of an array that has these."""
    spans = [
        range(n)[part] if isinstance(part, slice) else range(part, part + 1)
        for part, n in zip(region, shape, strict=True)
    ]
    found = [None if size is None else size * abs(span.step) for size, span in zip(sizes, spans, strict=True)]
    places = [
        offset + (span.start if span else 0) * (1.0 if size is None else size)
        for offset, size, span in zip(offsets, sizes, spans, strict=True)
    ]
    return found, places, [axis for axis, span in enumerate(spans) if span.step < 0]


def _offsets(image: Any, first: Array) -> list[float]:
    found = [float(axis.offset or 0) for axis in image.axes]
    return [*found, *[0.0] * first.ndim][: first.ndim]


def _channels(words: Any) -> list[str]:
    omero = words.get("omero") if hasattr(words, "get") else None
    channels = omero.get("channels") if isinstance(omero, dict) else None
    if not isinstance(channels, list):
        return []
    return [str(one.get("label") or "") if isinstance(one, dict) else "" for one in channels]


def _attributes(node: Any, first: Array, image: Any) -> dict[str, Any]:
    """The user's attributes of an array, and of the image that it belongs to."""
    found: dict[str, Any] = {}
    for one in (node, first):
        exchange = get_format(one.format).exchange()
        attrs = exchange.user_attributes(getattr(one, "attrs", {}))
        found |= {name: value for name, value in attrs.items() if name not in exchange.placing}
    taken = {*image.taken, *image.levels[0].taken}
    return {name: value for name, value in found.items() if name not in taken}
