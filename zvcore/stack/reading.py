"""Images of a folder as one array, the first axis of which says which image. One listing tells which there are; of the
images themselves the first is looked at, and each of the others when it is read.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.borrowed.array import BorrowedArray
from zvcore.borrowed.blocks import BlockLayout
from zvcore.borrowed.stacked import Members, stacked_layout
from zvcore.errors import (
    CorruptDataError,
    LostMetadataWarning,
    MissingImagesWarning,
    NotFoundError,
    UnsupportedError,
    ZvcoreError,
)
from zvcore.format import formats, get_format
from zvcore.images import Axis
from zvcore.images.axes import nanometers
from zvcore.stack.names import PICTURES, images_in, kinds_of, missing_numbers, told_numbers
from zvcore.stack.pictures import Like, Picture, turned_by, unlike
from zvcore.stack.twins import Twins
from zvcore.stores.matching import MatchingStore
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["images_of", "is_flat", "other_axes", "read", "turned"]

_FORMAT = "stack"
_USUAL = "values are brightness, or colours"
_FLAT = {"y", "x", "c"}
# How many gaps in the sequence stand in an attribute.
_MOST_GAPS = 1000
# By how much sizes may differ that are meant to be the same: TIFF has them as fractions.
_ROUNDING = 1e-4


class Opening:
    """Opens the images of a stack by their numbers.

    like  what they have to be like, once it is known, and what their values have to
    mean  (see `BorrowedArray`)
    axes  what the first says of its axes, which holds for the whole stack

    Those that are as the last one was in all but their values are not understood anew.
    """

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self.store, self.names = store, names
        self.like: Like | None = None
        self.mean = ""
        self.axes: Axes = ()
        self._twins: Twins | None = None
        self._warned = False

    def __getstate__(self) -> dict[str, Any]:
        # What is like another file would be opened with that.
        return {**vars(self), "_twins": None}

    def __call__(self, number: int) -> Array:
        name = self.names[number]
        twin = None if self._twins is None else self._twins.array(self.store, name)
        if twin is not None:
            return twin
        found = _picture(self.store, name, self.like) if name.lower().endswith(PICTURES) else _file(self.store, name)
        here = found.shape, found.dtype
        if self.like is None:
            self.like, self.mean, self.axes = here, _mean(found), _axes(found)
            self._twins = Twins.of(self.store, name, found)
            return found
        if here != self.like:
            raise unlike(name, self.like, here)
        if _mean(found) != self.mean:
            raise CorruptDataError(
                "the values of images of a stack mean the same", key=name, expected=self.mean or _USUAL,
                found=_mean(found) or _USUAL,
            )  # fmt: skip
        said = unlike_axes(self.axes, found)
        if said is not None and not self._warned:
            # One is enough: of all others `verify` tells.
            self._warned = True
            warnings.warn(f"{self.store.root}/{name}: {said}", LostMetadataWarning, stacklevel=2)
        self._twins = Twins.of(self.store, name, found) or self._twins
        return found


def _mean(found: Array) -> str:
    return found.values_mean if isinstance(found, BorrowedArray) else ""


def unlike_axes(axes: Axes, found: Array) -> str | None:
    """How an image's axes differ from those that the first says of the stack, in words; None if they do not."""
    here = _axes(found)
    if all(one.name == other.name and _same_size(one, other) for one, other in zip(axes, here, strict=True)):
        return None
    expected, said = (", ".join(map(_told, some)) for some in (axes, here))
    return f"this image says other axes or sizes of pixels ({said}) than the first ({expected}), which hold for all"


def _same_size(one: Axis, other: Axis) -> bool:
    if one.scale is None or other.scale is None:
        return one.scale is other.scale
    return math.isclose(one.scale * nanometers(one.unit), other.scale * nanometers(other.unit), rel_tol=_ROUNDING)


def _told(axis: Axis) -> str:
    size = "of unknown size" if axis.scale is None else f"{axis.scale:g} {axis.unit or '(no unit)'}"
    return f"{axis.name} {size}"


