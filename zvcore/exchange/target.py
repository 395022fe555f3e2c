"""What a conversion's caller asks of its destination, and what follows from the source where nothing is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.boxes import lengths_of
from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.converting.view import View
    from zvcore.format import Format
    from zvcore.images import Axes

__all__ = ["Place", "Target", "advised_shards", "carried_shards", "chunk_shape", "fill_value", "grow"]

# The size of shards by default: about that of Neuroglancer's.
_SHARD_BYTES = 256 << 20


@dataclass
class Target:
    """What the caller of a conversion asks of the destination; None: as the source has it.

    in_place  the source's chunks stay where they are, and have to be found by their names
    """

    format: Format
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | bool | None = None
    codec: Any = None
    sharding: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    in_place: bool = False

    @property
    def effort(self) -> bool:
        """Whether the parameters of the codec were asked for, and not only its name."""
        return self.codec is not None and not isinstance(self.codec, str)

    def check_sharding(self) -> None:
        """Refuse two answers to one question."""
        if self.sharding is not None and self.shards not in (None, False):
            raise TypeError("sharding= and shards= both say how shards are made; give one of them")


@dataclass(frozen=True)
class Place:
    """Where an array stands among those of its image.

    axes     where its voxels lie, in the destination's order of axes
    finest   the same of the image's finest level
    kind     "image" or "segmentation" where the data say it, or their type does
    shape    of a coarser level that is made of the one below it; None: the array is what the view shows
    level    whether it is a level of an image: all of its values are there, and none of them stands for a missing one
    """

    axes: Axes
    finest: Axes
    kind: str | None = None
    shape: tuple[int, ...] | None = None
    level: bool = False


def grow(base: Sequence[int], shape: Sequence[int], itemsize: int, target: float) -> tuple[int, ...]:
    """A multiple of `base` of at most about `target` bytes, as close to a cube as can be."""
    cell = list(base)
    while True:
        axes = [axis for axis in range(len(cell)) if cell[axis] < shape[axis]]
        if not axes:
            return tuple(cell)
        axis = min(axes, key=lambda i: cell[i])
        wider = [*cell]
        wider[axis] *= 2
        if math.prod(min(a, b) for a, b in zip(wider, shape, strict=True)) * itemsize > target:
            return tuple(cell)
        cell = wider


def chunk_shape(view: View, asked: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of chunks in the destination's order of axes: as asked for, else the source's own."""
    shape = view.shape
    if asked is None:
        own = view.source.chunks_of(view.array)
        return tuple(max(1, 1 if axis is None else own[axis]) for axis in view.axes)
    given = lengths_of(asked, "chunks")
    if len(given) != len(shape) or any(n < 1 for n in given):
        raise MetadataError(
            "chunks has a positive length for each axis of the destination",
            expected=f"{len(shape)} axes of {shape}", found=given,
        )  # fmt: skip
    return given


def fill_value(view: View) -> Any:
    """The source's fill value; 0 where the destination's type cannot hold it."""
    fill = view.array.fill_value
    if view.dtype is None or view.dtype == view.array.dtype:
        return fill
    own, nothing = np.asarray(fill), np.zeros((), view.dtype)[()]
    if own.dtype.kind == "c" and view.dtype.kind != "c":
        if own.imag:
            return nothing
        own = own.real
    with np.errstate(over="ignore", invalid="ignore"):
        cast = own.astype(view.dtype)[()]
    # NaN, and a time that is none, are not equal to themselves.
    return cast if cast == own or (cast != cast and own != own) else nothing


def advised_shards(view: View, chunks: Sequence[int]) -> tuple[int, ...]:
    """Shards of at most about 256 MiB of values, and no larger than the array needs."""
    itemsize = view.value_dtype.itemsize
    return grow(chunks, view.shape, itemsize, max(_SHARD_BYTES, math.prod(chunks) * itemsize))


def carried_shards(view: View, chunks: Sequence[int]) -> tuple[int, ...] | None:
    """The source's shards as multiples of these chunks; None where its shards are no boxes."""
    own = view.array.shards
    if own is None:
        return None
    box = [1 if axis is None else own[axis] for axis in view.axes]
    return tuple(-(-max(a, b) // b) * b for a, b in zip(box, chunks, strict=True))
