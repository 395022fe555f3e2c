"""Looking after annotations: the length of each record and list in their indexes, and whether readers find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import kernels
from zvcore.errors import NotFoundError, ZvcoreError
from zvcore.precomputed.annotation_values import cell_of_name
from zvcore.precomputed.content_encoding import stored_file
from zvcore.precomputed.metadata import INFO
from zvcore.precomputed.part import FilePart
from zvcore.precomputed.shard_check import Judge
from zvcore.report import What
from zvcore.stores.copying import is_backup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from zvcore.precomputed.annotation_info import Index
    from zvcore.precomputed.annotation_records import RecordForm
    from zvcore.precomputed.entries import U64
    from zvcore.precomputed.shard_reader import ShardFile, ShardReader
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["AnnotationFiles", "AnnotationJudge"]


class AnnotationJudge(Judge):
    """Annotations in shards: values have the length that their types require, and cells belong to the grid."""

    looks = True

    def __init__(self, reader: ShardReader, form: RecordForm, index: Index, threads: int | None = None) -> None:
        super().__init__(reader, threads)
        self.index = index
        self._check = form.check_one if index.single else form.check_list

    def unwanted(self, ids: U64) -> npt.NDArray[Any] | None:
        grid = self.index.grid
        return None if grid is None else ~kernels.compressed_morton_valid(ids, grid)

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        self._check(value)


class AnnotationFiles(FilePart):
    """One index whose files are named after ids or cells."""

    def __init__(self, store: Store, form: RecordForm, index: Index, threads: int | None = None) -> None:
        super().__init__(store, index.folder, threads)
        self.index = index
        # Lists are made again from the index by id, by a repair that was not asked for their folder alone.
        again = "the list is left out; a repair of the whole set makes it again"
        self.loss = "the annotation is left out" if index.single else again
        self._check = form.check_one if index.single else form.check_list

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        def look(name: str) -> None:
            if not fast:
                self._look(f"{self.prefix}{name}")

        report.count("values", self.look_at_each(self.files(only, report), look, report))

    def files(self, only: Sequence[str] | None, report: Report) -> Iterator[str]:
        """The names of files, without `.gz`; others are reported."""
        grid = self.index.grid
        for name in self.names(only):
            stem = name.removesuffix(".gz")
            numbers = cell_of_name(stem, 1 if grid is None else len(grid))
            if is_backup(name) or (stem == INFO and not self.prefix):
                continue
            if numbers is None:
                report.add(f"{self.prefix}{name}", "not the name of annotations", fatal=False, kind=What.STRAY)
            elif grid is not None and any(one >= n for one, n in zip(numbers, grid, strict=True)):
                what = "the cell lies outside the grid, so no reader finds it"
                report.add(f"{self.prefix}{name}", what, fatal=False, kind=What.STRAY)
            else:
                yield stem

    def _look(self, key: str) -> None:
        data = stored_file(self.store, key)
        if data is None:
            raise NotFoundError("the file was removed meanwhile", key=key)
        try:
            self._check(data)
        except ZvcoreError as error:
            name = key if self.store.exists(key) else f"{key}.gz"
            raise error.located(key=name, offset=0, length=self.store.size(name))
