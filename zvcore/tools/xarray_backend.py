"""`xarray.open_dataset(path, engine="zvcore")`: arrays, images and groups of all formats, lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

import zvcore
from zvcore.array import Array
from zvcore.errors import UnsupportedError
from zvcore.format import get_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zvcore.images import Axes, Axis

__all__ = ["ZvcoreBackend"]

# Axes that are longer have no coordinates: they would be held in memory, whatever a document claims.
LONGEST = 1 << 22
# What the array of an image, or one alone, is called.
ALONE = "data"


class LazyArray(BackendArray):
    """An Array as xarray asks for it: by integers and slices, by a list of places for each axis, or by points."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.VectorizedIndexer) and all(isinstance(one, np.ndarray) for one in key.tuple):
            # Scattered points: every place that has one of them along each axis would be most of the array.
            support, read = indexing.IndexingSupport.VECTORIZED, self.array.vindex.__getitem__
        else:
            support, read = indexing.IndexingSupport.OUTER, self._read
        return indexing.explicit_indexing_adapter(key, self.shape, support, read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        # Whole axes of numbers stay axes in one kind of index, and vanish in the other: places are asked for as lists.
        listed = any(isinstance(one, np.ndarray) for one in key)
        return self.array.oindex[key] if listed else self.array[key]


class ZvcoreBackend(BackendEntrypoint):
    """What xarray finds by its entry point. It is never guessed: Zarr, HDF5 and others have engines of their own."""

    description = "Zarr, N5, Neuroglancer precomputed, HDF5, TIFF, NIfTI, MRC and .npy through zvcore"
    url = "https://pypi.org/project/zvcore"
    # Of how values are decoded, `decode_cf=False` switches off what is named here alone.
    open_dataset_parameters = (
        "filename_or_obj", "drop_variables", "group", "level", "format", "storage_options", "mask_and_scale",
        "decode_times", "decode_timedelta", "use_cftime", "concat_characters", "decode_coords",
    )  # fmt: skip

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        level: int = 0,
        format: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **decoding: Any,
    ) -> xarray.Dataset:
        """`group` is a path within the dataset, `level` the resolution of an image, the finest being 0."""
        node = zvcore.open(filename_or_obj, format=format, storage_options=storage_options)
        if group and group.strip("/"):
            node = node[group.strip("/")]
        left_out = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        arrays, attrs = _arrays_of(node, level)
        named = {name: array for name, array in arrays.items() if name not in left_out}
        dataset = _dataset(named, attrs)
        return xarray.decode_cf(dataset, **decoding)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        return False


def _arrays_of(node: Any, level: int) -> tuple[dict[str, tuple[Array, Axes]], dict[str, Any]]:
    """({name: (array, its axes)}, attributes) of what was opened."""
    image = get_format(node.format).read_image(node)
    if image is not None:
        if not -len(image.levels) <= level < len(image.levels):
            raise IndexError(f"the image has the levels 0 to {len(image.levels) - 1}, not {level}")
        one = image.levels[level]
        attrs = {} if image.name is None else {"name": image.name}
        return {ALONE: (one.array, one.axes)}, attrs
    members = {name: one for name, one in node.children().items() if isinstance(one, Array)}
    if not members:
        raise UnsupportedError(
            "no array lies directly here; give group= for a member", key=node.store.root, found=node.kind
        )
    format = get_format(node.format)
    return {name: (one, format.read_axes(one)) for name, one in members.items()}, dict(getattr(node, "attrs", {}))


def _dataset(arrays: Mapping[str, tuple[Array, Axes]], attrs: Mapping[str, Any]) -> xarray.Dataset:
    lengths: dict[str, int] = {}
    variables: dict[str, xarray.Variable] = {}
    coordinates: dict[str, xarray.Variable] = {}
    named = {name: _dimensions(name, array, axes, lengths) for name, (array, axes) in arrays.items()}
    places = _read_together({name: arrays[name][0] for name, dims in named.items() if dims == (name,)})
    for name, (array, axes) in arrays.items():
        dims = named[name]
        taken = get_format(array.format).exchange().placing if len(arrays) == 1 else frozenset()
        said = {key: value for key, value in array.attrs.items() if key not in taken and key != "_ARRAY_DIMENSIONS"}
        _say_what_is_missing(said, array, alone=name == ALONE)
        chunks = array.shards or array.chunks
        encoding = {"preferred_chunks": dict(zip(dims, chunks, strict=True)), "chunks": tuple(chunks)}
        values = places[name] if name in places else indexing.LazilyIndexedArray(LazyArray(array))
        variables[name] = xarray.Variable(dims, values, said, encoding)
        for dim, axis, length in zip(dims, axes, array.shape, strict=True):
            if dim not in arrays and axis.scale is not None and length <= LONGEST:
                coordinates.setdefault(dim, _places(dim, axis, length))
    return xarray.Dataset(variables, coordinates, attrs)


def _read_together(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The values along axes, of which xarray makes indexes: behind a network it would wait for one after the other."""
    if not arrays:
        return {}
    first = next(iter(arrays.values()))
    return dict(zip(arrays, first.store.each(lambda array: array[...], [*arrays.values()]), strict=True))


def _say_what_is_missing(said: dict[str, Any], array: Array, *, alone: bool) -> None:
    """`_FillValue` as decoding expects it: a value, which version 2 of Zarr has as the array's fill value.

    Images are not what xarray wrote: what is black in them is not missing.
    """
    exchange = get_format(array.format).exchange()
    if not alone and exchange.masks_fill(array):
        said["_FillValue"] = array.fill_value
    elif "_FillValue" in said:
        said["_FillValue"] = exchange.mask_value(array)


def _dimensions(name: str, array: Array, axes: Axes, lengths: dict[str, int]) -> tuple[str, ...]:
    """Names of an array's axes. A name that has another length elsewhere, or occurs twice, has the array's in front."""
    dims: list[str] = []
    for number, (axis, length) in enumerate(zip(axes, array.shape, strict=True)):
        dim = axis.name or f"dim_{number}"
        if dim in dims or lengths.get(dim, length) != length:
            dim = f"{name}_{dim}_{number}"
        lengths[dim] = length
        dims.append(dim)
    return tuple(dims)


def _places(dim: str, axis: Axis, length: int) -> xarray.Variable:
    assert axis.scale is not None
    values = axis.offset + axis.scale * np.arange(length)
    return xarray.Variable((dim,), values, {} if axis.unit is None else {"units": axis.unit})
