"""Whether the arrays of a level agree with each other, chunk by chunk and object by object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.care.checking import first_bad
from zvcore.errors import ZvcoreError
from zvcore.kernels import fragments as kernel
from zvcore.zvf.cells import CellGrid, Cells, GridCells
from zvcore.zvf.links import deltas, family_node, link_arrays, parse_segment, read_links
from zvcore.zvf.manifests import EXPLICIT, RANGE
from zvcore.zvf.reading import unique_cells

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.zvf.attributes import AttributeForm
    from zvcore.zvf.manifests import ManifestTable
    from zvcore.zvf.validation import ValidationResult
    from zvcore.zvf.vector_store import Level

__all__ = ["check_level"]

Ints = npt.NDArray[np.int64]

# Chunks looked at together, and manifests.
_GROUP = 1024
_ROWS = 1 << 17
# After so many findings of one kind in one level, the rest are only counted.
_MOST = 1000


class _Counts:
    """Rows and fragments of every chunk that is stored."""

    def __init__(self, chunks: Ints, rank: int) -> None:
        self.chunks = chunks
        self.rank = rank
        self.rows = np.full(len(chunks), -1, np.int64)
        self.fragments = np.full(len(chunks), -1, np.int64)
        self._number = {chunk: i for i, chunk in enumerate(map(tuple, chunks.tolist()))}

    def find(self, coords: Ints) -> Ints:
        """Which of the chunks each of these is, -1 for none."""
        if not len(coords):
            return np.zeros(0, np.int64)
        cells, which = unique_cells(coords)
        number = np.array([self._number.get(cell, -1) for cell in map(tuple, cells.tolist())], np.int64)
        return number[which]


def check_level(level: Level, result: ValidationResult, progress: Callable[[int, int], Any] | None = None) -> None:
    """All findings about one level's content."""
    try:
        stored = level.vertices.stored()
        counts = _Counts(stored, level.grid_ndim)
        _presence(level.vertices, stored, result)
        if not len(stored):
            result.warn("no chunk holds anything", level.path)
        _chunks(level, counts, result, progress)
    except ZvcoreError as error:
        result.caught(error, level.path)
        return
    for check in (_objects, _links, _groups):
        try:
            check(level, counts, result)
        except ZvcoreError as error:
            result.caught(error, level.path)


def _presence(grid: CellGrid, stored: Ints, result: ValidationResult) -> None:
    """Compares the presence list with the chunks that are stored."""
    listed = grid.listed()
    if listed is None:
        return
    names, have = set(map(tuple, listed.tolist())), set(map(tuple, stored.tolist()))
    for chunk in sorted(names - have)[:_MOST]:
        result.error("the presence list names a chunk that is not stored", grid.path, chunk)
    empty = sorted(have - names)
    for number, chunk in enumerate(empty[:_MOST]):
        cell = grid.read_one(chunk) if number < 100 else b"?"
        if cell is not None and len(cell):
            result.warn("the presence list has forgotten a chunk that is stored", grid.path, chunk)


def _read(grid: CellGrid, chunks: Ints, result: ValidationResult) -> Cells:
    """Cells; those that cannot be decoded become findings, and count as empty."""
    good = np.ones(len(chunks), bool)
    cells: list[Cells] = []
    for row, error in first_bad(lambda first, last: cells.append(grid.read(chunks[first:last])), 0, len(chunks)):
        error.chunk = tuple(chunks[row].tolist())
        result.caught(error, grid.path)
        good[row] = False
    return cells[0] if good.all() else grid.read(chunks[good]).spread(np.flatnonzero(good), len(chunks))


