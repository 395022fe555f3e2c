"""Writing .npy: the axes stay in the array's own order."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from zvcore.errors import UnsupportedError
from zvcore.images.slabs import slabs
from zvcore.npy.reading import LARGEST_HEADER
from zvcore.report import Report

if TYPE_CHECKING:
    from zvcore.images.whole import WholeImage

__all__ = ["image_lost", "write_npy"]

_THIRD = b"\x93NUMPY\x03\x00"
_ALIGNED = 64


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


def _header(said: dict[str, Any]) -> bytes:
    """In the first version, or in the third, which has names of fields in other letters than those of Latin-1."""
    text = "{" + "".join(f"{name!r}: {value!r}, " for name, value in sorted(said.items())) + "}"
    if len(text) > LARGEST_HEADER - _ALIGNED:
        raise UnsupportedError(
            "the header of such a .npy would be too long: numpy does not read it without being told to",
            expected=f"at most {LARGEST_HEADER} bytes", found=len(text),
        )  # fmt: skip
    file = io.BytesIO()
    with suppress(UnicodeError):
        np.lib.format.write_array_header_1_0(file, said)
        return file.getvalue()
    # numpy offers this only together with all values. But for the letters it is the second.
    raw = text.encode("utf-8")
    raw += b" " * (-(len(_THIRD) + 4 + len(raw) + 1) % _ALIGNED) + b"\n"
    return _THIRD + len(raw).to_bytes(4, "little") + raw


def write_npy(file: BinaryIO, image: WholeImage) -> Report:
    """Write the finest level; what else there is of an image is told."""
    array = image.array
    axes = [axis for axis, part in enumerate(image.region) if isinstance(part, slice)]
    little = array.dtype.newbyteorder("<")
    shape = tuple(image.length(axis) for axis in axes)
    descr = np.lib.format.dtype_to_descr(little)
    file.write(_header({"descr": descr, "fortran_order": False, "shape": shape}))
    file.writelines(
        np.ascontiguousarray(values.astype(little, copy=False)).tobytes()
        for values in slabs(array, tuple(image.region), image.threads, watch=image.watch)
    )
    return image_lost(image)
