"""Data types of Zarr v3 and their fill values, in all spellings."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from zvcore.codecs.small_numbers import FLOATS, INTEGERS, small_number
from zvcore.documents import shown
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.zarr3.fill_values import raw_bytes, read_fill, written_fill

__all__ = ["DataType", "data_type_of", "parse_data_type"]

_NUMBERS = {
    "bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8",
    "complex128": "c16", "complex_float32": "c8", "complex_float64": "c16",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in reversed(_NUMBERS.items())}
_SMALL = frozenset((*FLOATS, *INTEGERS))
_NAMED = re.compile(r"r[0-9]+|string|bytes|variable_length_bytes")
_LARGEST_ITEM = 2**27
# How deep records lie in records.
_DEEPEST = 16


@dataclass(frozen=True)
class DataType:
    """A data type as metadata spell it (`json`) and as numpy has it; `kind` tells how chunks hold its items.

    kind    "fixed": items of `dtype.itemsize` bytes; "text" and "bytes": items of any length (vlen-utf8, vlen-bytes)
    fields  of records: their names and types, packed one after the other
    """

    json: Any
    dtype: np.dtype[Any]
    kind: str = "fixed"
    fields: tuple[tuple[str, DataType], ...] = ()

    @property
    def has_order(self) -> bool:
        """Whether items are stored in one byte order or the other."""
        if self.fields:
            return any(inner.has_order for _, inner in self.fields)
        raw = self.dtype.kind == "S" or (self.dtype.kind == "V" and self.dtype.isbuiltin != 2)
        return self.kind == "fixed" and self.dtype.itemsize > 1 and not raw

    def parse_fill(self, value: Any, key: str | None = None) -> Any:
        """The fill value that metadata give, as a numpy scalar (text and bytes: as str and bytes)."""
        try:
            return self._parse_fill(value)
        except (TypeError, ValueError, OverflowError, binascii.Error) as error:
            raise MetadataError(
                f"not a fill value of {_name(self.json)}: {error}", key=key, found=shown(value)
            ) from error

    def _parse_fill(self, value: Any) -> Any:
        if self.kind == "text":
            if not isinstance(value, str):
                raise TypeError("a string is needed")
            return value
        if self.kind == "bytes":
            return raw_bytes(value)
        if not self.fields:
            return read_fill(value, self.dtype)
        if isinstance(value, str):
            return _packed(value, self.dtype)
        if not isinstance(value, dict):
            raise TypeError("an object with a value for each field is needed")
        # zarr-python takes a field that is not named for zero.
        items = [
            inner.default_fill if name not in value else inner._parse_fill(value[name]) for name, inner in self.fields
        ]
        return np.array([tuple(items)], self.dtype)[0]

    def write_fill(self, value: Any) -> Any:
        """A fill value as metadata spell it."""
        if self.kind == "text":
            return str(value)
        if self.kind == "bytes":
            return base64.b64encode(bytes(value)).decode()
        item = np.asarray(value, self.dtype)[()]
        if self.fields:
            return {name: inner.write_fill(item[name]) for name, inner in self.fields}
        return written_fill(item, self.dtype, listed=isinstance(self.json, str))

    @property
    def default_fill(self) -> Any:
        return {"text": "", "bytes": b""}.get(self.kind) if self.kind != "fixed" else np.zeros((), self.dtype)[()]


def _packed(value: str, dtype: np.dtype[Any]) -> Any:
    """A record that older documents have as the base64 of its bytes: little-endian ones."""
    item = np.frombuffer(read_fill(value, np.dtype(f"V{dtype.itemsize}")).tobytes(), dtype)
    return (item if np.little_endian else item.byteswap())[0]


def _name(json: Any) -> str:
    return json if isinstance(json, str) else str(json.get("name"))


# --- from documents


def parse_data_type(json: Any, key: str | None = None, depth: int = 0) -> DataType:
    """The data type that metadata name. `depth`: how many records it lies in."""
    name = json.get("name") if isinstance(json, dict) else json
    config = json.get("configuration", {}) if isinstance(json, dict) else {}
    if not isinstance(name, str) or not isinstance(config, dict):
        raise MetadataError("data_type is a name, or an object with a name", key=key, found=shown(json))
    if name in _NUMBERS:
        return DataType(json, np.dtype(_NUMBERS[name]))
    if name in _SMALL:
        return DataType(json, small_number(name, key))
    if re.fullmatch(r"r[1-9][0-9]{0,18}", name):
        if int(name[1:]) % 8:
            raise MetadataError("raw bits come in multiples of 8", key=key, found=name)
        return DataType(json, _of_length("V", int(name[1:]) // 8, key))
    if name == "string":
        return DataType(json, np.dtypes.StringDType(), "text")
    if name in ("bytes", "variable_length_bytes"):
        return DataType(json, np.dtype(object), "bytes")
    if name in ("struct", "structured"):
        return _records(json, config, key, depth)
    if name in ("numpy.datetime64", "numpy.timedelta64"):
        return DataType(json, _times(name, config, key))
    if name in _LENGTHS:
        return DataType(json, _of_length(_LENGTHS[name], config.get("length_bytes"), key))
    if name.startswith("complex_"):
        raise UnsupportedError(f"data type {name!r}: numpy has complex numbers of 32 and 64 bits only", key=key)
    raise UnsupportedError(f"data type {name!r}", key=key)


_LENGTHS = {"fixed_length_utf32": "U", "null_terminated_bytes": "S", "raw_bytes": "V"}


def _of_length(code: str, length: Any, key: str | None) -> np.dtype[Any]:
    unit = 4 if code == "U" else 1
    if type(length) is not int or length < 1 or length % unit:
        expected = f"a positive multiple of {unit}" if unit > 1 else "a positive number"
        raise MetadataError("the length of items in bytes", key=key, expected=expected, found=shown(length))
    if length > _LARGEST_ITEM:
        raise UnsupportedError("items of more bytes than can be", key=key, expected=_LARGEST_ITEM, found=length)
    return np.dtype(f"{code}{length // unit}")


def _times(name: str, config: dict[str, Any], key: str | None) -> np.dtype[Any]:
    unit, scale = config.get("unit"), config.get("scale_factor", 1)
    code = "M8" if name == "numpy.datetime64" else "m8"
    if not isinstance(unit, str) or type(scale) is not int or not 0 < scale < 2**31:
        raise MetadataError(f"{name} has a unit and a scale_factor", key=key, found=shown(config))
    try:
        return np.dtype(code if unit == "generic" else f"{code}[{scale}{unit}]")
    except (TypeError, ValueError) as error:
        raise MetadataError(f"the configuration of data type {name!r} is wrong: {error}", key=key) from error


def _records(json: Any, config: dict[str, Any], key: str | None, depth: int) -> DataType:
    """`struct`, and `structured` as zarr-python wrote it before: there, fields are pairs."""
    if depth >= _DEEPEST:
        raise MetadataError("records lie too deep in each other", key=key, expected=f"at most {_DEEPEST} levels")
    listed = config.get("fields")
    if not isinstance(listed, list) or not listed:
        raise MetadataError("records have a list of fields that is not empty", key=key, found=shown(listed))
    fields: list[tuple[str, DataType]] = []
    for field in listed:
        if isinstance(field, dict):
            name, inner = field.get("name"), field.get("data_type")
        else:
            name, inner = field if isinstance(field, list) and len(field) == 2 else (None, None)
        if not isinstance(name, str) or not name:
            raise MetadataError("a field has a name and a data type", key=key, found=shown(field))
        data_type = parse_data_type(inner, key, depth + 1)
        if data_type.kind != "fixed":
            raise MetadataError(f"the field {name!r} has items of any length", key=key, found=shown(inner))
        fields.append((name, data_type))
    if len({name for name, _ in fields}) != len(fields):
        raise MetadataError("two fields have the same name", key=key, found=shown([name for name, _ in fields]))
    if sum(inner.dtype.itemsize for _, inner in fields) > _LARGEST_ITEM:
        raise UnsupportedError("records of more bytes than can be", key=key, expected=_LARGEST_ITEM)
    return DataType(json, np.dtype([(name, inner.dtype) for name, inner in fields]), fields=tuple(fields))


# --- from users


def data_type_of(dtype: Any) -> DataType:
    """The data type for a numpy dtype, or for a name of Zarr's."""
    if isinstance(dtype, dict) or (
        isinstance(dtype, str) and (dtype in _NUMBERS or dtype in _SMALL or _NAMED.fullmatch(dtype))
    ):
        return parse_data_type(dtype)
    if dtype in (str, bytes, object):
        return parse_data_type(
            "string" if dtype is str else "variable_length_bytes" if dtype is bytes else _no_object()
        )
    return parse_data_type(_spelled(np.dtype(dtype)))


