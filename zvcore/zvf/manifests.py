"""Object manifests: one at a time as lists, or many at once as a table of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError, NotFoundError, ZvcoreError
from zvcore.kernels import vlen
from zvcore.kernels.manifest import ABSENT_ROW, row_error
from zvcore.kernels.manifest_columns import cut, decode_blobs, decode_chunk, decode_rows, encode_rows, expand
from zvcore.kernels.manifest_lists import decode_one, encode_lists, encode_one, to_list, to_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = [
    "Block",
    "ManifestCSR",
    "ManifestTable",
    "decode_manifest",
    "decode_manifests",
    "encode_manifest",
    "encode_manifests",
    "expand_manifest",
]

Ints = npt.NDArray[np.int64]
Piece = int | tuple[int, int] | Ints
Block = tuple[tuple[int, ...], Piece]

SINGLE, RANGE, EXPLICIT = 0, 1, 2
MAX_EXPANDED = 2**24
_INT64_MAX = 2**63 - 1


def encode_manifest(blocks: Iterable[tuple[Sequence[int], Any]], sid_ndim: int, force_explicit: bool = False) -> bytes:
    """One object's manifest from (chunk coordinates, fragments) pairs.

    Fragments are an int, a (start, count) tuple, or a sequence of ints; a sequence that counts up by one becomes a
    range unless `force_explicit`.
    """
    return encode_one(blocks, sid_ndim, force_explicit)


def decode_manifest(
    blob: Any, sid_ndim: int, strict: bool = False, fragment_counts: Mapping[tuple[int, ...], int] | None = None
) -> list[Block]:
    """The (chunk coordinates, fragments) pairs of one manifest, the inverse of `encode_manifest`.

    `strict` refuses negative fragments and counts and ranges beyond 2**63, and, when `fragment_counts` says how many
    fragments each chunk has, fragments and chunks that do not exist.
    """
    data = _buffer(blob)
    blocks = decode_one(data, sid_ndim)
    if strict:
        starts, lengths = np.zeros(1, np.int64), np.array([len(data)], np.int64)
        ManifestTable(*decode_rows(data, starts, lengths, sid_ndim)).check(fragment_counts)
    return blocks


def expand_manifest(blocks: Iterable[Block], limit: int = MAX_EXPANDED) -> list[tuple[tuple[int, ...], int]]:
    """One (chunk coordinates, fragment) pair per fragment; more than `limit` of them are refused."""
    pairs: list[tuple[tuple[int, ...], int]] = []
    for coords, piece in blocks:
        if isinstance(piece, tuple):
            start, count = piece
            if count > limit - len(pairs):
                raise CorruptDataError(f"a manifest of more than {limit} fragments", found=f"a range of {count}")
            pairs.extend((coords, fragment) for fragment in range(start, start + count))
        elif isinstance(piece, (int, np.integer)):
            pairs.append((coords, int(piece)))
        else:
            pairs.extend((coords, fragment) for fragment in piece.tolist())
    return pairs


def decode_manifests(source: Any, sid_ndim: int, strict: bool = False, keep_damaged: bool = False) -> ManifestTable:
    """Many manifests as a table: from a list of blobs, or from one decoded vlen-bytes chunk.

    A broken one raises, unless `keep_damaged`: then its row is empty, `table.damaged` names it, and asking for it
    raises.
    """
    if isinstance(source, (bytes, bytearray, memoryview)) or (
        isinstance(source, np.ndarray) and source.dtype == np.uint8
    ):
        data = _buffer(source)
        columns = decode_chunk(data, sid_ndim)
        if columns is not None and not (columns[6] > ABSENT_ROW).any():
            table = ManifestTable(*columns)
            if strict:
                table.check()
            return table
        starts, lengths = vlen.split_rows(data)
        return table_from(data, starts, lengths, sid_ndim, strict=strict, keep_damaged=keep_damaged)
    blobs = source if isinstance(source, (list, tuple)) else list(source)
    columns = decode_blobs(blobs, sid_ndim)
    if columns is None:
        blobs = [blob if type(blob) is bytes else _as_bytes(blob) for blob in blobs]
        columns = decode_blobs(blobs, sid_ndim)
        assert columns is not None
    return _checked(columns, sid_ndim, blobs.__getitem__, strict=strict, keep_damaged=keep_damaged)


def table_from(
    data: Any, starts: Ints, lengths: Ints, sid_ndim: int, *, strict: bool = False, keep_damaged: bool = False
) -> ManifestTable:
    """A table from manifests that lie anywhere in one buffer."""
    view = memoryview(data)

    def blob(row: int) -> memoryview:
        return view[starts[row] : starts[row] + lengths[row]]

    columns = decode_rows(data, starts, lengths, sid_ndim)
    return _checked(columns, sid_ndim, blob, strict=strict, keep_damaged=keep_damaged)


def _checked(
    columns: Any, sid_ndim: int, blob: Callable[[int], Any], *, strict: bool, keep_damaged: bool
) -> ManifestTable:
    """The table of decoded columns, with what is wrong with the rows that are broken; `blob` gives a row's bytes."""
    table = ManifestTable(*columns)
    for row in np.flatnonzero(columns[6] > ABSENT_ROW).tolist():
        error = row_error(blob(row), sid_ndim)
        assert isinstance(error, ZvcoreError)
        table.damaged[row] = error.located(chunk=f"manifest {row}")
    if not keep_damaged:
        for error in table.damaged.values():
            raise error
    if strict:
        table.check()
    return table


