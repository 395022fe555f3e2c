"""An image: one array at several resolutions, and what is known of it, whichever format and convention says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from zvcore.array import Array
    from zvcore.images.axes import Axes

__all__ = ["Image", "Level", "is_labels"]


def is_labels(dtype: np.dtype[Any]) -> bool:
    """Whether values of this type are, unless metadata says otherwise, taken for labels and not for amounts.

    That is so for booleans and for whole numbers of 32 or 64 bits. Labels whose mean is taken are wrong; an image made
    coarser by its most frequent values is only coarse.
    """
    return dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize >= 4)


@dataclass
class Level:
    """One resolution of an image.

    path    of the array, counted from the image's own
    axes    in the array's own order of them
    """

    path: str
    array: Array
    axes: Axes


@dataclass
class Image:
    """Arrays of the same thing, the finest first.

    path         where the image lies below what was opened
    attrs        the attributes of the group that it is; {} for an array alone
    kind         "image" or "segmentation" where the data say it
    name         what the image is called
    method       how the coarser levels were made
    convention   what describes the levels, for people; None for an array that nothing describes as an image
    """

    path: str
    levels: Sequence[Level]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    kind: str | None = None
    name: str | None = None
    method: str | None = None
    convention: str | None = None

    @property
    def labels(self) -> bool:
        """Whether the values are names of things."""
        return is_labels(self.levels[0].array.dtype) if self.kind is None else self.kind == "segmentation"

    @property
    def arrays(self) -> list[Array]:
        return [level.array for level in self.levels]

    @property
    def axes(self) -> Axes:
        """Those of the finest level."""
        return self.levels[0].axes

    def at_least(self, size: int) -> Array:
        """The smallest of the arrays whose two longest sides still have so many voxels, or the finest."""
        fitting = [array for array in self.arrays if all(n >= size for n in sorted(array.shape)[-2:])]
        return fitting[-1] if fitting else self.arrays[0]
