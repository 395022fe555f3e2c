"""Verifying and describing stacks: each image by its name."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from zvcore.borrowed.care import ReadingCare, places_in
from zvcore.boxes import box_of, count_of, slices
from zvcore.errors import LostMetadataWarning, MissingImagesWarning, NotFoundError, ZvcoreError
from zvcore.exchange.target import grow
from zvcore.report import Problem, Report, What
from zvcore.stack.names import missing_numbers, told_numbers
from zvcore.stack.reading import images_of, other_axes, turned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.array import Array
    from zvcore.stores import Store

__all__ = ["StackCare"]

# How many bytes of values are read at once, and how many images at most.
_AT_ONCE, _MOST = 64 << 20, 64


class StackCare(ReadingCare):
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
        try:
            folder, names = images_of(store)
            wanted = _numbers(names, only)
            gaps = missing_numbers(names)
            if gaps and only is None:
                told = f"the sequence of images has gaps: {told_numbers(gaps)}"
                report.add("", told, fatal=False, kind=What.MISSING)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MissingImagesWarning)
                array = self.format.open(store)
        except NotFoundError:
            raise
        except ZvcoreError as error:
            report.tell(Problem.of(error))
            return report
        report.count("arrays")
        step = 1 if not array.size else max(1, min(_MOST, _AT_ONCE * len(names) // array.nbytes))
        for first in range(0, 0 if fast else len(wanted), step):
            some = wanted[first : first + step]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LostMetadataWarning)  # what it says is told of each image
                _read(array, names, some, threads, report)
                _compare_axes(array, names, some, report)
            _name_turned(folder, [names[number] for number in some], report)
            report.count("images", len(some))
            report.looked_at(len(some))
        return report

    def inspect(self, store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
        _, names = images_of(store)
        _numbers(names, None if only is None else [only])
        found = super().inspect(store, threads=threads)
        gaps = missing_numbers(names)
        if gaps:
            found["missing"] = told_numbers(gaps)
        return found

    def _stored(self, store: Store, opened: Any) -> tuple[int, int]:
        names = images_of(store)[1]
        return len(names), sum(size or 0 for size in store.sizes(names))


def _numbers(names: Sequence[str], only: Sequence[str] | None) -> list[int]:
    """Which images are meant: all, or those that are named; an empty name means the documents, and there are none."""
    if only is None:
        return list(range(len(names)))
    places = {name: number for number, name in enumerate(names)}
    for key in only:
        if key and key not in places:
            raise NotFoundError("the stack has no such image", key=key)
    return sorted({places[key] for key in only if key})


def _read(array: Array, names: Sequence[str], numbers: Sequence[int], threads: int | None, report: Report) -> None:
    """Read some images together, and where that fails one by one, to tell which it is."""
    if not array.size:
        return
    consecutive = numbers[-1] - numbers[0] == len(numbers) - 1
    try:
        if consecutive and array.nbytes // len(names) <= _AT_ONCE:
            array.read((slice(numbers[0], numbers[-1] + 1),), threads=threads)
            return
    except ZvcoreError:
        pass
    for number in numbers:
        try:
            _read_one(array, number, threads)
        except ZvcoreError as error:
            report.tell(Problem.of(error, names[number]))


def _compare_axes(array: Array, names: Sequence[str], numbers: Sequence[int], report: Report) -> None:
    for number in numbers:
        try:
            said = other_axes(array, number)
        except ZvcoreError:
            continue  # it was told when it was read
        if said is not None:
            report.add(names[number], said, fatal=False, kind=What.DISAGREEMENT)


def _name_turned(folder: Store, names: Sequence[str], report: Report) -> None:
    for name in names:
        try:
            said = turned(folder, name)
        except (ZvcoreError, OSError):
            continue  # it was told when it was read
        if said is not None:
            report.add(name, f"{said} is not applied", fatal=False, kind=What.UNSUPPORTED)


def _read_one(array: Array, number: int, threads: int | None) -> None:
    """Read an image in boxes that fit into memory: a file of a few bytes may claim any shape."""
    shape = array.shape[1:]
    extents = grow(array.chunks[1:], shape, array.dtype.itemsize, _AT_ONCE)
    for place in places_in(count_of(shape, extents)):
        array.read((number, *slices(box_of(place, extents, shape))), threads=threads)
