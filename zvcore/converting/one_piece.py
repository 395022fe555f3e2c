"""Conversions of what is not arrays, in one piece: annotations, points and tables, and lines."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.converting.plan import Plan, PlannedObjects
from zvcore.converting.rows import table_format
from zvcore.converting.table_reading import faults_of
from zvcore.converting.table_writing import table_losses, write_table
from zvcore.converting.tables import ending_of
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.exchange.rows import Rows
from zvcore.format import get_format
from zvcore.images.whole import WholeImage
from zvcore.report import ConversionReport, Problem, Report
from zvcore.stores.presence import is_there
from zvcore.stores.whole_files import file_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zvcore.exchange.lines import Lines
    from zvcore.stores import Store

__all__ = ["OnePiece"]

_SEVERAL = {"axis_aligned_bounding_box": "boxes"}


@dataclass
class OnePiece:
    """Such a conversion.

    what     is converted
    dst      where to, and
    store    the same as a store; None for a table, which is a file
    options  of the destination's format
    fsync    whether a table is on the disk when it is done
    """

    what: Rows | Lines | WholeImage
    dst: Any
    store: Store | None
    format: str
    options: Mapping[str, Any]
    overwrite: bool
    strict: bool
    fsync: bool = False

    def refuse(self) -> None:
        """Raise what can be known to be wrong before anything is written."""
        if self.strict and self.what.losses:
            raise _would_be_lost(self.what.losses)
        if self.store is None:
            self._refuse_table()
        elif isinstance(self.what, WholeImage):
            self._refuse_image(self.store)
        elif isinstance(self.what, Rows):
            get_format(self.format).refuse_rows(self.store, self.what, self.options, self.overwrite)
        else:
            get_format(self.format).refuse_lines(self.store, self.options, self.overwrite)

    def _refuse_image(self, store: Store) -> None:
        name = store.file
        if name is None or not get_format(self.format).names_written(name):
            raise ValueError(f"{get_format(self.format).title} is not written into a file of this name: {store.root}")
        if store.exists(name) and not self.overwrite:
            raise ConflictError("there is a file already; overwrite=True replaces it", key=store.root)

    def _write_image(self, image: WholeImage, store: Store) -> Report:
        format, name = get_format(self.format), str(store.file)
        with file_for(store, name) as file:
            report = format.write_image(file, image, {**format.options_for(name), **self.options})
            if self.strict and report.losses:
                # After an error, the file does not come to its place.
                raise _would_be_lost(report.losses)
        return report

    def _refuse_losses(self) -> None:
        """Raise what writing loses, if it does.

        Some of it shows only in the values, as what a type of fewer bits rounds: all is written into a folder that is
        removed again.
        """
        with tempfile.TemporaryDirectory(prefix="zvcore-strict-") as folder:
            if self.store is None:
                place = os.path.join(folder, f"table{ending_of(self.dst)}")
                store = None
            else:
                place = os.path.join(folder, self.store.file or "made")
                store = opening.store_at(place, "w", None, self.format)
            losses = replace(self, dst=place, store=store, overwrite=False, strict=False).run().losses
        if losses:
            raise _would_be_lost(losses)

    def _refuse_table(self) -> None:
        if isinstance(self.what, Rows) and self.what.source is not None:
            raise UnsupportedError("a table becomes annotations or points, and no other table", key=self.what.source)
        if self.options:
            raise TypeError(f"a table has no option {min(self.options)!r}")
        if "://" in os.fsdecode(self.dst):
            raise UnsupportedError(
                "tables are files of this machine, and not written to a URL", key=os.fsdecode(self.dst)
            )
        if is_there(self.dst) and not self.overwrite:
            raise ConflictError("there is a file already; overwrite=True replaces it", key=os.fspath(self.dst))
        ending = table_format(self.format)
        if ending_of(self.dst) != ending:
            raise ValueError(f"the name of a file of {self.format} ends with {ending}")

    def run(self) -> ConversionReport:
        """Write all of it."""
        self.refuse()
        if self.strict and not isinstance(self.what, WholeImage):
            self._refuse_losses()
        report = ConversionReport(notes=self._notes())
        if isinstance(self.what, WholeImage):
            assert self.store is not None
            read: list[int] = []
            done = self._write_image(replace(self.what, watch=read.append), self.store)
            report.values = sum(read) * self.what.array.dtype.itemsize
            report.bytes_out = self.store.size(str(self.store.file)) or 0
            for loss in self.what.losses:
                report.lose("", loss)
        elif not isinstance(self.what, Rows):
            assert self.store is not None
            done = get_format(self.format).write_lines(self.store, self.what, self.options, self.overwrite)
            for loss in self.what.losses:
                report.lose("", loss)
        else:
            with faults_of(self.what.source):
                done = self._write_rows(self.what)
        report.extend(done)
        return report

    def _write_rows(self, rows: Rows) -> Report:
        if self.store is not None:
            return get_format(self.format).write_rows(self.store, rows, self.options, self.overwrite)
        done = Report()
        done.count("rows", write_table(os.fspath(self.dst), rows, fsync=self.fsync))
        for loss in rows.losses:
            done.lose("", loss)
        for where, loss in table_losses(os.fspath(self.dst), rows):
            done.lose(where, loss)
        return done

    def _dropped(self) -> list[Problem]:
        """What of the source has no place in the destination, as far as nothing has to be written to know it."""
        if isinstance(self.what, WholeImage):
            return get_format(self.format).image_lost(self.what).losses
        if not isinstance(self.what, Rows):
            return get_format(self.format).lines_lost(self.what).losses
        if self.store is not None:
            return get_format(self.format).rows_lost(self.what).losses
        return [Problem(where, loss) for where, loss in table_losses(os.fspath(self.dst), self.what)]

    def plan(self) -> Plan:
        """What `run` would do."""
        self.refuse()
        name = _SEVERAL.get(self.what.type, f"{self.what.type}s") if isinstance(self.what, Rows) else "lines"
        if isinstance(self.what, WholeImage):
            name = "levels of an image"
        if self.store is None:
            there = is_there(self.dst)
        else:
            marks = get_format(self.format).marks if self.store.file is None else (self.store.file,)
            there = any(self.store.exists(mark) for mark in marks)
        losses = [Problem("", loss) for loss in self.what.losses]
        losses += self._dropped()
        where = os.fspath(self.dst) if self.store is None else self.store.root
        objects = [PlannedObjects(name, _count(self.what))]
        return Plan(where, self.format, there, losses=losses, objects=objects, notes=self._notes())

    def _notes(self) -> list[Problem]:
        notes = [] if isinstance(self.what, Rows | WholeImage) else self.what.notes
        return [Problem("", note, fatal=False) for note in notes]


def _count(what: Rows | Lines | WholeImage) -> int | None:
    """How many things there are to write."""
    return len(what.levels) if isinstance(what, WholeImage) else what.count


def _would_be_lost(losses: Iterable[Any]) -> UnsupportedError:
    return UnsupportedError("something would be lost", found="; ".join(map(str, losses)))
