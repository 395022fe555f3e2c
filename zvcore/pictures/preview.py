"""A picture of whatever lies at a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError
from zvcore.pictures.colours import contrast, grey, label_colours
from zvcore.pictures.lines import draw_vectors
from zvcore.pictures.planes import holds_labels, plane, view_of
from zvcore.pictures.pyramids import Pyramid, pyramid_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Look", "picture", "preview"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture shows what there is.

    axis        along which one looks: its name or number
    index       which plane, counted in the finest level (default: the middle one)
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
    projection: bool = False
    level: int | None = None
    labels: bool | None = None
    channel: int | None = None
    limits: tuple[float, float] | None = None
    size: int = 1024
    window: int | None = None


def preview(node: Any, *, threads: int | None = None, **look: Any) -> npt.NDArray[np.uint8]:
    """uint8[rows, columns] or uint8[rows, columns, 3]: a picture of an array, a pyramid, a volume, or vectors.

    `look` is what `Look` has: axis, index, projection, level, labels, channel, limits, size and window.
    """
    wanted = Look(**look)
    if hasattr(node, "geometry_types"):
        return draw_vectors(node, _axis_of_vectors(wanted.axis, node.ndim), wanted.size)
    pyramid = pyramid_of(node)
    if pyramid is None:
        raise UnsupportedError(
            "only arrays, image pyramids, volumes and Zarr Vectors stores have a picture", key=_where(node)
        )
    return picture(pyramid, wanted, threads)[0]


def picture(
    pyramid: Pyramid, look: Look, threads: int | None = None
) -> tuple[npt.NDArray[np.uint8], tuple[float, float] | None]:
    """The picture of a pyramid, and the values that are black and white in it; None where it shows labels."""
    level, index, channel = look.level, look.index, look.channel
    if level is None:
        array = pyramid.at_least(look.size)
    elif -len(pyramid.arrays) <= level < len(pyramid.arrays):
        array = pyramid.arrays[level]
    else:
        raise IndexError(f"there is no level {level}: there are {len(pyramid.arrays)}")
    view = view_of(array, look.axis)
    if channel is not None:
        names = [a for a, _ in view.others] + ([] if view.channel is None else [view.channel])
        if not names or not 0 <= channel < array.shape[names[-1]]:
            raise IndexError(f"there is no channel {channel}")
        rest = tuple(item for item in view.others if item[0] != names[-1])
        view = replace(view, channel=None, others=(*rest, (names[-1], channel)))
    if index is not None and view.depth is not None:
        finest = pyramid.arrays[0].shape[view.depth]
        if not -finest <= index < finest:
            raise IndexError(f"plane {index} lies outside of the {finest} that there are")
        index = min((index % finest) * array.shape[view.depth] // finest, array.shape[view.depth] - 1)
    labels = pyramid.labels if look.labels is None else look.labels
    if labels is None:
        labels = holds_labels(array)
    labels = labels and array.dtype.kind in "bui"
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