def encode_manifests(
    manifests: ManifestTable | Iterable[Iterable[tuple[Sequence[int], Any]]],
    sid_ndim: int | None = None,
    force_explicit: bool = False,
) -> list[bytes]:
    """One blob per manifest of a table or of a list of lists. A row that was absent stays b""."""
    if isinstance(manifests, ManifestTable):
        if sid_ndim is not None and sid_ndim != manifests.sid_ndim:
            raise ValueError(f"chunk coordinates have rank {manifests.sid_ndim}, expected sid_ndim={sid_ndim}")
        data, offsets = manifests.encoded()
        blobs = cut(data.data, offsets)
        for row in np.flatnonzero(manifests.absent).tolist():
            blobs[row] = b""
        return blobs
    if sid_ndim is None:
        raise TypeError("sid_ndim is needed to encode manifests that are not a table")
    return encode_lists(manifests, sid_ndim, force_explicit)


class ManifestCSR(NamedTuple):
    """Manifests with every range and list spelt out: row i is `offsets[i]:offsets[i + 1]` of the other columns."""

    offsets: Ints
    chunk_coords: Ints
    fragment_idx: Ints
    object_ids: Ints


class ManifestTable:
    """Manifests of many objects as columns; as a sequence, `table[i]` is what `decode_manifest` gives for row i.

    offsets     int64[rows + 1]; the blocks of row i are offsets[i]:offsets[i + 1]
    coords      int64[blocks, sid_ndim], the chunk of each block
    mode        uint8[blocks]; 0 one fragment, 1 a range, 2 a list
    start       int64[blocks], the fragment, the first of the range, or where the list begins in `pool`
    count       int64[blocks], how many fragments
    pool        int64, the lists
    object_ids  int64[rows], the id of each row
    absent      bool[rows], rows without any bytes: padding, or objects that were never written
    damaged     {row: error} for rows that could not be decoded
    """

    def __init__(
        self,
        offsets: Ints,
        coords: Ints,
        mode: npt.NDArray[np.uint8] | None,
        start: Ints,
        count: Ints | None,
        pool: Ints,
        status: npt.NDArray[np.uint8] | None = None,
        object_ids: Ints | None = None,
    ) -> None:
        self.offsets = offsets
        self.coords = coords
        self.start = start
        self.pool = pool
        self._mode = mode
        self._count = count
        self._status = np.zeros(len(offsets) - 1, np.uint8) if status is None else status
        self._object_ids = object_ids
        self.damaged: dict[int, ZvcoreError] = {}

    @property
    def sid_ndim(self) -> int:
        return int(self.coords.shape[1])

    @property
    def mode(self) -> npt.NDArray[np.uint8]:
        # A table of single fragments, which is what writers make, needs neither of these columns in memory.
        return np.broadcast_to(np.uint8(SINGLE), self.start.shape) if self._mode is None else self._mode

    @property
    def count(self) -> Ints:
        return np.broadcast_to(np.int64(1), self.start.shape) if self._count is None else self._count

    @property
    def uniform(self) -> bool:
        """Whether every block is a single fragment."""
        return self._mode is None

    @property
    def object_ids(self) -> Ints:
        if self._object_ids is None:
            self._object_ids = np.arange(len(self), dtype=np.int64)
        return self._object_ids

    @property
    def absent(self) -> npt.NDArray[np.bool_]:
        return np.equal(self._status, ABSENT_ROW)

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Rows that name at least one fragment's chunk, or would if they were not damaged."""
        return np.logical_or(np.diff(self.offsets) > 0, self._status > ABSENT_ROW)

    @property
    def nbytes(self) -> int:
        columns = (self.offsets, self.coords, self._mode, self.start, self._count, self.pool)
        extra = (self._status, self._object_ids)
        return sum(column.nbytes for column in (*columns, *extra) if column is not None)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> list[Block]: ...
    @overload
    def __getitem__(self, index: slice | npt.NDArray[Any] | Sequence[int]) -> ManifestTable: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            row = int(index)
            if row < 0:
                row += len(self)
            if not 0 <= row < len(self):
                raise IndexError(f"row {index} of {len(self)}")
            self._refuse_damaged(row)
            begin, end = int(self.offsets[row]), int(self.offsets[row + 1])
            return to_list(self.coords, self._mode, self.start, self._count, self.pool, begin, end)
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step == 1:
                return self._slice(begin, max(begin, end))
            return self.select(np.arange(begin, end, step))
        chosen = np.asarray(index)
        return self.select(np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen)

    def __iter__(self) -> Iterator[list[Block]]:
        for begin in range(0, len(self), 4096):
            end = min(begin + 4096, len(self))
            for row, blocks in enumerate(self._lists(begin, end), begin):
                self._refuse_damaged(row)
                yield blocks

    def __repr__(self) -> str:
        return f"<ManifestTable of {len(self)} manifests, {len(self.start)} blocks>"

    def to_lists(self) -> list[list[Block]]:
        """All manifests in list form, several times faster than one at a time."""
        for error in self.damaged.values():
            raise error
        return self._lists(0, len(self))

    def to_fragments(self) -> list[list[tuple[tuple[int, ...], int]]]:
        """All manifests as lists of (chunk, fragment)."""
        lists = self.to_lists()
        if self.uniform:
            return cast("list[list[tuple[tuple[int, ...], int]]]", lists)
        return [expand_manifest(blocks) for blocks in lists]

    def select(self, rows: Any) -> ManifestTable:
        """The table of these rows, in this order."""
        rows = np.asarray(rows)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TypeError(f"rows must be a sequence of integers, got {rows.dtype} of shape {rows.shape}")
        rows = rows.astype(np.int64)
        rows = np.where(rows < 0, rows + len(self), rows)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(f"rows {rows.min()}..{rows.max()} of {len(self)}")
        sizes = self.offsets[rows + 1] - self.offsets[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        blocks = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], sizes)
        table = ManifestTable(
            offsets,
            self.coords[blocks],
            None if self._mode is None else self._mode[blocks],
            self.start[blocks],
            None if self._count is None else self._count[blocks],
            self.pool,
            self._status[rows],
            rows if self._object_ids is None else self._object_ids[rows],
        )
        if self.damaged:
            table.damaged = {new: self.damaged[old] for new, old in enumerate(rows.tolist()) if old in self.damaged}
        return table

    def ranges_above(self, count: int) -> ManifestTable | None:
        """The rows with a range of more than so many fragments; None if there is none."""
        if self._mode is None or self._count is None:
            return None
        large = np.flatnonzero((self._mode == RANGE) & (self._count > count))
        return self.select(np.unique(np.searchsorted(self.offsets, large, side="right") - 1)) if len(large) else None

    def with_ids(self, object_ids: Ints) -> ManifestTable:
        """The same table with other object ids."""
        table = ManifestTable(
            self.offsets, self.coords, self._mode, self.start, self._count, self.pool, self._status, object_ids
        )
        table.damaged = self.damaged
        return table

    def check(self, fragment_counts: Mapping[tuple[int, ...], int] | None = None) -> None:
        """Raise for the first row that is damaged, or names a fragment that cannot exist.

        That is a negative one, a range with a negative count or beyond 2**63, and, when `fragment_counts` says how many
        fragments each chunk has, one that the chunk does not have.
        """
        for error in self.damaged.values():
            raise error
        for row, message in self.faults(fragment_counts):
            raise CorruptDataError(message, chunk=f"manifest of object {self.object_ids[row]}")

    def faults(self, fragment_counts: Mapping[tuple[int, ...], int] | None = None) -> Iterator[tuple[int, str]]:
        """(row, what is wrong) for every block that `check` would refuse."""
        mode, start, count = self.mode, self.start, self.count
        listed = mode == EXPLICIT
        with np.errstate(over="ignore"):
            last = start + count - 1
        low, high = start.copy(), np.where(count > 0, last, start - 1)
        overflow = ~listed & (count > 0) & (start > _INT64_MAX - count)
        for block in np.flatnonzero(listed).tolist():
            members = self.pool[start[block] : start[block] + count[block]]
            low[block], high[block] = (members.min(), members.max()) if len(members) else (0, -1)
        limit = np.full(len(start), _INT64_MAX)
        unknown = np.zeros(len(start), bool)
        if fragment_counts is not None:
            for block, coords in enumerate(map(tuple, self.coords.tolist())):
                if coords in fragment_counts:
                    limit[block] = fragment_counts[coords]
                else:
                    unknown[block] = True
        wrong = (low < 0) | (count < 0) | overflow | (high >= limit) | unknown
        rows = np.searchsorted(self.offsets, np.flatnonzero(wrong), side="right") - 1
        for row, block in zip(rows.tolist(), np.flatnonzero(wrong).tolist(), strict=True):
            chunk = tuple(self.coords[block].tolist())
            if count[block] < 0:
                yield row, f"range of {count[block]} fragments in chunk {chunk}"
            elif low[block] < 0:
                yield row, f"negative fragment {low[block]} in chunk {chunk}"
            elif overflow[block]:
                yield row, f"range of {count[block]} fragments from {start[block]} in chunk {chunk} goes beyond 2**63"
            elif unknown[block]:
                yield row, f"chunk {chunk} does not exist"
            else:
                yield row, f"fragment {high[block]} of chunk {chunk}, which has {limit[block]}"

    def to_csr(self, limit: int = MAX_EXPANDED) -> ManifestCSR:
        """Every fragment on its own: (offsets, chunk_coords, fragment_idx, object_ids).

        Free when all blocks are single fragments. More than `limit` fragments are refused: a range costs 17 bytes
        however much it claims.
        """
        for error in self.damaged.values():
            raise error
        if self._mode is None or self._count is None:
            return ManifestCSR(self.offsets, self.coords, self.start, self.object_ids)
        expanded = expand(self.offsets, self.coords, self._mode, self.start, self._count, self.pool, limit)
        if expanded is None:
            widest = int(np.argmax(self._count))
            raise CorruptDataError(
                f"manifests of more than {limit} fragments",
                chunk=f"manifest of object {self.object_ids[np.searchsorted(self.offsets, widest, side='right') - 1]}",
                found=f"a block of {self._count[widest]}",
            )
        return ManifestCSR(*expanded, self.object_ids)

    @classmethod
    def from_csr(
        cls, offsets: Any, chunk_coords: Any, fragment_idx: Any, object_ids: Any = None, compact: bool = False
    ) -> ManifestTable:
        """A table from CSR columns; `compact` joins neighbours in one chunk that count up into ranges."""
        offsets = np.ascontiguousarray(offsets, np.int64)
        coords = np.ascontiguousarray(chunk_coords, np.int64)
        fragments = np.ascontiguousarray(fragment_idx, np.int64)
        if coords.ndim != 2 or fragments.shape != coords.shape[:1]:
            raise ValueError(f"chunk_coords {coords.shape} and fragment_idx {fragments.shape} do not belong together")
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(fragments) or (np.diff(offsets) < 0).any():
            raise ValueError(f"offsets must start at 0, end at {len(fragments)} and not decrease")
        if len(fragments) and fragments.min() < 0:
            raise ValueError(f"fragment_index must be >= 0, got {fragments.min()}")
        ids = None if object_ids is None else np.ascontiguousarray(object_ids, np.int64)
        if ids is not None and ids.shape != (len(offsets) - 1,):
            raise ValueError(f"{len(offsets) - 1} manifests and object_ids of shape {ids.shape}")
        empty = np.zeros(0, np.int64)
        if not compact or not len(fragments):
            return cls(offsets, coords, None, fragments, None, empty, None, ids)
        joined = np.zeros(len(fragments), bool)
        joined[1:] = (coords[1:] == coords[:-1]).all(1) & (fragments[1:] - fragments[:-1] == 1)
        joined[offsets[:-1][np.diff(offsets) > 0]] = False
        heads = np.flatnonzero(~joined)
        counts = np.diff(np.append(heads, len(fragments)))
        mode = np.where(counts == 1, SINGLE, RANGE).astype(np.uint8)
        before = np.concatenate([[0], np.cumsum(~joined)]).astype(np.int64)
        return cls(before[offsets], coords[heads], mode, fragments[heads], counts, empty, None, ids)

    def encoded(self) -> tuple[npt.NDArray[np.uint8], Ints]:
        """All manifests one after the other, and where each begins. Absent rows become empty manifests."""
        for error in self.damaged.values():
            raise error
        return encode_rows(self.offsets, self.coords, self._mode, self.start, self._count, self.pool)

    def _slice(self, begin: int, end: int) -> ManifestTable:
        lo, hi = int(self.offsets[begin]), int(self.offsets[end])
        table = ManifestTable(
            self.offsets[begin : end + 1] - lo,
            self.coords[lo:hi],
            None if self._mode is None else self._mode[lo:hi],
            self.start[lo:hi],
            None if self._count is None else self._count[lo:hi],
            self.pool,
            self._status[begin:end],
            self.object_ids[begin:end],
        )
        table.damaged = {row - begin: error for row, error in self.damaged.items() if begin <= row < end}
        return table

    def _lists(self, begin: int, end: int) -> list[list[Block]]:
        offsets = self.offsets[begin : end + 1]
        return to_lists(offsets, self.coords, self._mode, self.start, self._count, self.pool)

    def _refuse_damaged(self, row: int) -> None:
        if row in self.damaged:
            raise self.damaged[row]


