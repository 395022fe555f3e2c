"""Surfaces in files of other programs: Wavefront OBJ, PLY (text and binary), STL (text and binary).

Only triangles are taken: polygons are cut into them, and colours, normals and textures are passed over. Such files say
nothing of units; vertices are taken as they are, and written in nanometers.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.precomputed.surface_ply import encode_ply, parse_ply
from zvcore.precomputed.surfaces import Surface, merged
from zvcore.stores.plain_files import complete_file

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

__all__ = ["SURFACE_SUFFIXES", "encode_surface", "parse_surface", "read_surface", "write_surface"]

_STL_HEADER = 84
_STL_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read_surface(path: str | os.PathLike[str]) -> Surface:
    """The surface in a file, whose name ends with .obj, .ply or .stl."""
    name = Path(path)
    _known(name.suffix)
    try:
        return parse_surface(name.read_bytes(), name.suffix)
    except CorruptDataError as error:
        raise error.located(key=str(name))


def write_surface(path: str | os.PathLike[str], surface: Any) -> None:
    """Write what has `vertices` and `faces` to a file, as what its name ends with: .obj, .ply or .stl."""
    data = encode_surface(surface, Path(path).suffix)
    with complete_file(path) as partial:
        Path(partial).write_bytes(data)


def parse_surface(data: bytes, suffix: str) -> Surface:
    """A surface from the content of a file whose name ends with `suffix`."""
    surface = _known(suffix)[0](data)
    count = len(surface.vertices)
    if surface.faces.size and int(surface.faces.max()) >= count:
        raise CorruptDataError(
            "a triangle has a vertex that is not there", expected=f"less than {count}", found=int(surface.faces.max())
        )
    if not np.isfinite(surface.vertices).all():
        raise CorruptDataError("a vertex is not finite as float32")
    return surface


def encode_surface(surface: Any, suffix: str) -> bytes:
    """The content of such a file."""
    plain = Surface(np.asarray(surface.vertices, np.float32), np.asarray(surface.faces, np.uint32))
    return _known(suffix)[1](plain)


def _known(suffix: str) -> tuple[Callable[[bytes], Surface], Callable[[Surface], bytes]]:
    found = _FORMATS.get(suffix.lower())
    if found is None:
        raise UnsupportedError(
            "meshes are read from and written to .obj, .ply and .stl", expected=", ".join(_FORMATS), found=suffix
        )
    return found


# OBJ


def _parse_obj(data: bytes) -> Surface:
    vertices: list[bytes] = []
    faces: list[tuple[int, int, int]] = []
    count = 0
    for number, line in enumerate(data.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if words[0] == b"v":
            if len(words) < 4:
                raise CorruptDataError(f"line {number}: a vertex has three coordinates", found=len(words) - 1)
            vertices += words[1:4]
            count += 1
        elif words[0] == b"f":
            corners = [_obj_corner(word, count, number) for word in words[1:]]
            if len(corners) < 3:
                raise CorruptDataError(f"line {number}: a face has at least three corners", found=len(corners))
            faces += [(corners[0], b, c) for b, c in itertools.pairwise(corners[1:])]
    return Surface(_floats(vertices), np.array(faces, np.uint32).reshape(-1, 3))


def _obj_corner(word: bytes, count: int, line: int) -> int:
    """A corner's vertex, counted from 1, or with a minus from the last vertex so far."""
    try:
        given = int(word.partition(b"/")[0])
    except ValueError:
        given = 0
    corner = given - 1 if given > 0 else count + given
    if given == 0 or not 0 <= corner < 2**32:
        raise CorruptDataError(f"line {line}: not the number of a vertex", found=repr(word[:40]))
    return corner


def _floats(words: Iterable[bytes]) -> npt.NDArray[np.float32]:
    """Numbers in threes."""
    try:
        with np.errstate(over="ignore"):
            return np.array([float(word) for word in words], np.float64).astype(np.float32).reshape(-1, 3)
    except ValueError as error:
        raise CorruptDataError(f"a coordinate is no number: {error}") from None


def _encode_obj(surface: Surface) -> bytes:
    lines = [f"v {x!r} {y!r} {z!r}\n" for x, y, z in _short(surface.vertices)]
    lines += [f"f {a} {b} {c}\n" for a, b, c in (surface.faces.astype(np.int64) + 1).tolist()]
    return "".join(lines).encode()


def _short(vertices: npt.NDArray[np.float32]) -> list[list[float]]:
    """Coordinates as the shortest decimals that are these float32."""
    words = vertices.astype("S")
    rows: list[list[float]] = words.astype(np.float64).tolist()
    return rows


# STL


def _parse_stl(data: bytes) -> Surface:
    count = int.from_bytes(data[80:84], "little") if len(data) >= _STL_HEADER else 0
    expected = _STL_HEADER + _STL_RECORD.itemsize * count
    if len(data) == expected and len(data) >= _STL_HEADER:
        corners = np.frombuffer(data, _STL_RECORD, count, _STL_HEADER)["corners"].reshape(-1, 3).astype(np.float32)
    elif data.lstrip()[:5].lower() == b"solid":
        words = data.split()
        at = [i for i, word in enumerate(words) if word.lower() == b"vertex"]
        if at and at[-1] + 3 >= len(words):
            raise CorruptDataError("the file is cut off")
        corners = _floats(word for i in at for word in words[i + 1 : i + 4])
        if len(corners) % 3:
            raise CorruptDataError("a triangle lacks a corner", found=len(corners))
    else:
        raise CorruptDataError("no STL file of this length", expected=f"{expected} bytes", found=len(data))
    faces = np.arange(len(corners), dtype=np.uint32).reshape(-1, 3)
    return merged(Surface(corners, faces))


def _encode_stl(surface: Surface) -> bytes:
    records = np.zeros(len(surface.faces), _STL_RECORD)
    corners = surface.vertices[surface.faces]
    records["corners"] = corners
    wide = corners.astype(np.float64)
    normals = np.cross(wide[:, 1] - wide[:, 0], wide[:, 2] - wide[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    records["normal"] = np.divide(normals, lengths, out=np.zeros_like(normals), where=lengths > 0)
    return b"made by zvcore".ljust(80) + len(records).to_bytes(4, "little") + records.tobytes()


_FORMATS: dict[str, tuple[Callable[[bytes], Surface], Callable[[Surface], bytes]]] = {
    ".obj": (_parse_obj, _encode_obj),
    ".ply": (parse_ply, encode_ply),
    ".stl": (_parse_stl, _encode_stl),
}
SURFACE_SUFFIXES = tuple(_FORMATS)