def images_of(store: Store) -> tuple[Store, list[str]]:
    """(the folder, the names of its images in order)."""
    names = images_in(store.list_dir()[1])
    if not names:
        raise NotFoundError("there is no image here", key=store.root)
    kinds = sorted(kinds_of(names))
    if len(kinds) > 1:
        patterns = " or ".join(f"{store.root}/*{kind[0]}" for kind in kinds)
        raise UnsupportedError("images of several kinds: a pattern says which are meant", key=store.root,
                               expected=patterns)  # fmt: skip
    return store.folder if isinstance(store, MatchingStore) else store, names


def read(store: Store) -> BorrowedArray:
    folder, names = images_of(store)
    gaps = missing_numbers(names)
    if gaps:
        told = f"{store.root}: {len(names)} images stand one behind the other, and between them are missing"
        warnings.warn(f"{told} {told_numbers(gaps)}", MissingImagesWarning, stacklevel=2)
    opening = Opening(folder, names)
    members = Members((len(names),), opening)
    first = members[0]
    assert first is not None
    inner = _axes(first)
    # Of files that hold more than an image each, it may be any axis.
    around = Axis("z", type="space") if {one.name for one in inner} <= _FLAT else Axis()
    known = any(one.scale is not None for one in inner)
    return BorrowedArray(
        stacked_layout(store.root, members, first), format=_FORMAT, store=store, axes=(around, *inner),
        attrs={"missing_images": [list(gap) for gap in gaps[:_MOST_GAPS]]} if gaps else None,
        image={"convention": "stack of images"} if known else None,
        whole=(1, *getattr(first, "whole", first.chunks)), untold=(*_said(first), *_turned(folder, names[0])),
    )  # fmt: skip


def other_axes(array: Array, number: int) -> str | None:
    """How the axes of an image of a stack differ from those that the first says of all; None if they do not."""
    layout: Any = array.layout
    holder: Any = layout.blocks if isinstance(layout, BlockLayout) else layout
    members = holder.members
    first, found = members[0], members[number]
    return unlike_axes(_axes(first), found)


def _said(first: Array) -> tuple[str, ...]:
    """What the first image says besides values and axes, in words: of each image it may be something else."""
    image = get_format(first.format).read_image(first)
    told = [f"the attribute {name!r}" for name in first.attrs]
    if image is not None:
        told += [*image.untold, *image.levels[0].untold, *image.words]
    return tuple(f"{what} of the first image, and of the others," for what in told)


def turned(store: Store, name: str) -> str | None:
    """How a picture is to be turned before it is shown, in words; None if it is not."""
    orientation = turned_by(store, name) if name.lower().endswith(PICTURES) else 1
    return (
        None if orientation == 1 else f"the orientation {orientation} of Exif, by which viewers turn or mirror pixels,"
    )


def _turned(store: Store, name: str) -> tuple[str, ...]:
    told = turned(store, name)
    return () if told is None else (f"{told} of the first image, and of the others,",)


def is_flat(store: Store, first: str) -> bool:
    """Whether the first of the files is a single image, and not a dataset with more axes."""
    if first.lower().endswith(PICTURES):
        return True
    try:
        found = _file(store, first)
    except ZvcoreError:
        return False
    return {one.name for one in _axes(found)} <= _FLAT and found.ndim <= len(_FLAT)


def _picture(store: Store, name: str, like: Like | None) -> BorrowedArray:
    place = SingleFileStore(store, name)
    picture = Picture(store, name, like)
    return BorrowedArray(BlockLayout(place.root, picture, picture.shape), format=_FORMAT, store=place)


def _file(store: Store, name: str) -> Array:
    """The image that a file of another format is, or the finest level of it."""
    place = SingleFileStore(store, name)
    format = next((one for one in formats().values() if one.names_file(name)), None)
    if format is None:
        raise UnsupportedError("no format is known that has such images", key=name)
    found: Any = format.open(place)
    if isinstance(found, Array):
        return found
    image = format.read_image(found)
    if image is None:
        raise UnsupportedError("a file of a stack is one image, and this holds several", key=name)
    return image.levels[0].array


def _axes(first: Array) -> Axes:
    """What is known of an image's own axes; the first ones that are not are y and x, and then the channels."""
    said = get_format(first.format).read_axes(first)
    if any(axis.name is not None for axis in said):
        return said
    usual = (Axis("y", type="space"), Axis("x", type="space"), Axis("c", type="channel"))
    return usual[: first.ndim] if 2 <= first.ndim <= len(usual) else said
