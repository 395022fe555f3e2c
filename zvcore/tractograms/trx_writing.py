"""Writing TRX: each array into a file of its own while lines are read, and these into an archive."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import MetadataError
from zvcore.exchange.line_positions import StoredPositions
from zvcore.exchange.tractogram_header import ATTRIBUTE
from zvcore.report import Report
from zvcore.stores.whole_files import file_for
from zvcore.tractograms.headers import for_other_kind
from zvcore.tractograms.streamlines import MILLIMETER, as_table
from zvcore.tractograms.trx_reading import TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    import numpy.typing as npt

    from zvcore.exchange.lines import Lines
    from zvcore.stores import Store

__all__ = ["lines_lost", "write_trx"]

# Bytes of an array that are put into the archive at once.
_AT_ONCE = 1 << 20
_EMPTY = {"VOXEL_TO_RASMM": np.eye(4).tolist(), "DIMENSIONS": [1, 1, 1]}


def write_trx(store: Store, lines: Lines) -> Report:
    """Write lines of any source into a new file, with the header that such a file had."""
    report = Report()
    kept = _kept(lines, store.root, report)
    _tell_ids(lines, report)
    with tempfile.TemporaryDirectory(prefix="zvcore-trx-") as folder:
        writing = _Writing(folder, lines, kept, report, store.root)
        count, vertices = writing.write()
        header = {**_EMPTY, **kept.get("header", {}), "NB_VERTICES": vertices, "NB_STREAMLINES": count}
        with file_for(store, str(store.file)) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("header.json", json.dumps(header))
            for name, path in writing.files.items():
                # As `archive.write` does it, which takes 8 KiB at a time.
                with open(path, "rb") as source, archive.open(zipfile.ZipInfo.from_file(path, name), "w") as member:
                    shutil.copyfileobj(source, member, _AT_ONCE)
    report.count("lines", count)
    return report


def _kept(lines: Lines, key: str, report: Report) -> Mapping[str, Any]:
    """What is kept of a header, for a TRX; what this has no place for is told."""
    kept = for_other_kind(lines.attrs.get(ATTRIBUTE), ".trx", report) or {}
    if not isinstance(kept, dict) or not isinstance(kept.get("header", {}), dict):
        raise MetadataError("the header of a tractogram cannot be read", key=key, found=repr(kept)[:99])
    said = kept.get("data_per_group")
    for group in said if isinstance(said, dict) else ():
        if group not in lines.groups:
            report.lose("", f"data of the group {group!r:.60} have no place in a TRX: there is no such group")
    return kept


def lines_lost(lines: Lines) -> Report:
    """What of these lines has no place in a TRX by its name or type, and what of a header has none."""
    report = Report()
    _kept(lines, "", report)
    _tell_ids(lines, report)
    named = _Writing("", lines, {}, report, "")
    for name, (dtype, _) in lines.attributes.items():
        named.fits("dpv", name, dtype)
    for name, values in lines.of_objects.items():
        named.fits("dps", name, np.asarray(values).dtype)
    for name in lines.groups:
        named.fits("groups", name, np.dtype("<u4"))
    return report


def _tell_ids(lines: Lines, report: Report) -> None:
    if not lines.numbered:
        report.lose("", "lines of a TRX have no ids: they are numbered in their order")


class _Writing:
    """The arrays of a file, as files in a folder: `files` are they by their names in the archive."""

    def __init__(self, folder: str, lines: Lines, kept: Mapping[str, Any], report: Report, key: str) -> None:
        self.folder, self.lines, self.report, self._key = folder, lines, report, key
        self.kept = kept
        self.files: dict[str, str] = {}
        self._taken: set[str] = set()

    def write(self) -> tuple[int, int]:
        """(lines, vertices)"""
        lines = self.lines
        scale = lines.nanometers / MILLIMETER
        types = self.kept.get("types")
        types = types if isinstance(types, dict) else {}
        given = lines.position_type()
        asked = TYPES.get(str(types.get("positions")), given)
        kind = np.dtype("<f4" if given.itemsize <= 4 else "<f8")
        # Positions that were stored in fewer bits are so again, unless others have come to them since.
        if asked.kind == "f" and scale == 1 and (asked.itemsize >= given.itemsize or self._all_fit(asked)):
            kind = asked
        stored = StoredPositions(kind, np.diag([*[scale] * 3, 1]), self._key)
        count = vertices = 0
        ids: list[npt.NDArray[np.int64]] = []
        with ExitStack() as opened:
            positions = opened.enter_context(self._file("positions", kind, 3))
            offsets = opened.enter_context(self._file("offsets", self._offset_type(types), 1))
            of_points = {
                name: opened.enter_context(self._file(f"dpv/{name}", dtype, number))
                for name, (dtype, number) in lines.attributes.items()
                if self.fits("dpv", name, dtype)
            }
            self._put(offsets, np.zeros(1), self._offset_type(types))
            for batch in lines.batches():
                self._put(positions, stored(batch.positions), kind)
                self._put(offsets, batch.offsets[1:] + vertices, self._offset_type(types))
                for name, file in of_points.items():
                    self._put(file, batch.attributes[name], lines.attributes[name][0])
                count, vertices = count + len(batch.ids), vertices + len(batch.positions)
                ids.append(batch.ids)
        stored.tell(self.report)
        self._write_of_lines(count)
        self._write_groups(np.concatenate(ids) if ids else np.zeros(0, np.int64))
        return count, vertices

    def _all_fit(self, dtype: np.dtype[Any]) -> bool:
        """Whether no position changes in this type; all are read for it, as far as that takes."""
        with np.errstate(over="ignore"):
            return all(
                np.array_equal(one.positions, one.positions.astype(dtype), equal_nan=True)
                for one in self.lines.batches()
            )

    def _offset_type(self, types: Mapping[str, Any]) -> np.dtype[Any]:
        few = str(types.get("offsets")) == "uint32" and (self.lines.vertices or 2**32) < 2**32
        return np.dtype("<u4" if few else "<u8")

    def _write_of_lines(self, count: int) -> None:
        for name, values in self.lines.of_objects.items():
            table = as_table(np.asarray(values)[:count], count)
            if self.fits("dps", name, table.dtype):
                with self._file(f"dps/{name}", table.dtype, table.shape[1]) as file:
                    self._put(file, table, table.dtype)

    def _write_groups(self, ids: npt.NDArray[np.int64]) -> None:
        """Groups have the numbers of lines, which need not be their ids."""
        order = np.argsort(ids, kind="stable")
        for name, members in self.lines.groups.items():
            if self.fits("groups", name, np.dtype("<u4")):
                at = np.searchsorted(ids, members, sorter=order)
                rows = order[np.minimum(at, max(len(ids) - 1, 0))] if len(ids) else np.zeros(0, np.int64)
                there = ids[rows] == members if len(ids) else np.zeros(len(members), bool)
                if not there.all():
                    self.report.lose("", f"the group {name!r} has {int((~there).sum())} lines that there are not")
                    rows = rows[there]
                with self._file(f"groups/{name}", np.dtype("<u4"), 1) as file:
                    self._put(file, rows, np.dtype("<u4"))
        said = self.kept.get("data_per_group")
        for group, named in said.items() if isinstance(said, dict) else ():
            if group in self.lines.groups and isinstance(named, dict):
                self._write_of_group(group, named)

    def _write_of_group(self, group: str, named: Mapping[str, Any]) -> None:
        for name, one in named.items():
            said = one if isinstance(one, dict) else {}
            dtype, values = TYPES.get(str(said.get("type"))), said.get("values")
            if dtype is None or not isinstance(values, list) or not self.fits(f"dpg/{group}", name, dtype):
                self.report.lose("", f"{name!r} of the group {group!r} cannot be read")
                continue
            try:
                found = np.asarray(values, dtype).reshape(-1)
            except (TypeError, ValueError, OverflowError):
                self.report.lose("", f"{name!r} of the group {group!r} cannot be read")
                continue
            with self._file(f"dpg/{group}/{name}", dtype, max(1, len(found))) as file:
                self._put(file, found, dtype)

    def fits(self, folder: str, name: str, dtype: np.dtype[Any]) -> bool:
        """Whether an array may be called so and have such items; else it is told as lost."""
        place = f"{folder}/{name}"
        plain = bool(name) and not set(name) & set('./\\:*?"<>|\0') and place not in self._taken
        known = dtype.kind == "b" or dtype.newbyteorder("=").name in TYPES
        if not (plain and known):
            self.report.lose("", f"{folder} {name!r} of type {dtype} has no place in a TRX")
            return False
        self._taken.add(place)
        return True

    def _file(self, name: str, dtype: np.dtype[Any], numbers: int) -> BinaryIO:
        kind = "bit" if dtype.kind == "b" else dtype.newbyteorder("=").name
        path = os.path.join(self.folder, str(len(self.files)))
        self.files[f"{name}.{kind}" if numbers == 1 else f"{name}.{numbers}.{kind}"] = path
        return open(path, "wb")

    def _put(self, file: BinaryIO, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
        file.write(np.ascontiguousarray(values, dtype.newbyteorder("<")).tobytes())
