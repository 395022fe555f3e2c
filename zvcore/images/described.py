"""An image as a destination describes it: everything that is known of it besides its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.images.axes import Axes

__all__ = ["Described"]


@dataclass
class Described:
    """Levels of an image, and what is said of it.

    names    and axes of all levels, the finest first
    name     what the image is called
    method   how its coarser levels were made
    kind     "image" or "segmentation", where that is known
    words    what OME-Zarr has words for besides the levels: `omero`, `image-label`, ...
    rest     members that stand beside these levels in `multiscales`
    attrs    attributes of its users, for formats whose images have no folder to give them to
    like_labels  whether its values are of a type that is taken for labels where nothing is said
    """

    names: Sequence[str]
    axes: Sequence[Axes]
    name: str | None = None
    method: str | None = None
    kind: str | None = None
    words: Mapping[str, Any] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    like_labels: bool = False

    @property
    def rank(self) -> int:
        return len(self.axes[0])
