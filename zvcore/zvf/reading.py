"""Objects as arrays: which pieces of which chunks they are, each chunk read once, all rows gathered in one go."""

from __future__ import annotations

import itertools
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine import thread_count
from zvcore.errors import CorruptDataError, NotFoundError, ZvcoreError
from zvcore.kernels import fragments as kernel
from zvcore.kernels import vlen
from zvcore.zvf.attributes import AttributeForm
from zvcore.zvf.fragments import decode_fragments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.zvf.cells import CellGrid, Cells
    from zvcore.zvf.manifests import ManifestCSR, ManifestTable
    from zvcore.zvf.vector_store import Level

__all__ = ["EMPTY_INDEX", "Vectors", "fragment_owners", "read_bbox", "read_level", "read_object", "read_objects"]

Ints = npt.NDArray[np.int64]

EMPTY_INDEX = bytes.fromhex("4746565a 0100 0000 00000000 00000000")

# What `kernels.fragments.decode_cells` gives: where each chunk's fragments begin, first, count, listed, pool.
Columns = tuple[Ints, Ints, Ints, npt.NDArray[np.uint8], Ints]

# Ranges of more fragments are compared with what their chunks have.
_LARGE_RANGE = 1 << 12
# Below this many bytes a second thread costs more than it brings.
_PARALLEL_BYTES = 4 << 20


