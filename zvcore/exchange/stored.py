"""How a source's chunks are stored, in words that formats which keep the order of axes have in common."""

from __future__ import annotations

import base64
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.codecs.variable_items import VariableItems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View

__all__ = ["given_dtype", "in_little_endian", "is_big_endian", "mask_value", "read_mask_value", "stored_axes"]

# Parameters of filters that name a data type with its byte order.
_TYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")


def stored_axes(view: View) -> list[int]:
    """The axes of a view from slowest to fastest as the source's chunks have them."""
    kept = [axis for axis in view.axes if axis is not None]
    axes = view.array.layout.form.axes or range(view.array.ndim)
    return [kept.index(axis) for axis in axes if axis in kept]


def is_big_endian(view: View) -> bool:
    """Whether the source stores its items in big-endian order, and the view shows them as they are."""
    form = view.array.layout.form
    return view.dtype is None and form.swapped == (sys.byteorder == "little")


def in_little_endian(filters: Sequence[Codec]) -> list[Codec]:
    """Filters that do the same to little-endian items."""
    made = []
    for codec in filters:
        types = {name: value for name, value in codec.config().items() if name in _TYPES and isinstance(value, str)}
        changed = {name: "<" + value[1:] for name, value in types.items() if value.startswith(">")}
        made.append(codec.replace(**changed) if changed else codec)
    return made


def given_dtype(view: View) -> Any:
    """The data type that `create` is asked for: numpy has none of its own for byte strings of any length."""
    dtype = view.value_dtype
    return bytes if dtype.kind == "O" and isinstance(view.array.layout.value_codec, VariableItems) else dtype


def mask_value(fill: Any) -> Any:
    """A fill value as xarray writes it into the attribute `_FillValue` of Zarr v3."""
    item = np.asarray(fill)
    match item.dtype.kind:
        case "f":
            return base64.b64encode(struct.pack("<d", float(item))).decode()
        case "c":
            parts = (item.real, item.imag)
            return [base64.b64encode(struct.pack("<d", float(part))).decode() for part in parts]
        case "S":
            return base64.b64encode(bytes(item)).decode()
        case "m" | "M":
            return int(item.view(np.int64))
    return item.item()


def read_mask_value(said: Any, dtype: np.dtype[Any]) -> Any:
    """What the attribute `_FillValue` says of items of this type: as `mask_value` spells it, or as it is."""
    kind = dtype.kind
    if kind == "c" and isinstance(said, list) and len(said) == 2:
        real, imaginary = (read_mask_value(part, np.dtype("f8")) for part in said)
        numbers = isinstance(real, (int, float)) and isinstance(imaginary, (int, float))
        return complex(real, imaginary) if numbers else said
    if kind not in "fS" or not isinstance(said, str):
        return said
    try:
        found = base64.b64decode(said, validate=True)
        return found if kind == "S" else struct.unpack("<d", found)[0]
    except (ValueError, struct.error):
        return said
