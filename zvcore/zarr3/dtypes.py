"""Data types of Zarr v3 and their fill values, in all spellings."""

from __future__ import annotations

import base64
import binascii
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from zvcore.errors import MetadataError, UnsupportedError

__all__ = ["DataType", "data_type_of", "parse_data_type"]

_NUMBERS = {
    "bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8",
    "complex128": "c16",
}  # fmt: skip
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class DataType:
    """A data type as metadata spell it (`json`) and as numpy has it; `kind` tells how chunks hold its items.

    kind    "fixed": items of `dtype.itemsize` bytes; "text" and "bytes": items of any length (vlen-utf8, vlen-bytes)
    """

    json: Any
    dtype: np.dtype[Any]
    kind: str = "fixed"

    def parse_fill(self, value: Any, key: str | None = None) -> Any:
        """The fill value that metadata give, as a numpy scalar (text and bytes: as str and bytes)."""
        try:
            return self._parse_fill(value)
        except (TypeError, ValueError, OverflowError, binascii.Error) as error:
            raise MetadataError(
                f"not a fill value of {_name(self.json)}: {error}", key=key, found=repr(value)
            ) from error

    def _parse_fill(self, value: Any) -> Any:
        dtype = self.dtype
        if self.kind == "text":
            if not isinstance(value, str):
                raise TypeError("a string is needed")
            return value
        if self.kind == "bytes" or dtype.kind == "V":
            if not isinstance(value, str | list):
                raise TypeError("a list of bytes, or base64, is needed")
            raw = base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)
            if dtype.kind == "V" and len(raw) != dtype.itemsize:
                raise ValueError(f"{dtype.itemsize} bytes are needed, not {len(raw)}")
            return np.frombuffer(raw, dtype)[0] if dtype.kind == "V" else raw
        if dtype.kind == "b":
            if not isinstance(value, bool):
                raise TypeError("true or false is needed")
            return np.bool_(value)
        if dtype.kind in "iu":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
                raise TypeError("an integer is needed")
            return dtype.type(int(value)) if _fits(int(value), dtype) else _refuse(value)
        if dtype.kind in "mM":
            return np.array(_NAT if value == "NaT" else int(value), np.int64).view(dtype)[()]
        if dtype.kind == "f":
            return _float(value, dtype)
        if dtype.kind == "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            if not isinstance(value, (list, tuple)) or len(value) != 2:
                raise TypeError("a pair of numbers is needed")
            return np.array([_float(one, part) for one in value], part).view(dtype)[0]
        if dtype.kind == "U":
            if not isinstance(value, str):
                raise TypeError("a string is needed")
            return np.array(value, dtype)[()]
        if dtype.kind == "S":
            return np.frombuffer(base64.b64decode(value, validate=True).ljust(dtype.itemsize, b"\0"), dtype)[0]
        raise TypeError("no rule converts it")

    def write_fill(self, value: Any) -> Any:
        """A fill value as metadata spell it."""
        dtype = self.dtype
        if self.kind == "text":
            return str(value)
        if self.kind == "bytes":
            return base64.b64encode(bytes(value)).decode()
        item = np.asarray(value, dtype)[()]
        if dtype.kind == "b":
            return bool(item)
        if dtype.kind in "iu":
            return int(item)
        if dtype.kind == "f":
            return _float_word(item)
        if dtype.kind == "c":
            part = np.array(item, dtype).reshape(1).view(f"f{dtype.itemsize // 2}")
            return [_float_word(part[0]), _float_word(part[1])]
        if dtype.kind in "mM":
            number = int(np.array(item).view(np.int64))
            return "NaT" if number == _NAT else number
        if dtype.kind == "U":
            return str(item)
        raw = np.array(item, dtype).tobytes()
        return list(raw) if isinstance(self.json, str) else base64.b64encode(raw).decode()

    @property
    def default_fill(self) -> Any:
        return {"text": "", "bytes": b""}.get(self.kind) if self.kind != "fixed" else np.zeros((), self.dtype)[()]


_NAT = np.iinfo(np.int64).min


def _name(json: Any) -> str:
    return json if isinstance(json, str) else str(json.get("name"))


