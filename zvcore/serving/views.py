"""Data in a form that Neuroglancer reads, made when it asks: decoded voxels, lines as skeletons, points as annotations.

Nothing is stored. It is how Neuroglancer sees what it has no reader for.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.cached import cached_property
from zvcore.format import get_format
from zvcore.images.axes import nanometers, refuse_beyond_floats
from zvcore.pictures.lines import sample_of
from zvcore.pictures.planes import View, view_of
from zvcore.precomputed import Skeleton
from zvcore.serving.limits import refuse_if_too_large, threads_for

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array
    from zvcore.serving.catalog import Dataset
    from zvcore.zvf.vector_store import Level

__all__ = ["LinesView", "PointsView", "VoxelView", "view_for"]

Made = tuple[str, bytes]

_JSON = "application/json"
_BYTES = "application/octet-stream"
_BLOCK = 64
_MOST_VOXELS = 1 << 20
# Each chunk of a block is looked for, also where documents tell of chunks and there are none.
_MOST_CHUNKS = 4096
_MOST_CHANNELS = 8
_MOST_IDS = 100_000
_SHOWN_IDS = 500
_BOX = re.compile(r"(\d{1,3})/(\d{1,18})-(\d{1,18})_(\d{1,18})-(\d{1,18})_(\d{1,18})-(\d{1,18})")


def view_for(dataset: Dataset, threads: int | None = None) -> VoxelView | LinesView | PointsView | None:
    """What can be made of a data set; None where nothing can."""
    if dataset.is_vectors:
        return LinesView(dataset) if dataset.node.is_lines else PointsView(dataset)
    if dataset.pyramid is None or stand_in_type(dataset.pyramid.arrays[0].dtype, dataset.labels) is None:
        return None
    shown = all(array.ndim and 0 not in array.shape for array in dataset.pyramid.arrays)
    return VoxelView(dataset, threads) if shown else None


def stand_in_type(dtype: np.dtype[Any], labels: bool) -> str | None:
    """The type in which Neuroglancer can have such values; None if there is none."""
    name = dtype.name
    if dtype.kind == "b":
        return "uint8"
    if dtype.kind == "f":
        return "float32"
    if name == "int64":
        return "uint64" if labels else "float32"
    known = name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64")
    return name if known else None


class VoxelView:
    """Arrays as a precomputed volume of raw blocks, x the fastest axis."""

    layer = "image"

    def __init__(self, dataset: Dataset, threads: int | None = None) -> None:
        assert dataset.pyramid is not None
        self.threads = threads
        self.arrays = dataset.pyramid.arrays
        self.axes = dataset.pyramid.axes
        self.labels = dataset.labels
        if self.labels:
            self.layer = "segmentation"
        dtype = self.arrays[0].dtype
        self.data_type = str(stand_in_type(dtype, self.labels))
        # Neuroglancer wants segmentations of these types.
        if self.labels and self.data_type not in ("uint8", "uint16", "uint32", "uint64"):
            self.data_type = "uint64"
        self.view: View = view_of(self.arrays[0])
        self.channel_axis = self._channel_axis()
        self.channels = 1 if self.channel_axis is None else self.arrays[0].shape[self.channel_axis]

    def _channel_axis(self) -> int | None:
        if self.view.channel is not None:
            return self.view.channel
        array = self.arrays[0]
        few = [axis for axis, _ in self.view.others if 1 < array.shape[axis] <= _MOST_CHANNELS]
        # Times pass for channels only where there are none.
        names = get_format(array.format).axis_names(array)
        return min(few, key=lambda axis: names[axis].lower() not in ("c", "channel"), default=None)

    @property
    def left_out(self) -> str:
        """In words, what of the data such a volume has no place for; "" where it has all of it."""
        array = self.arrays[0]
        names = get_format(array.format).axis_names(array)
        more = [axis for axis, _ in self.view.others if axis != self.channel_axis and array.shape[axis] > 1]
        cut = " and ".join(f"the first of {array.shape[axis]:,} along {names[axis] or axis}" for axis in more)
        return f"decoded by zvcore, only {cut} is shown" if cut else ""

    def size(self, array: Array) -> list[int]:
        axes = (self.view.across, self.view.down, self.view.depth)
        return [1 if axis is None else array.shape[axis] for axis in axes]

    def block(self, array: Array) -> list[int]:
        """The shape of the blocks that Neuroglancer asks for: as few chunks as possible are decoded for each."""
        axes = (self.view.across, self.view.down, self.view.depth)
        chunk = [1 if axis is None else array.chunks[axis] for axis in axes]
        size = self.size(array)
        block = [min(extent, _BLOCK) for extent in chunk]
        while True:
            # Larger parts of large chunks; of small chunks, several.
            short = [axis for axis in range(3) if block[axis] < size[axis]]
            parts = [axis for axis in short if block[axis] < chunk[axis]]
            if parts:
                axis = max(parts, key=lambda axis: chunk[axis] / block[axis])
                larger, most = min(2 * block[axis], chunk[axis]), _MOST_VOXELS
            elif short:
                axis = min(short, key=lambda axis: block[axis])
                larger, most = 2 * block[axis], _BLOCK**3
            else:
                break
            wanted = [*block[:axis], larger, *block[axis + 1 :]]
            if math.prod(wanted) > most or (not parts and self._chunks_in(array, wanted) > _MOST_CHUNKS):
                break
            block = wanted
        return block

    def _chunks_in(self, array: Array, block: list[int]) -> int:
        """How many chunks such a block lies in, if it begins with one."""
        axes = (self.view.across, self.view.down, self.view.depth, self.channel_axis)
        extents = zip([*block, self.channels], axes, strict=True)
        return math.prod(-(-extent // array.chunks[axis]) for extent, axis in extents if axis is not None)

    def _resolution(self) -> list[float]:
        """The size of the finest voxels in nanometers, as far as the metadata tell."""
        sizes = [nanometers(axis.unit) * (axis.scale or 1.0) for axis in self.axes]
        refuse_beyond_floats(*sizes)
        shown = (self.view.across, self.view.down, self.view.depth)
        return [1.0 if axis is None else sizes[axis] for axis in shown]

    def answer(self, rest: str) -> Made | None:
        if rest == "info":
            return _JSON, json.dumps(self.info()).encode()
        match = _BOX.fullmatch(rest)
        if match is None or not rest.isascii():
            return None
        level, *box = map(int, match.groups())
        if level >= len(self.arrays):
            return None
        return self._block(self.arrays[level], box)

    def info(self) -> dict[str, Any]:
        finest, resolution = self.size(self.arrays[0]), self._resolution()
        scales = []
        for number, array in enumerate(self.arrays):
            size = self.size(array)
            factors = [max(1, round(whole / part)) for whole, part in zip(finest, size, strict=True)]
            scales.append(
                {
                    "key": str(number),
                    "size": size,
                    "resolution": [value * factor for value, factor in zip(resolution, factors, strict=True)],
                    "voxel_offset": [0, 0, 0],
                    "chunk_sizes": [self.block(array)],
                    "encoding": "raw",
                }
            )
        return {
            "@type": "neuroglancer_multiscale_volume",
            "type": self.layer,
            "data_type": self.data_type,
            "num_channels": self.channels,
            "scales": scales,
        }

    def _block(self, array: Array, box: list[int]) -> Made | None:
        spans = list(zip(box[::2], box[1::2], strict=True))
        for (start, stop), extent, most in zip(spans, self.size(array), self.block(array), strict=True):
            if not (start < stop <= extent and stop - start <= most):
                return None
        region: list[Any] = [0] * array.ndim
        order = []
        for span, axis in zip(spans, (self.view.across, self.view.down, self.view.depth), strict=True):
            if axis is not None:
                region[axis] = slice(*span)
                order.append(axis)
        if self.channel_axis is not None:
            region[self.channel_axis] = slice(None)
            order.append(self.channel_axis)
        refuse_if_too_large(array)
        values = np.asarray(array.read(tuple(region), threads=threads_for(array, self.threads)))
        left = sorted(order)
        values = values.transpose([left.index(axis) for axis in order])
        with np.errstate(over="ignore"):
            wanted = values.astype(np.dtype(self.data_type).newbyteorder("<"), copy=False)
        return _BYTES, wanted.tobytes(order="F")


class _VectorView:
    def __init__(self, dataset: Dataset) -> None:
        self.store = dataset.node

    @cached_property
    def level(self) -> Level:
        level: Level = self.store.level(self.store.levels[0])
        return level

    @property
    def scales(self) -> list[float]:
        """How many nanometers the unit of x, y and z has."""
        return [*self.store.nanometers[:3], 1.0, 1.0][:3]

    def place(self) -> tuple[list[float], float] | None:
        """(the middle, the longest extent) of what the store says it spans: Neuroglancer would look at the origin."""
        bounds = self.store.bounds
        if bounds is None:
            return None
        low, high = (in_space([corner])[0].astype(float) * self.scales for corner in bounds)
        extent = float((high - low).max())
        return (((low + high) / 2).tolist(), extent) if 0 < extent < float("inf") else None


class LinesView(_VectorView):
    """Lines as skeletons, one per object."""

    layer = "segmentation"

    @cached_property
    def ids(self) -> npt.NDArray[np.int64]:
        ids = self.level.object_ids(present_only=True)
        return np.sort(ids[ids >= 0])

    def segments(self) -> list[str]:
        """Some of the ids, spread evenly, which are shown at first."""
        return [str(i) for i in self.ids[:: max(1, -(-len(self.ids) // _SHOWN_IDS))]]

    def answer(self, rest: str) -> Made | None:
        if rest == "info":
            transform = [number for row in np.diag([*self.scales, 1.0])[:3].tolist() for number in row]
            info = {"@type": "neuroglancer_skeletons", "transform": transform, "segment_properties": "properties"}
            return _JSON, json.dumps(info).encode()
        if rest == "properties/info":
            ids = [str(i) for i in self.ids[:_MOST_IDS]]
            labels = {"id": "label", "type": "label", "values": [f"object {i}" for i in ids]}
            inline = {"ids": ids, "properties": [labels]}
            return _JSON, json.dumps({"@type": "neuroglancer_segment_properties", "inline": inline}).encode()
        if not (rest.isascii() and rest.isdecimal() and len(rest) < 19):
            return None
        where = np.searchsorted(self.ids, int(rest))
        if where >= len(self.ids) or self.ids[where] != int(rest):
            return None
        vertices = in_space(self.level.read_object(int(rest)))
        first = np.arange(max(len(vertices) - 1, 0), dtype=np.uint32)
        return _BYTES, Skeleton(vertices, np.stack([first, first + 1], -1)).to_bytes()


class PointsView(_VectorView):
    """Points as annotations; of many, a selection that is spread evenly."""

    layer = "annotation"

    @cached_property
    def points(self) -> npt.NDArray[np.float32]:
        positions = in_space(sample_of(self.level)[0])
        # What is nowhere is not shown, and bounds made of it would be no JSON.
        positions = positions[np.isfinite(positions).all(axis=1)]
        return positions[:: max(1, -(-len(positions) // _MOST_IDS))]

    def answer(self, rest: str) -> Made | None:
        points = self.points
        if rest == "info":
            low = np.floor(points.min(0, initial=np.inf)) if len(points) else np.zeros(3)
            high = np.ceil(points.max(0, initial=-np.inf)) + 1 if len(points) else np.ones(3)
            # Neuroglancer refuses a limit of 0.
            limit = max(1, len(points))
            spatial = {"key": "all", "grid_shape": [1, 1, 1], "chunk_size": (high - low).tolist(), "limit": limit}
            info = {
                "@type": "neuroglancer_annotations_v1",
                "dimensions": {axis: [scale / 1e9, "m"] for axis, scale in zip("xyz", self.scales, strict=True)},
                "lower_bound": low.tolist(),
                "upper_bound": high.tolist(),
                "annotation_type": "POINT",
                "properties": [],
                "relationships": [],
                "by_id": {"key": "by_id"},
                "spatial": [spatial],
            }
            return _JSON, json.dumps(info).encode()
        if rest == "all/0_0_0":
            numbers = np.arange(len(points), dtype="<u8")
            count = np.array([len(points)], "<u8")
            return _BYTES, count.tobytes() + points.astype("<f4").tobytes() + numbers.tobytes()
        kind, _, number = rest.partition("/")
        if (
            kind == "by_id"
            and number.isascii()
            and number.isdecimal()
            and len(number) < 10
            and int(number) < len(points)
        ):
            return _BYTES, points[int(number)].astype("<f4").tobytes()
        return None


def in_space(positions: Any) -> npt.NDArray[np.float32]:
    """Positions with three coordinates, whatever they had."""
    values: npt.NDArray[np.float32] = np.asarray(positions, np.float32)
    if values.shape[1] >= 3:
        return np.ascontiguousarray(values[:, :3])
    return np.concatenate([values, np.zeros((len(values), 3 - values.shape[1]), np.float32)], axis=1)
