"""What is kept between the two steps: the pieces that came of each box, and a list of them by segment."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from zvcore import documents
from zvcore.errors import CorruptDataError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zvcore.stores import Store

__all__ = ["FOLDER", "Catalog", "Listed", "Piece", "Spool", "damaged"]

# Where all of it lies in the destination until that is finished.
FOLDER = ".zvcore-forge"
_COUNT = struct.Struct("<Q")
_PIECE = np.dtype([("id", "<u8"), ("voxels", "<u8"), ("offset", "<u8"), ("size", "<u8")])
_ROW = np.dtype([("id", "<u8"), ("unit", "<u8"), ("offset", "<u8"), ("size", "<u8")])
_BOUND = 8
# Pieces of so many bytes are read at once, or those of one segment.
_AT_ONCE = 8 << 20

Numbers: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.intp]


class Piece(NamedTuple):
    """What of a segment came of one box. `voxels`: how many of its voxels the box has for itself."""

    id: int
    voxels: int
    data: bytes


class Catalog(NamedTuple):
    """What the list of pieces holds.

    objects   how many segments there are
    largest   the bytes of all pieces of the segment that has most
    batches   in so many parts the segments are joined
    sharding  how the objects will lie in shards; None: in files of their own
    """

    objects: int
    largest: int
    batches: int
    sharding: dict[str, Any] | None


def damaged(data: Any, expected: int) -> CorruptDataError:
    """The error of a piece that is not what was kept."""
    return CorruptDataError(
        "what was made of a part is damaged; overwriting starts over", expected=f"{expected} bytes", found=len(data)
    )


class Spool:
    """The pieces in a destination that is not finished."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def _key(self, unit: int) -> str:
        return f"{FOLDER}/pieces/{unit}"

    def put(self, unit: int, pieces: Iterable[Piece]) -> int:
        """Keep what came of a box; how many pieces these are."""
        held = list(pieces)
        rows = np.zeros(len(held), _PIECE)
        rows["id"] = [piece.id for piece in held]
        rows["voxels"] = [piece.voxels for piece in held]
        rows["size"] = [len(piece.data) for piece in held]
        start = _COUNT.size + rows.nbytes
        rows["offset"] = start + np.cumsum(rows["size"]) - rows["size"]
        self.store.put(self._key(unit), [_COUNT.pack(len(held)), rows.tobytes(), *(piece.data for piece in held)])
        return len(held)

    # --- the list

    def catalog(self) -> Catalog | None:
        """What the list says that was made before, if one was."""
        found = documents.read(self.store, f"{FOLDER}/catalog.json")
        match found:
            case None:
                return None
            case {"objects": int(objects), "largest": int(largest), "batches": int(batches), "sharding": sharding}:
                return Catalog(objects, largest, batches, sharding)
        raise CorruptDataError(
            "the list of the pieces is damaged; overwriting starts over", key=f"{FOLDER}/catalog.json"
        )

    def listed(self, units: int, dust: int) -> Listed:
        """The pieces of all boxes, without those of segments that have fewer voxels than `dust`."""
        rows, voxels = [np.zeros(0, _ROW)], [np.zeros(0, np.uint64)]
        for unit in range(units):
            found = self._pieces_of(unit)
            if len(found):
                row = np.zeros(len(found), _ROW)
                row["unit"] = unit
                for name in ("id", "offset", "size"):
                    row[name] = found[name]
                rows.append(row)
                voxels.append(found["voxels"])
        return Listed(np.concatenate(rows), np.concatenate(voxels), dust)

    def _pieces_of(self, unit: int) -> npt.NDArray[Any]:
        key = self._key(unit)
        head = self.store.get(key, 0, _COUNT.size)
        if head is None:
            raise NotFoundError("what an earlier run has made of a part is gone; overwriting starts over", key=key)
        (count,) = _COUNT.unpack(head)
        data = self.store.get(key, _COUNT.size, count * _PIECE.itemsize)
        if data is None or len(data) != count * _PIECE.itemsize:
            raise CorruptDataError(
                "what an earlier run has made of a part is cut off; overwriting starts over", key=key,
                expected=f"{count} pieces",
            )  # fmt: skip
        return np.frombuffer(data, _PIECE)

    def keep(self, listed: Listed, order: Places, cuts: Places, sharding: Mapping[str, Any] | None) -> Catalog:
        """Put the pieces into the order in which their segments are joined; at `cuts` a batch ends and one begins."""
        rank = np.empty(len(order), np.intp)
        rank[order] = np.arange(len(order))
        place = rank[listed.whose]
        rows = listed.rows[np.lexsort((listed.rows["unit"], place))]
        bounds = np.searchsorted(np.sort(place), cuts).astype("<u8")
        self.store.put(f"{FOLDER}/catalog", [bounds.tobytes(), rows.tobytes()])
        catalog = Catalog(
            len(listed.ids),
            int(listed.sizes.max(initial=0)),
            len(bounds) - 1,
            None if sharding is None else dict(sharding),
        )
        self.store.put(f"{FOLDER}/catalog.json", documents.encode(catalog._asdict()))
        return catalog

    def batch(self, number: int, batches: int) -> Iterator[tuple[int, list[tuple[int, memoryview]]]]:
        """(segment, [(box, piece)]) of each segment of a batch."""
        rows = self._rows(number, batches)
        starts = np.flatnonzero(np.diff(rows["id"], prepend=~rows["id"][:1]))
        bounds = [*starts.tolist(), len(rows)]
        first, size = 0, 0
        for start, stop in pairwise(bounds):
            size += int(rows["size"][start:stop].sum())
            if size > _AT_ONCE:
                yield from self._read(rows[first:stop])
                first, size = stop, 0
        if first < len(rows):
            yield from self._read(rows[first:])

    def _rows(self, number: int, batches: int) -> npt.NDArray[Any]:
        key = f"{FOLDER}/catalog"
        data = self.store.get(key, _BOUND * number, 2 * _BOUND)
        if data is None or len(data) != 2 * _BOUND:
            raise NotFoundError("the list of the pieces is gone", key=key)
        first, last = np.frombuffer(data, "<u8").tolist()
        start = _BOUND * (batches + 1) + _ROW.itemsize * first
        data = self.store.get(key, start, _ROW.itemsize * (last - first))
        if data is None or len(data) != _ROW.itemsize * (last - first):
            raise CorruptDataError("the list of the pieces is cut off", key=key, offset=start)
        return np.frombuffer(data, _ROW)

    def _read(self, rows: npt.NDArray[Any]) -> Iterator[tuple[int, list[tuple[int, memoryview]]]]:
        order = np.argsort(rows["unit"], kind="stable")
        units = rows["unit"][order]
        edges = [*np.flatnonzero(np.diff(units, prepend=~units[:1])).tolist(), len(order)]
        requests = []
        for start, stop in pairwise(edges):
            some = rows[order[start:stop]]
            ranges = list(zip(some["offset"].tolist(), some["size"].tolist(), strict=True))
            requests.append((self._key(int(units[start])), ranges, None))
        data: list[Any] = [None] * len(rows)
        at = iter(order.tolist())
        for (key, _, _), found in zip(requests, self.store.get_ranges_many(requests), strict=True):
            if found is None:
                raise NotFoundError("what was made of a part is gone", key=key)
            for one in found:
                data[next(at)] = one
        held: dict[int, list[tuple[int, memoryview]]] = {}
        for id, unit, one in zip(rows["id"].tolist(), rows["unit"].tolist(), data, strict=True):
            held.setdefault(id, []).append((unit, one))
        yield from held.items()

    def clear(self) -> None:
        """Remove all of it."""
        self.store.delete_prefix(FOLDER)


class Listed:
    """Pieces with their segments: `ids`, the bytes of the pieces of each, and whose each of `rows` is."""

    def __init__(self, rows: npt.NDArray[Any], voxels: Numbers, dust: int) -> None:
        ids, whose = np.unique(rows["id"], return_inverse=True)
        if dust > 0 and len(ids):
            total = np.zeros(len(ids), np.uint64)
            np.add.at(total, whose, voxels)
            rows = rows[total[whose] >= np.uint64(dust)]
            ids, whose = np.unique(rows["id"], return_inverse=True)
        self.rows = rows
        self.ids: Numbers = ids.astype(np.uint64)
        self.whose = whose
        self.sizes: Numbers = np.zeros(len(ids), np.uint64)
        np.add.at(self.sizes, whose, rows["size"])