def _chunks(
    level: Level, counts: _Counts, result: ValidationResult, progress: Callable[[int, int], Any] | None
) -> None:
    form = level.vertex_form
    fragments = level.fragments
    others = [level.attribute_cells(name) for name in level.attribute_names()]
    per_fragment = [level.attribute_cells(name, "fragment_attributes") for name in level.fragment_attribute_names()]
    if isinstance(fragments, GridCells):
        _presence(fragments, fragments.stored(), result)
    claims_tiling = level.metadata.get("fragments_tile") is True
    total = 0
    for begin in range(0, len(counts.chunks), _GROUP):
        group = counts.chunks[begin : begin + _GROUP]
        here = slice(begin, begin + len(group))
        vertices = _read(level.vertices, group, result)
        rows = _rows(level.vertices, form, group, vertices, result)
        counts.rows[here] = rows
        _finite(level, form, group, vertices, rows, result)
        indices = _read(fragments, group, result)
        total += _indices(level, counts, here, indices, claims_tiling, result)
        for grid, other in others:
            cells = _read(grid, group, result)
            _aligned(grid, group, _rows(grid, other, group, cells, result), rows, cells, "vertices", result)
        for grid, other in per_fragment:
            cells = _read(grid, group, result)
            found = _rows(grid, other, group, cells, result)
            found[cells.absent] = counts.fragments[here][cells.absent]
            _aligned(grid, group, found, counts.fragments[here], cells, "fragments", result)
        if progress is not None:
            progress(begin + len(group), len(counts.chunks))
    result.passed.append(f"{level.path}: {len(counts.chunks)} chunks looked at, {total} vertices in fragments")
    if level.vertex_count is not None and (counts.rows >= 0).all():
        if level.vertex_count == total:
            result.passed.append(f"{level.path}: vertex_count matches")
        else:
            result.error(f"vertex_count is {level.vertex_count}, fragments hold {total}", level.path)


def _rows(grid: CellGrid, form: AttributeForm, chunks: Ints, cells: Cells, result: ValidationResult) -> Ints:
    rows = cells.lengths // form.row_bytes
    for k in np.flatnonzero(cells.lengths % form.row_bytes).tolist():
        text = f"{cells.lengths[k]} bytes are no whole number of rows of {form.row_bytes}"
        result.error(text, grid.path, tuple(chunks[k].tolist()))
        rows[k] = -1
    return rows


def _finite(
    level: Level, form: AttributeForm, chunks: Ints, cells: Cells, rows: Ints, result: ValidationResult
) -> None:
    if form.dtype.kind != "f":
        return
    for k in np.flatnonzero(rows > 0).tolist():
        values = np.frombuffer(cells[k], form.dtype)
        if not np.isfinite(values).all():
            result.warn("NaN or infinite coordinates", level.vertices.path, tuple(chunks[k].tolist()))


def _aligned(
    grid: CellGrid, chunks: Ints, found: Ints, rows: Ints, cells: Cells, what: str, result: ValidationResult
) -> None:
    for k in np.flatnonzero((found != rows) & (found >= 0) & (rows >= 0)).tolist():
        text = "the chunk is not stored" if cells.absent[k] else f"{found[k]} values for {rows[k]} {what}"
        result.error(text, grid.path, tuple(chunks[k].tolist()))


def _indices(
    level: Level, counts: _Counts, here: slice, cells: Cells, claims_tiling: bool, result: ValidationResult
) -> int:
    """The fragment indices of some chunks; how many vertices their fragments name."""
    path, chunks, rows = level.fragments.path, counts.chunks[here], counts.rows[here]
    offsets, first, count, listed, pool, status = kernel.decode_cells(cells.data.data, cells.starts, cells.lengths)
    fragments = np.diff(offsets)
    for k in np.flatnonzero(status > kernel.ABSENT_CELL).tolist():
        error = kernel.cell_error(cells[k])
        if isinstance(error, ZvcoreError):
            result.error(error.message, path, tuple(chunks[k].tolist()))
    for k in np.flatnonzero((status == kernel.ABSENT_CELL) & (rows > 0)).tolist():
        result.error("vertices without a fragment index", path, tuple(chunks[k].tolist()))
    counts.fragments[here] = np.where(status > kernel.ABSENT_CELL, -1, fragments)
    cell = np.repeat(np.arange(len(chunks)), fragments)
    have = rows[cell]
    runs = listed == 0
    wrong = (first < 0) | (count < 0)
    wrong |= runs & ((count > have) | (first > have - np.minimum(count, have)))
    wrong &= have >= 0
    for at in np.flatnonzero(listed & (count > 0)).tolist():
        members = pool[first[at] : first[at] + count[at]]
        wrong[at] = have[at] >= 0 and bool(members.min() < 0 or members.max() >= have[at])
    for at in np.flatnonzero(wrong)[:_MOST].tolist():
        k = int(cell[at])
        text = f"fragment {at - offsets[k]} names rows that the chunk, with {rows[k]}, does not have"
        result.error(text, path, tuple(chunks[k].tolist()))
    if claims_tiling:
        for k in np.flatnonzero(status == kernel.FINE_CELL).tolist():
            mine = slice(int(offsets[k]), int(offsets[k + 1]))
            ends = first[mine] + count[mine]
            begins = np.concatenate([[0], ends[:-1]])[: len(ends)]
            if listed[mine].any() or not np.array_equal(first[mine], begins) or (len(ends) and ends[-1] != rows[k]):
                result.error("fragments_tile is set, but these fragments do not tile", path, tuple(chunks[k].tolist()))
    return int(np.where(wrong, 0, count).clip(0).sum())