@dataclass
class Vectors:
    """Vertices of several objects: those of the i-th are positions[offsets[i] : offsets[i + 1]].

    Unpacks to (positions, offsets), which is what TRX and most of tractography's tools call a streamline sequence.

    object_ids  the id of each row; None where there are no objects
    attributes  {name: a value per position}
    damaged     {id: why it is not here}
    """

    positions: npt.NDArray[Any]
    offsets: Ints
    object_ids: Ints | None = None
    attributes: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    damaged: dict[int, ZvcoreError] = field(default_factory=dict)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return iter((self.positions, self.offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        return self.positions[self.offsets[row] : self.offsets[row + 1]]

    def to_list(self) -> list[npt.NDArray[Any]]:
        """One array of positions per row."""
        bounds = self.offsets.tolist()
        return [self.positions[a:b] for a, b in itertools.pairwise(bounds)]


@dataclass
class Pieces:
    """Gathered rows: those of the i-th wanted fragment are sums[i]:sums[i + 1] of each array."""

    positions: npt.NDArray[Any]
    sums: Ints
    attributes: dict[str, npt.NDArray[Any]]


def unique_cells(coords: Ints) -> tuple[Ints, Ints]:
    """(the different chunks in numeric order, which of them each row is)."""
    if not len(coords):
        return coords, np.zeros(0, np.int64)
    low, high = coords.min(0), coords.max(0)
    spans = [int(h) - int(a) + 1 for a, h in zip(low, high, strict=True)]
    cells = 1
    for span in spans:
        cells *= span
    if cells >= 2**62:
        found, which = np.unique(coords, axis=0, return_inverse=True)
        return found, which.reshape(-1).astype(np.int64)
    flat = np.zeros(len(coords), np.int64)
    for axis, span in enumerate(spans):
        flat *= span
        flat += coords[:, axis] - low[axis]
    if cells <= 4 * len(coords) + 2**20:
        # A table of all cells in the box is cheaper than sorting.
        seen = np.zeros(cells, bool)
        seen[flat] = True
        chosen = np.flatnonzero(seen)
        number = np.empty(cells, np.int64)
        number[chosen] = np.arange(len(chosen))
        which = number[flat]
    else:
        chosen, which = np.unique(flat, return_inverse=True)
    return np.stack(np.unravel_index(chosen, spans), -1).astype(np.int64) + low, which


def gather(
    level: Level, coords: Ints, fragments: Ints, attributes: Sequence[str], threads: int | None, names: Any = None
) -> Pieces:
    """The rows of the wanted fragments, in the order asked for. `names(i)` says whose fragment the i-th is."""
    chunks, cell = unique_cells(coords)
    cell = np.ascontiguousarray(cell)
    fragments = np.ascontiguousarray(fragments)
    # Both ways to the store at once, where they are long.
    grid, index = level.vertices, level.fragments
    vertices, indices = level.store.each(lambda cells: cells.read(chunks, threads), (grid, index))
    columns, broken = _indices(index, chunks, indices)
    form = AttributeForm.of_vertices(grid.node, level.ndim)
    rows = _row_counts(grid, form, chunks, vertices)
    wanted = kernel.Gathering(cell, fragments, columns, rows)
    faulty = wanted.faulty
    if faulty >= 0:
        k = int(cell[faulty])
        chunk = tuple(chunks[k].tolist())
        whose = "" if names is None else f" of object {names(faulty)}"
        if k in broken:
            raise broken[k]
        if vertices.absent[k]:
            raise CorruptDataError(f"fragment {fragments[faulty]}{whose} is in a chunk that is not stored",
                                   key=grid.path, chunk=chunk)  # fmt: skip
        here = int(columns[0][k + 1] - columns[0][k])
        if not 0 <= fragments[faulty] < here:
            raise CorruptDataError(f"fragment {fragments[faulty]}{whose} does not exist", key=index.path,
                                   chunk=chunk, expected=f"less than {here}", found=int(fragments[faulty]))  # fmt: skip
        raise CorruptDataError(f"fragment {fragments[faulty]}{whose} names rows that its chunk does not have",
                               key=index.path, chunk=chunk, expected=f"less than {rows[k]}")  # fmt: skip
    positions = _taken(wanted, vertices, form, threads)
    found = {}
    for name, (grid, other, cells) in _attributes(level, attributes, chunks, threads).items():
        _check_aligned(grid, other, chunks, cells, rows)
        found[name] = other.values(_taken(wanted, cells, other, threads))
    return Pieces(positions, wanted.sums, found)


def _cells(level: Level, name: str, chunks: Ints, threads: int | None = None) -> tuple[CellGrid, Cells]:
    """One per-chunk array of a level as it is now, and its cells of these chunks."""
    grid: CellGrid = getattr(level, name)
    return grid, grid.read(chunks, threads)


def _attributes(
    level: Level, names: Sequence[str], chunks: Ints, threads: int | None
) -> dict[str, tuple[CellGrid, AttributeForm, Cells]]:
    """The values of these chunks' vertices, and how they are to be read."""

    def read(name: str) -> tuple[CellGrid, AttributeForm, Cells]:
        grid, form = level.attribute_cells(name)
        return grid, form, grid.read(chunks, threads)

    return dict(zip(names, level.store.each(read, names), strict=True))


def _indices(grid: CellGrid, chunks: Ints, cells: Cells) -> tuple[Columns, dict[int, ZvcoreError]]:
    """The fragment indices of chunks as columns, and what is wrong with those that are broken."""
    offsets, first, count, listed, pool, status = kernel.decode_cells(cells.data.data, cells.starts, cells.lengths)
    broken: dict[int, ZvcoreError] = {}
    for k in np.flatnonzero(status > kernel.ABSENT_CELL).tolist():
        error = kernel.cell_error(cells[k])
        assert isinstance(error, ZvcoreError)
        broken[k] = error.located(key=grid.path, chunk=tuple(chunks[k].tolist()))
    return (offsets, first, count, listed, pool), broken


def _row_counts(grid: CellGrid, form: AttributeForm, chunks: Ints, cells: Cells) -> Ints:
    wrong = cells.lengths % form.row_bytes != 0
    if wrong.any():
        k = int(np.argmax(wrong))
        form.rows_in(int(cells.lengths[k]), grid.path, tuple(chunks[k].tolist()))
    return cells.lengths // form.row_bytes


def _check_aligned(grid: CellGrid, form: AttributeForm, chunks: Ints, cells: Cells, rows: Ints) -> None:
    found = _row_counts(grid, form, chunks, cells)
    wrong = found != rows
    if wrong.any():
        k = int(np.argmax(wrong))
        raise CorruptDataError(
            "the chunk is not stored" if cells.absent[k] else "another number of values than the chunk has vertices",
            key=grid.path, chunk=tuple(chunks[k].tolist()), expected=f"{rows[k]} rows", found=int(found[k]),
        )  # fmt: skip


def _taken(wanted: kernel.Gathering, cells: Cells, form: AttributeForm, threads: int | None) -> npt.NDArray[Any]:
    sums, threads = wanted.sums, thread_count(threads)
    out = np.empty((int(sums[-1]), *form.row_shape), form.dtype)
    if not len(out):
        return out.astype(form.dtype.newbyteorder("="))
    flat = out.reshape(-1).view(np.uint8)
    count = len(sums) - 1

    def take(begin: int, end: int) -> None:
        wanted.take(cells.data.data, cells.starts, form.row_bytes, flat.data, begin, end)

    if out.nbytes < _PARALLEL_BYTES or threads == 1:
        take(0, count)
    else:
        bounds = np.searchsorted(sums, np.linspace(0, sums[-1], 5)[1:-1]).clip(0, count)
        edges = [0, *bounds.tolist(), count]
        with ThreadPoolExecutor(threads or 4) as pool:
            list(pool.map(take, edges[:-1], edges[1:]))
    return out.astype(form.dtype.newbyteorder("="), copy=False)


# --- by object ----------------------------------------------------------------------------------------------------


def _csr(level: Level, table: ManifestTable) -> ManifestCSR:
    try:
        _check_large(level, table)
        return table.to_csr()
    except ZvcoreError as error:
        error.located(key=f"{level.path}/object_index")
        raise


def _check_large(level: Level, table: ManifestTable) -> None:
    """Refuse large ranges of fragments that chunks do not have, before they are expanded: they take 17 bytes each."""
    claims = table.ranges_above(_LARGE_RANGE)
    if claims is None or claims.coords.shape[1] != level.grid_ndim:
        return
    chunks = np.unique(claims.coords, axis=0)
    index, cells = _cells(level, "fragments", chunks)
    columns, broken = _indices(index, chunks, cells)
    for error in broken.values():
        raise error
    claims.check(dict(zip(map(tuple, chunks.tolist()), np.diff(columns[0]).tolist(), strict=True)))


def _objects(
    level: Level, table: ManifestTable, attributes: Sequence[str], threads: int | None
) -> tuple[Pieces, ManifestCSR]:
    csr = _csr(level, table)
    if csr.chunk_coords.shape[1] != level.grid_ndim and len(csr.chunk_coords):
        raise CorruptDataError(
            "manifests of another rank than the chunk grid", key=f"{level.path}/object_index",
            expected=level.grid_ndim, found=csr.chunk_coords.shape[1],
        )  # fmt: skip
    coords = csr.chunk_coords.reshape(-1, level.grid_ndim)

    def owner(piece: int) -> int:
        return int(csr.object_ids[np.searchsorted(csr.offsets, piece, side="right") - 1])

    return gather(level, coords, csr.fragment_idx, attributes, threads, owner), csr


def read_object(level: Level, object_id: int, per_fragment: bool) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
    objects = level.require_objects()
    pieces, _ = _objects(level, objects.manifest(object_id), (), 1)
    if not per_fragment:
        return pieces.positions
    bounds = pieces.sums.tolist()
    return [pieces.positions[a:b] for a, b in itertools.pairwise(bounds)]


def read_objects(level: Level, ids: Any, attributes: Sequence[str], threads: int | None) -> Vectors:
    table = level.require_objects().manifests(ids)
    return _vectors(level, table, attributes, threads)


def _vectors(level: Level, table: ManifestTable, attributes: Sequence[str], threads: int | None) -> Vectors:
    pieces, csr = _objects(level, table, attributes, threads)
    return Vectors(pieces.positions, pieces.sums[csr.offsets], csr.object_ids, pieces.attributes)


def read_level(level: Level, attributes: Sequence[str], skip_damaged: bool, threads: int | None) -> Vectors:
    objects = level.objects
    if objects is None:
        return _all_vertices(level, attributes, None, threads)
    table = objects.table()
    damaged: dict[int, ZvcoreError] = {}
    if skip_damaged and table.damaged:
        damaged = {int(table.object_ids[row]): error for row, error in table.damaged.items()}
        table = table.select(np.setdiff1d(np.arange(len(table)), list(table.damaged)))
    result = _vectors(level, table, attributes, threads)
    result.damaged = damaged
    return result


def fragment_owners(level: Level, coords: tuple[int, ...]) -> list[Ints]:
    csr = _csr(level, level.manifests())
    index = level.fragments.read_one(coords)
    if index is None:
        raise NotFoundError("there is no such chunk", key=level.fragments.path, chunk=coords)
    count = len(decode_fragments(index)) if len(index) else 0
    here = np.flatnonzero((csr.chunk_coords == np.array(coords, np.int64)).all(1))
    owners = csr.object_ids[np.searchsorted(csr.offsets, here, side="right") - 1]
    fragments = csr.fragment_idx[here]
    order = np.argsort(fragments, kind="stable")
    bounds = np.searchsorted(fragments[order], np.arange(count + 1))
    return [owners[order][a:b] for a, b in itertools.pairwise(bounds)]


# --- by place -----------------------------------------------------------------------------------------------------


def _all_vertices(level: Level, attributes: Sequence[str], chunks: Ints | None, threads: int | None) -> Vectors:
    """All vertices of chunks that some fragment names, chunk by chunk."""
    stored = level.chunks() if chunks is None else chunks
    if chunks is None:
        _warn_of_missing(level.vertices, stored)
    if level.metadata.get("fragments_tile") is True:
        # The fragments are the rows in order: there is nothing to look up.
        grid, cells = _cells(level, "vertices", stored, threads)
        form = AttributeForm.of_vertices(grid.node, level.ndim)
        rows = _row_counts(grid, form, stored, cells)
        positions = _joined(cells, form)
        found = {}
        for name, (grid, other, values) in _attributes(level, attributes, stored, threads).items():
            _check_aligned(grid, other, stored, values, rows)
            found[name] = other.values(_joined(values, other))
        return Vectors(positions, np.array([0, len(positions)], np.int64), None, found)
    index, cells = _cells(level, "fragments", stored, threads)
    columns, broken = _indices(index, stored, cells)
    for error in broken.values():
        raise error
    counts = np.diff(columns[0])
    which = np.repeat(np.arange(len(stored)), counts)
    pieces = gather(
        level, stored[which], np.arange(len(which)) - np.repeat(columns[0][:-1], counts), attributes, threads
    )
    return Vectors(pieces.positions, np.array([0, len(pieces.positions)], np.int64), None, pieces.attributes)


def read_chunks(level: Level, attributes: Sequence[str], chunks: Ints, threads: int | None = None) -> Vectors:
    """All vertices of some chunks, whatever objects they belong to."""
    return _all_vertices(level, attributes, chunks, threads)


def _joined(cells: Cells, form: AttributeForm) -> npt.NDArray[Any]:
    rows = vlen.gather(cells.data.data, cells.starts, cells.lengths).view(form.dtype).reshape(-1, *form.row_shape)
    return rows.astype(form.dtype.newbyteorder("="), copy=False)


def _warn_of_missing(grid: CellGrid, stored: Ints) -> None:
    """A chunk that the presence list names and the store does not have is lost data: it must not go unnoticed."""
    listed = grid.listed()
    if listed is None or not len(listed) or np.array_equal(listed, stored):
        return
    have = set(map(tuple, stored.tolist()))
    missing = [coords for coords in map(tuple, listed.tolist()) if coords not in have]
    if missing:
        text = f"{grid.store.root}: {grid.path} lacks {len(missing)} chunks that its presence list names"
        warnings.warn(f"{text}, the first at {missing[0]}", RuntimeWarning, stacklevel=5)


def read_bbox(
    level: Level, lo: Sequence[float], hi: Sequence[float], clip: bool, attributes: Sequence[str], threads: int | None
) -> Vectors:
    low, high = np.asarray(lo, float), np.asarray(hi, float)
    if low.shape != (level.ndim,) or high.shape != (level.ndim,) or np.isnan(low).any() or np.isnan(high).any():
        raise ValueError(f"a box has {level.ndim} lower and {level.ndim} upper bounds")
    objects = level.objects
    if objects is None:
        return _kept(_all_vertices(level, attributes, _chunks_in(level, low, high), threads), low, high)
    table = objects.table()
    for error in table.damaged.values():
        raise error
    table = table.select(_rows_near(level, table, low, high, level.parent.is_lines))
    found = _vectors(level, table, attributes, threads)
    if not level.parent.is_lines:
        return _kept(found, low, high)
    return _runs(found, low, high) if clip else _touching(found, low, high)


def _chunks_in(level: Level, low: Any, high: Any) -> Ints:
    """The stored chunks that may hold something inside the box."""
    stored = level.chunks()
    return stored[_near(level, stored, stored, low, high)]


def _near(level: Level, first: Ints, last: Ints, low: Any, high: Any) -> npt.NDArray[np.bool_]:
    """Which boxes of chunks, from chunk `first` to chunk `last`, touch the box."""
    shape = np.array(level.chunk_shape, float)
    lead = level.grid_ndim - level.ndim
    # Writers divide floats, so a vertex on the border may be on either side of it.
    slack = 1e-5 * (np.abs(first[:, lead:]) + np.abs(last[:, lead:]) + 1) * shape
    inside = (first[:, lead:] * shape - slack <= high) & ((last[:, lead:] + 1) * shape + slack >= low)
    result: npt.NDArray[np.bool_] = inside.all(1)
    return result


def _rows_near(level: Level, table: ManifestTable, low: Any, high: Any, lines: bool) -> Ints:
    """Rows of objects that may touch the box: by a chunk, or, for lines, by the way between two chunks."""
    coords = table.coords
    near = _near(level, coords, coords, low, high)
    if lines and len(coords) > 1:
        between = _near(level, np.minimum(coords[1:], coords[:-1]), np.maximum(coords[1:], coords[:-1]), low, high)
        one_object = np.ones(len(coords) - 1, bool)
        one_object[table.offsets[1:-1][(table.offsets[1:-1] > 0) & (table.offsets[1:-1] < len(coords))] - 1] = False
        near[1:] |= between & one_object
    blocks = np.flatnonzero(near)
    return np.unique(np.searchsorted(table.offsets, blocks, side="right") - 1)


def _inside(positions: npt.NDArray[Any], low: Any, high: Any) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = ((positions >= low) & (positions <= high)).all(1)
    return result


def _kept(found: Vectors, low: Any, high: Any) -> Vectors:
    """Only the positions inside, and only the rows that have any."""
    keep = _inside(found.positions, low, high)
    sums = np.concatenate([[0], np.cumsum(keep)])[found.offsets].astype(np.int64)
    attributes = {name: values[keep] for name, values in found.attributes.items()}
    if found.object_ids is None:
        return Vectors(found.positions[keep], sums, None, attributes)
    rows = np.diff(sums) > 0
    return Vectors(found.positions[keep], np.append(sums[:-1][rows], sums[-1]), found.object_ids[rows], attributes)


def _select(found: Vectors, starts: Ints, stops: Ints, rows: Ints) -> Vectors:
    """Slices of positions as rows of a new result, each an extract of one row of the old."""
    lengths = stops - starts
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    at = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    ids = None if found.object_ids is None else found.object_ids[rows]
    return Vectors(found.positions[at], offsets, ids, {name: values[at] for name, values in found.attributes.items()})


def _runs(found: Vectors, low: Any, high: Any) -> Vectors:
    """The longest runs of positions of one row that lie inside."""
    inside = _inside(found.positions, low, high)
    row = np.repeat(np.arange(len(found)), np.diff(found.offsets))
    begins = inside.copy()
    begins[1:] &= ~inside[:-1] | (row[1:] != row[:-1])
    ends = inside.copy()
    ends[:-1] &= ~inside[1:] | (row[1:] != row[:-1])
    starts, stops = np.flatnonzero(begins), np.flatnonzero(ends) + 1
    return _select(found, starts, stops, row[starts])


def _touching(found: Vectors, low: Any, high: Any) -> Vectors:
    """The rows of which a vertex or a segment is inside or crosses the box."""
    touched = np.zeros(len(found), bool)
    row = np.repeat(np.arange(len(found)), np.diff(found.offsets))
    touched[row[_inside(found.positions, low, high)]] = True
    segments = np.flatnonzero(row[1:] == row[:-1]) if len(row) > 1 else np.zeros(0, np.int64)
    segments = segments[~touched[row[segments]]]
    touched[row[segments[_crossing(found.positions, segments, low, high)]]] = True
    rows = np.flatnonzero(touched)
    return _select(found, found.offsets[rows], found.offsets[rows + 1], rows)


def _crossing(positions: npt.NDArray[Any], segments: Ints, low: Any, high: Any) -> npt.NDArray[np.bool_]:
    """Which segments, from position i to i + 1, meet the box: the slabs that they pass through overlap."""
    start = positions[segments].astype(float)
    step = positions[segments + 1].astype(float) - start
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = (low - start) / step, (high - start) / step
    enter = np.where(step == 0, -np.inf, np.minimum(a, b))
    leave = np.where(step == 0, np.inf, np.maximum(a, b))
    outside = (step == 0) & ((start < low) | (start > high))
    crosses: npt.NDArray[np.bool_] = (np.maximum(enter.max(1), 0.0) <= np.minimum(leave.min(1), 1.0)) & ~outside.any(1)
    return crosses
