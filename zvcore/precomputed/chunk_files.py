"""Looking after scales without shards: files named after the voxels of their chunks."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from zvcore.care.checking import WrongSizeError, first_bad
from zvcore.engine import Keys, fetch_sound
from zvcore.errors import NotFoundError
from zvcore.layout import Sources
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.layout import CHUNK_NAME, FOREIGN_SUFFIXES, PACKED
from zvcore.precomputed.part import FilePart
from zvcore.report import Problem, What
from zvcore.stores.copying import is_backup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from zvcore.errors import ZvcoreError
    from zvcore.precomputed.layout import UnshardedLayout
    from zvcore.report import Report

__all__ = ["ChunkFiles"]

_FILES_AT_ONCE = 256
_BYTES_AT_ONCE = 64 << 20

Place = tuple[int, int, int, int]


class ChunkFiles(FilePart):
    """One scale: every file is named after a chunk, and decodes to the bytes of its shape."""

    loss = "the file is left out, its voxels read as zeros"

    def __init__(self, layout: UnshardedLayout, threads: int | None = None) -> None:
        super().__init__(layout.store, layout.scale.folder, threads)
        self.layout = layout

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        files = stored = packed = 0
        # The file of each chunk that was met last, by its plain name. In order, those of one chunk are near each other.
        before: dict[str, str] = {}
        found = self._files(only, report)
        while batch := list(itertools.islice(found, _FILES_AT_ONCE)):
            keys = [key for key, _ in batch]
            places = np.array([place for _, place in batch], np.int64)
            files += len(keys)
            now: dict[str, str] = {}
            for key, place in batch:
                name = key[:-3] if key.endswith(PACKED) else key
                other = now.get(name) or before.get(name)
                if other is None:
                    stored += 1
                else:
                    self._tell_both(other, key, place, report)
                now[name] = key
            before = now
            packed += sum(key.endswith(PACKED) for key in keys)
            self._check(keys, places, report, fast)
            report.looked_at(len(keys))
        if 0 < packed < files and not self.store.of_files:
            what = "some chunks are packed and some are not: in object stores the first that is found tells of all"
            report.add(self.prefix, what, expected="names that all end alike", found=f"{packed} of {files} packed")
        report.count("files", files)
        if only is None:
            self.tell_folders(report, lambda name: self.layout.place_of(name) is not None)
            report.count("chunks not stored", math.prod(self.layout.grid) - stored)

    def _tell_both(self, other: str, key: str, place: Place, report: Report) -> None:
        """Of two files of one chunk, some programs read the one that is packed, and some the other."""
        one, two = self._values(other, place), self._values(key, place)
        if one is not None and one == two:
            what = f"this chunk lies in {other}, too: what is written to one of both, some programs will not see"
            report.add(key, what, fatal=False, kind=What.DISAGREEMENT)
        elif one is not None and two is not None:
            what = f"this chunk lies in {other}, too, with other values: which are read depends on the program"
            report.add(key, what, kind=What.DISAGREEMENT)

    def files_of(self, problem: Problem) -> Sequence[str]:
        # Which of two files is the right one, nobody can tell who does not know who has written them.
        return [] if problem.kind is What.DISAGREEMENT else super().files_of(problem)

    def _values(self, key: str, place: Place) -> bytes | None:
        """What a file decodes to; None where it does not, which is told elsewhere."""
        places = np.array([place], np.int64)
        sources = Sources(Keys.of([key]), chain=self.layout.chains_of_files(places, [key]))
        found = fetch_sound(
            self.store, sources, self.layout.chains, count=1,
            expected=self.layout.chunk_sizes(places).astype(np.uint64), threads=1,
        )[0][0]  # fmt: skip
        return None if found is None else bytes(found)

    def _files(self, only: Sequence[str] | None, report: Report) -> Iterator[tuple[str, Place]]:
        """(key, chunk) of every file that readers look for; the others are reported."""
        foreign = False
        for name in self.names(only):
            key = f"{self.prefix}{name}"
            if is_backup(name):
                continue
            place = self.layout.place_of(name)
            if place is not None:
                yield key, place
            elif CHUNK_NAME.fullmatch(name) or name.endswith(PACKED):
                report.add(key, "the name is that of no chunk of the grid", kind=What.STRAY)
            elif not name.endswith(FOREIGN_SUFFIXES):
                report.add(key, "not the name of a chunk", fatal=False, kind=What.STRAY)
            elif not foreign:
                foreign = True
                what = "the chunks are compressed in a way that is not read"
                report.add(key, what, kind=What.UNSUPPORTED, status="unsupported")

    def _check(self, keys: list[str], places: npt.NDArray[np.int64], report: Report, fast: bool) -> None:
        chain = self.layout.chains_of_files(places, keys)
        nbytes = self.layout.chunk_sizes(places).astype(np.uint64)

        def decode(first: int, last: int) -> list[tuple[int, ZvcoreError]]:
            part = slice(first, last)
            sources = Sources(Keys.of(keys[part]), chain=None if chain is None else chain[part])
            values, bad = fetch_sound(
                self.store, sources, self.layout.chains, count=last - first, expected=nbytes[part],
                threads=self.threads,
            )  # fmt: skip
            wrong = dict(bad)
            for row, value in enumerate(iter(values)):
                if value is None and row not in wrong:
                    wrong[row] = NotFoundError("the file was removed meanwhile", key=keys[first + row])
            return [(first + row, wrong[row]) for row in sorted(wrong)]

        def measure(first: int, last: int) -> list[tuple[int, ZvcoreError]]:
            """The sizes of uncompressed files are known."""
            chains = self.layout.chains
            plain = [row for row in range(first, last) if not chains[0 if chain is None else int(chain[row])].codecs]
            sizes = self.store.sizes(keys[row] for row in plain)
            return [
                (row, WrongSizeError("the file has the wrong size", expected=f"{nbytes[row]} bytes", found=size))
                for row, size in zip(plain, sizes, strict=True)
                if size is not None and size != nbytes[row]
            ]

        for first, last in pieces_of(nbytes, _BYTES_AT_ONCE):
            for row, error in first_bad(measure if fast else decode, first, last):
                report.tell(self._problem(error, keys[row], tuple(places[row].tolist())))

    def _problem(self, error: ZvcoreError, key: str, place: tuple[int, ...]) -> Problem:
        error.located(offset=0, length=self.store.size(key))
        return Problem.of(error, key, place)
