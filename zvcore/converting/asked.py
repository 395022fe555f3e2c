"""What the caller of a conversion says of its image: sizes and names that the source does not know, or not rightly."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.codecs.small_numbers import kind_of, limits_of
from zvcore.converting.sources import Leaf, Node, Pyramid
from zvcore.errors import UnsupportedError
from zvcore.format import get_format
from zvcore.images import Level, default_names
from zvcore.images.axes import is_spatial, refuse_beyond_floats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.images import Axes

__all__ = ["Asked"]

# How many values are looked at to find out what range of them is to be shown.
_SAMPLE = 1 << 20
_SHOWN = (0.1, 99.9)
_COLOURS = ("FFFFFF", "00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF")
_COLOUR = re.compile(r"[0-9A-Fa-f]{6}")
_SIZES = re.compile(r"\s*([0-9.eE+,\s-]+?)\s*([^\d\s,.]*)\s*")


@dataclass(frozen=True)
class Asked:
    """What is said of the one image that is converted; None: as the source has it. All that has an order is given from
    the slowest axis in memory to the fastest.

    ome         True, or a version of OME-Zarr: an array alone becomes an image too; False: an image of one level
                becomes an array alone
    voxel_size  of all axes, or of those in space, and
    unit        of these
    axes        their names
    channels    names of channels, or what OME-Zarr's `omero` has of each
    name        of the image
    """

    ome: bool | str | None = None
    voxel_size: tuple[float, ...] | None = None
    unit: str | None = None
    axes: tuple[str, ...] | None = None
    channels: tuple[str | Mapping[str, Any], ...] | None = None
    name: str | None = None

    @classmethod
    def of(
        cls, *, ome: bool | str | None, voxel_size: Any, unit: str | None, axes: Any, channels: Any, name: str | None
    ) -> Asked:
        """From what `convert` is given: a text may stand for the sizes of voxels and their unit, or for names."""
        if isinstance(voxel_size, str):
            match = _SIZES.fullmatch(voxel_size)
            if match is None:
                raise ValueError(f"voxel_size is such as '0.5,0.1,0.1um', not {voxel_size!r}")
            voxel_size, unit = match[1].split(","), match[2] or unit
        sizes = None if voxel_size is None else tuple(float(size) for size in voxel_size)
        if sizes is not None and not all(math.isfinite(size) and size > 0 for size in sizes):
            raise ValueError(f"voxel_size has positive numbers, not {sizes}")
        if isinstance(axes, str):
            axes = axes.split(",") if "," in axes else [*axes]
        if axes is not None and len({*axes}) != len(axes):
            raise ValueError(f"axes have different names, not {','.join(axes)}")
        if isinstance(channels, str):
            channels = channels.split(",")
        return cls(
            ome, sizes, unit, None if axes is None else tuple(axes), None if channels is None else tuple(channels), name
        )

    @property
    def anything(self) -> bool:
        return self != Asked()

    def applied(self, nodes: Sequence[Node], version: str | None) -> list[Node]:
        """The nodes with what is said of their one image; `version`: that of OME-Zarr which the destination has."""
        if not self.anything:
            return [*nodes]
        if isinstance(self.ome, str) and self.ome != version:
            has = "no OME-Zarr" if version is None else f"OME-Zarr {version}"
            raise UnsupportedError(f"the destination's format has {has}", expected=self.ome)
        images = [node for node in nodes if isinstance(node, Leaf | Pyramid)]
        if len(images) != 1:
            names = ", ".join(repr(node.path) for node in images[:5])
            raise UnsupportedError(f"axes, sizes and names are said of one image, and there are several: {names}")
        return [self._said_of(node) if isinstance(node, Leaf | Pyramid) else node for node in nodes]

    def _said_of(self, node: Leaf | Pyramid) -> Leaf | Pyramid:
        if self.ome is False:
            if isinstance(node, Pyramid) and len(node.levels) > 1:
                raise UnsupportedError("an image of several levels is described as one; choose a level to convert")
            only = node.levels[0] if isinstance(node, Pyramid) else node
            return Leaf(node.path, only.array, self._axes(only, only), only.taken, only.untold, node.kind)
        if isinstance(node, Leaf):
            if self.ome is None and self.channels is None and self.name is None:
                return replace(node, axes=self._axes(node, node))
            level = Level("", node.array, node.axes, node.taken, node.untold)
            node = Pyramid(node.path, [level], {}, node.kind)
        finest = node.levels[0]
        levels = [replace(level, axes=self._axes(level, finest)) for level in node.levels]
        words = dict(node.words)
        if self.channels is not None:
            words["omero"] = self._omero(levels[-1], words.get("omero"))
        return replace(node, levels=levels, name=self.name or node.name, words=words)

    def _axes(self, level: Level, finest: Level) -> Axes:
        """The axes of a level, in its array's order."""
        format = get_format(level.array.format)
        turn = -1 if format.fastest_first(level.array) else 1
        axes = [*level.axes[::turn]]
        rank = len(axes)
        if self.axes is not None:
            spare = format.exchange().spare_axes(level.array)
            named = [i for i in range(rank) if [*range(rank)][::turn][i] not in spare]
            if len(self.axes) == rank:
                named = [*range(rank)]
            if len(self.axes) != len(named):
                raise ValueError(f"axes has a name for each of {len(named)} axes, not {','.join(self.axes)}")
            for i, name in zip(named, self.axes, strict=True):
                axes[i] = replace(axes[i], name=name, type=None)
        if self.voxel_size is not None or self.unit is not None:
            axes = self._sized(axes, level, finest, turn)
        return tuple(axes[::turn])

    def _sized(self, axes: list[Any], level: Level, finest: Level, turn: int) -> list[Any]:
        rank = len(axes)
        names = [axis.name or name for axis, name in zip(axes, default_names(rank), strict=True)]
        spatial = [i for i, name in enumerate(names) if is_spatial(replace(axes[i], name=name))]
        given = self.voxel_size
        if given is None:
            return [replace(axis, unit=self.unit) if i in spatial else axis for i, axis in enumerate(axes)]
        places = spatial if len(given) == len(spatial) else [*range(rank)]
        if len(given) != len(places):
            raise ValueError(f"voxel_size has a number for each axis in space, or for each of {rank}, not {given}")
        fine, coarse = finest.array.shape[::turn], level.array.shape[::turn]
        for size, place in zip(given, places, strict=True):
            factor = max(1, round(fine[place] / max(1, coarse[place])))
            refuse_beyond_floats(size * factor)
            unit = self.unit if place in spatial or len(spatial) == 0 else axes[place].unit
            axes[place] = replace(
                axes[place], name=names[place], scale=size * factor, unit=unit or axes[place].unit,
                offset=_moved(axes[place], finest.axes[::turn][place], size, factor),
            )  # fmt: skip
        return axes

    def _omero(self, level: Level, before: Any) -> dict[str, Any]:
        """Channels with the names that are given, and a window of what is seen of each."""
        assert self.channels is not None
        names = [(axis.name or "").lower() for axis in level.axes]
        place = next((i for i, name in enumerate(names) if name in ("c", "channel")), None)
        count = 1 if place is None else level.array.shape[place]
        if count != len(self.channels):
            raise ValueError(f"the image has {count} channels, and {len(self.channels)} are named")
        found = []
        for number, channel in enumerate(self.channels):
            label, _, colour = channel.partition(":") if isinstance(channel, str) else ("", "", "")
            said = {"label": label} if isinstance(channel, str) else dict(channel)
            if colour and not _COLOUR.fullmatch(colour):
                raise ValueError(f"a channel is its name, or NAME:RRGGBB with its colour, not {channel!r}")
            usual = _COLOURS[number % len(_COLOURS)] if count > 1 else _COLOURS[0]
            found.append({
                "active": True, "coefficient": 1, "family": "linear", "inverted": False,
                "color": (colour or usual).upper(), "window": window(level.array, place, number), **said,
            })  # fmt: skip
        return {**(before if isinstance(before, dict) else {}), "channels": found}


def _moved(axis: Any, finest: Any, size: float, factor: int) -> float:
    """Where a level begins: as many voxels away from the finest one's place as it was, or as box means are."""
    if axis.scale and finest.scale:
        return float(axis.offset / finest.scale * size)
    return (factor - 1) / 2 * size


def window(array: Array, place: int | None, channel: int) -> dict[str, float]:
    """The range of values that a type has, and the part of it in which nearly all of those in the middle lie."""
    region: list[Any] = []
    room = _SAMPLE
    for axis, bound in reversed([*enumerate(array.shape)]):
        if axis == place:
            region.insert(0, channel)
            continue
        extent = max(1, min(bound, 512, room))
        room = max(1, room // extent)
        first = (bound - extent) // 2
        region.insert(0, slice(first, first + extent))
    values = np.asarray(array[tuple(region)])
    kind = kind_of(array.dtype)
    if kind in "iu":
        low, high = (float(bound) for bound in limits_of(array.dtype))
    else:
        values = values[np.isfinite(values)] if kind == "f" else values
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    start, end = (float(n) for n in np.percentile(values, _SHOWN)) if values.size else (low, high)
    return {"min": low, "max": high, "start": start, "end": end if end > start else high}
