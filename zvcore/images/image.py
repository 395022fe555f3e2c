"""An image: one array at several resolutions, and what is known of it, whichever format and convention says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from zvcore.array import Array
    from zvcore.images.axes import Axes

__all__ = ["Image", "Level", "is_labels", "kind_said"]

KINDS = ("image", "segmentation")


def is_labels(dtype: np.dtype[Any]) -> bool:
    """Whether values of this type are, unless metadata says otherwise, taken for labels and not for amounts.

    That is so for booleans and for whole numbers of 32 or 64 bits. Labels whose mean is taken are wrong; an image made
    coarser by its most frequent values is only coarse.
    """
    return dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize >= 4)


def kind_said(words: Mapping[str, Any], method: str | None, rest: Mapping[str, Any]) -> str | None:
    """What the words of OME-Zarr make of an image: "segmentation" or "image"; None where they leave it open.

    Labels are what `image-label` describes. What has channels with colours and windows is an image. Levels are made of
    the most frequent values only where values are names.
    """
    if "image-label" in words:
        return "segmentation"
    metadata = rest.get("metadata")
    if isinstance(metadata, dict) and metadata.get("type") in KINDS:
        return str(metadata["type"])
    if isinstance(words.get("omero"), dict):
        return "image"
    return "segmentation" if method == "mode" else None


@dataclass
class Level:
    """One resolution of an image.

    path    of the array, counted from the image's own
    axes    in the array's own order of them
    taken   the attributes of the array that say these
    untold  what in them is not understood, by paths
    """

    path: str
    array: Array
    axes: Axes
    taken: frozenset[str] = frozenset()
    untold: tuple[str, ...] = ()


@dataclass
class Image:
    """Arrays of the same thing, the finest first.

    path         where the image lies below what was opened
    attrs        the attributes of the group that it is; {} for an array alone
    kind         "image" or "segmentation" where the data say it
    name         what the image is called
    method       how the coarser levels were made
    convention   what describes the levels, for people; None for an array that nothing describes as an image
    words        what OME-Zarr has words for besides its levels, such as `omero` and `image-label`
    rest         members that stand beside its levels in `multiscales`
    taken        the attributes of the group that say all this
    untold       what in them is not understood, by paths
    """

    path: str
    levels: Sequence[Level]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    kind: str | None = None
    name: str | None = None
    method: str | None = None
    convention: str | None = None
    words: Mapping[str, Any] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    untold: tuple[str, ...] = ()

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
