"""The segmentation of any format as voxels along x, y and z, with its place in nanometers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.converting.asked import Asked
from zvcore.converting.geometry import seen
from zvcore.converting.planning import channel_axis
from zvcore.converting.sources import Leaf, Pyramid, chosen_image, collect
from zvcore.converting.view import View, make_view, parse_region
from zvcore.errors import UnsupportedError
from zvcore.format import get_format
from zvcore.images.axes import nanometers, plain, refuse_beyond_floats
from zvcore.precomputed.meshes import Meshes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zvcore.boxes import Box
    from zvcore.images import Level

__all__ = ["Labels", "labels_of"]


@dataclass(frozen=True)
class Labels:
    """One level of a segmentation.

    view        the array as it would be in a volume: x, y, z, and one channel
    resolution  the size of a voxel, and
    corner      where the first one begins, in nanometers along x, y and z
    """

    view: View
    resolution: tuple[float, float, float]
    corner: tuple[float, float, float]

    @property
    def shape(self) -> tuple[int, int, int]:
        x, y, z = self.view.shape[:3]
        return x, y, z

    @property
    def itemsize(self) -> int:
        return self.view.array.dtype.itemsize

    def read(self, box: Box, threads: int | None = None) -> npt.NDArray[Any]:
        """The labels in a box as unsigned numbers, x the fastest axis."""
        values = self.view.read((*box, (0, 1)), threads)[0][..., 0]
        if values.dtype.kind == "i" and values.size and int(values.min()) < 0:
            raise UnsupportedError(
                "segments have no negative ids", key=self.view.array.store.root, chunk=box, found=int(values.min())
            )
        return np.asfortranarray(values).view(f"u{values.dtype.itemsize}")


def labels_of(source: Any, level: int = 0, image: str | None = None, voxel_size: Any = None) -> Labels:
    """A level of the one segmentation that an opened source is, or of that which lies at the path `image` in it.

    `voxel_size`: what `convert` takes by that name.
    """
    nodes = collect(source)
    if image is not None:
        nodes = chosen_image(nodes, image)
    said = Asked.of(ome=None, voxel_size=voxel_size, unit=None, axes=None, channels=None, name=None)
    nodes = said.applied(nodes, None)
    images = [node for node in nodes if isinstance(node, Leaf | Pyramid)]
    if len(images) != 1:
        there = ", ".join(repr(node.path) for node in images[:10])
        raise UnsupportedError(f"there are several segmentations here; choose one by its path: {there}")
    levels: list[Level] = [images[0]] if isinstance(images[0], Leaf) else list(images[0].levels)
    if not 0 <= level < len(levels):
        raise IndexError(f"the segmentation has {len(levels)} levels; {level} is none of them")
    view = _view(levels[level])
    axes, finest = seen(levels[level].axes, view)[:3], seen(levels[0].axes, _view(levels[0]))[:3]
    resolution: list[float] = []
    corner: list[float] = []
    for axis, first in zip(axes, finest, strict=True):
        size, base = axis.scale or 1.0, first.scale or 1.0
        # Offsets are those of the centres of voxels, where one of the finest level at 0 begins at 0.
        resolution.append(plain(size * nanometers(axis.unit)))
        corner.append(plain((axis.offset - (size - base) / 2) * nanometers(axis.unit), resolution[-1]))
    _refuse_beyond_vertices(resolution, corner)
    return Labels(view, (resolution[0], resolution[1], resolution[2]), (corner[0], corner[1], corner[2]))


def _refuse_beyond_vertices(resolution: Sequence[float], corner: Sequence[float]) -> None:
    """Vertices are float32, of which less than nothing is left of what is very small."""
    refuse_beyond_floats(*resolution, *corner)
    least, most = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
    if min(resolution) < least or max(*resolution, *map(abs, corner)) > most:
        raise UnsupportedError(
            "sizes or places of voxels that vertices cannot have, in nanometers", expected=f"{least:.0e} to {most:.0e}",
            found=[*resolution, *corner],
        )  # fmt: skip


def _view(level: Level) -> View:
    array = level.array
    if array.dtype.kind not in "bui":
        raise UnsupportedError("segments are whole numbers", key=array.store.root, found=str(array.dtype))
    volumes = get_format(Meshes.format)
    region = parse_region(None, array.shape)
    view = make_view(array, volumes, region, channel_axis=channel_axis(level.axes))
    if view.shape[3] != 1:
        raise UnsupportedError("a segmentation has one channel", key=array.store.root, found=view.shape[3])
    return view
