"""Links between vertices, within a chunk, across chunks and across levels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError
from zvcore.zvf.attributes import stored_dtype
from zvcore.zvf.cells import GridCells, parse_key
from zvcore.zvf.nodes import Column, Node, child_nodes, join, read_node

if TYPE_CHECKING:
    from zvcore.zvf.vector_store import Level

__all__ = ["Links", "deltas", "link_arrays", "offsets_segment", "parse_segment", "read_links"]

Ints = npt.NDArray[np.int64]

_DELTA = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
SELF = "self"


@dataclass
class Links:
    """Links of `width` endpoints each, in the order in which their endpoints were given.

    chunks    int64[n, width, d], the chunk of each endpoint
    vertices  int64[n, width], the row of each endpoint in its chunk
    """

    chunks: Ints
    vertices: Ints

    def __len__(self) -> int:
        return len(self.vertices)


def parse_delta(text: str) -> int | None:
    return int(text) if _DELTA.fullmatch(text) else None


def format_delta(value: int) -> str:
    """Signed, so that nothing is mistaken for a level: +1, 0, -2."""
    return f"{value:+d}" if value else "0"


def offsets_segment(offsets: Any) -> str:
    """The name of the array whose records reach from their chunk to those at these offsets."""
    return "_".join(".".join(map(format_delta, offset)) for offset in offsets) if len(offsets) else SELF


def parse_segment(segment: str, ndim: int, width: int, key: str) -> Ints:
    """int64[width - 1, ndim] from the name of an array of links."""
    if segment == SELF and width == 1:
        return np.zeros((0, ndim), np.int64)
    parts = [[parse_delta(number) for number in part.split(".")] for part in segment.split("_")]
    if len(parts) == width - 1 and all(len(part) == ndim and None not in part for part in parts):
        return np.array(parts, np.int64).reshape(width - 1, ndim)
    raise CorruptDataError("the name of a links array does not fit its family", key=key, found=segment)


def deltas(level: Level) -> list[int]:
    """The level differences for which the level has links."""
    found = {parse_delta(name) for family in ("links", "cross_chunk_links") for name in _folders(level, family)}
    return sorted(delta for delta in found if delta is not None)


def _folders(level: Level, family: str) -> list[str]:
    folder = join(level.path, family)
    return [name for name in level.store.list_dir(folder)[0] if read_node(level.store, join(folder, name)) is not None]


def family_node(level: Level, delta: int, family: str = "links") -> Node | None:
    for name in {str(delta), format_delta(delta)}:
        node = read_node(level.store, join(level.path, family, name))
        if node is not None:
            return node
    return None


def link_arrays(family: Node) -> list[Column]:
    """The arrays of a family, one for each way in which its records reach across chunks."""
    return [node for node in child_nodes(family.store, family.path) if isinstance(node, Column)]


def read_links(level: Level, delta: int = 0) -> Links:
    """Every link of a family, in the order of the arrays' names and the cells' keys, as the reference has them."""
    family = family_node(level, delta)
    if family is None:
        return _old_links(level, delta)
    if "link_width" not in family.attrs or "sid_ndim" not in family.attrs:
        return Links(np.zeros((0, 2, level.grid_ndim), np.int64), np.zeros((0, 2), np.int64))
    width, ndim = _small(family, "link_width"), _small(family, "sid_ndim")
    chunks: list[Ints] = []
    vertices: list[Ints] = []
    for node in link_arrays(family):
        offsets = parse_segment(node.path.rpartition("/")[2], ndim, width, node.path)
        for coords, rows, permuted in _cells(node, offsets, width, delta):
            ends = np.broadcast_to(_endpoints(level, coords, offsets, delta), (len(rows), width, ndim)).copy()
            if permuted:
                rows = _in_given_order(rows, ends, width, node.path, tuple(coords.tolist()))
            chunks.append(ends)
            vertices.append(rows)
    if not chunks:
        return Links(np.zeros((0, width, ndim), np.int64), np.zeros((0, width), np.int64))
    return Links(np.concatenate(chunks), np.concatenate(vertices))


def _small(family: Node, name: str) -> int:
    value = family.attrs.get(name)
    if not isinstance(value, int) or not 0 < value <= 32:
        raise MetadataError(f"a family of links needs its {name}", key=family.key, found=repr(value)[:99])
    return value


def _cells(node: Column, offsets: Ints, width: int, delta: int) -> Any:
    """(chunk, rows, whether the first column says how the endpoints were permuted) of each cell."""
    intra = not offsets.any()
    permuted = bool(node.attrs.get("has_perm", not intra and delta == 0))
    dtype = stored_dtype(node.attrs.get("dtype", "int64"), node)
    if dtype.kind not in "iu":
        raise MetadataError("links are integers", key=node.key, found=repr(node.attrs.get("dtype")))
    grid = GridCells(node)
    coords = grid.stored()
    # By key and not by number, as the reference sorts: attributes of links rely on this order.
    coords = coords[np.argsort([".".join(map(str, c)) for c in coords.tolist()])] if len(coords) else coords
    cells = grid.read(coords)
    for i in range(len(coords)):
        rows = decode_link_cell(
            cells[i], dtype, width + permuted, intra and delta == 0, node.path, tuple(coords[i].tolist())
        )
        if len(rows):
            yield coords[i], rows, permuted


def decode_link_cell(
    cell: memoryview, dtype: np.dtype[Any], columns: int, flat: bool, path: str, chunk: tuple[int, ...]
) -> Ints:
    """The rows of one cell: bare, or after a table of where groups of them begin."""
    begin = 0
    if not flat and len(cell):
        groups = int.from_bytes(cell[:8], "little", signed=True) if len(cell) >= 8 else -1
        if groups < 0 or 8 * (1 + groups) > len(cell):
            raise CorruptDataError("a cell of links with a broken table of groups", key=path, chunk=chunk, found=groups)
        begin = 8 * (1 + groups)
        if groups:
            table = np.frombuffer(cell[8:begin], "<i8")
            size = len(cell) - begin
            if table[0] != 0 or (np.diff(table) < 0).any() or table[-1] > size:
                raise CorruptDataError("groups of links that leave their cell", key=path, chunk=chunk)
    if (len(cell) - begin) % (columns * dtype.itemsize):
        raise CorruptDataError(
            "a cell that is no whole number of links", key=path, chunk=chunk,
            expected=f"a multiple of {columns * dtype.itemsize} bytes", found=len(cell) - begin,
        )  # fmt: skip
    return np.frombuffer(bytes(cell[begin:]), dtype).reshape(-1, columns).astype(np.int64)


def _endpoints(level: Level, source: Ints, offsets: Ints, delta: int) -> Ints:
    """int64[width, ndim]: the chunks that a record in this cell reaches."""
    anchor = source
    if delta and len(offsets):
        try:
            other = level.parent.level(level.number + delta)
        except NotFoundError:
            text = f"links to level {level.number + delta}, which does not exist"
            raise UnsupportedError(text, key=level.path) from None
        lead = len(source) - level.ndim
        mine = np.array(level.chunk_shape, float)
        theirs = np.array(other.chunk_shape, float)
        anchor = source.copy()
        anchor[lead:] = np.floor(source[lead:] * mine / theirs + 1e-9).astype(np.int64)
    return np.concatenate([source[None], anchor + offsets])


def _in_given_order(rows: Ints, ends: Ints, width: int, path: str, chunk: tuple[int, ...]) -> Ints:
    """Undo the sorting of endpoints: the first column numbers the permutation."""
    code = rows[:, 0]
    if ((code < 0) | (code >= factorial(width))).any():
        raise CorruptDataError("a link with no such permutation", key=path, chunk=chunk, found=int(code.max()))
    values = rows[:, 1:].copy()
    for which in np.unique(code).tolist():
        if which:
            mine = np.flatnonzero(code == which)
            order = _permutation(which, width)
            values[mine[:, None], order] = rows[mine, 1:]
            ends[mine[:, None], order] = ends[mine]
    return values


def _permutation(code: int, width: int) -> list[int]:
    """Lehmer's numbering: entry i is the place that the i-th sorted endpoint had."""
    free = list(range(width))
    order = []
    for i in range(width):
        step = factorial(width - 1 - i)
        order.append(free.pop(code // step))
        code %= step
    return order


def _old_links(level: Level, delta: int) -> Links:
    """Before 0.8: one blob for the level, of rows (chunk, vertex) per endpoint."""
    none = Links(np.zeros((0, 2, level.grid_ndim), np.int64), np.zeros((0, 2), np.int64))
    family = family_node(level, delta, "cross_chunk_links")
    if family is None:
        return none
    child = family.child("data")
    if not isinstance(child, Column):
        if any(parse_key(name) is not None for name in level.store.list_dir(family.path)[0]):
            raise UnsupportedError("cross-chunk links of format 0.8, one array per pair of chunks", key=family.key)
        return none
    width, ndim = _small(family, "link_width"), _small(family, "sid_ndim")
    raw = child.read_numbers().tobytes()
    if len(raw) % (8 * width * (ndim + 1)):
        raise CorruptDataError("a blob that is no whole number of links", key=child.path, found=len(raw))
    rows = np.frombuffer(raw, "<i8").astype(np.int64).reshape(-1, width, ndim + 1)
    return Links(rows[:, :, :ndim].copy(), rows[:, :, ndim].copy())
