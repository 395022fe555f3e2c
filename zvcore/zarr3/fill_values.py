"""Fill values of items of a fixed size, as the documents of Zarr v3 spell them. Records are `dtypes`' business."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from zvcore.codecs.numbers import number_word, read_float, read_integer
from zvcore.codecs.small_numbers import kind_of

__all__ = ["raw_bytes", "read_fill", "written_fill"]

_NAT = np.iinfo(np.int64).min


def read_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """The item that JSON stands for; TypeError or ValueError if there is none."""
    match kind_of(dtype):
        case "b":
            if not isinstance(value, bool):
                raise TypeError("true or false is needed")
            return np.bool_(value)
        case "i" | "u":
            return read_integer(value, dtype)
        case "m" | "M":
            return np.array(_NAT if value == "NaT" else read_integer(value, np.dtype("i8")), np.int64).view(dtype)[()]
        case "f":
            return read_float(value, dtype)
        case "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            if not isinstance(value, (list, tuple)) or len(value) != 2:
                raise TypeError("a pair of numbers is needed")
            return np.array([read_float(one, part) for one in value], part).view(dtype)[0]
        case "U":
            if not isinstance(value, str):
                raise TypeError("a string is needed")
            return np.array(value, dtype)[()]
        case "S":
            raw = raw_bytes(value)
            if len(raw) > dtype.itemsize:
                raise ValueError(f"{dtype.itemsize} bytes are needed, not {len(raw)}")
            return np.frombuffer(raw.ljust(dtype.itemsize, b"\0"), dtype)[0]
        case "V":
            raw = raw_bytes(value)
            if len(raw) != dtype.itemsize:
                raise ValueError(f"{dtype.itemsize} bytes are needed, not {len(raw)}")
            return np.frombuffer(raw, dtype)[0]
    raise TypeError("no rule converts it")


def written_fill(item: Any, dtype: np.dtype[Any], listed: bool = False) -> Any:
    """An item as JSON; `listed`: bytes as a list of numbers instead of base64."""
    match kind_of(dtype):
        case "b":
            return bool(item)
        case "i" | "u":
            return int(item)
        case "f":
            return number_word(item)
        case "c":
            part = np.array(item, dtype).reshape(1).view(f"f{dtype.itemsize // 2}")
            return [number_word(part[0]), number_word(part[1])]
        case "m" | "M":
            # As zarr-python has it; "NaT" is read.
            number = int(np.array(item).view(np.int64))
            return "NaT" if number == _NAT else number
        case "U":
            return str(item)
    raw = np.array(item, dtype).tobytes()
    return list(raw) if listed else base64.b64encode(raw).decode()


def raw_bytes(value: Any) -> bytes:
    """The bytes that a list of numbers, or base64, stands for."""
    if not isinstance(value, str | list):
        raise TypeError("a list of bytes, or base64, is needed")
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)