def _fits(value: int, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= value <= int(limits.max)


def _refuse(value: Any) -> Any:
    raise ValueError(f"{value} does not fit")


def _float(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str):
        if value in _WORDS:
            return dtype.type(_WORDS[value])
        if not re.fullmatch(r"0x[0-9a-fA-F]+", value) or len(value) != 2 + 2 * dtype.itemsize:
            raise ValueError(f"not a number, NaN, Infinity, -Infinity or 0x with {2 * dtype.itemsize} digits")
        return np.array(int(value, 16), f"u{dtype.itemsize}").view(dtype)[()]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("a number is needed")
    with np.errstate(over="ignore"):
        return dtype.type(value)


def _float_word(item: Any) -> Any:
    value = float(item)
    if math.isnan(value):
        bits = np.array(item)
        plain = np.array(np.nan, bits.dtype)
        return (
            "NaN"
            if bits.tobytes() == plain.tobytes()
            else f"0x{int(bits.view(f'u{bits.itemsize}')):0{2 * bits.itemsize}x}"
        )
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def parse_data_type(json: Any, key: str | None = None) -> DataType:
    """The data type that metadata name."""
    name = json.get("name") if isinstance(json, dict) else json
    config = json.get("configuration", {}) if isinstance(json, dict) else {}
    if not isinstance(name, str) or not isinstance(config, dict):
        raise MetadataError("data_type is a name, or an object with a name", key=key, found=repr(json))
    if name in _NUMBERS:
        return DataType(json, np.dtype(_NUMBERS[name]))
    raw = re.fullmatch(r"r([1-9][0-9]*)", name)
    if raw:
        bits = int(raw[1])
        if bits % 8 or bits > 2**30:
            raise MetadataError("raw bits come in multiples of 8", key=key, found=name)
        return DataType(json, np.dtype(f"V{bits // 8}"))
    if name == "string":
        return DataType(json, np.dtypes.StringDType(), "text")
    if name in ("bytes", "variable_length_bytes"):
        return DataType(json, np.dtype(object), "bytes")
    try:
        if name in ("numpy.datetime64", "numpy.timedelta64"):
            unit, scale = config["unit"], int(config.get("scale_factor", 1))
            code = "M8" if name == "numpy.datetime64" else "m8"
            return DataType(json, np.dtype(code if unit == "generic" else f"{code}[{scale}{unit}]"))
        if name == "fixed_length_utf32":
            return DataType(json, np.dtype(f"U{int(config['length_bytes']) // 4}"))
        if name == "null_terminated_bytes":
            return DataType(json, np.dtype(f"S{int(config['length_bytes'])}"))
        if name == "raw_bytes":
            return DataType(json, np.dtype(f"V{int(config['length_bytes'])}"))
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"the configuration of data type {name!r} is wrong: {error}", key=key) from error
    raise UnsupportedError(f"data type {name!r}", key=key)


def data_type_of(dtype: Any) -> DataType:
    """The data type for a numpy dtype, or for a name of Zarr's."""
    if isinstance(dtype, dict) or (
        isinstance(dtype, str)
        and (dtype in _NUMBERS or re.fullmatch(r"r[0-9]+|string|bytes|variable_length_bytes", dtype))
    ):
        return parse_data_type(dtype)
    if dtype in (str, bytes, object):
        return parse_data_type(
            "string" if dtype is str else "variable_length_bytes" if dtype is bytes else _no_object()
        )
    wanted = np.dtype(dtype)
    if wanted.kind == "T":
        return parse_data_type("string")
    if wanted.kind == "V" and wanted.fields is None and wanted.itemsize:
        return DataType(f"r{8 * wanted.itemsize}", wanted)
    if wanted.kind in "mM":
        unit, scale = np.datetime_data(wanted)
        name = "numpy.datetime64" if wanted.kind == "M" else "numpy.timedelta64"
        return parse_data_type({"name": name, "configuration": {"unit": unit, "scale_factor": scale}})
    if wanted.kind in "US" and wanted.itemsize:
        name = "fixed_length_utf32" if wanted.kind == "U" else "null_terminated_bytes"
        return parse_data_type({"name": name, "configuration": {"length_bytes": wanted.itemsize}})
    for name, code in _NUMBERS.items():
        if np.dtype(code) == wanted.newbyteorder("="):
            return DataType(name, np.dtype(code))
    raise UnsupportedError(f"Zarr v3 has no data type for {wanted}")


def _no_object() -> str:
    raise UnsupportedError("dtype object: use str for text or bytes for byte strings")
