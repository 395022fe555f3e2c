"""Verifying and describing what is only read: all of it is read once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.borrowed.blocks import BlockLayout
from zvcore.borrowed.reading import ReadLayout
from zvcore.borrowed.stored import StoredLayout
from zvcore.boxes import box_of, count_of, slices
from zvcore.care.describing import unread
from zvcore.care.values import can_be_wrong, wrong_value
from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.exchange.target import grow
from zvcore.format import get_format
from zvcore.report import Problem, Report, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from zvcore.format import Format
    from zvcore.stores import Store

__all__ = ["ReadingCare", "places_in"]

# How many bytes of values are read at once, and how many unreadable parts of an array are reported.
_AT_ONCE = 64 << 20
_TOLD = 100


class ReadingCare:
    """The care of a format that zvcore only reads: all of it can be read, and nothing repaired."""

    def __init__(self, format: Format) -> None:
        self.format = format

    def verify(
        self,
        store: Store,
        *,
        only: Sequence[str] | None = None,
        fast: bool = False,
        threads: int | None = None,
        watch: Callable[[int], Any] | None = None,
    ) -> Report:
        report = Report(watch=watch)
        self._in_words(store, only)
        # A file is its own document: with documents alone it is counted, and looked at as an object.
        documents_alone = store.file is not None and only is not None and not only
        mark = report.mark()
        try:
            self._check(self.format.open(store), fast or documents_alone, threads, report)
        except ZvcoreError as error:
            report.tell(Problem.of(error, self._document(store)))
        if documents_alone:
            report.back_to(mark)
            return report
        report.looked_at(1)
        return report

    def _check(self, opened: Any, fast: bool, threads: int | None, report: Report) -> None:
        """Report what is wrong with what was opened, an array or a group."""
        for path, array in arrays_in(opened, report):
            report.count("arrays")
            if not fast:
                _read_all(path, array, threads, report)

    def repair(
        self, store: Store, out: Store | None = None, *, only: Sequence[str] | None = None, threads: int | None = None
    ) -> Report:
        raise UnsupportedError(f"{self.format.title}: nothing in it can be repaired", key=store.root)

    def compact(self, store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
        raise UnsupportedError(f"{self.format.title}: nothing in it can be made smaller", key=store.root)

    def inspect(self, store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
        self._in_words(store, None if only is None else [only])
        opened = self.format.open(store)
        objects, size = self._stored(store, opened)
        found = _described(opened)
        about = {"objects": objects, "stored_bytes": size}
        if "nbytes" in found and size:
            about["ratio"] = found["nbytes"] / size
        return {**found, **about}

    def _document(self, store: Store) -> str:
        """The object that all of it hangs on."""
        return store.file or ""

    def _stored(self, store: Store, opened: Any) -> tuple[int, int]:
        """(how many objects it is stored in, how many bytes)."""
        return 1, store.size(self._document(store)) or 0

    def _in_words(self, store: Store, only: Sequence[str] | None) -> None:
        for key in only or ():
            if key not in ("", store.file):
                raise NotFoundError("a file holds no other objects", key=key)


def arrays_in(node: Any, report: Report, path: str = "") -> Iterator[tuple[str, Array]]:
    """(path, array) of a node and of all below it; what cannot be opened is reported."""
    waiting = [(path, node)]
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, Array):
            yield path, here
            continue
        report.count("groups")
        for name in here:
            try:
                waiting.append((join(path, name), here[name]))
            except ZvcoreError as error:
                report.tell(Problem.of(error, join(path, name)))


def _is_bare(layout: BlockLayout) -> bool:
    """Whether the library tells that there is nothing to be looked at: a few bytes can claim any number of values."""
    nothing_stored = getattr(layout.blocks, "nothing_stored", None)
    return nothing_stored is not None and nothing_stored()


def _read_all(path: str, array: Array, threads: int | None, report: Report) -> None:
    """Read all of an array, in boxes that fit into memory."""
    if not array.size:
        return
    if isinstance(array.layout, StoredLayout):
        _read_stored(path, array, array.layout, threads, report)
        return
    if isinstance(array.layout, BlockLayout) and _is_bare(array.layout):
        return
    extents = grow(array.chunks, array.shape, array.dtype.itemsize, _AT_ONCE)
    told = 0
    for place in places_in(count_of(array.shape, extents)):
        try:
            _check(array.read(slices(box_of(place, extents, array.shape)), threads=threads))
        except ZvcoreError as error:
            report.tell(_problem(error, path, array))
            told += 1
            if told == _TOLD:
                report.add(path, f"{_TOLD} parts of it cannot be read: the rest was not looked at")
                return
    report.count("chunks", math.prod(array.grid))
    if not told and isinstance(array.layout, ReadLayout):
        try:
            array.layout.check_rest()
        except ZvcoreError as error:
            report.tell(_problem(error, path, array))


def _read_stored(path: str, array: Array, layout: StoredLayout, threads: int | None, report: Report) -> None:
    """Read the chunks that are there, and not all that there could be: a file may claim any shape."""
    try:
        places = layout.places()
    except ZvcoreError as error:
        report.tell(_problem(error, path, array))
        return
    step = max(1, _AT_ONCE // layout.chunk_nbytes)
    told = 0
    for first in range(0, len(places), step):
        some = places[first : first + step]
        try:
            for values in array.read_blocks(some, threads):
                _check(values)
        except ZvcoreError:
            for one in some:
                try:
                    for values in array.read_blocks([one], threads):
                        _check(values)
                except ZvcoreError as error:
                    report.tell(_problem(error, path, array))
                    told += 1
        if told >= _TOLD:
            report.add(path, f"{told} chunks of it cannot be read: the rest was not looked at")
            return
    report.count("chunks", len(places))


def _check(values: npt.NDArray[Any] | None) -> None:
    error = None if values is None or not can_be_wrong(values.dtype) else wrong_value(values)
    if error is not None:
        raise error


def _problem(error: ZvcoreError, path: str, array: Array) -> Problem:
    """A problem in a member of a file names the member, which says more than the name of the file."""
    problem = Problem.of(error, path)
    return replace(problem, where=path) if path and problem.where == array.store.file else problem


def places_in(grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The places of a grid in C order. There may be more of them than fit into memory."""
    for number in range(math.prod(grid)):
        place = []
        for extent in reversed(grid):
            number, here = divmod(number, extent)
            place.append(here)
        yield tuple(reversed(place))


