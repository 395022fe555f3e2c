"""The views of a dataset whose values lie in HDF5: `t00000/s00/0/cells`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.bdv.known import Views
from zvcore.borrowed.array import BorrowedArray
from zvcore.borrowed.stacked import Members, stacked_layout
from zvcore.errors import MetadataError, NotFoundError
from zvcore.format import get_format
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.bdv.spim_data import Setup, SpimData
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["hdf5_levels", "views_in_hdf5"]

_MOST_LEVELS = 64


def views_in_hdf5(store: Store, data: SpimData, setups: Sequence[int]) -> set[tuple[int, int]]:
    """The (time point, setup) of these setups that are stored."""
    file = _opened(_file(store, data.path))
    views = ((time, setup) for time in data.time_points for setup in setups)
    return {(time, setup) for time, setup in views if file is not None and _cells(time, setup, 0) in file}


def _cells(time: int, setup: int, level: int) -> str:
    return f"t{time:05}/s{setup:02}/{level}/cells"


def hdf5_levels(store: Store, data: SpimData, setup: Setup) -> Views | None:
    """The levels of a setup; None where nothing of it is stored."""
    file = _file(store, data.path)
    time = next((time for time in data.time_points if _array(file, time, setup.id, 0) is not None), None)
    if time is None:
        return None
    resolutions = _opened(file.within(f"s{setup.id:02}/resolutions"))
    if resolutions is None or resolutions.ndim != 2 or resolutions.shape[1] != 3:
        raise MetadataError("a setup says how coarse its levels are", key=f"{file.root}:/s{setup.id:02}/resolutions")
    if not 1 <= resolutions.shape[0] <= _MOST_LEVELS:
        raise MetadataError(
            "so many levels cannot be", key=f"{file.root}:/s{setup.id:02}/resolutions",
            expected=f"1 to {_MOST_LEVELS}", found=resolutions.shape[0],
        )  # fmt: skip
    factors = [tuple(float(n) for n in row) for row in np.asarray(resolutions[...], float)]
    if not all(0 < n < np.inf for row in factors for n in row):
        raise MetadataError("levels are coarser by positive numbers", key=file.root, found=factors[:3])
    levels = [_array(file, time, setup.id, number) for number in range(len(factors))]
    if any(one is None or one.ndim != 3 for one in levels):
        raise MetadataError("a level of a view is missing, or no volume", key=f"{file.root}:/t{time:05}/s{setup.id:02}")
    known = [one for one in levels if one is not None]
    kind = tuple((one.shape, one.chunks, str(one.dtype), str(one.codec)) for one in known)
    return Views(kind, known[0].shape[::-1], factors, partial(_level, store, data, time))


def _file(store: Store, path: str) -> SingleFileStore:
    folder, _, name = path.rpartition("/")
    return SingleFileStore(store.child(folder) if folder else store, name)


def _opened(place: SingleFileStore) -> Any:
    try:
        return get_format("hdf5").open(place)
    except NotFoundError:
        return None


def _array(file: SingleFileStore, time: int, setup: int, level: int) -> Array | None:
    found = _opened(file.within(_cells(time, setup, level)))
    return found if isinstance(found, BorrowedArray) else None


def _level(
    store: Store, data: SpimData, time: int, setups: Sequence[int], number: int, axes: Axes, place: Store
) -> BorrowedArray:
    file = _file(store, data.path)
    views = [(point, setup) for point in data.time_points for setup in setups]
    members = Members((len(data.time_points), len(setups)), partial(_member, file, views, number))
    first = _array(file, time, setups[0], number)
    assert first is not None
    # BigDataViewer keeps the bits of unsigned numbers in items that HDF5 is told are signed.
    dtype = first.dtype.str.replace("i", "u") if first.dtype == np.int16 else None
    layout = stacked_layout(file.root, members, first, dtype=dtype)
    return BorrowedArray(
        layout, format="bdv", store=place, axes=axes, whole=(1, 1, *getattr(first, "whole", first.chunks))
    )


def _member(file: SingleFileStore, views: Sequence[tuple[int, int]], level: int, number: int) -> Array | None:
    return _array(file, *views[number], level)
