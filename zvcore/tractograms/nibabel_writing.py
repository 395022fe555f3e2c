"""Files that nibabel writes, line by line: .trk and .tck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.file import library, reading
from zvcore.errors import UnsupportedError
from zvcore.exchange.line_positions import StoredPositions, narrowed
from zvcore.exchange.tractogram_header import ATTRIBUTE, kept_header
from zvcore.report import Report
from zvcore.stores.whole_files import file_for
from zvcore.tractograms.headers import for_other_kind
from zvcore.tractograms.streamlines import MILLIMETER, as_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from zvcore.exchange.lines import Lines
    from zvcore.stores import Store

__all__ = ["lines_lost", "write_lines"]

_TITLE = "tractogram"
# What .trk has room for: numbers of each vertex and of each line, and letters of their names.
_MOST, _LONGEST = 10, 18


def _nibabel() -> Any:
    return library("nibabel.streamlines", "tractograms", _TITLE)


def _kind(format: str) -> Any:
    nibabel = _nibabel()
    return {"trk": nibabel.TrkFile, "tck": nibabel.TckFile}[format]


def _header_for(format: str, lines: Lines, key: str, report: Report) -> dict[str, Any]:
    """The header of the file that is made of these lines, as far as it has place for what they tell."""
    kept = for_other_kind(lines.attrs.get(ATTRIBUTE), f".{format}", report)
    return kept_header(f".{format}", kept, _kind(format).create_empty_header(), key, report)


def lines_lost(format: str, lines: Lines, key: str = "") -> Report:
    """What of these lines has no place in such a file, but for what shows in positions."""
    report = Report()
    _header_for(format, lines, key, report)
    if not lines.numbered:
        report.lose("", f"lines of a .{format} have no ids: they are numbered in their order")
    if lines.empty:
        # Of such, nibabel reads no file of either kind as it was written.
        report.lose("", f"{lines.empty} lines without vertices have no place in a .{format}")
    for name in lines.groups:
        report.lose("", f"the group {name!r} has no place in a .{format}")
    of_points, of_lines, tables = _kept(format, lines, report)
    types = {name: dtype for name, (dtype, _) in lines.attributes.items()} | {n: t.dtype for n, t in tables.items()}
    for name in (*of_points, *of_lines):
        if np.dtype(types[name]).newbyteorder("=") != np.float32:
            # What they are is lost all the same: truth values come back as numbers.
            kept = ", with the same values" if np.can_cast(types[name], np.float32, "safe") else ""
            report.lose("", f"{name!r} of type {types[name]} is stored as float32{kept}")
    return report


def _kept(format: str, lines: Lines, report: Report) -> tuple[list[str], list[str], dict[str, npt.NDArray[Any]]]:
    """(attributes of vertices that there is room for, those of lines, the values of all of lines)."""
    of_points = _kept_names(format, {name: number for name, (_, number) in lines.attributes.items()}, report)
    tables = {name: as_table(np.asarray(values), lines.count) for name, values in lines.of_objects.items()}
    return of_points, _kept_names(format, {name: one.shape[1] for name, one in tables.items()}, report), tables


def write_lines(format: str, store: Store, lines: Lines) -> Report:
    """Write lines of any source into a new file, with the header that such a file had."""
    nibabel = _nibabel()
    report = Report()
    header = _header_for(format, lines, store.root, Report())
    report.extend(lines_lost(format, lines, store.root))
    of_points, of_lines, tables = _kept(format, lines, Report())
    single = np.dtype(np.float32)
    for name in of_lines:
        narrowed(tables[name], single, name, store.root)
    if format == "trk" and lines.count and lines.vertices == 0:
        raise UnsupportedError("a .trk does not hold lines that have no vertices at all", key=store.root)
    # nibabel moves coordinates only where it has all of them: they are given as they lie in the file.
    into_file = np.eye(4)
    if format == "trk":
        order = header["voxel_order"]
        header["voxel_order"] = (order.encode("latin-1", "replace") if isinstance(order, str) else order) or b"LPS"
        with reading(store.root, _TITLE):
            into_file = np.asarray(nibabel.trk.get_affine_rasmm_to_trackvis(header), np.float64)
    into_file = into_file @ np.diag([*[lines.nanometers / MILLIMETER] * 3, 1])
    # In a .tck, what is no number ends a line, and infinity the file: as a vertex, it would cut what it stands in.
    stored = StoredPositions(np.float32, into_file, store.root, finite=format == "tck")
    written = 0

    def items() -> Iterator[Any]:
        nonlocal written
        number = written = 0
        stored.again()
        for batch in lines.batches():
            bounds = batch.offsets.tolist()
            positions = stored(batch.positions)
            of_vertices = {name: narrowed(batch.attributes[name], single, name, store.root) for name in of_points}
            for row in range(len(batch.ids)):
                span = slice(bounds[row], bounds[row + 1])
                number += 1
                if span.start == span.stop:
                    continue
                points = {name: as_table(values[span], len(positions[span])) for name, values in of_vertices.items()}
                own = {name: tables[name][number - 1] for name in of_lines}
                written += 1
                yield nibabel.tractogram.TractogramItem(positions[span], own, points)

    made = nibabel.LazyTractogram.from_data_func(items)
    made.affine_to_rasmm = np.linalg.inv(into_file)
    with file_for(store, str(store.file)) as file:
        _kind(format)(made, header).save(file)
    stored.tell(report)
    report.count("lines", written)
    return report


def _kept_names(format: str, sizes: Mapping[str, int], report: Report) -> list[str]:
    """The attributes that the format has room for; the others are told."""
    found: list[str] = []
    room = _MOST if format == "trk" else 0
    for name, size in sizes.items():
        fits = len(name.encode("latin-1", "replace")) <= _LONGEST and name.isascii() and 0 < size <= room
        if fits:
            found.append(name)
            room -= size
        else:
            report.lose("", f"the attribute {name!r} has no place in a .{format}")
    return found