def _described(node: Any) -> dict[str, Any]:
    """The description of a node."""
    shown = _shown(node)
    if isinstance(node, Array):
        # How much of the file a member takes is not known.
        return {
            "format": node.format, "kind": "array", "shape": node.shape, "dtype": str(node.dtype),
            "chunks": getattr(node, "whole", node.chunks), "codecs": [], "attributes": dict(node.attrs),
            "nbytes": node.nbytes, "ratio": None, **shown,
        }  # fmt: skip
    members: dict[str, Any] = {}
    for name in node:
        try:
            members[name] = _described(node[name])
        except ZvcoreError as error:
            members[name] = unread(node.format, error)
    return {"format": node.format, "kind": "group", "attributes": dict(node.attrs), **shown, "members": members}


def _shown(node: Any) -> dict[str, Any]:
    """The image that a node is, in the words that N5 has for levels."""
    try:
        image = get_format(node.format).read_image(node)
    except ZvcoreError:
        return {}  # the member that is broken is told
    if image is None or image.convention is None:
        return {}
    levels = [
        {
            "path": level.path, "resolution": [axis.scale for axis in level.axes],
            "offset": [axis.offset for axis in level.axes], "units": [axis.unit for axis in level.axes],
        }
        for level in image.levels
    ]  # fmt: skip
    axes = [axis.name for axis in image.levels[0].axes]
    return {"multiscale": {"convention": image.convention, "axes": axes, "levels": levels}}
