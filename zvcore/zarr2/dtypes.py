"""Data types of Zarr v2, which are numpy's, and their fill values as documents spell them."""

from __future__ import annotations

import base64
import binascii
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zvcore.codecs.small_numbers import kind_of, limits_of, small_number
from zvcore.documents.values import shown
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OBJECT_CODECS", "DataType", "data_type_of", "is_unsaid_nan", "parse_data_type"]

# The codecs that make bytes of objects, and what kind of items numpy has for them then.
OBJECT_CODECS = {
    "vlen-utf8": "text", "vlen-bytes": "bytes", "vlen-array": "objects", "json2": "objects", "msgpack2": "objects",
    "categorize": "objects", "pickle": "objects",
}  # fmt: skip
_SIMPLE = re.compile(
    r"(?P<order>[<>|=]?)(?P<code>b1|[iu][1248]|f[248]|c(?:8|16)|[SUV][0-9]{1,10}|[mM]8(?:\[[0-9]{0,9}[a-zA-Zμ]{1,7}\])?)"
)
# What numpy takes besides, and old programs wrote.
_WORDS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
# Numbers that numpy does not have, by the names that tensorstore gives them.
_SMALL = frozenset({
    "bfloat16", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int2", "int4",
})  # fmt: skip
# What tensorstore tells as bytes, not as a number.
_TOLD_AS_BYTES = frozenset({"float4_e2m1fn"})
# Of this type tensorstore, which alone has it in version 2, spells numbers as other numbers: 1 is 2**64 in documents.
# Only its least number (0, for a type that has no zero) and NaN mean the same to everybody.
_SPELT_AS_OTHERS = "float8_e8m0fnu"
_NUMBER_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ORDERS: dict[str, Literal["<", ">"]] = {"little": "<", "big": ">"}
_NAT = np.iinfo(np.int64).min
_LARGEST_ITEM = 2**31 - 1
# How deep records lie in records.
_DEEPEST = 16


@dataclass(frozen=True)
class DataType:
    """A data type as documents spell it (`json`), and as numpy has it in memory.

    swapped  whether chunks have the other byte order
    kind     "fixed": items of `dtype.itemsize` bytes; "text" and "bytes": of any length; "objects": whatever a codec
             makes of them
    """

    json: Any
    dtype: np.dtype[Any]
    swapped: bool = False
    kind: str = "fixed"

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of the items as chunks have them."""
        return self.dtype.newbyteorder("S") if self.swapped else self.dtype

    @property
    def default_fill(self) -> Any:
        """What a fill value of null reads as: the contents are undefined, and others read nothing, or no time."""
        if self.kind != "fixed":
            return {"text": "", "bytes": b""}.get(self.kind)
        if self.dtype.kind in "mM":
            return np.array(_NAT, np.int64).view(self.dtype)[()]
        return np.zeros((), self.dtype)[()]

    # --- fill values

    def parse_fill(self, value: Any, key: str | None = None) -> Any:
        """The fill value that a document gives, as a numpy scalar (text and bytes: as str and bytes)."""
        if value is None:
            return self.default_fill
        try:
            return self._parse_fill(value)
        except (TypeError, ValueError, OverflowError, binascii.Error) as error:
            raise MetadataError(
                f"not a fill value of {shown(self.json)}: {error}", key=key, found=shown(value)
            ) from error

    def _parse_fill(self, value: Any) -> Any:
        if self.kind != "fixed":
            return self._parse_object(value)
        dtype = self.dtype
        match kind_of(dtype):
            case "b":
                # 0 and 1 are what some programs write.
                return np.bool_(_integer(value, 0, 1)) if not isinstance(value, bool) else np.bool_(value)
            case "i" | "u":
                return dtype.type(_integer(value, *limits_of(dtype)))
            case "f" if dtype.name not in _TOLD_AS_BYTES or not isinstance(value, str) or value in _NUMBER_WORDS:
                if dtype.name == _SPELT_AS_OTHERS:
                    return _spelt_alike(value, dtype)
                return _float(value, dtype)
            case "c":
                part = np.dtype(f"f{dtype.itemsize // 2}")
                if not isinstance(value, list) or len(value) != 2:
                    raise TypeError("a pair of numbers is needed")
                return np.array([_float(one, part) for one in value], part).view(dtype)[0]
            case "m" | "M":
                number = _NAT if value == "NaT" else _integer(value, _NAT, -_NAT - 1)
                return np.array(number, np.int64).view(dtype)[()]
            case "U":
                if not isinstance(value, str) or len(value) > dtype.itemsize // 4:
                    raise TypeError(f"a text of at most {dtype.itemsize // 4} characters is needed")
                return np.array(value, dtype)[()]
        raw = base64.b64decode(_text(value), validate=True)
        if len(raw) > dtype.itemsize or (dtype.kind != "S" and len(raw) != dtype.itemsize):
            raise ValueError(f"{dtype.itemsize} bytes are needed, not {len(raw)}")
        return np.frombuffer(raw.ljust(dtype.itemsize, b"\0"), dtype)[0]

    def _parse_object(self, value: Any) -> Any:
        if self.kind == "objects":
            return value
        # zarr-python wrote 0 for texts, which it read as an empty one.
        if isinstance(value, int) and not isinstance(value, bool) and value == 0:
            return self.default_fill
        return _text(value) if self.kind == "text" else base64.b64decode(_text(value), validate=True)

    def write_fill(self, value: Any) -> Any:
        """A fill value as documents spell it."""
        if value is None or self.kind == "objects":
            return value
        if self.kind == "text":
            return str(value)
        if self.kind == "bytes":
            return base64.b64encode(bytes(value)).decode()
        item = np.asarray(value, self.dtype)[()]
        match kind_of(self.dtype):
            case "b":
                return bool(item)
            case "i" | "u":
                return int(item)
            case "f" if self.dtype.name == _SPELT_AS_OTHERS:
                told = 0.0 if np.array(item).tobytes() == b"\0" else _word(float(item))
                _spelt_alike(told, self.dtype)
                return told
            case "f" if self.dtype.name not in _TOLD_AS_BYTES:
                return _word(float(item))
            case "c":
                return [_word(float(item.real)), _word(float(item.imag))]
            case "m" | "M":
                return int(np.array(item).view(np.int64))
            case "U":
                return str(item)
        return base64.b64encode(np.array(item, self.dtype).tobytes()).decode()


def is_unsaid_nan(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a fill value is a NaN with other bits than the one that documents can say."""
    size = dtype.itemsize // (1 + (dtype.kind == "c"))
    if value is None or dtype.kind not in "fc" or size not in (2, 4, 8):
        return False
    part = np.dtype(f"f{size}")
    parts = np.atleast_1d(np.asarray(value, dtype.newbyteorder("="))).view(part)
    return any(one.tobytes() != part.type(math.nan).tobytes() for one in parts[np.isnan(parts)])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string is needed")
    return value


