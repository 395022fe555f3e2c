"""TrackVis's .trk: lines one behind the other, of which each begins with the number of its vertices."""

from __future__ import annotations

import io
from itertools import repeat
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from zvcore.borrowed.file import library, reading
from zvcore.cached import cached_property
from zvcore.errors import CorruptDataError, MetadataError
from zvcore.exchange.lines import LineBatch
from zvcore.exchange.tractogram_header import header_to_keep
from zvcore.tractograms.streamlines import Streamlines
from zvcore.tractograms.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from zvcore.stores import Store

__all__ = ["TrkStreamlines"]

_TITLE = "tractogram"
_HEADER = 1000
# Lines that are found at once, however short they are; vertices that are moved at once, in a processor's own memory.
_LINES, _VERTICES = 1 << 15, 1 << 12


class TrkStreamlines(Streamlines):
    """nibabel reads the header, and zvcore the lines."""

    def __init__(self, store: Store) -> None:
        super().__init__("trk", store)
        nibabel = library("nibabel.streamlines", "tractograms", _TITLE)
        self._trk = nibabel.trk
        raw = store.get(str(store.file), 0, _HEADER) or b""
        if len(raw) != _HEADER:
            raise CorruptDataError(
                "the header is cut", key=store.root, offset=0, expected=f"{_HEADER} bytes", found=len(raw)
            )
        # Of an affine that leads nowhere, the error tells.
        with reading(store.root, _TITLE), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            header = nibabel.TrkFile.load(io.BytesIO(raw), lazy_load=True).header
            self._to_world = np.asarray(self._trk.get_affine_trackvis_to_rasmm(header), np.float64)
        order = header["endianness"]
        # nibabel looks for lines, and notes how many it has found: what the file says stands in its bytes.
        said = np.frombuffer(raw, self._trk.header_2_dtype.newbyteorder(order))[0]
        if not np.isfinite(self._to_world).all():
            self._refuse(header, "voxel_sizes", "sizes of voxels and an affine that lead into the world")
        # 0 stands for "not counted".
        self.stated = self._count(said, "nb_streamlines") or None
        scalars = self._count(said, "nb_scalars_per_point")
        self._width, self._properties = 3 + scalars, self._count(said, "nb_properties_per_streamline")
        self._of_points = self._columns(said, "scalar_name", scalars, "scalars")
        self._of_lines = self._columns(said, "property_name", self._properties, "properties")
        self.attributes = {
            name: (np.dtype(np.float32), one.stop - one.start) for name, one in self._of_points.items()
        }  # fmt: skip
        self._words = np.dtype(f"{order}i4")
        self._header = header_to_keep(".trk", header)
        # Bytes behind the last line, known once all lines were read.
        self._behind = 0

    def header(self) -> dict[str, Any]:
        return dict(self._header)

    def _refuse(self, header: Any, field: str, expected: str) -> NoReturn:
        raise MetadataError(
            f"{field} of the header", key=self.store.root, offset=self._trk.header_2_dtype.fields[field][1],
            expected=expected, found=np.asarray(header[field]).tolist(),
        )  # fmt: skip

    def _count(self, header: Any, field: str) -> int:
        if header[field] < 0:
            self._refuse(header, field, "0 or more")
        return int(header[field])

    def _columns(self, header: Any, field: str, room: int, others: str) -> dict[str, slice]:
        """Which of so many numbers belong to each name; `others` is the name of those behind them."""
        found: dict[str, slice] = {}
        at = 0
        for encoded in header[field] if room else ():
            with reading(self.store.root, _TITLE):
                name, count = self._trk.decode_value_from_name(encoded)
            if count < 0:
                self._refuse(header, field, "names of 0 numbers or more")
            if count:
                found[name] = slice(min(at, room), min(at + count, room))
                at += count
        if at < room:
            found[others] = slice(at, room)
        # Names may claim more numbers than there are.
        return {name: one for name, one in found.items() if one.start < one.stop}

    def _found(self) -> Iterator[tuple[Window, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """(window, where in it some lines begin with their numbers of vertices, these numbers), of all lines."""
        window = Window(self.store, _HEADER, self._words)
        left = self.stated
        while left is None or left:
            starts, end = _lines_in(
                memoryview(window.numbers), self._width, self._properties, min(left or _LINES, _LINES)
            )
            if starts:
                at = np.array(starts, np.int64)
                yield window, at, window.numbers[at].astype(np.int64)
                window.pass_by(end)
                left = None if left is None else left - len(starts)
            elif not self._read_on(window):
                break
        self._behind = window.size - window.offset

    def _read_on(self, window: Window) -> bool:
        """Make a window hold the line that begins in it as a whole; False if the file ends where a line would begin."""
        if not len(window.numbers):
            if window.read_on():
                return True
            if window.size > window.offset:
                self._refuse_cut(window, self._words.itemsize)
            return False
        count = int(window.numbers[0])
        if count < 0:
            raise CorruptDataError(
                "the number of a line's vertices", key=self.store.root, offset=window.offset, expected="0 or more",
                found=count,
            )  # fmt: skip
        least = 1 + count * self._width + self._properties
        if least * self._words.itemsize > window.size - window.offset:
            self._refuse_cut(window, least * self._words.itemsize)
        return window.read_on(least)

    def _refuse_cut(self, window: Window, expected: int) -> NoReturn:
        raise CorruptDataError(
            "a line does not end within the file", key=self.store.root, offset=window.offset,
            expected=f"{expected} bytes", found=window.size - window.offset,
        )  # fmt: skip

    def batches(self) -> Iterator[LineBatch]:
        first = 0
        for window, starts, counts in self._found():
            rows = window.gathered(starts + 1, counts * self._width).view(np.float32).reshape(-1, self._width)
            values = {name: _of_names(rows, 3 + one.start, 3 + one.stop) for name, one in self._of_points.items()}
            ids = np.arange(first, first + len(starts), dtype=np.int64)
            first += len(starts)
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            yield LineBatch(ids, _moved(rows[:, :3], self._to_world), offsets, values)

    @cached_property
    def of_objects(self) -> Mapping[str, npt.NDArray[Any]]:
        if not self._of_lines:
            return {}
        parts = [np.zeros(0, np.float32)]
        for window, starts, counts in self._found():
            behind = starts + 1 + counts * self._width
            parts.append(window.gathered(behind, np.full(len(starts), self._properties)).view(np.float32))
        table = np.concatenate(parts).reshape(-1, self._properties)
        return {name: _of_names(table, one.start, one.stop) for name, one in self._of_lines.items()}

    def doubts(self, count: int) -> list[str]:
        told = super().doubts(count)
        if self._behind:
            told.append(f"{self._behind} bytes behind the {count} lines that the header tells of are left out")
        return told


def _lines_in(numbers: memoryview, width: int, more: int, most: int) -> tuple[list[int], int]:
    """(where each line begins that is there as a whole, at most so many, and where the last of them ends).

    width  numbers of each vertex
    more   numbers of each line behind its vertices
    """
    starts: list[int] = []
    at, end = 0, len(numbers)
    for _ in repeat(None, most):
        if at >= end:
            break
        count = numbers[at]
        after = at + 1 + count * width + more
        if count < 0 or after > end:
            break
        starts.append(at)
        at = after
    return starts, at


def _of_names(table: npt.NDArray[Any], start: int, stop: int) -> npt.NDArray[Any]:
    """A copy of these columns of a table, of which a single one is no table."""
    return table[:, start].copy() if stop - start == 1 else table[:, start:stop].copy()


def _moved(positions: npt.NDArray[Any], affine: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Positions in the world's coordinates: rounded once, as float64 has them."""
    moved = np.empty((len(positions), 3), np.float32)
    matrix = np.ascontiguousarray(affine[:3].T)
    room = np.ones((min(_VERTICES, len(positions)), 4))
    # What lies nowhere is told by whoever reads these.
    with np.errstate(over="ignore", invalid="ignore"):
        for at in range(0, len(positions), _VERTICES):
            some = positions[at : at + _VERTICES]
            room[: len(some), :3] = some
            moved[at : at + _VERTICES] = room[: len(some)] @ matrix
    return moved
