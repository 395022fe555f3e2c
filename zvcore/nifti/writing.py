"""Writing NIfTI: a header of nibabel's, and values from the first axis on, plane by plane."""

from __future__ import annotations

import gzip
import itertools
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from zvcore.borrowed.file import library
from zvcore.documents.values import is_number
from zvcore.errors import UnsupportedError
from zvcore.images.slabs import slabs
from zvcore.nifti.fields import SAYABLE, say_fields
from zvcore.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    import numpy.typing as npt

    from zvcore.images.whole import WholeImage

__all__ = ["image_lost", "write_nifti"]

_TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "c8", "c16")
# What the first version of the format counts up to, and axes that there may be.
_LONGEST, _MOST = 2**15 - 1, 7
# In millimeters and seconds.
_LENGTHS = {"meter": 1e3, "m": 1e3, "millimeter": 1.0, "mm": 1.0, "micrometer": 1e-3, "um": 1e-3, "nanometer": 1e-6,
            "nm": 1e-6, "centimeter": 10.0, "cm": 10.0, "angstrom": 1e-7}  # fmt: skip
_TIMES = {"second": 1.0, "s": 1.0, "millisecond": 1e-3, "ms": 1e-3}
_LEVEL = 1
# What numbers of 32 bits hold, and their squares as well.
_SMALLEST, _LARGEST = 1e-18, 1e18
# Of an intent.
_LONGEST_NAME = 16
# Attributes that the header has a place for.
_CODES = ("sform_code", "qform_code")
_KEPT = ("affine", *_CODES, "descrip", "intent", *SAYABLE)


def write_nifti(file: BinaryIO, image: WholeImage, *, packed: bool = False) -> Report:
    """Write the finest level as a volume [x, y, z, t, ...]; `packed`: compressed by gzip."""
    report = Report()
    axes, dtype, header = _headed(image, report)
    with ExitStack() as opened:
        out: Any = file
        if packed:
            out = opened.enter_context(gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0))
        out.write(header.binaryblock)
        out.write(bytes(int(header.get_data_offset()) - len(header.binaryblock)))
        for values in _values(image, axes):
            out.write(values.astype(dtype, copy=False).tobytes(order="F"))
    return report


def image_lost(image: WholeImage) -> Report:
    """What of an image a NIfTI has no place for."""
    report = Report()
    _headed(image, report)
    return report


def _headed(image: WholeImage, report: Report) -> tuple[list[int | None], np.dtype[Any], Any]:
    """(the axes from x on, the type of values, the header); what has no place in the file is told."""
    axes = _axes(image)
    shape = [1 if axis is None else image.length(axis) for axis in axes]
    if 0 in shape:
        raise UnsupportedError("a NIfTI holds no image without voxels", found=f"lengths {tuple(shape)}")
    dtype = image.array.dtype.newbyteorder("<")
    if dtype.kind == "b":
        dtype = np.dtype("u1")
        report.lose("", "booleans are stored as uint8")
    if dtype.str.lstrip("<|") not in _TYPES:
        raise UnsupportedError("a NIfTI does not hold such values", found=str(dtype))
    header = _header(image, axes, shape, dtype, report)
    if len(image.levels) > 1:
        report.lose("", f"{len(image.levels) - 1} coarser levels have no place in a NIfTI")
    if any(image.channels):
        report.lose("", "names of channels have no place in a NIfTI")
    for name in image.attrs:
        if name not in _KEPT:
            report.lose("", f"the attribute {name!r} has no place in a NIfTI")
    return axes, dtype, header


def _axes(image: WholeImage) -> list[int | None]:
    """The axes of the array from x on; None for one of length 1 that the array has not."""
    names = [name.lower() for name in image.names]
    fastest = image.order[::-1]
    spatial = [axis for axis in fastest if names[axis] not in ("t", "time", "c", "channel", "c^")]
    if all(names[axis] in ("x", "y", "z") for axis in spatial):
        spatial.sort(key=lambda axis: names[axis])
    times = [axis for axis in fastest if names[axis] in ("t", "time")]
    others = [axis for axis in fastest if axis not in spatial and axis not in times]
    found: list[int | None] = [*spatial[:3]]
    rest = [*times, *spatial[3:], *others]
    if rest:
        found += [None] * (3 - len(found))
        if not times:
            found.append(None)
    found += rest
    if not found or len(found) > _MOST:
        raise UnsupportedError("a NIfTI has one to seven axes", found=len(found))
    return found


