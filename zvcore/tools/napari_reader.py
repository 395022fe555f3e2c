"""A reader for napari: images and labels with their levels, lazily; lines, points and boxes.

napari finds it by the manifest beside this module. Axes are turned so that the last one is the fastest, as napari shows
them; sizes, units and names of axes and channels go along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from zvcore.errors import ZvcoreError
from zvcore.format import get_format
from zvcore.images.axes import nanometers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.exchange.lines import Lines
    from zvcore.exchange.rows import Rows
    from zvcore.images import Image

__all__ = ["get_reader"]

Layer = tuple[Any, dict[str, Any], str]

# napari holds lines and points in memory, and each line is a shape: of more than these, only the first are shown.
MOST_LINES = 10_000
MOST_POINTS = 1_000_000


def get_reader(path: str | list[str]) -> Callable[[Any], list[Layer]] | None:
    """The function that reads these paths, or None where zvcore knows no format there."""
    paths = path if isinstance(path, list) else [path]
    try:
        for one in paths:
            zvcore.open(one)
    except (ZvcoreError, OSError, ValueError):
        return None
    return _read


def _read(path: str | list[str]) -> list[Layer]:
    paths = path if isinstance(path, list) else [path]
    return [layer for one in paths for layer in _layers(zvcore.open(one), str(one).rstrip("/").rpartition("/")[2])]


def _layers(node: Any, name: str) -> Iterator[Layer]:
    format = get_format(node.format)
    rows = format.read_rows(node)
    if rows is not None:
        yield from _layers_of_rows(rows, name)
        return
    lines = format.read_lines(node)
    if lines is not None:
        yield _layer_of_lines(lines, name)
        return
    image = format.read_image(node)
    if image is not None:
        yield _layer_of_image(image, image.name or name, format.fastest_first(image.arrays[0]))
    members = node.children()
    for member in ("labels",) if image is not None else members:
        if member in members:
            shown = name if image is not None else f"{name}/{member}"
            yield from _layers(members[member], shown)


def _layer_of_image(image: Image, name: str, fastest_first: bool) -> Layer:
    arrays = [array.to_dask() for array in image.arrays]
    axes = image.axes
    kind = "labels" if image.labels and arrays[0].dtype.kind in "iub" else "image"
    channel = next((n for n, axis in enumerate(axes) if axis.type == "channel" or axis.name in ("c", "c^")), None)
    if len(axes) < arrays[0].ndim:  # the channels of a volume, behind its axes
        channel = len(axes)
    if fastest_first:
        arrays = [array.T for array in arrays]
        channel = None if channel is None else arrays[0].ndim - 1 - channel
        axes = axes[::-1]
    if channel is not None and (kind == "labels" or arrays[0].shape[channel] == 1):
        first = (slice(None),) * channel + (0,)
        arrays = [array[first] for array in arrays]
    told: dict[str, Any] = {"name": name, "multiscale": len(arrays) > 1}
    spatial = [axis for axis in axes if not (axis.type == "channel" or axis.name in ("c", "c^"))]
    if spatial and all(axis.scale is not None and axis.scale > 0 for axis in spatial):
        told["scale"] = [axis.scale for axis in spatial]
        told["translate"] = [axis.offset for axis in spatial]
        told["metadata"] = {"units": [axis.unit for axis in spatial], "axes": [axis.name for axis in spatial]}
    if channel is not None and arrays[0].ndim > len(spatial):
        told["channel_axis"] = channel
        told.update(_told_of_channels(image, name, arrays[0].shape[channel]))
    return arrays if told["multiscale"] else arrays[0], told, kind


def _told_of_channels(image: Image, name: str, count: int) -> dict[str, Any]:
    """Names and limits of contrast as OME-Zarr's `omero` has them, as far as they can be used."""
    omero = image.words.get("omero")
    channels = omero.get("channels") if isinstance(omero, dict) else None
    if not isinstance(channels, list) or len(channels) != count or not all(isinstance(c, dict) for c in channels):
        return {"name": [f"{name} {number}" for number in range(count)]}
    told: dict[str, Any] = {"name": [str(one.get("label", f"{name} {n}")) for n, one in enumerate(channels)]}
    limits = [_limits(one.get("window")) for one in channels]
    if all(limits):
        told["contrast_limits"] = limits
    return told


def _limits(window: Any) -> list[float] | None:
    ends = [window.get("start"), window.get("end")] if isinstance(window, dict) else [None]
    numbers = [float(end) for end in ends if isinstance(end, int | float) and np.isfinite(end)]
    return numbers if len(numbers) == 2 and numbers[0] < numbers[1] else None


def _layer_of_lines(lines: Lines, name: str) -> Layer:
    paths: list[Any] = []
    ids: list[int] = []
    for batch in lines.batches():
        for number in range(min(len(batch.ids), MOST_LINES - len(paths))):
            points = batch.positions[batch.offsets[number] : batch.offsets[number + 1], ::-1]
            if len(points) > 1:
                paths.append(np.asarray(points))
                ids.append(int(batch.ids[number]))
        if len(paths) >= MOST_LINES:
            break
    metadata = {"shown": len(paths), "of": lines.count}
    return paths, {"name": name, "shape_type": "path", "features": {"id": ids}, "metadata": metadata}, "shapes"


def _layers_of_rows(rows: Rows, name: str) -> Iterator[Layer]:
    scale = [size * nanometers(unit) for size, unit in rows.dimensions.values()][::-1]
    columns: dict[str, list[Any]] = {}
    count = 0
    for batch in rows.batches():
        for column, values in batch.items():
            if isinstance(values, np.ndarray) and column not in rows.relationships:
                columns.setdefault(column, []).append(values[: MOST_POINTS - count])
        count += len(batch["id"])
        if count >= MOST_POINTS:
            break
    joined = {column: np.concatenate(values) for column, values in columns.items()}
    features = {column: joined[column] for column in ("id", *rows.properties) if column in joined}
    features = {column: values for column, values in features.items() if values.ndim == 1}
    told = {"name": name, "scale": scale, "features": features, "metadata": {"of": rows.count}}
    place = next((joined[column] for column in ("point", "center") if column in joined), None)
    if place is not None:
        yield place[:, ::-1], told, "points"
    elif {"point_a", "point_b"} <= joined.keys():
        start, end = joined["point_a"][:, ::-1], joined["point_b"][:, ::-1]
        yield np.stack((start, end - start), axis=1), told, "vectors"