def _spelled(wanted: np.dtype[Any]) -> Any:
    """One of numpy's types as metadata have it; records without the gaps that numpy may leave between fields."""
    if wanted.kind == "T":
        return "string"
    if wanted.fields is not None and wanted.names:
        return {"name": "struct", "configuration": {"fields": [_field(wanted, name) for name in wanted.names]}}
    if wanted.isbuiltin == 2 and wanted.name in _SMALL:
        return wanted.name
    if wanted.kind in "mM":
        unit, scale = np.datetime_data(wanted)
        name = "numpy.datetime64" if wanted.kind == "M" else "numpy.timedelta64"
        return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}
    if wanted.kind in "USV" and wanted.itemsize and wanted.subdtype is None:
        name = {"U": "fixed_length_utf32", "S": "null_terminated_bytes", "V": "raw_bytes"}[wanted.kind]
        return {"name": name, "configuration": {"length_bytes": wanted.itemsize}}
    native = wanted.newbyteorder("=")
    if native not in _NAMES:
        raise UnsupportedError(f"Zarr v3 has no data type for {wanted}")
    return _NAMES[native]


def _field(records: np.dtype[Any], name: str) -> dict[str, Any]:
    assert records.fields is not None
    inner, _, *titles = records.fields[name]
    if titles or inner.subdtype is not None:
        what = "a title" if titles else "an array in it"
        raise UnsupportedError(f"Zarr v3 has no data type for records of which the field {name!r} has {what}")
    return {"name": name, "data_type": _spelled(inner)}


def _no_object() -> str:
    raise UnsupportedError("Zarr v3 has no data type for objects: use str for texts, or bytes for byte strings")
