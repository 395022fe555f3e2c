"""Skeletons as SWC files, which neuron tools read: rows `n type x y z radius parent`.

SWC says nothing of units. Most tools mean micrometers, and precomputed skeletons are in nanometers, so the unit is the
caller's to say. Types become the vertex attribute `vertex_types` and back, radii `radius`, as CloudVolume has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.precomputed.skeletons import RADIUS, Skeleton, VertexAttribute
from zvcore.stores.plain_files import complete_file

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy.typing as npt

__all__ = ["SWC_ATTRIBUTES", "encode_swc", "parse_swc", "read_swc", "write_swc"]

TYPES = "vertex_types"
# What skeletons that were read from SWC have, for `write_skeletons`.
SWC_ATTRIBUTES = (VertexAttribute(RADIUS), VertexAttribute(TYPES, "uint8"))
_UNITS = {"nm": 1.0, "um": 1e3, "mm": 1e6}
_COLUMNS = 7
_ROOT = -1


def read_swc(path: str | os.PathLike[str], *, unit: str = "um") -> Skeleton:
    """The skeleton in a file, in nanometers; `unit` is that of the file: "nm", "um" or "mm"."""
    try:
        return parse_swc(Path(path).read_bytes(), unit=unit)
    except CorruptDataError as error:
        raise error.located(key=str(path))


def write_swc(path: str | os.PathLike[str], skeleton: Skeleton, *, unit: str = "um") -> list[str]:
    """Write a skeleton in nanometers to a file in the given unit; what of it SWC cannot hold is returned in words."""
    data, losses = encode_swc(skeleton, unit=unit)
    with complete_file(path) as partial:
        Path(partial).write_bytes(data)
    return losses


def parse_swc(data: bytes, *, unit: str = "um") -> Skeleton:
    """The skeleton that the rows of a file are. Numbers of rows may have gaps, and parents may come later."""
    size = _size(unit)
    numbers: list[int] = []
    parents: list[int] = []
    lines: list[int] = []
    values: list[float] = []
    for line, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        if len(words) < _COLUMNS:
            raise CorruptDataError(f"line {line}: a row has {_COLUMNS} columns", found=len(words))
        try:
            numbers.append(_whole(words[0]))
            parents.append(_whole(words[6]))
            # What has no radius has none that is larger than nothing.
            radius = 0.0 if words[5].upper() in ("NA", "NAN") else float(words[5])
            values += [float(_whole(words[1])), *(float(word) for word in words[2:5]), radius]
        except (ValueError, OverflowError):
            raise CorruptDataError(f"line {line}: not a number where one belongs", found=repr(text[:80])) from None
        lines.append(line)
    rows = np.array(values, np.float64).reshape(-1, 5)
    types = rows[:, 0]
    if not np.isfinite(rows).all() or (types < 0).any() or (types > 255).any():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(1) | (types < 0) | (types > 255))[0])
        raise CorruptDataError(f"line {lines[bad]}: a coordinate is not finite, or the type not from 0 to 255")
    with np.errstate(over="ignore"):
        vertices = (rows[:, 1:4] * size).astype(np.float32)
        radii = (rows[:, 4] * size).astype(np.float32)
    if not (np.isfinite(vertices).all() and np.isfinite(radii).all()):
        raise CorruptDataError("a coordinate does not fit into float32")
    edges = np.array(list(_edges(numbers, parents, lines)), np.uint32).reshape(-1, 2)
    return Skeleton(vertices, edges, {RADIUS: radii, TYPES: types.astype(np.uint8)})


def _whole(word: str) -> int:
    """Integers, also as others write them: "1.0"."""
    try:
        return int(word)
    except ValueError:
        number = float(word)
        if number != int(number):
            raise
        return int(number)


def _edges(numbers: list[int], parents: list[int], lines: list[int]) -> Iterator[tuple[int, int]]:
    """(parent, child) for each row that has a parent."""
    place = {number: row for row, number in enumerate(numbers)}
    if len(place) < len(numbers):
        raise CorruptDataError("two rows have the same number")
    for row, parent in enumerate(parents):
        if parent < 0:
            continue
        if parent not in place or parent == numbers[row]:
            raise CorruptDataError(f"line {lines[row]}: the parent is no other row", found=parent)
        yield place[parent], row


def encode_swc(skeleton: Skeleton, *, unit: str = "um") -> tuple[bytes, list[str]]:
    """(the content of a file, what is lost in words). Rows stand behind their parents."""
    size = _size(unit)
    vertices = np.asarray(skeleton.vertices, np.float64) / size
    count = len(vertices)
    order, parents, cut = _as_forest(count, np.asarray(skeleton.edges).astype(np.int64))
    radii = _column(skeleton, RADIUS, count) / size
    types = _column(skeleton, TYPES, count)
    whole = np.isfinite(types) & (types == np.round(types)) & (np.abs(types) < 2**31)
    types = np.where(whole, types, 0).astype(np.int64)
    number = np.empty(count, np.int64)
    number[order] = np.arange(1, count + 1)
    rows = [f"# made by zvcore; unit: {unit}\n"]
    for at, vertex in enumerate(order.tolist(), 1):
        x, y, z = vertices[vertex]
        parent = parents[vertex]
        above = _ROOT if parent < 0 else number[parent]
        rows.append(f"{at} {types[vertex]} {x:.9g} {y:.9g} {z:.9g} {radii[vertex]:.9g} {above}\n")
    losses = [f"SWC holds trees: {cut} edges that close cycles are left out"] if cut else []
    if not whole.all():
        losses.append(f"{int((~whole).sum())} values of {TYPES!r} are no whole numbers, and become 0")
    losses += [
        f"SWC has no place for the vertex attribute {name!r}"
        for name, values in skeleton.attributes.items()
        if name not in (RADIUS, TYPES) or np.shape(values) != (count,)
    ]
    return "".join(rows).encode(), losses


def _column(skeleton: Skeleton, name: str, count: int) -> npt.NDArray[np.float64]:
    values = skeleton.attributes.get(name)
    found = np.zeros(count) if values is None else np.asarray(values, np.float64)
    return found if found.shape == (count,) else np.zeros(count)


def _as_forest(count: int, edges: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[int], int]:
    """(vertices with parents before their children, the parent of each or -1, how many edges have no place).

    Each branch is followed to its end, from the first vertex of each component.
    """
    ends = np.concatenate([edges, edges[:, ::-1]])
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    starts = np.searchsorted(ends[:, 0], np.arange(count + 1)).tolist()
    beside = ends[:, 1].tolist()
    parents = [_ROOT] * count
    seen = bytearray(count)
    order: list[int] = []
    for root in range(count):
        if seen[root]:
            continue
        waiting = [(root, _ROOT)]
        while waiting:
            vertex, parent = waiting.pop()
            if seen[vertex]:
                continue
            seen[vertex] = 1
            parents[vertex] = parent
            order.append(vertex)
            near = beside[starts[vertex] : starts[vertex + 1]]
            waiting += [(other, vertex) for other in reversed(near) if not seen[other]]
    kept = sum(parent >= 0 for parent in parents)
    return np.array(order, np.int64), parents, len(ends) // 2 - kept


def _size(unit: Any) -> float:
    found = _UNITS.get(unit)
    if found is None:
        raise UnsupportedError("SWC files are read and written in these units", expected=", ".join(_UNITS), found=unit)
    return found
