"""What all formats share whose groups describe images as OME-Zarr does."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from zvcore.exchange.writer import ImageWriter
from zvcore.images.ome import MOST_AXES, attributes_of, members_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.array import Array
    from zvcore.images import Described

__all__ = ["OmeWriter", "losses_of_rank"]


class OmeWriter(ImageWriter):
    """Groups, arrays in them, and images as OME-Zarr."""

    @abstractmethod
    def has_group(self, path: str) -> bool:
        """Whether a group, or an array, is there already."""

    @abstractmethod
    def make_group(self, path: str, attrs: Mapping[str, Any]) -> None:
        """Make one where nothing is."""

    def folder(self, path: str, attrs: Mapping[str, Any]) -> None:
        if path in self.implied:
            # Made for an array further down, before it was its turn.
            if attrs:
                self.format.open(self.child(path), "r+").attrs.update(dict(attrs))
        elif not (self.found and self.has_group(path)):
            self.make_group(path, attrs)
            self.made.add(path)

    def create(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any]) -> Array:
        parts = path.split("/") if path else []
        for depth in range(len(parts)):
            above = "/".join(parts[:depth])
            if above in self.made:
                continue
            if not self.has_group(above):
                self.make_group(above, {})
                self.implied.add(above)
            self.made.add(above)
        return super().create(path, options, attrs)

    def image(self, path: str, image: Described) -> None:
        version = self.format.exchange().ome_version
        if version is None or not 2 <= image.rank <= MOST_AXES:
            return
        group: Any = self.format.open(self.child(path), "r+")
        called = path.rpartition("/")[2] or self.store.root.rstrip("/").rpartition("/")[2]
        group.attrs.update(attributes_of(members_of(image, called), version))


def losses_of_rank(image: Described) -> list[str]:
    """What is lost of an image that has fewer or more axes than OME-Zarr knows."""
    if 2 <= image.rank <= MOST_AXES:
        return []
    what = f"OME-Zarr has images of 2 to {MOST_AXES} axes; nothing describes the levels of {image.rank}"
    return [what, *(f"{word} of OME-Zarr is not carried" for word in image.words)]
