"""Annotations and points as tables in files."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.converting.tables import (
    NANOMETER,
    NOTE,
    POSITIONS,
    ending_of,
    flat,
    kind_of_columns,
    known_axes,
    pyarrow_module,
)
from zvcore.documents.values import shown
from zvcore.errors import UnsupportedError
from zvcore.exchange.rows import names_of_values, value_of_text
from zvcore.stores.plain_files import complete_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zvcore.exchange.rows import Rows

__all__ = ["table_losses", "write_table"]

# Types whose values are of the same, or of one as wide, when the texts of a CSV file are read again.
_AS_READ = ("float32", "float64", "int64", "rgb", "rgba")


def write_table(path: str, rows: Rows, *, fsync: bool | None = None) -> int:
    """Write all rows into a file, as its name ends; how many there were. `fsync` as for `complete_file`."""
    _check_texts(path, rows)
    write = {".csv": _write_csv, ".parquet": _write_parquet, ".npz": _write_npz}[ending_of(path)]
    with complete_file(path, fsync) as partial:
        return write(partial, rows)


def _check_texts(path: str, rows: Rows) -> None:
    """JSON can name halves of characters (lone surrogates), which no file of text can hold."""
    if ending_of(path) == ".npz":
        return
    for name in dict.fromkeys([*rows.dimensions, *rows.relationships, *rows.types, *rows.properties, *rows.texts]):
        for text in (name, *names_of_values(rows.properties.get(name, {})).values(), *rows.texts.get(name, ())):
            try:
                text.encode()
            except UnicodeEncodeError:
                what = f"a name in the column {name!r} is no text that a {ending_of(path)} can hold"
                raise UnsupportedError(what, key=path, found=shown(text)) from None


def table_losses(path: str, rows: Rows) -> list[tuple[str, str]]:
    """(column or "", what of it has no place in a file of this kind), which `write_table` drops."""
    ending = ending_of(path)
    named = {*rows.relationships, *rows.types, *rows.properties, *rows.texts, *rows.missing}
    found = [
        (name, f"this column is called {title!r}: a coordinate has its name")
        for name, title in _titled(sorted(named), rows).items()
        if title != name and ending != ".npz"
    ]
    if ending == ".parquet":
        return found
    if rows.dimensions != dict.fromkeys(known_axes(rows.dimensions), NANOMETER):
        units = ", ".join(f"{name} in {scale:g} {unit}" for name, (scale, unit) in rows.dimensions.items())
        found.append(("", f"units of coordinates have no place in a {ending}: {units}"))
    if kind_of_columns([part for name in POSITIONS[rows.type] for part in flat(name, rows.dimensions)]) != rows.type:
        found.append(("", f"that these are of the type {rows.type} has no place in a {ending}"))
    for name in rows.relationships:
        found.append((name, f"that these are ids of related segments has no place in a {ending}"))
    found += [(name, "values that are missing are empty texts") for name in rows.missing if ending == ".csv"]
    for name in dict.fromkeys([*rows.types, *rows.properties]):
        declared = rows.properties.get(name, {})
        type = declared.get("type") or rows.types.get(name)
        lost = [f"the type {type}"] if ending == ".csv" and type not in (None, *_AS_READ) else []
        if declared.get("description"):
            lost.append("the description")
        if "enum_labels" in declared:
            apart = ending == ".csv" and _tell_apart(declared)
            lost.append("the numbers that names stand for" if apart else "the names of values")
        if lost:
            found.append((name, f"what a {ending} does not keep of this column: {', '.join(lost)}"))
    return found


def _titled(names: Iterable[str], rows: Rows) -> dict[str, str]:
    """{column: how a table calls it}: a property may be called as a coordinate is."""
    taken = {"id", *(part for name in POSITIONS[rows.type] for part in flat(name, rows.dimensions))}
    found: dict[str, str] = {}
    others = [name for name in names if name != "id" and name not in POSITIONS[rows.type]]
    for name in others:
        title = name
        while title in taken or (title != name and title in others):
            title += "_property"
        taken.add(title)
        found[name] = title
    return found


def _flattened(batch: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """A batch with a column for each coordinate; values that have names become these."""
    found: dict[str, Any] = {"id": batch["id"]}
    for name in POSITIONS[rows.type]:
        column = batch[name]
        if name == "points":
            found[name] = column
        else:
            found |= {part: column[:, axis] for axis, part in enumerate(flat(name, rows.dimensions))}
    for name, title in _titled(batch, rows).items():
        declared = rows.properties.get(name, {})
        found[title] = _labelled(batch[name], declared) if _tell_apart(declared) else batch[name]
    return found


def _tell_apart(declared: Mapping[str, Any]) -> bool:
    """Whether values have names that say which value is meant: each is another's than the others, and is no number."""
    names = [*names_of_values(declared).values()]
    return bool(names) and len(set(names)) == len(names) and all(value_of_text(name, {}) is None for name in names)


def _labelled(values: npt.NDArray[Any], declared: Mapping[str, Any]) -> npt.NDArray[Any]:
    """The names of values; a value that has none stays a number."""
    names = names_of_values(declared)
    known = dict(zip(np.array([*names]).astype(values.dtype).tolist(), names.values(), strict=True))
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
    writer, count = None, 0
    try:
        for batch in rows.batches():
            columns, titles = _flattened(batch, rows), _titled(batch, rows)
            note = {
                "type": rows.type, "dimensions": rows.dimensions,
                "relationships": [titles.get(name, name) for name in rows.relationships],
                "properties": {titles.get(name, name): one for name, one in rows.properties.items()},
            }  # fmt: skip
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
