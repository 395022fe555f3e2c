"""Annotations and points as tables in files."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.converting.tables import NOTE, POSITIONS, ending_of, flat, pyarrow_module
from zvcore.stores.plain_files import complete_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.exchange.rows import Rows

__all__ = ["write_table"]


def write_table(path: str, rows: Rows, *, fsync: bool | None = None) -> int:
    """Write all rows into a file, as its name ends; how many there were. `fsync` as for `complete_file`."""
    write = {".csv": _write_csv, ".parquet": _write_parquet, ".npz": _write_npz}[ending_of(path)]
    with complete_file(path, fsync) as partial:
        return write(partial, rows)


def _flattened(batch: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """A batch with a column for each coordinate; values that have names become these."""
    found: dict[str, Any] = {"id": batch["id"]}
    for name in POSITIONS[rows.type]:
        column = batch[name]
        if name == "points":
            found[name] = column
        else:
            found |= {part: column[:, axis] for axis, part in enumerate(flat(name, rows.dimensions))}
    for name, column in batch.items():
        if name != "id" and name not in POSITIONS[rows.type]:
            declared = rows.properties.get(name, {})
            # A property may be called as a coordinate is.
            title = f"{name}_property" if name in found else name
            found[title] = _labelled(column, declared) if "enum_labels" in declared else column
    return found


def _labelled(values: npt.NDArray[Any], declared: Mapping[str, Any]) -> npt.NDArray[Any]:
    """The names of values; a value that has none stays a number."""
    labels = declared["enum_labels"]
    given = np.array(declared.get("enum_values") or range(len(labels))).astype(values.dtype).tolist()
    known = dict(zip(given, labels, strict=False))
    numbers, places = np.unique(values, return_inverse=True)
    return np.array([known.get(number, str(number)) for number in numbers.tolist()], object)[places]


def _write_csv(path: str, rows: Rows) -> int:
    count, begins = 0, True
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for batch in rows.batches():
            columns = _flattened(batch, rows)
            if begins:
                writer.writerow(columns)
            begins = False
            writer.writerows(zip(*(_texts(column) for column in columns.values()), strict=True))
            count += len(batch["id"])
    return count


def _texts(column: Any) -> list[Any]:
    """What stands in the rows of a CSV file: numbers, #rrggbb, ids and points separated by semicolons."""
    if hasattr(column, "offsets"):
        if column.values.ndim == 1:
            return [";".join(map(str, row.tolist())) for row in column]
        return [";".join(" ".join(map(str, point)) for point in row.tolist()) for row in column]
    if column.ndim == 2:
        return [f"#{bytes(row).hex()}" for row in column]
    # What float32 has is written with as many digits as it needs.
    return [str(value) for value in column] if column.dtype == np.float32 else column.tolist()


def _write_parquet(path: str, rows: Rows) -> int:
    pyarrow = pyarrow_module()
    note = {
        "type": rows.type, "dimensions": rows.dimensions, "relationships": rows.relationships,
        "properties": rows.properties,
    }  # fmt: skip
    writer, count = None, 0
    try:
        for batch in rows.batches():
            columns = _flattened(batch, rows)
            table = pyarrow.table({name: _arrow(pyarrow, column) for name, column in columns.items()})
            table = table.replace_schema_metadata({NOTE: json.dumps(note).encode()})
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            count += len(batch["id"])
    finally:
        if writer is not None:
            writer.close()
    return count


def _arrow(pyarrow: Any, column: Any) -> Any:
    if hasattr(column, "offsets"):
        values = column.values
        inner = pyarrow.array(values) if values.ndim == 1 else _arrow(pyarrow, values)
        return pyarrow.LargeListArray.from_arrays(pyarrow.array(column.offsets), inner)
    if column.ndim == 2:
        values = pyarrow.array(np.ascontiguousarray(column).reshape(-1))
        return pyarrow.FixedSizeListArray.from_arrays(values, column.shape[1])
    return pyarrow.array(column.tolist() if column.dtype == object else column)


def _write_npz(path: str, rows: Rows) -> int:
    """All columns as they are; of rows of different lengths the values, and where each begins."""
    parts: dict[str, list[Any]] = {}
    count = 0
    for batch in rows.batches():
        count += len(batch["id"])
        for name, column in batch.items():
            if hasattr(column, "offsets"):
                parts.setdefault(name, []).append(column.values)
                parts.setdefault(f"{name}_lengths", []).append(np.diff(column.offsets))
            else:
                parts.setdefault(name, []).append(column)
    with open(path, "wb") as file:
        columns: Any = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        np.savez_compressed(file, **columns)
    return count
