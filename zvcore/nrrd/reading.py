"""Volumes of NRRD, whose headers pynrrd understands."""

from __future__ import annotations

import io
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.array import BorrowedArray
from zvcore.borrowed.blocks import BlockLayout, slabs
from zvcore.borrowed.file import library, reading
from zvcore.borrowed.flat import FlatLayout, Values
from zvcore.borrowed.scaled import ScaledValues
from zvcore.borrowed.unpacking import Unpacked
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError
from zvcore.images import Axis
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["place_of_values", "read"]

_FORMAT, _TITLE = "nrrd", "NRRD"
# How much is read to find the end of a header.
_LONGEST = 1 << 20
_MOST_AXES = 16
_LARGEST = 1 << 56
_TYPES = {
    "i1": "signed char, int8, int8_t", "u1": "unsigned char, uchar, uint8, uint8_t",
    "i2": "short, short int, signed short, signed short int, int16, int16_t",
    "u2": "ushort, unsigned short, unsigned short int, uint16, uint16_t",
    "i4": "int, signed int, int32, int32_t", "u4": "uint, unsigned int, uint32, uint32_t",
    "i8": "longlong, long long, long long int, signed long long, signed long long int, int64, int64_t",
    "u8": "ulonglong, unsigned long long, unsigned long long int, uint64, uint64_t",
    "f4": "float", "f8": "double",
}  # fmt: skip
_DTYPES = {spelling: np.dtype(name) for name, spellings in _TYPES.items() for spelling in spellings.split(", ")}
_GZIP = ("gzip", "gz")
# Fields that say how values are stored.
_STORAGE = {
    "type", "dimension", "sizes", "encoding", "endian", "data file", "datafile", "byte skip", "byteskip", "line skip",
    "lineskip", "block size", "blocksize",
}  # fmt: skip
# Kinds of axes that are no places: components of a value.
_COMPONENTS = ("vector", "list", "color", "complex", "quaternion", "matrix", "normal", "gradient", "point", "stub")


def read(store: Store) -> BorrowedArray:
    """The volume, with the fastest axis first as the format has it."""
    assert isinstance(store, SingleFileStore)
    head = bytes(store.get(store.file, 0, _LONGEST) or b"")
    end = _end_of(head)
    header = _header(head[:end], store.file)
    with reading(store.file, _TITLE):
        place = _place(header, store)
        start = end if place == store else 0
        if place == store and end == len(head) and len(head) == _LONGEST:
            raise MetadataError("the header has no end", key=store.file, offset=end, expected="an empty line")
        values, packed = _values(header, place, start)
        axes = _axes(header, len(values.shape))
        attrs = {name: _plain(value) for name, value in header.items() if name not in _STORAGE}
    if packed:
        blocks = ScaledValues(_FORMAT, store, values, Unpacked(place, place.file, start, values.nbytes))
        chunk = slabs(values.shape, values.dtype.itemsize, range(len(values.shape))[::-1])
        layout: Any = BlockLayout(store.root, blocks, chunk, order="F")
    else:
        layout = FlatLayout(place, place.file, values)
    return BorrowedArray(layout, format=_FORMAT, store=store, attrs=attrs, axes=axes, image={"convention": _TITLE})


def place_of_values(array: BorrowedArray) -> SingleFileStore:
    """The file in which an array's values lie."""
    store = array.store
    assert isinstance(store, SingleFileStore)
    layout: Any = array.layout
    key = layout.key if isinstance(layout, FlatLayout) else layout.blocks.source.key
    return SingleFileStore(store.folder, key)


def _end_of(head: bytes) -> int:
    """Where the header ends: behind the first empty line, or with the file."""
    ends = [head.find(line) + len(line) for line in (b"\n\n", b"\n\r\n") if line in head]
    return min(ends, default=len(head))


def _header(head: bytes, key: str) -> Mapping[str, Any]:
    nrrd = library("nrrd", "nrrd", _TITLE)
    with reading(key, _TITLE):
        found = {name.lower(): value for name, value in nrrd.read_header(io.BytesIO(head)).items()}
    for name in ("type", "dimension", "sizes", "encoding"):
        if name not in found:
            raise MetadataError("the header lacks a field", key=key, expected=name)
    return found


def _place(header: Mapping[str, Any], store: SingleFileStore) -> SingleFileStore:
    """The file that holds the values: this one, or one beside it."""
    name = header.get("data file", header.get("datafile"))
    if name is None:
        return store
    name = str(name).removeprefix("./")
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise UnsupportedError("values that lie in another folder than their header", key=store.file, found=name)
    if name.upper().startswith("LIST") or " " in name:
        raise UnsupportedError("values in several files", key=store.file, found=name)
    place = SingleFileStore(store.folder, name)
    if not place.exists(name):
        raise NotFoundError("the file that the header names is not there", key=name)
    return place