def _integer(value: Any, least: int, most: int) -> int:
    # Some programs write every number as a float.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value % 1:
        raise TypeError("an integer is needed")
    if not least <= value <= most:
        raise ValueError(f"{value} does not fit")
    return int(value)


def _float(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str):
        if value not in _NUMBER_WORDS:
            raise ValueError(f"not a number, {', '.join(_NUMBER_WORDS)}")
        return dtype.type(_NUMBER_WORDS[value])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("a number is needed")
    with np.errstate(over="ignore"):
        return dtype.type(value)


def _spelt_alike(value: Any, dtype: np.dtype[Any]) -> Any:
    """The fill value of `_SPELT_AS_OTHERS` that a document gives, if all programs read the same number there."""
    number = _float(value, np.dtype("f8"))
    if math.isnan(number):
        return dtype.type(number)
    if number == 0:
        return np.zeros((), dtype)[()]
    raise UnsupportedError(
        f"programs read other numbers than each other in a fill value of {dtype}",
        expected="null, 0 or NaN",
        found=value,
    )


def _word(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


# --- from documents


def parse_data_type(json: Any, codecs: Sequence[str] = (), key: str | None = None) -> DataType:
    """The data type that a document names. `codecs` are the ids of the array's filters and of its compressor."""
    if isinstance(json, list):
        return DataType(json, _record(json, key, 0))
    if not isinstance(json, str):
        raise MetadataError("a data type is a string, or a list of the fields of records", key=key, found=shown(json))
    if json.lstrip("<>|=") in ("O", "O8"):
        return _object(json, codecs, key)
    dtype = _simple(json, key)
    return DataType(json, dtype.newbyteorder("="), swapped=not dtype.isnative)


def _simple(json: Any, key: str | None) -> np.dtype[Any]:
    """The type of items that are no objects, in the byte order in which they are stored."""
    if isinstance(json, str) and json in _SMALL:
        return small_number(json, key)
    match = _SIMPLE.fullmatch(json) if isinstance(json, str) else None
    if match is None and not (isinstance(json, str) and _WORDS.fullmatch(json)):
        raise UnsupportedError("no data type that is known here", key=key, found=shown(json))
    if match is not None and match["code"][0] in "SUV" and not 0 < int(match["code"][1:]) <= _LARGEST_ITEM // 4:
        raise UnsupportedError("items of no bytes, or of more than can be", key=key, found=json)
    try:
        dtype: np.dtype[Any] = np.dtype(json)
    except (TypeError, ValueError) as error:
        raise MetadataError(f"numpy knows no such data type: {error}", key=key, found=json) from error
    return dtype


def _object(json: str, codecs: Sequence[str], key: str | None) -> DataType:
    """Objects, which a codec makes bytes of: without one, nothing says what they are."""
    named = next((one for one in codecs if one in OBJECT_CODECS), None)
    if named is None or named != codecs[0]:
        raise MetadataError(
            "objects need a codec that makes bytes of them, as the first of the filters", key=key,
            expected=f"one of {', '.join(one for one in OBJECT_CODECS if one != 'pickle')}",
            found=", ".join(codecs) or "none",
        )  # fmt: skip
    if named == "pickle":
        raise UnsupportedError("pickled objects may run any program when they are read", key=key, codec=named)
    kind = OBJECT_CODECS[named]
    dtype: np.dtype[Any] = np.dtypes.StringDType() if kind == "text" else np.dtype(object)
    return DataType(json, dtype, kind=kind)


def _record(json: list[Any], key: str | None, depth: int) -> np.dtype[Any]:
    """The type of records: numpy's own spelling, packed, with each field's own byte order."""
    if depth > _DEEPEST:
        raise MetadataError("records lie too deep in each other", key=key, expected=f"at most {_DEEPEST} levels")
    fields: list[Any] = []
    for field in json:
        if not isinstance(field, list) or len(field) not in (2, 3) or not isinstance(field[0], str) or not field[0]:
            raise MetadataError("a field is [name, type] or [name, type, shape]", key=key, found=shown(field))
        name, inner, *shape = field
        dtype = _record(inner, key, depth + 1) if isinstance(inner, list) else _simple(inner, key)
        if shape and not (isinstance(shape[0], list) and all(type(n) is int and n > 0 for n in shape[0])):
            raise MetadataError("the shape of a field is a list of numbers", key=key, found=shown(shape[0]))
        count = math.prod(shape[0]) if shape else 1
        if count * dtype.itemsize > _LARGEST_ITEM:
            raise UnsupportedError("records of more bytes than can be", key=key, found=shown(field))
        fields.append((name, dtype, *map(tuple, shape)))
    if not fields or len({field[0] for field in fields}) != len(fields):
        raise MetadataError("records have fields of different names", key=key, found=shown(json))
    try:
        made = np.dtype(fields)
    except (TypeError, ValueError) as error:
        raise MetadataError(f"numpy knows no such records: {error}", key=key) from error
    if made.itemsize > _LARGEST_ITEM:
        raise UnsupportedError("records of more bytes than can be", key=key, found=made.itemsize)
    return made


# --- from users


def data_type_of(dtype: Any, endian: str | None = None) -> tuple[DataType, dict[str, Any] | None]:
    """(the data type for one of numpy's, the filter that makes bytes of its items where these are objects).

    Byte order is that of the dtype, or what `endian` says.
    """
    if dtype in (str, bytes):
        return _variable("vlen-utf8" if dtype is str else "vlen-bytes")
    wanted = small_number(dtype) if isinstance(dtype, str) and dtype in _SMALL else np.dtype(dtype)
    if wanted.kind == "T":
        return _variable("vlen-utf8")
    if wanted.hasobject:
        raise UnsupportedError(
            "objects may be anything: use str for texts, bytes for byte strings, or name their codec in filters"
        )
    if wanted.subdtype is not None:
        raise UnsupportedError("items that are arrays are no items: give the array more axes", found=str(wanted))
    if wanted.isbuiltin == 2:
        if wanted.name not in _SMALL or (endian == "big" and wanted.itemsize > 1):
            raise UnsupportedError(f"Zarr v2 has no data type for {'big-endian ' if endian == 'big' else ''}{wanted}")
        return parse_data_type(wanted.name), None
    if endian is not None:
        wanted = wanted.newbyteorder(_ORDERS[endian])
    if wanted.kind in "mM" and np.datetime_data(wanted)[0] == "generic":
        raise MetadataError("times need a unit, such as 'M8[ns]'", found=str(wanted))
    return parse_data_type(_spelled(wanted)), None


def _variable(codec: str) -> tuple[DataType, dict[str, Any]]:
    return parse_data_type("|O", [codec]), {"id": codec}


def _spelled(dtype: np.dtype[Any]) -> Any:
    """A type as documents have it; records without the gaps that numpy may leave between fields."""
    if dtype.names is None:
        return dtype.str
    assert dtype.fields is not None
    spelled = []
    for name in dtype.names:
        field = dtype.fields[name][0]
        if field.subdtype is None:
            spelled.append([name, _spelled(field)])
        else:
            spelled.append([name, _spelled(field.subdtype[0]), list(field.subdtype[1])])
    return spelled
