"""A picture of whatever lies at a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.format import get_format
from zvcore.pictures.colours import contrast, grey, label_colours
from zvcore.pictures.lines import draw_lines, draw_vectors
from zvcore.pictures.planes import plane, view_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from zvcore.images import Image

__all__ = ["Look", "image_of", "picture", "preview"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture shows what there is.

    axis        along which one looks: its name or number
    index       which plane, counted in the finest level (default: the middle one)
    at          the same as a coordinate of the finest level, in voxels or units: 110, "4.4um"
    projection  everything along the axis at once, instead of a plane
    level       of a pyramid (default: the coarsest that fills the picture)
    labels      draw values as labels, or not (default: as the data seem to be)
    channel     which channel of several
    limits      the values that become black and white (default: so that the contrast is good)
    size        the longest side of the picture
    window      show only so many voxels around the middle
    """

    axis: str | int | None = None
    index: int | None = None
    at: int | str | None = None
    projection: bool = False
    level: int | None = None
    labels: bool | None = None
    channel: int | None = None
    limits: tuple[float, float] | None = None
    size: int = 1024
    window: int | None = None


def preview(node: Any, *, threads: int | None = None, **look: Any) -> npt.NDArray[np.uint8]:
    """uint8[rows, columns] or uint8[rows, columns, 3]: a picture of an array, a pyramid, a volume, or vectors.

    `look` is what `Look` has: axis, index, at, projection, level, labels, channel, limits, size and window.
    """
    wanted = Look(**look)
    if getattr(node, "kind", None) == "vectors":
        return draw_vectors(node, _axis_of_vectors(wanted.axis, node.ndim), wanted.size)
    image = image_of(node)
    if image is None:
        lines = get_format(node.format).read_lines(node)
        if lines is not None:
            return draw_lines(lines, _where(node) or "", _axis_of_vectors(wanted.axis, 3), wanted.size)
        raise UnsupportedError(
            "only arrays, image pyramids, volumes, lines and Zarr Vectors stores have a picture", key=_where(node)
        )
    return picture(image, wanted, threads)[0]


def image_of(node: Any) -> Image | None:
    """What there is to see at a node, an array or levels of one; None also where what describes it is wrong."""
    try:
        return get_format(node.format).read_image(node)
    except ZvcoreError:
        return None


def picture(
    image: Image, look: Look, threads: int | None = None
) -> tuple[npt.NDArray[np.uint8], tuple[float, float] | None]:
    """The picture of an image, and the values that are black and white in it; None where it shows labels."""
    level, index, channel = look.level, look.index, look.channel
    if level is None:
        array = image.at_least(look.size)
    elif -len(image.arrays) <= level < len(image.arrays):
        array = image.arrays[level]
    else:
        raise IndexError(f"there is no level {level}: there are {len(image.arrays)}")
    view = view_of(array, look.axis)
    if channel is not None:
        names = [a for a, _ in view.others] + ([] if view.channel is None else [view.channel])
        if not names or not 0 <= channel < array.shape[names[-1]]:
            raise IndexError(f"there is no channel {channel}")
        rest = tuple(item for item in view.others if item[0] != names[-1])
        view = replace(view, channel=None, others=(*rest, (names[-1], channel)))
    if look.at is not None:
        index = _plane_at(image, view.depth, look.at)
    if index is not None and view.depth is not None:
        finest = image.arrays[0].shape[view.depth]
        if not -finest <= index < finest:
            raise IndexError(f"plane {index} lies outside of the {finest} that there are")
        index = min((index % finest) * array.shape[view.depth] // finest, array.shape[view.depth] - 1)
    labels = (image.labels if look.labels is None else look.labels) and array.dtype.kind in "bui"
    values = plane(
        array, view, index=index, projection=look.projection, labels=labels, size=look.size, window=look.window,
        threads=threads,
    )  # fmt: skip
    if values.ndim == 3:
        return values.astype("uint8", copy=False), None
    if labels:
        return label_colours(values), None
    black, white = contrast(values) if look.limits is None else look.limits
    if not white > black:
        raise ValueError(f"white ({white}) must be more than black ({black})")
    return grey(values, black, white), (black, white)


def _plane_at(image: Image, depth: int | None, place: int | str) -> int:
    """Which plane of the finest level lies at a coordinate along the axis along which one looks."""
    if depth is None:
        raise IndexError("there is one plane only")
    finest = image.arrays[0]
    key = tuple(place if axis == depth else slice(None) for axis in range(finest.ndim))
    found = finest.at.region(key)[depth]
    if not isinstance(found, int):
        raise IndexError(f"a plane lies at one place, not at {place}")
    return found


def _axis_of_vectors(axis: str | int | None, ndim: int) -> int | None:
    if axis is None:
        return None
    names = "xyz"[:ndim]
    text = str(axis)
    if text and text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < ndim:
        return int(text)
    raise ValueError(f"there is no axis {axis!r}; the axes are {', '.join(names)}")


def _where(node: Any) -> str | None:
    store = getattr(node, "store", None)
    return None if store is None else str(store.root)