def _values(header: Mapping[str, Any], place: SingleFileStore, start: int) -> tuple[Values, bool]:
    """(where the values lie in the file, or in what it is unpacked to; whether it is to be unpacked)."""
    key = place.file
    encoding = str(header["encoding"]).lower()
    packed = encoding in _GZIP
    if not packed and encoding != "raw":
        raise UnsupportedError("an encoding of NRRD that is not read here", key=key, codec=encoding,
                               expected="raw or gzip")  # fmt: skip
    said = str(header["type"]).lower()
    if said not in _DTYPES:
        raise UnsupportedError("a type of NRRD that is not read here", key=key, found=said)
    shape = tuple(int(n) for n in header["sizes"])
    if len(shape) != int(header["dimension"]) or not 1 <= len(shape) <= _MOST_AXES or any(n < 1 for n in shape):
        raise MetadataError("the sizes are none", key=key, expected=f"{header['dimension']} positive numbers",
                            found=shape[:_MOST_AXES])  # fmt: skip
    nbytes = math.prod(shape) * _DTYPES[said].itemsize
    if nbytes > _LARGEST:
        raise MetadataError("the sizes are too large", key=key, expected=f"at most {_LARGEST} bytes", found=nbytes)
    if int(header.get("line skip", header.get("lineskip", 0))) != 0:
        raise UnsupportedError("lines of text in front of the values", key=key)
    skipped = int(header.get("byte skip", header.get("byteskip", 0)))
    if skipped < -1 or (packed and skipped < 0):
        raise MetadataError("byte skip", key=key, expected="a number of bytes", found=skipped)
    if skipped == -1:
        # The values are the last bytes of the file.
        start = (place.size(key) or 0) - nbytes
        if start < 0:
            raise CorruptDataError("the file is too short for the values that it tells of", key=key,
                                   expected=f"{nbytes} bytes", found=f"{start + nbytes} bytes")  # fmt: skip
    else:
        start = skipped if packed else start + skipped
    return Values(start, shape, _in_order(_DTYPES[said], header, key), "F"), packed


def _in_order(dtype: np.dtype[Any], header: Mapping[str, Any], key: str) -> np.dtype[Any]:
    if dtype.itemsize == 1:
        return dtype
    endian = str(header.get("endian", "")).lower()
    if endian not in ("little", "big"):
        raise MetadataError("the order of bytes", key=key, expected="little or big", found=endian or None)
    return dtype if endian == sys.byteorder else dtype.newbyteorder()


def _plain(value: Any) -> Any:
    """A field as JSON has it; where an axis has no direction, nothing."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _axes(header: Mapping[str, Any], rank: int) -> Axes:
    """What is known of the axes: those of space are x, y and z in their order, unless they have labels."""
    directions, kinds = _listed(header, "space directions", rank), _listed(header, "kinds", rank)
    labels, units = _listed(header, "labels", rank), _listed(header, "units", rank)
    spacings = _listed(header, "spacings", rank)
    names = iter("xyz")
    axes = []
    for axis in range(rank):
        size, offset, unit = _number(spacings[axis]), 0.0, None
        vector = np.atleast_1d(np.asarray(math.nan if directions[axis] is None else directions[axis], float))
        placed = bool(np.isfinite(vector).all())
        if placed:
            size, offset, unit = _placed(vector, header)
        kind = str(kinds[axis] or "").lower()
        name: str | None
        if kind == "time":
            name, type = "t", "time"
        elif any(word in kind for word in _COMPONENTS) or ("space directions" in header and not placed):
            name, type = "c", "channel"
        else:
            name, type = next(names, None), "space"
        size = size if size is not None and 0 < size < math.inf else None
        unit = str(units[axis]) if units[axis] else unit
        axes.append(Axis(str(labels[axis]) if labels[axis] else name, unit, size, offset if size else 0.0, type))
    return tuple(axes)


def _placed(vector: npt.NDArray[Any], header: Mapping[str, Any]) -> tuple[float, float, str | None]:
    """(size of voxels, place of the first one, unit) of an axis that goes along a vector of the space.

    Only where it goes along one of the axes of the space, and not against it, its first voxel has a place on it.
    """
    units = [str(one) for one in header.get("space units", [])]
    origin = header.get("space origin")
    along = np.flatnonzero(vector)
    size = float(np.linalg.norm(vector))
    if len(along) != 1:
        return size, 0.0, units[0] if len(set(units)) == 1 else None
    at = int(along[0])
    unit = units[at] if at < len(units) else None
    place = _number(origin[at]) if origin is not None and at < len(origin) and vector[at] > 0 else None
    return size, place or 0.0, unit


def _listed(header: Mapping[str, Any], name: str, rank: int) -> list[Any]:
    """A field with a value for each axis; nothing where it has another number of them."""
    found = header.get(name)
    rows = [None] * rank if found is None or len(found) != rank else list(found)
    return [None if isinstance(one, str) and one in ("???", "none", "") else one for one in rows]


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(float(value)) else float(value)