# --- objects --------------------------------------------------------------------------------------------------------


def _objects(level: Level, counts: _Counts, result: ValidationResult) -> None:
    objects = level.objects
    if objects is None:
        return
    path = objects.path
    seen = None if level.shared_fragments else _Owners(counts)
    present = 0
    for begin in range(0, len(objects), _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, len(objects)))
        table = objects.table(rows)
        present += int(table.present.sum())
        for row, error in table.damaged.items():
            result.error(error.message, error.key or path, error.chunk, int(table.object_ids[row]))
        _table(table, path, counts, seen, result)
    stated = objects.node.attrs.get("num_present")
    if isinstance(stated, int) and stated != present:
        result.error(f"num_present is {stated}, {present} manifests are not empty", path)
    result.passed.append(f"{path}: {len(objects)} manifests looked at, {present} not empty")
    for name in level.object_attribute_names():
        try:
            values = level.object_attribute(name)
        except ZvcoreError as error:
            result.caught(error, f"{level.path}/object_attributes/{name}")
            continue
        if len(values) < len(objects):
            text = f"{len(values)} values for {len(objects)} objects"
            result.warn(text, f"{level.path}/object_attributes/{name}")


class _Owners:
    """Which fragments have an owner already: one byte of memory per fragment of the level."""

    def __init__(self, counts: _Counts) -> None:
        self.base = np.concatenate([[0], np.cumsum(counts.fragments.clip(0))]).astype(np.int64)
        self.taken = np.zeros(int(self.base[-1]), bool)

    def take(self, chunk: Ints, fragment: Ints) -> Ints:
        """Take fragments; the places in the arguments of those that had an owner."""
        at = self.base[chunk] + fragment
        order = np.argsort(at, kind="stable")
        again = np.zeros(len(at), bool)
        again[order[1:]] = at[order[1:]] == at[order[:-1]]
        again |= self.taken[at]
        self.taken[at] = True
        return np.flatnonzero(again)


