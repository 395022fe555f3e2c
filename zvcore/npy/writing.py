"""Writing .npy: the axes stay in the array's own order."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from zvcore.images.slabs import slabs
from zvcore.report import Report

if TYPE_CHECKING:
    from zvcore.images.whole import WholeImage

__all__ = ["image_lost", "write_npy"]


def image_lost(image: WholeImage) -> Report:
    """What there is of an image besides the values of its finest level."""
    report = Report()
    little = image.array.dtype.newbyteorder("<")
    descr = np.lib.format.dtype_to_descr(little)
    if np.lib.format.descr_to_dtype(descr) != little:
        report.lose("", f"the type {little} has no place in a .npy: numpy reads the values as bytes, {descr}")
    if len(image.levels) > 1:
        report.lose("", f"{len(image.levels) - 1} coarser levels have no place in a .npy")
    if any(size is not None for size, _ in image.sizes):
        report.lose("", "sizes and places of voxels have no place in a .npy")
    for name in image.attrs:
        report.lose("", f"the attribute {name!r} has no place in a .npy")
    return report


def write_npy(file: BinaryIO, image: WholeImage) -> Report:
    """Write the finest level; what else there is of an image is told."""
    array = image.array
    axes = [axis for axis, part in enumerate(image.region) if isinstance(part, slice)]
    little = array.dtype.newbyteorder("<")
    shape = tuple(image.length(axis) for axis in axes)
    descr = np.lib.format.dtype_to_descr(little)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    file.writelines(
        np.ascontiguousarray(values.astype(little, copy=False)).tobytes()
        for values in slabs(array, tuple(image.region), image.threads, watch=image.watch)
    )
    return image_lost(image)
