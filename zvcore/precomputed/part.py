"""What a folder consists of, for verify and repair: each scale, kind of object, and index is a part."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from zvcore.care.refusals import refusal
from zvcore.care.together import look_together
from zvcore.engine import default_thread_count
from zvcore.errors import ZvcoreError
from zvcore.report import Problem, What

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zvcore.care.rewriting import Patient
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["FilePart", "Part"]

T = TypeVar("T")
R = TypeVar("R")

# Files that are on their way at once, for each thread.
_AHEAD = 64
# What one of them takes, decoded, unless it is a very large one.
_USUAL_BYTES = 8 << 20


class Part(ABC):
    """A part of what is in a store: all its objects are in one folder.

    folder   the folder's key, "" for the root of the store
    threads  how many look at once; None: as many as zvcore uses
    """

    def __init__(self, store: Store, folder: str, threads: int | None = None) -> None:
        self.store = store
        self.folder = folder
        self.threads = threads

    @property
    def prefix(self) -> str:
        """What the keys of its objects begin with."""
        return f"{self.folder}/" if self.folder else ""

    @abstractmethod
    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        """Check all of it, or `only` these names within the folder. With `fast`, nothing is decoded."""

    def tell_folders(self, report: Report, is_object: Callable[[str], bool]) -> None:
        """Report folders that have the very names of objects: readers would take these for never stored."""
        for name in self.store.list_dir(self.folder)[0]:
            if is_object(name):
                report.add(f"{self.prefix}{name}", "a folder lies where a file should be", kind=What.STORE)

    @abstractmethod
    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        """Remove from `patient.store`, to which this part belongs, what cannot be decoded.

        `original` still has everything as it was, if it is another store.
        """


class FilePart(Part):
    """A part whose objects are independent of each other: a fault of one has no consequence for another."""

    # What it means to lose one of them.
    loss = "the file is left out"

    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        part = report.part()
        self.verify(part, only, fast=False)
        report.extend(part)
        for problem in part.problems:
            if problem.damage:
                for key in self.files_of(problem):
                    if patient.store.exists(key):
                        kept = patient.drop(key)
                        report.lose(
                            key, f"{self.loss}{kept}", chunk=problem.chunk, offset=problem.offset, length=problem.length
                        )
                        report.count("files dropped")

    def files_of(self, problem: Problem) -> Sequence[str]:
        """The files to remove because of a problem."""
        return [problem.where]

    def names(self, only: Sequence[str] | None) -> Iterator[str]:
        """The names of the files in the folder, or of those that were asked for."""
        if only is None:
            for key in self.store.list(self.folder):
                name = key.removeprefix(self.prefix)
                if "/" not in name:
                    yield name
        else:
            yield from only

    def look_at_each(self, items: Iterable[T], look: Callable[[T], Iterable[Problem] | None], report: Report) -> int:
        """Call `look` for each, on several threads, and report its errors and what it returns. How many there were.

        All that is counted, items as well as problems as they are told, is for the one thread that hands them out.
        Where looking means to wait for a network, more of them wait at once than there are threads.
        """

        def problems_of(item: T) -> Iterable[Problem]:
            try:
                return look(item) or ()
            except (ZvcoreError, OSError) as error:
                return [Problem.of(refusal(error, self.store.root))]

        seen = 0
        for problems in self._of_each(problems_of, items):
            seen += 1
            report.looked_at()
            report.tell(*problems)
        return seen

    def _of_each(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """What a function gives for each of these, in their order."""
        if self.store.parts_ahead():
            yield from look_together(self.store, items, function, _USUAL_BYTES)
            return
        threads = self.threads or default_thread_count()
        with ThreadPoolExecutor(threads) as pool:
            waiting = iter(items)
            while batch := list(itertools.islice(waiting, _AHEAD * threads)):
                yield from pool.map(function, batch)