def _table(table: ManifestTable, path: str, counts: _Counts, seen: _Owners | None, result: ValidationResult) -> None:
    coords, mode, start, count = table.coords, table.mode, table.start, table.count
    owner = np.repeat(table.object_ids, np.diff(table.offsets))
    if coords.shape[1] != counts.rank:
        return
    chunk = counts.find(coords)
    have = np.zeros_like(chunk)
    if len(counts.chunks):
        have = np.where(chunk >= 0, counts.fragments[np.maximum(chunk, 0)], 0)
    low = start.copy()
    beyond = (mode != EXPLICIT) & ((count > have) | (start > have - np.minimum(count, have)))
    for block in np.flatnonzero(mode == EXPLICIT).tolist():
        members = table.pool[start[block] : start[block] + count[block]]
        low[block] = members.min() if len(members) else 0
        beyond[block] = bool(len(members)) and members.max() >= have[block]
    missing = chunk < 0
    negative = (low < 0) | (count < 0)
    unsure = ~missing & (have < 0)
    wrong = missing | ((negative | beyond) & ~unsure)
    for block in np.flatnonzero(wrong)[:_MOST].tolist():
        where, who = tuple(coords[block].tolist()), int(owner[block])
        if missing[block]:
            result.error("the manifest names a chunk that does not exist", path, where, who)
        elif negative[block]:
            text = f"the manifest names a negative fragment or count ({low[block]}, {count[block]})"
            result.error(text, path, where, who)
        else:
            what = {RANGE: f"{count[block]} fragments from {start[block]}", EXPLICIT: "a list of fragments"}.get(
                int(mode[block]), f"fragment {start[block]}"
            )
            result.error(f"the manifest names {what} of a chunk that has {have[block]}", path, where, who)
    if seen is None:
        return
    fine = np.flatnonzero(~wrong & ~unsure)
    lengths = count[fine]
    blocks = np.repeat(fine, lengths)
    at = start[blocks] + np.arange(len(blocks)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    explicit = mode[blocks] == EXPLICIT
    fragment = np.where(explicit, table.pool[np.where(explicit, at, 0)] if len(table.pool) else 0, at)
    for i in seen.take(chunk[blocks], fragment)[:_MOST].tolist():
        where = tuple(coords[blocks[i]].tolist())
        text = f"fragment {fragment[i]} has another owner already, and the level does not share fragments"
        result.error(text, path, where, int(owner[blocks[i]]))


# --- links and groups -----------------------------------------------------------------------------------------------


def _links(level: Level, counts: _Counts, result: ValidationResult) -> None:
    for delta in deltas(level):
        family = family_node(level, delta)
        where = f"{level.path}/links/{delta}"
        try:
            links = read_links(level, delta)
        except ZvcoreError as error:
            result.caught(error, where)
            continue
        ends = links.chunks.shape[1] if delta == 0 else 1
        for end in range(ends):
            chunk = counts.find(links.chunks[:, end])
            rows = counts.rows[np.maximum(chunk, 0)] if len(counts.chunks) else np.zeros_like(chunk)
            bad = (chunk < 0) | (links.vertices[:, end] < 0) | ((links.vertices[:, end] >= rows) & (rows >= 0))
            for i in np.flatnonzero(bad)[:_MOST].tolist():
                text = f"link {i} ends at row {links.vertices[i, end]}, which does not exist"
                result.error(text, where, tuple(links.chunks[i, end].tolist()))
        if family is None:
            continue
        if not {"link_width", "sid_ndim"} <= family.attrs.keys():
            if link_arrays(family):
                result.error("a family of links needs its link_width and its sid_ndim", where)
            continue
        stated = family.attrs.get("num_physical_records")
        if stated is not None and stated != len(links):
            result.error(f"num_physical_records is {stated}, {len(links)} are stored", where)
        if delta == 0 and not family.attrs.get("directed") and family.attrs.get("store", "canonical") == "canonical":
            _canonical(level, family, result)
        result.passed.append(f"{where}: {len(links)} links looked at")


def _canonical(level: Level, family: Any, result: ValidationResult) -> None:
    """Undirected links are filed once, under the endpoint that comes first."""
    for node in link_arrays(family):
        width, ndim = int(family.attrs["link_width"]), int(family.attrs["sid_ndim"])
        offsets = [tuple(row) for row in parse_segment(node.path.rpartition("/")[2], ndim, width, node.path).tolist()]
        if any(offset < (0,) * ndim for offset in offsets) or offsets != sorted(offsets):
            result.error("links of an undirected family that are filed the wrong way round", node.path)


def _groups(level: Level, counts: _Counts, result: ValidationResult) -> None:
    groups = level.groups()
    if not groups or level.objects is None:
        return
    ids = level.objects.ids
    for number, members in groups.items():
        unknown = members[~np.isin(members, ids)]
        if len(unknown):
            text = f"group {number} has {len(unknown)} members that are no objects, such as {unknown[0]}"
            result.warn(text, f"{level.path}/groups")
