"""MRtrix's .tck: vertices of lines one behind the other, with three NaN behind each line, and three infinities last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.exchange.lines import LineBatch
from zvcore.exchange.tractogram_header import header_to_keep
from zvcore.tractograms.streamlines import Streamlines
from zvcore.tractograms.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from zvcore.stores import Store

__all__ = ["TckStreamlines"]

_SIGNATURE = b"mrtrix tracks"
# Headers are read from a part of the file that nearly all of them are shorter than, or else from one that all are.
_SHORT_HEADER, _LONGEST_HEADER = 1 << 14, 1 << 20
# What nibabel takes "Float32" for, too.
_TYPES = {
    f"float{bits}{ending}": np.dtype(f"{order}f{bits // 8}")
    for bits in (32, 64)
    for ending, order in (("", "<"), ("le", "<"), ("be", ">"))
}


class TckStreamlines(Streamlines):
    def __init__(self, store: Store) -> None:
        super().__init__("tck", store)
        said, end = _header_of(store)
        self.notes: list[str] = []
        self._type = self._type_of(said)
        self._begin = self._begin_of(said, end)
        self.stated = self._count_of(said)
        self.attributes = {}
        # Its coordinates are the world's.
        self._header = header_to_keep(".tck", {**said, "voxel_to_rasmm": np.eye(4)})
        # Lines without vertices, known once all lines were read.
        self._empty = 0

    def header(self) -> dict[str, Any]:
        return dict(self._header)

    def _refuse(self, field: str, expected: str, found: str) -> NoReturn:
        raise MetadataError(
            f"{field!r} of the header", key=self.store.root, offset=0, expected=expected, found=repr(found)[:99]
        )

    def _type_of(self, said: Mapping[str, str]) -> np.dtype[Any]:
        if "datatype" not in said:
            self.notes.append("the header says not of which type the numbers are; they are read as Float32LE")
        found = said.get("datatype", "Float32LE")
        if found.lower() not in _TYPES:
            raise UnsupportedError(
                "'datatype' of the header", key=self.store.root, offset=0, expected="Float32 or Float64, LE or BE",
                found=repr(found)[:99],
            )  # fmt: skip
        return _TYPES[found.lower()]

    def _begin_of(self, said: Mapping[str, str], end: int) -> int:
        """Where the vertices begin; `end`: where the header ends."""
        if "file" not in said:
            self.notes.append("the header says not where the vertices begin; they are read from right behind it")
            return end
        name, *places = said["file"].split() or [""]
        if name != ".":
            raise UnsupportedError(
                "the vertices are in another file", key=self.store.root, offset=0, expected="'file: . ' and a number",
                found=repr(said["file"])[:99],
            )  # fmt: skip
        begin = _number(places[0]) if places else None
        # Some end their header without the end of a line.
        size = self.store.size(str(self.store.file)) or 0
        if begin is None or not end - 1 <= begin <= size:
            self._refuse("file", f"a place behind the header, {end} to {size}", said["file"])
        return begin

    def _count_of(self, said: Mapping[str, str]) -> int | None:
        if "count" not in said:
            return None
        count = _number(said["count"])
        if count is None:
            self._refuse("count", "a number of lines", said["count"])
        # Files that were not closed say 0.
        return count or None

    def batches(self) -> Iterator[LineBatch]:
        window = Window(self.store, self._begin, self._type)
        first = empty = 0
        # Vertices in the window of a line whose end has not come yet.
        looked_at = 0
        while window.read_on():
            rows = _rows(window)
            ends, last = _separators(rows, looked_at)
            starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
            counts = ends - starts
            there = counts > 0
            empty += len(counts) - int(there.sum())
            starts, counts = starts[there], counts[there]
            if len(counts):
                positions = window.gathered(starts * 3, counts * 3).reshape(-1, 3)
                ids = np.arange(first, first + len(counts), dtype=np.int64)
                first += len(counts)
                yield LineBatch(ids, positions, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), {})
            passed = int(ends[-1]) + 1 if len(ends) else 0
            looked_at = len(rows) - passed
            window.pass_by(3 * passed)
            if last is not None:
                self._check_end(window, last - passed)
                self._empty = empty
                return
        raise CorruptDataError(
            "the file ends without its end marker", key=self.store.root, offset=window.offset,
            expected="three infinities as the last vertex", found=f"{window.size - window.offset} bytes",
        )  # fmt: skip

    def _check_end(self, window: Window, before: int) -> None:
        """The end marker of the file stands behind the end of a line, and is the last; `before`: vertices before it."""
        if before:
            raise CorruptDataError(
                "the last line has no end", key=self.store.root, offset=window.offset,
                expected="three NaN behind it", found=f"{before} vertices and the end marker",
            )  # fmt: skip
        end = window.offset + 3 * self._type.itemsize
        if end < window.size:
            raise CorruptDataError(
                "the file goes on behind its end marker", key=self.store.root, offset=end, expected="its end",
                found=f"{window.size - end} bytes",
            )  # fmt: skip

    @property
    def of_objects(self) -> Mapping[str, npt.NDArray[Any]]:
        return {}

    def doubts(self, count: int) -> list[str]:
        # Some programs count lines without vertices, and others do not.
        told = [] if self.stated == count + self._empty else super().doubts(count)
        if self._empty:
            told.append(f"{self._empty} lines without vertices are left out")
        return told


def _rows(window: Window) -> npt.NDArray[Any]:
    numbers = window.numbers
    return numbers[: len(numbers) // 3 * 3].reshape(-1, 3)


def _separators(rows: npt.NDArray[Any], first: int) -> tuple[npt.NDArray[np.int64], int | None]:
    """(where lines end, where the file does if it does so here), among the vertices from the first on."""
    odd = first + np.flatnonzero(~np.isfinite(rows[first:, 0]))
    values = rows[odd]
    lasts = odd[np.isinf(values).all(1)]
    last = int(lasts[0]) if len(lasts) else None
    ends = odd[np.isnan(values).all(1)]
    return (ends if last is None else ends[ends < last]), last


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _header_of(store: Store) -> tuple[dict[str, str], int]:
    """(what the header says, where it ends)"""
    for most in (_SHORT_HEADER, _LONGEST_HEADER):
        text = bytes(store.get(str(store.file), 0, most) or b"")
        found = _fields(text, store.root)
        if found is not None:
            return found
        if len(text) < most:
            break
    raise MetadataError("the header does not end", key=store.root, offset=0, expected="a line 'END'", found=len(text))


def _fields(text: bytes, key: str) -> tuple[dict[str, str], int] | None:
    """What a header says and where it ends; None if it does not end here."""
    found: dict[str, list[str]] = {}
    values: list[str] | None = None
    at = len(_SIGNATURE) + 1
    while (stop := text.find(b"\n", at)) >= 0:
        try:
            line = text[at:stop].decode().strip()
        except UnicodeDecodeError as error:
            raise MetadataError(
                "a line of the header is no text", key=key, offset=at, expected="UTF-8", found=repr(text[at:stop])[:99]
            ) from error
        if line == "END":
            return {name: "\n".join(parts) for name, parts in found.items()}, stop + 1
        name, colon, value = line.partition(":")
        if colon:
            values = found.setdefault(name.strip(), [])
            line = value
        if line and values is None:
            raise MetadataError(
                "a line of the header", key=key, offset=at, expected="a name and ':'", found=repr(line)[:99]
            )
        if (line or colon) and values is not None:
            values.append(line.strip())
        at = stop + 1
    return None
