"""Arrays of other libraries as arrays of zvcore: numpy's, Dask's, h5py's, Zarr's, tensorstore's, xarray's, and whatever
else has `shape`, `dtype` and `[]`. Of none of them the library is imported: who has such an array has imported it.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.array import BorrowedArray
from zvcore.borrowed.blocks import BlockLayout, block_shape, slabs
from zvcore.boxes import lengths_of
from zvcore.casting import refuse_missing
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.images import Axis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.images import Axes

__all__ = ["as_array", "is_array"]

# Coordinates may differ so much from a line, by their rounding, in parts of a step.
_STRAIGHT = 1e-3


@dataclass(frozen=True)
class Told:
    """What a library says of an array besides its values.

    read      gives a box of it
    chunks    its own, if it has some
    parallel  whether several threads may read at once
    place     where it lies, if it lies in a place that it can be known by
    untold    what else it says that no array here can say, in words
    """

    read: Callable[[tuple[slice, ...]], Any]
    chunks: Sequence[int] | None = None
    parallel: bool = False
    attrs: Mapping[str, Any] | None = None
    axes: Axes | None = None
    place: str | None = None
    untold: tuple[str, ...] = ()


class _Object:
    """The blocks of an array by its `[]`."""

    def __init__(self, given: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.given = given
        self.shape, self.dtype = shape, dtype
        told = _told(given)
        self._read = told.read
        self.parallel = told.parallel

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Object, (self.given, self.dtype, self.shape))

    def read(self, region: tuple[slice, ...]) -> npt.NDArray[Any]:
        values = self._read(region)
        refuse_missing(values)
        return np.asarray(values)


def is_array(given: Any) -> bool:
    """Whether something has what an array needs: a shape, a data type, and parts by `[]`."""
    return all(hasattr(given, name) for name in ("shape", "dtype", "__getitem__"))


def as_array(given: Any) -> BorrowedArray:
    """An array of another library as one of zvcore. Its values are read when they are asked for."""
    kind = f"{type(given).__module__.partition('.')[0]}.{type(given).__name__}"
    if kind == "xarray.Dataset":
        raise UnsupportedError(f"an {kind} has several variables; convert one of them: dataset[name]")
    if not is_array(given):
        raise UnsupportedError(f"{kind}: this is neither an array nor a group of arrays")
    dtype = _dtype_of(given, kind)
    shape = _shape_of(given, kind)
    told = _told(given)
    if told.chunks is not None and len(told.chunks) != len(shape):
        told = replace(told, chunks=None)
    # In memory, others may lie in the same place later: nothing is taken for it that was made of something else.
    name = told.place or f"<{kind} {uuid.uuid4().hex[:12]}>"
    memory = isinstance(given, np.ndarray) and given.flags.c_contiguous
    chunks = (
        slabs(shape, dtype.itemsize, range(len(shape))) if memory else block_shape(shape, dtype.itemsize, told.chunks)
    )
    whole = block_shape(shape, dtype.itemsize, told.chunks) if told.chunks is None else told.chunks
    layout = BlockLayout(name, _Object(given, dtype, shape), chunks)
    whole = tuple(max(1, min(a, b)) for a, b in zip(whole, shape, strict=True))
    return BorrowedArray(layout, format="borrowed", attrs=told.attrs, axes=told.axes, whole=whole, untold=told.untold)


def _shape_of(given: Any, kind: str) -> tuple[int, ...]:
    """Lengths along the axes. Dask has NaN for one that only values tell, as behind a mask."""
    try:
        shape = lengths_of(given.shape, "shape")
    except MetadataError:
        shape = (-1,)
    if min(shape, default=0) < 0:
        what = f"{kind}: not known how long it is along each axis (compute_chunk_sizes() of Dask finds out)"
        raise UnsupportedError(what, found=repr(given.shape))
    return shape


def _dtype_of(given: Any, kind: str) -> np.dtype[Any]:
    said = getattr(given.dtype, "numpy_dtype", given.dtype)  # tensorstore's
    try:
        dtype: np.dtype[Any] = np.dtype(said)
    except TypeError as error:
        raise UnsupportedError(f"{kind}: numpy has no such data type", found=str(said)) from error
    if dtype.hasobject:
        raise UnsupportedError(f"{kind}: items are Python objects, of which there is no array here", found=str(dtype))
    return dtype


def _told(given: Any) -> Told:
    """What is known of an array, by the library that it is of."""
    for one in type(given).__mro__:
        tell = _TELLERS.get((one.__module__.partition(".")[0], one.__name__))
        if tell is not None:
            return tell(given)
    return Told(lambda region: given[region], _regular(getattr(given, "chunks", None)))


def _regular(chunks: Any) -> tuple[int, ...] | None:
    """The shape of chunks as most libraries tell it, or as Dask does: lists of lengths."""
    if not isinstance(chunks, tuple | list) or not chunks:
        return None
    if all(isinstance(n, int | np.integer) and n > 0 for n in chunks):
        return tuple(int(n) for n in chunks)
    if all(isinstance(one, tuple | list) and one for one in chunks):
        return tuple(max(1, *(int(n) for n in one), 1) for one in chunks)
    return None


def _numpy(given: Any) -> Told:
    refuse_missing(given)  # before anything of it is written
    place = None
    if isinstance(given, np.memmap):
        place = None if given.filename is None else f"{given.filename}@{given.offset}"
    return Told(lambda region: np.asarray(given)[region], place=None if place is None else _unique(place))


def _unique(place: str) -> str:
    """A name for a place whose content nobody has looked at."""
    return f"<{place} {uuid.uuid4().hex[:12]}>"


def _dask(given: Any) -> Told:
    return Told(lambda region: given[region].compute(), _regular(given.chunks), parallel=True)


def _h5py(given: Any) -> Told:
    from zvcore.borrowed.hdf5_attributes import said_of

    said = said_of(given, len(given.shape))
    return Told(lambda region: given[region], given.chunks, attrs=said.attributes, axes=said.axes, untold=said.untold)


def _zarr(given: Any) -> Told:
    attrs = dict(given.attrs)
    names = getattr(getattr(given, "metadata", None), "dimension_names", None) or attrs.pop("_ARRAY_DIMENSIONS", None)
    axes = tuple(Axis(name if isinstance(name, str) else None) for name in names or ())
    return Told(
        lambda region: given[region], _regular(given.chunks), True, attrs,
        axes if len(axes) == len(given.shape) else None,
    )  # fmt: skip


def _tensorstore(given: Any) -> Told:
    origin = given.domain.origin

    def read(region: tuple[slice, ...]) -> Any:
        here = tuple(slice(one.start + at, one.stop + at) for one, at in zip(region, origin, strict=True))
        return given[here].read().result()

    axes = tuple(
        Axis(label or None, *_tensorstore_unit(unit), offset=float(at))
        for label, unit, at in zip(given.domain.labels, given.dimension_units, origin, strict=True)
    )
    axes = tuple(replace(one, offset=one.offset * (1.0 if one.scale is None else one.scale)) for one in axes)
    return Told(read, _regular(given.chunk_layout.read_chunk.shape), True, axes=axes)


def _tensorstore_unit(unit: Any) -> tuple[str | None, float | None]:
    return (None, None) if unit is None else (unit.base_unit or None, float(unit.multiplier))


def _xarray(given: Any) -> Told:
    names = [str(name) for name in given.dims]
    axes = tuple(_axis_of(given, name) for name in names)
    attrs = {str(name): value for name, value in given.attrs.items()}
    chunks = _regular(given.chunks) or _regular(tuple(given.encoding.get("chunksizes") or ()))
    said = {axis.name for axis in axes if axis.scale is not None}
    untold = tuple(_untold_coordinate(str(name), str(name) in names) for name in given.coords if str(name) not in said)
    return Told(lambda region: given[region].values, chunks, given.chunks is not None, attrs, axes, untold=untold)


def _untold_coordinate(name: str, along: bool) -> str:
    return f"the coordinate {name!r}{' (not evenly spaced and growing)' if along else ''}"


def _axis_of(given: Any, name: str) -> Axis:
    """An axis of xarray: where its coordinates are evenly spaced numbers, they say sizes and places of voxels."""
    coordinate = given.coords.get(name)
    if coordinate is None or coordinate.ndim != 1:
        return Axis(name)
    unit = coordinate.attrs.get("units")
    unit = unit if isinstance(unit, str) else None
    values = np.asarray(coordinate.values)
    if values.dtype.kind not in "iuf" or len(values) < 2:
        return Axis(name, unit)
    values = values.astype(float)
    step = float(values[-1] - values[0]) / (len(values) - 1)
    # Sums of steps, and not single ones: those of small numbers behind a large one have its rounding.
    line = values[0] + step * np.arange(len(values))
    if not (0 < step < math.inf) or not np.allclose(values, line, rtol=0, atol=_STRAIGHT * step):
        return Axis(name, unit)
    return Axis(name, unit, step, float(values[0]))


_TELLERS: dict[tuple[str, str], Callable[[Any], Told]] = {
    ("numpy", "ndarray"): _numpy,
    ("dask", "Array"): _dask,
    ("h5py", "Dataset"): _h5py,
    ("zarr", "Array"): _zarr,
    ("tensorstore", "TensorStore"): _tensorstore,
    ("xarray", "DataArray"): _xarray,
}
