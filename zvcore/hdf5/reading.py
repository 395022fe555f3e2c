"""Groups and data sets of HDF5, as h5py finds them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.array import BorrowedArray, BorrowedGroup, reopened_blocks
from zvcore.borrowed.blocks import BlockLayout, block_shape
from zvcore.borrowed.file import library, reading
from zvcore.borrowed.hdf5_attributes import attributes_of, said_of
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.hdf5.chunks import flat_layout, stored_layout
from zvcore.hdf5.handles import opened
from zvcore.hdf5.imaris import imaris_image
from zvcore.hdf5.links import child, members_of
from zvcore.hdf5.pyramids import image_of
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.exchange.virtual import Virtual
    from zvcore.format import Node
    from zvcore.layout import Layout
    from zvcore.stores import Store

__all__ = ["read"]

_FORMAT, _TITLE = "hdf5", "HDF5"
# How deep groups may lie in each other: links may lead in circles.
_DEEPEST = 64


def read(store: Store) -> Any:
    """What lies at the root of a file, or at the path in it that the store names."""
    assert isinstance(store, SingleFileStore)
    file = opened(store, _TITLE)
    level = store.inside
    if not level or level.isdecimal():
        shown = imaris_image(file, store.within(""), partial(_node, file))
        if shown is not None:
            return shown[level] if level else shown
    return _node(file, store)


def _node(file: Any, place: SingleFileStore) -> Node:
    """The group or data set at a path of a file. Nothing is followed that leads out of the file."""
    h5py = library("h5py", "hdf5", _TITLE)
    parts = [part for part in place.inside.split("/") if part]
    if len(parts) > _DEEPEST:
        raise UnsupportedError("groups in groups as deep as this", key=place.root, expected=f"at most {_DEEPEST}")
    with reading(place.root, _TITLE):
        here = file
        for part in parts:
            here = child(here, part, place.root)
            if here is None:
                raise NotFoundError("there is nothing of this name in the file", key=place.root)
            if isinstance(here, h5py.Group) and h5py.h5o.get_info(here.id).rc > 1:
                raise UnsupportedError("a group with several names, which may lie in itself", key=place.root)
        if isinstance(here, h5py.Dataset):
            return _array(file, here, place)
        if not isinstance(here, h5py.Group):
            raise UnsupportedError("neither a group nor a data set", key=place.root, found=type(here).__name__)
        return _group(file, here, place)


def _group(file: Any, group: Any, place: SingleFileStore) -> BorrowedGroup:
    names, others = members_of(group)
    members: dict[str, Callable[[], Node]] = {
        name: partial(_node, file, place.within(f"{place.inside}/{name}")) for name in names
    }
    return BorrowedGroup(_FORMAT, place, members, attributes_of(group), image_of(group), untold=others)


def _array(file: Any, dataset: Any, place: SingleFileStore) -> BorrowedArray:
    shape = dataset.shape
    if shape is None:
        raise UnsupportedError("a data set without values", key=place.root)
    if dataset.is_virtual or dataset.external:
        raise UnsupportedError("values that lie in other files, which are not read", key=place.root)
    blocks = DatasetBlocks(file, dataset, shape, place)
    layout: Layout | None = stored_layout(blocks) or flat_layout(blocks)
    if layout is None:
        layout = BlockLayout(place.root, blocks, block_shape(blocks.shape, blocks.dtype.itemsize, blocks.chunks))
    said = said_of(dataset, len(shape))
    return BorrowedArray(
        layout, format=_FORMAT, store=place, attrs=said.attributes, axes=said.axes, whole=blocks.chunks,
        untold=said.untold,
    )  # fmt: skip


class DatasetBlocks:
    """Parts of a data set. h5py lets one thread at a time into HDF5."""

    parallel = False

    def __init__(self, file: Any, dataset: Any, shape: tuple[int, ...], place: SingleFileStore) -> None:
        self.file = file  # open as long as its data set is
        self.dataset, self.place, self.name = dataset, place, place.root
        self.shape = tuple(shape)
        self.dtype: np.dtype[Any] = dataset.dtype
        self.chunks: tuple[int, ...] | None = dataset.chunks
        if self.dtype.hasobject:
            raise UnsupportedError("items without a size of their own", key=place.root, found=str(self.dtype))
        if self.dtype.subdtype is not None:
            raise UnsupportedError("items that are arrays themselves", key=place.root, found=str(self.dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return (reopened_blocks, (_FORMAT, self.place))

    def nothing_stored(self) -> bool:
        """Whether all of it is the fill value, however large it is said to be."""
        with reading(self.name, _TITLE):
            return bool(self.dataset.id.get_storage_size() == 0)

    def virtual(self) -> Virtual:
        from zvcore.hdf5.chunks import virtual_of

        return virtual_of(self)

    def read(self, region: tuple[slice, ...]) -> npt.NDArray[Any]:
        with reading(self.name, _TITLE):
            values: npt.NDArray[Any] = np.asarray(self.dataset[region])
            return values
