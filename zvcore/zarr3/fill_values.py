"""Fill values of items of a fixed size, as the documents of Zarr v3 spell them. Records are `dtypes`' business."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import numpy as np

from zvcore.zarr3.small_numbers import kind_of, limits_of

__all__ = ["raw_bytes", "read_fill", "written_fill"]

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_NAT = np.iinfo(np.int64).min


def read_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """The item that JSON stands for; TypeError or ValueError if there is none."""
    match kind_of(dtype):
        case "b":
            if not isinstance(value, bool):
                raise TypeError("true or false is needed")
            return np.bool_(value)
        case "i" | "u":
            return _integer(value, dtype)
        case "m" | "M":
            return np.array(_NAT if value == "NaT" else _integer(value, np.dtype("i8")), np.int64).view(dtype)[()]
        case "f":
            return _float(value, dtype)
        case "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            if not isinstance(value, (list, tuple)) or len(value) != 2:
                raise TypeError("a pair of numbers is needed")
            return np.array([_float(one, part) for one in value], part).view(dtype)[0]
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
            return _word(item)
        case "c":
            part = np.array(item, dtype).reshape(1).view(f"f{dtype.itemsize // 2}")
            return [_word(part[0]), _word(part[1])]
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


def _integer(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
        raise TypeError("an integer is needed")
    least, most = limits_of(dtype)
    if not least <= value <= most:
        raise ValueError(f"{value} does not fit")
    return dtype.type(int(value))


def _float(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str) and value not in _WORDS:
        if not re.fullmatch(r"0x[0-9a-fA-F]+", value) or len(value) != 2 + 2 * dtype.itemsize:
            raise ValueError(f"not a number, NaN, Infinity, -Infinity or 0x with {2 * dtype.itemsize} digits")
        return np.array(int(value, 16), f"u{dtype.itemsize}").view(dtype)[()]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError("a number is needed")
    meant = _WORDS[value] if isinstance(value, str) else value
    if meant == 0 and dtype.name == "float8_e8m0fnu":
        # It has no zero: what tensorstore writes for its least number, whose bits are zero.
        return np.zeros((), dtype)[()]
    with np.errstate(over="ignore"):
        item = dtype.type(meant)
    if math.isnan(item) != math.isnan(meant) or (math.isinf(meant) and not math.isinf(item)):
        raise ValueError(f"{dtype} has no {value}")
    return item


def _word(item: Any) -> Any:
    value = float(item)
    if math.isnan(value):
        bits = np.array(item)
        if bits.tobytes() == np.array(np.nan, bits.dtype).tobytes():
            return "NaN"
        return f"0x{int(bits.view(f'u{bits.itemsize}')):0{2 * bits.itemsize}x}"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
