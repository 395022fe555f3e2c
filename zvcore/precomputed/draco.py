"""Fragments of meshes, which are Draco streams of quantized vertices; DracoPy encodes and decodes them.

The stream says how many triangles and vertices it has. That is looked at first, so that memory does not grow with what
a damaged one claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import CorruptDataError, UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["decode_fragment", "encode_fragment", "has_draco"]

_MAGIC = b"DRACO"
_HEADER = 11
_MESH = 1
_SEQUENTIAL, _EDGEBREAKER = 0, 1
# What a stream may claim: a flat, regular surface comes to 1,700 triangles a byte.
_MOST_FACES_PER_BYTE = 4096
_FEW_FACES = 1 << 21


def _library() -> Any:
    try:
        import DracoPy
    except ImportError as error:
        raise UnsupportedError(
            "fragments of meshes are Draco, for which DracoPy is needed: pip install zvcore[draco]"
        ) from error
    return DracoPy


def has_draco() -> bool:
    """Whether fragments can be encoded and decoded here."""
    try:
        _library()
    except UnsupportedError:
        return False
    return True


def encode_fragment(vertices: npt.NDArray[np.integer], faces: npt.NDArray[np.integer], level: int = 7) -> bytes:
    """The stream of a fragment: the vertices are integers, as Neuroglancer wants them. Empty for no faces."""
    if not len(faces):
        return b""
    # The type of the numbers decides how DracoPy stores them: as integers only if they are.
    encoded: bytes = _library().encode(
        np.ascontiguousarray(vertices, np.uint32), np.ascontiguousarray(faces, np.uint32), compression_level=level
    )
    return encoded


def decode_fragment(data: bytes, bits: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """(vertices, faces) of a fragment, checked: vertices from 0 to 2**bits - 1, faces with corners that are there."""
    if not data:
        return np.zeros((0, 3), np.uint32), np.zeros((0, 3), np.uint32)
    _check_claims(data)
    library = _library()
    try:
        found = library.decode(data)
        points, corners = np.asarray(found.points), np.asarray(getattr(found, "faces", ()))
    except Exception as error:
        raise CorruptDataError(f"the fragment is no Draco mesh: {type(error).__name__}: {error}") from error
    return _vertices(points, bits), _faces(corners, len(points))


def _vertices(points: npt.NDArray[Any], bits: int) -> npt.NDArray[np.uint32]:
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "fiu":
        raise CorruptDataError("the fragment has no positions", expected="[n, 3]", found=str(points.shape))
    most = 2**bits - 1
    if points.size:
        low, high = points.min(), points.max()
        if not (low >= 0 and high <= most):
            raise CorruptDataError(
                "a vertex lies outside its fragment", expected=f"0 to {most}", found=f"{low} to {high}"
            )
        if points.dtype.kind == "f":
            points = np.rint(points)
    return points.astype(np.uint32)


def _faces(corners: npt.NDArray[Any], count: int) -> npt.NDArray[np.uint32]:
    if not corners.size:
        return np.zeros((0, 3), np.uint32)
    corners = corners.reshape(-1, 3)
    if not (int(corners.min()) >= 0 and int(corners.max()) < count):
        raise CorruptDataError(
            "a triangle has a vertex that is not there", expected=f"less than {count}", found=int(corners.max())
        )
    return corners.astype(np.uint32)


def _check_claims(data: bytes) -> None:
    """Refuse what is no Draco mesh, and streams that claim more than they can hold."""
    if len(data) < _HEADER or data[:5] != _MAGIC:
        raise CorruptDataError("the fragment is no Draco stream", expected=repr(_MAGIC), found=repr(bytes(data[:5])))
    if data[7] != _MESH or data[8] not in (_SEQUENTIAL, _EDGEBREAKER):
        raise CorruptDataError(
            "the fragment is no Draco mesh", expected="type 1, method 0 or 1", found=f"type {data[7]}, method {data[8]}"
        )
    at = _HEADER
    if int.from_bytes(data[9:11], "little") & 0x8000:
        at = _after_metadata(data, at)
    if (data[5], data[6]) < (2, 2):
        raise UnsupportedError("Draco streams before version 2.2 are not read", found=f"{data[5]}.{data[6]}")
    if data[8] == _EDGEBREAKER:
        at += 1  # how the connectivity is traversed
        vertices, at = _number(data, at)
        faces, at = _number(data, at)
    else:
        faces, at = _number(data, at)
        vertices, at = _number(data, at)
    most = max(_FEW_FACES, _MOST_FACES_PER_BYTE * len(data))
    if faces > most or vertices > most:
        raise CorruptDataError(
            "the fragment claims more than it can hold", length=len(data), expected=f"at most {most} triangles",
            found=f"{faces} triangles of {vertices} vertices",
        )  # fmt: skip


def _after_metadata(data: bytes, at: int) -> int:
    """Where metadata end, such as those in which igneous keeps how the vertices were quantized.

    One tree of entries belongs to each attribute that is counted first, and a last one to the whole.
    """
    attributes, at = _number(data, at)
    for remaining in range(attributes, -1, -1):
        if remaining:
            _, at = _number(data, at)  # the attribute
        nodes, named = 1, False
        while nodes:
            if named:
                at = _after_name(data, at)
            entries, at = _number(data, at)
            for _ in range(entries):
                at = _after_name(data, at)
                size, at = _number(data, at)
                at += size
            children, at = _number(data, at)
            nodes += children - 1
            named = True
    return at


def _after_name(data: bytes, at: int) -> int:
    """Where a name ends that stands behind its length, which is one byte."""
    if at >= len(data):
        raise _cut_off(data)
    return at + 1 + data[at]


def _cut_off(data: bytes) -> CorruptDataError:
    return CorruptDataError("the header of the fragment is cut off", length=len(data))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _cut_off(data)
