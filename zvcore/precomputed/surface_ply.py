"""The triangles of PLY files."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.precomputed.surfaces import Surface

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["encode_ply", "parse_ply"]

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_CORNERS = ("vertex_indices", "vertex_index")
_LONGEST_HEADER = 1 << 16


@dataclass
class _Element:
    """One kind of thing: `properties` are (name, type, type of the count if it is a list)."""

    name: str
    count: int
    properties: list[tuple[str, str, str | None]] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        return all(count is None for _, _, count in self.properties)


def parse_ply(data: bytes) -> Surface:
    """The vertices and faces of a PLY file; other elements are passed over."""
    order, elements, at = _header(data)
    source = _Text(data[at:].split()) if order == "" else _Binary(data, at, order)
    vertices = np.zeros((0, 3), np.float32)
    faces = np.zeros((0, 3), np.uint32)
    for element in elements:
        if element.name == "vertex":
            vertices = _vertices(source, element)
        elif element.name == "face":
            faces = _faces(source, element)
        elif element.plain:
            source.rows(element)
        else:
            for _ in range(element.count):
                source.row(element)
    return Surface(vertices, faces)


def _header(data: bytes) -> tuple[str, list[_Element], int]:
    """(byte order, elements, where the data begin)."""
    end = data.find(b"end_header", 0, _LONGEST_HEADER)
    stop = data.find(b"\n", end) if end >= 0 else -1
    if not data.startswith(b"ply") or stop < 0:
        raise CorruptDataError("not a PLY file, or its header is cut off")
    order: str | None = None
    elements: list[_Element] = []
    for line in data[:end].decode("ascii", "replace").splitlines():
        words = line.split()
        try:
            if words[:1] == ["format"]:
                order = _ORDERS[words[1]]
            elif words[:1] == ["element"]:
                if not words[2].isdigit() or int(words[2]) > 50 * len(data):
                    raise ValueError
                elements.append(_Element(words[1], int(words[2])))
            elif words[:2] == ["property", "list"]:
                elements[-1].properties.append((words[4], _TYPES[words[3]], _integer(_TYPES[words[2]])))
            elif words[:1] == ["property"]:
                elements[-1].properties.append((words[2], _TYPES[words[1]], None))
        except (IndexError, KeyError, ValueError):
            raise CorruptDataError("a line of the header is wrong", found=repr(line[:80])) from None
    if order is None:
        raise CorruptDataError("the header says no format")
    for element in elements:
        names = [name for name, _, _ in element.properties]
        if len(set(names)) < len(names) or (not names and element.count):
            raise CorruptDataError(f"the element {element.name!r} has no properties, or two of one name")
    return order, elements, stop + 1


def _integer(type: str) -> str:
    if type[0] == "f":
        raise ValueError
    return type


class _Text:
    """Numbers in words."""

    def __init__(self, words: list[bytes]) -> None:
        self.words = words
        self.at = 0

    def _take(self, count: int) -> list[float]:
        taken = self.words[self.at : self.at + count]
        self.at += count
        if len(taken) < count:
            raise CorruptDataError("the file is cut off")
        try:
            return [float(word) for word in taken]
        except ValueError:
            raise CorruptDataError("not a number in the data") from None

    def rows(self, element: _Element) -> dict[str, npt.NDArray[Any]]:
        width = len(element.properties)
        table = np.array(self._take(width * element.count), np.float64).reshape(element.count, width)
        return {name: table[:, i] for i, (name, _, _) in enumerate(element.properties)}

    def triangles(self, element: _Element) -> npt.NDArray[Any] | None:
        return None

    def row(self, element: _Element) -> dict[str, list[float]]:
        found = {}
        for name, _, count in element.properties:
            [number] = self._take(1)
            found[name] = [number] if count is None else self._take(_length(number))
        return found


class _Binary:
    """Numbers in bytes."""

    def __init__(self, data: bytes, at: int, order: str) -> None:
        self.data = data
        self.at = at
        self.order = order

    def _take(self, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
        end = self.at + dtype.itemsize * count
        if end > len(self.data):
            raise CorruptDataError("the file is cut off", expected=f"{end} bytes", found=len(self.data))
        found = np.frombuffer(self.data, dtype, count, self.at)
        self.at = end
        return found

    def rows(self, element: _Element) -> dict[str, npt.NDArray[Any]]:
        table = self._take(np.dtype([(name, self.order + type) for name, type, _ in element.properties]), element.count)
        return {name: table[name] for name, _, _ in element.properties}

    def triangles(self, element: _Element) -> npt.NDArray[Any] | None:
        """The corners of faces that are all triangles; None if others are among them, or lists besides."""
        if [count is None for _, _, count in element.properties].count(False) != 1:
            return None
        fields: list[Any] = []
        for name, type, count in element.properties:
            if count is None:
                fields.append((name, self.order + type))
            else:
                fields += [(f"{name} count", self.order + count), (name, self.order + type, 3)]
        dtype = np.dtype(fields)
        if self.at + dtype.itemsize * element.count > len(self.data):
            return None
        table = np.frombuffer(self.data, dtype, element.count, self.at)
        [listed] = [name for name, _, count in element.properties if count is not None]
        if listed not in _CORNERS or (table[f"{listed} count"] != 3).any():
            return None
        self.at += table.nbytes
        return table[listed]

    def row(self, element: _Element) -> dict[str, list[float]]:
        found = {}
        for name, type, count in element.properties:
            number = 1 if count is None else _length(self._take(np.dtype(self.order + count), 1)[0])
            found[name] = self._take(np.dtype(self.order + type), number).tolist()
        return found


def _length(number: float) -> int:
    if not (0 <= number < 2**32 and number == int(number)):
        raise CorruptDataError("not the length of a list", found=number)
    return int(number)


def _vertices(source: _Text | _Binary, element: _Element) -> npt.NDArray[np.float32]:
    if element.plain:
        columns: dict[str, Any] = source.rows(element)
    else:
        rows = [source.row(element) for _ in range(element.count)]
        named = {name for name, _, count in element.properties if count is None}
        columns = {name: [row[name][0] for row in rows] for name in "xyz" if name in named}
    if element.count and not all(name in columns for name in "xyz"):
        raise CorruptDataError("vertices have no x, y and z", found=", ".join(columns))
    with np.errstate(over="ignore"):
        found = [np.asarray(columns.get(name, ()), np.float64).astype(np.float32) for name in "xyz"]
    return np.stack(found, 1)


def _faces(source: _Text | _Binary, element: _Element) -> npt.NDArray[np.uint32]:
    found = source.triangles(element)
    if found is None:
        triangles = []
        for _ in range(element.count):
            row = source.row(element)
            corners = next((row[name] for name in _CORNERS if name in row), [])
            triangles += [(corners[0], b, c) for b, c in itertools.pairwise(corners[1:])]
        found = np.array(triangles, np.float64).reshape(-1, 3)
    if found.size and not (found.min() >= 0 and found.max() < 2**32):
        raise CorruptDataError("a face has a corner that cannot be", found=f"{found.min()} to {found.max()}")
    return found.astype(np.uint32)


def encode_ply(surface: Surface) -> bytes:
    """A binary PLY file, little-endian."""
    head = (
        "ply\nformat binary_little_endian 1.0\ncomment made by zvcore, in nanometers\n"
        f"element vertex {len(surface.vertices)}\nproperty float x\nproperty float y\nproperty float z\n"
        f"element face {len(surface.faces)}\nproperty list uchar uint vertex_indices\nend_header\n"
    )
    rows = np.zeros(len(surface.faces), np.dtype([("count", "u1"), ("corners", "<u4", 3)]))
    rows["count"] = 3
    rows["corners"] = surface.faces
    return head.encode() + surface.vertices.astype("<f4").tobytes() + rows.tobytes()