def concatenated(tables: Sequence[ManifestTable], sid_ndim: int = 0) -> ManifestTable:
    """The rows of several tables, one table after the other."""
    if len(tables) == 1:
        return tables[0]
    if not tables:
        empty = np.zeros(0, np.int64)
        return ManifestTable(np.zeros(1, np.int64), np.zeros((0, sid_ndim), np.int64), None, empty, None, empty)
    blocks = np.cumsum([0, *(len(table.start) for table in tables)])
    pools = np.cumsum([0, *(len(table.pool) for table in tables)])
    uniform = all(table.uniform for table in tables)
    starts = [
        table.start if uniform else np.where(table.mode == EXPLICIT, table.start + base, table.start)
        for table, base in zip(tables, pools, strict=False)
    ]
    offsets = [table.offsets[:-1] + base for table, base in zip(tables, blocks, strict=False)]
    result = ManifestTable(
        np.concatenate([*offsets, blocks[-1:]]),
        np.concatenate([table.coords for table in tables]),
        None if uniform else np.concatenate([table.mode for table in tables]),
        np.concatenate(starts),
        None if uniform else np.concatenate([table.count for table in tables]),
        np.concatenate([table.pool for table in tables]),
        np.concatenate([table._status for table in tables]),
    )
    rows = np.cumsum([0, *map(len, tables)]).tolist()
    for table, base in zip(tables, rows, strict=False):
        result.damaged.update({row + base: error for row, error in table.damaged.items()})
    return result


def row_of(object_ids: Ints, order: Ints | None, wanted: Ints) -> Ints:
    """The row of each wanted id, -1 where there is none. `order` sorts `object_ids`; None: they are sorted."""
    if not len(object_ids):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(object_ids, wanted, sorter=order)
    at = np.minimum(at, len(object_ids) - 1)
    rows = at if order is None else order[at]
    return np.where(object_ids[rows] == wanted, rows, -1).astype(np.int64)


class ObjectNotFoundError(NotFoundError):
    """A level has no object of this id."""


def missing_object(object_id: Any, count: int, where: str) -> ObjectNotFoundError:
    return ObjectNotFoundError(f"Object ID {object_id} is not in this level ({count} object(s))", key=where)


def _buffer(blob: Any) -> Any:
    """Bytes-like of any kind as something that the kernels take."""
    if isinstance(blob, (bytes, bytearray)):
        return blob
    if isinstance(blob, str):
        raise TypeError("a manifest is bytes, not str")
    view = memoryview(blob)
    return view if view.format == "B" and view.c_contiguous and view.ndim == 1 else view.tobytes()


def _as_bytes(blob: Any) -> bytes:
    return b"" if blob is None else bytes(_buffer(blob))