def _header(image: WholeImage, axes: list[int | None], shape: list[int], dtype: Any, report: Report) -> Any:
    nibabel = library("nibabel", "nifti", "NIfTI")
    large = max(shape) > _LONGEST
    header = (nibabel.Nifti2Header if large else nibabel.Nifti1Header)(endianness="<")
    header.set_data_dtype(dtype)
    header.set_data_shape(shape)
    header["magic"] = b"n+2\0\r\n\x1a\n" if large else b"n+1"
    header.set_data_offset(544 if large else 352)
    sizes, offsets = [], []
    has_unit = [False, False]
    bare = False
    for number, axis in enumerate(axes):
        size, unit = (None, None) if axis is None else image.sizes[axis]
        factor = (_TIMES if number == 3 else _LENGTHS).get(unit or "")
        if size is not None and unit and factor is None:
            report.lose("", f"the unit {unit!r} of an axis has no place in a NIfTI")
        has_unit[number == 3] |= bool(factor) and number < 4
        bare |= size is not None and not factor and number < 3
        known = 1.0 if size is None else float(size) * (factor or 1.0)
        place = 0.0 if axis is None else image.offsets[axis] * (factor or 1.0)
        if not (_SMALLEST <= known <= _LARGEST and abs(place) <= _LARGEST):
            report.lose("", f"the size {known:g} of voxels, or the place {place:g}, is none that a NIfTI can hold")
            known, place = 1.0, 0.0
        sizes.append(known)
        offsets.append(place)
    header.set_zooms(sizes)
    # Sizes without units stay so: nothing says that they are millimeters.
    if bare and has_unit[0]:
        report.lose("", "sizes without a unit stand beside others: a NIfTI has one unit, millimeters, for all")
    header.set_xyzt_units("mm" if has_unit[0] else None, "sec" if has_unit[1] else None)
    _place(header, image, sizes, offsets, report)
    _say_description(header, image.attrs.get("descrip"), report)
    _say_intent(header, image.attrs.get("intent"), report)
    say_fields(header, image.attrs, report)
    return header


def _say_description(header: Any, said: Any, report: Report) -> None:
    if said is None:
        return
    text = said if isinstance(said, str) else ""
    header["descrip"] = text.encode("latin-1", "replace")[:79]
    if header["descrip"].item().decode("latin-1") != said:
        report.lose("", "the attribute 'descrip' is more than a NIfTI can say: 79 characters of Latin-1")


def _say_intent(header: Any, said: Any, report: Report) -> None:
    """What the values mean, as reading gives it: the kind and a name."""
    if said is None:
        return
    kind, name = said if isinstance(said, list) and len(said) == 2 else (None, None)
    if isinstance(kind, str) and isinstance(name, str) and name.isascii() and len(name) <= _LONGEST_NAME:
        with suppress(KeyError):
            header.set_intent(kind, (), name)
            if header.get_intent()[1]:
                report.lose("", f"the parameters of the intent {kind!r} are not known")
            return
    report.lose("", "the attribute 'intent' is none that a NIfTI has")


def _affine(said: Any) -> npt.NDArray[np.float64] | None:
    """An affine that the header can hold: of numbers that are not too large, and of axes that have a length."""
    rows = said if isinstance(said, list) and len(said) == 4 else []
    if not rows or not all(isinstance(row, list) and len(row) == 4 and all(map(is_number, row)) for row in rows):
        return None
    matrix = np.array(rows, np.float64)
    if not (np.abs(matrix) <= _LARGEST).all():
        return None
    sizes = np.linalg.norm(matrix[:3, :3], axis=0)
    return matrix if ((sizes >= _SMALLEST) & (sizes <= _LARGEST)).all() else None


def _is_code(code: Any) -> TypeGuard[int]:
    return type(code) is int and 0 <= code <= 5


def _place(header: Any, image: WholeImage, sizes: list[float], offsets: list[float], report: Report) -> None:
    """Where the voxels lie: as an affine among the attributes says, else by their sizes."""
    matrix = _affine(image.attrs.get("affine"))
    whole = all(part == slice(None) for part in image.region if isinstance(part, slice))
    if whole and matrix is not None:
        said = {name: image.attrs.get(name) for name in _CODES}
        for name, code in said.items():
            if not _is_code(code) and name in image.attrs:
                report.lose("", f"the attribute {name!r} is none that a NIfTI has, 0 to 5: it becomes 1")
        sform, qform = (code if _is_code(code) else 1 for code in said.values())
        if sform == qform == 0:
            # Without any code no program would look at the affine.
            report.lose("", "the attribute 'sform_code': with 0 for both codes no affine is meant: it becomes 1")
        header.set_sform(matrix, code=max(sform, 0) or (0 if qform else 1))
        header.set_qform(matrix, code=qform, strip_shears=True)
        return
    if "affine" in image.attrs:
        why = (
            "it is none that a NIfTI can hold" if matrix is None else "it is that of all of the image, and this a part"
        )
        report.lose("", f"the attribute 'affine': {why}; voxels lie where their sizes say")
    # What they tell is how an affine is meant, and that of the sizes is always 1.
    for name in _CODES:
        if name in image.attrs and not (_is_code(image.attrs[name]) and image.attrs[name] == 1):
            report.lose("", f"the attribute {name!r}: the affine that it is about is not written, and it becomes 1")
    matrix = np.diag([*[*sizes, 1.0, 1.0, 1.0][:3], 1.0])
    matrix[:3, 3] = [*offsets, 0.0, 0.0, 0.0][:3]
    header.set_sform(matrix, code=1)
    header.set_qform(matrix, code=1)


def _values(image: WholeImage, axes: list[int | None]) -> Iterator[npt.NDArray[Any]]:
    """Parts of the values with their axes in this order, one after the other as the file has them."""
    there = [axis for axis in axes if axis is not None]
    outside = there[3:][::-1]
    inside = there[:3]
    for place in itertools.product(*(range(image.length(axis)) for axis in outside)):
        region = list(image.region)
        for axis, i in zip(outside, place, strict=True):
            region[axis] = range(image.array.shape[axis])[region[axis]][i]
        for values in slabs(image.array, tuple(region), image.threads, inside[-1], image.watch):
            ascending = sorted(inside)
            yield np.asarray(values).transpose([ascending.index(axis) for axis in inside])
