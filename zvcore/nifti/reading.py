"""Volumes of NIfTI, whose headers nibabel understands."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.array import BorrowedArray
from zvcore.borrowed.blocks import BlockLayout, slabs
from zvcore.borrowed.file import library, reading
from zvcore.borrowed.flat import FlatLayout, Values
from zvcore.borrowed.reading import check_items
from zvcore.borrowed.scaled import ScaledValues
from zvcore.borrowed.unpacking import Unpacked
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.images import Axis
from zvcore.nifti.fields import further_fields, header_extensions, second_affine

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["read"]

_FORMAT, _TITLE = "nifti", "NIfTI"
_HEAD = 4096
_GZIP = b"\x1f\x8b"
_UNITS = {"meter": "meter", "mm": "millimeter", "micron": "micrometer", "sec": "second", "msec": "millisecond"}


def read(store: Store) -> BorrowedArray:
    """The volume, [x, y, z, ...], with the scaling of values that its header names applied."""
    assert store.file is not None
    packed = bytes(store.get(store.file, 0, 2) or b"") == _GZIP
    source = Unpacked(store, store.file) if packed else None
    head = bytes((store.get(store.file, 0, _HEAD) or b"") if source is None else source.read(0, _HEAD, short=True))
    header = _header(head, store.file)
    with reading(store.file, _TITLE):
        begin = int(header.get_data_offset())
        if begin < header.single_vox_offset:
            raise CorruptDataError(
                "the values would begin in the header", key=store.file, expected=f"{header.single_vox_offset} or more",
                found=begin,
            )  # fmt: skip
        values = Values(begin, _shape(header, store.file), header.get_data_dtype(), "F")
        slope, inter = header.get_slope_inter()
        attrs = {
            "affine": header.get_best_affine().tolist(), "qform_code": int(header["qform_code"]),
            "sform_code": int(header["sform_code"]), "descrip": _text(header["descrip"]),
            "intent": list(map(_text, header.get_intent()[::2])), **further_fields(header),
        }  # fmt: skip
        axes = _axes(header, len(values.shape))
        untold = (*header_extensions(head, header), *second_affine(header))
    if source is not None:
        source.expected = values.start + values.nbytes
    check_items(store.file, values.dtype)
    # Colours are never scaled, the standard says.
    plain = slope is None or (slope, inter) == (1, 0) or values.dtype.names is not None
    scale = None if plain else (float(slope), float(inter))
    if source is None and scale is None:
        layout: Any = FlatLayout(store, store.file, values)
    else:
        blocks = ScaledValues(_FORMAT, store, values, source, scale)
        chunk = slabs(values.shape, blocks.dtype.itemsize, range(len(values.shape))[::-1])
        layout = BlockLayout(store.root, blocks, chunk, order="F")
    return BorrowedArray(
        layout, format=_FORMAT, store=store, attrs=attrs, axes=axes, image={"convention": _TITLE}, untold=untold
    )


def _header(head: bytes, key: str) -> Any:
    nibabel = library("nibabel", "nifti", _TITLE)
    size = head[:4]
    large = (540).to_bytes(4, "little"), (540).to_bytes(4, "big")
    kind = nibabel.Nifti2Header if size in large else nibabel.Nifti1Header
    length = 540 if size in large else 348
    if len(head) < length + 4:
        raise MetadataError("the header is cut off", key=key, offset=0, expected=f"{length + 4} bytes", found=len(head))
    magic = bytes(head[4:8] if size in large else head[344:348])
    if magic[:2] != b"n+":
        raise UnsupportedError(
            "values in another file (.img), or no NIfTI", key=key, expected="n+1 or n+2", found=magic
        )
    try:
        return kind.from_fileobj(io.BytesIO(head[:length]), check=False)
    except Exception as error:
        raise MetadataError(f"the header is no header of NIfTI: {error}", key=key, offset=0) from error


def _shape(header: Any, key: str) -> tuple[int, ...]:
    shape = tuple(int(n) for n in header.get_data_shape())
    if not shape or len(shape) > 7 or any(n < 1 for n in shape) or math.prod(shape) > 1 << 56:
        raise MetadataError("the header has no shape", key=key, found=shape)
    return shape


def _text(value: Any) -> str:
    value = value.tobytes() if isinstance(value, np.ndarray) else value
    return value.rstrip(b"\0").decode("latin-1") if isinstance(value, bytes) else str(value)


def _axes(header: Any, rank: int) -> tuple[Axis, ...]:
    space, time = (_UNITS.get(one) for one in header.get_xyzt_units())
    axes = []
    for name, size in zip("xyzt", header.get_zooms(), strict=False):
        known = float(size) if math.isfinite(size) and size > 0 else None
        axes.append(Axis(name, time if name == "t" else space, known, type="time" if name == "t" else "space"))
    return tuple([*axes, *[Axis()] * rank][:rank])
