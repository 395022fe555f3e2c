"""Tables in files: CSV, Parquet (through pyarrow) and npz, as sources and destinations of annotations and points."""

from __future__ import annotations

import csv
import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.converting import TABLES
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.exchange.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["READ", "WRITTEN", "ending_of", "read_table", "write_table"]

READ = tuple(f".{name}" for name in TABLES)
WRITTEN = (*READ, ".npz")
_ROWS = 1 << 16
_NOTE = b"zvcore"
_POSITIONS = {
    "point": ("point",), "line": ("point_a", "point_b"), "axis_aligned_bounding_box": ("point_a", "point_b"),
    "ellipsoid": ("center", "radii"), "polyline": ("points",),
}  # fmt: skip
_SUFFIXES = {"point": "", "point_a": "_a", "point_b": "_b", "center": "", "radii": "_radius"}


def ending_of(path: Any) -> str:
    """How the name of a file ends, in small letters; "" of what is no path."""
    return os.path.splitext(os.fspath(path))[1].lower() if isinstance(path, str | os.PathLike) else ""


# --- reading


def read_table(path: str, options: dict[str, Any]) -> Rows:
    """The rows of a file. Takes out of the options what tells what its columns are: `kind`, `dimensions`,
    `relationships` and `properties`.
    """
    names, batches, known = (_read_csv if ending_of(path) == ".csv" else _read_parquet)(path)
    losses: list[str] = []
    kind = str(options.pop("kind", None) or known.get("type") or _kind_of(names))
    given = options.pop("dimensions", None) or known.get("dimensions")
    if given is None:
        axes = [axis for axis in ("x", "y", "z", "t") if axis in names or f"{axis}_a" in names] or ["x", "y", "z"]
        given = dict.fromkeys(axes, (1e-09, "m"))
        losses.append("coordinates are taken to be nanometers; give dimensions= for others")
    dimensions = {name: (float(scale), str(unit)) for name, (scale, unit) in dict(given).items()}
    relationships = [str(name) for name in options.pop("relationships", None) or known.get("relationships") or ()]
    missing = [name for name in relationships if name not in names]
    if missing:
        raise MetadataError(f"there is no column {missing[0]!r}", key=path, found=", ".join(names))
    properties: dict[str, dict[str, Any]] = {**known.get("properties", {}), **(options.pop("properties", None) or {})}
    if ending_of(path) == ".csv":
        return _typed(path, Rows(kind, dimensions, batches, properties, relationships, losses=losses), names)
    for name, labels in known["texts"]().items():
        if name not in properties and name not in relationships:
            properties[name] = _names(labels)
    return Rows(kind, dimensions, batches, properties, relationships, losses=losses)


def _kind_of(names: Sequence[str]) -> str:
    if "points" in names:
        return "polyline"
    if "radii" in names or any(name.endswith("_radius") for name in names):
        return "ellipsoid"
    return "line" if "point_a" in names or any(f"{axis}_a" in names for axis in "xyz") else "point"


def _names(labels: Sequence[str]) -> dict[str, Any]:
    return {"type": "uint8" if len(labels) <= 256 else "uint16", "enum_labels": list(labels)}


def _read_csv(path: str) -> tuple[list[str], Callable[[], Iterator[dict[str, Any]]], dict[str, Any]]:
    def batches() -> Iterator[dict[str, Any]]:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            while lines := list(itertools.islice(reader, _ROWS)):
                lines = [line for line in lines if line]
                wrong = next((line for line in lines if len(line) != len(names)), None)
                if wrong is not None:
                    raise MetadataError(
                        f"a row has another number of columns, before line {reader.line_num + 1}", key=path,
                        expected=len(names), found=len(wrong),
                    )  # fmt: skip
                yield {name: np.array(texts, str) for name, texts in zip(names, zip(*lines, strict=True), strict=False)}

    with open(path, newline="", encoding="utf-8-sig") as file:
        names = [name.strip() for name in next(csv.reader(file), [])]
    if len(set(names)) < len(names):
        raise MetadataError("two columns have the same name", key=path, found=", ".join(names))
    return names, batches, {}


def _typed(path: str, rows: Rows, names: Sequence[str]) -> Rows:
    """The texts of a CSV file as numbers, where all of a column are such. The file is read twice."""
    texts = rows.batches
    places = {part for name in _POSITIONS.get(rows.type, ()) for part in _flat(name, rows.dimensions)}
    kinds: dict[str, Any] = {name: int for name in names if name not in rows.relationships and name != "points"}
    labels: dict[str, set[str]] = {}
    for batch in texts():
        for name in kinds:
            kinds[name] = _kind(batch[name], kinds[name])
            if kinds[name] is str:
                labels.setdefault(name, set())
    wanted = [name for name in labels if name not in rows.properties]
    for batch in texts() if wanted else ():
        for name in wanted:
            labels[name].update(np.unique(batch[name]).tolist())
    for name in wanted:
        if name in places or name == "id":
            raise MetadataError(f"the column {name!r} holds what is no number", key=path)
        if all(_is_colour(text) for text in labels[name]):
            rows.properties[name] = {"type": "rgb" if len(min(labels[name])) == 7 else "rgba"}
        else:
            rows.properties[name] = _names(sorted(labels[name]))

    def batches() -> Iterator[dict[str, Any]]:
        for batch in texts():
            yield {
                name: _related(column)
                if name in rows.relationships
                else _lines(column)
                if name == "points"
                else _numbers(column, kinds[name])
                for name, column in batch.items()
            }

    return Rows(rows.type, rows.dimensions, batches, rows.properties, rows.relationships, losses=rows.losses)


def _is_colour(text: str) -> bool:
    return text.startswith("#") and len(text) in (7, 9) and not text[1:].strip("0123456789abcdefABCDEF")


def _kind(texts: npt.NDArray[Any], kind: Any) -> Any:
    """int, float or str: the narrowest that the texts are, not narrower than before."""
    for one in (int, float):
        if kind is str or (kind is float and one is int):
            continue
        try:
            _numbers(texts, one)
        except (ValueError, OverflowError):
            continue
        return one
    return str


def _numbers(texts: npt.NDArray[Any], kind: Any) -> npt.NDArray[Any]:
    if kind is not int:
        return texts if kind is str else texts.astype(np.float64)
    try:
        return texts.astype(np.int64)
    except OverflowError:
        return texts.astype(np.uint64)


def _related(texts: npt.NDArray[Any]) -> list[list[int]]:
    return [[int(part) for part in text.split(";") if part.strip()] for text in texts.tolist()]


def _lines(texts: npt.NDArray[Any]) -> list[list[list[float]]]:
    return [[[float(one) for one in point.split()] for point in text.split(";")] for text in texts.tolist()]


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnsupportedError("Parquet is read and written through pyarrow: pip install pyarrow") from None
    return pyarrow


def _read_parquet(path: str) -> tuple[list[str], Callable[[], Iterator[dict[str, Any]]], dict[str, Any]]:
    pyarrow = _pyarrow()

    def batches() -> Iterator[dict[str, Any]]:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield {
                    name: np.array(batch.column(number).to_pylist(), str)
                    if _is_text(batch.schema.field(number).type)
                    else batch.column(number)
                    for number, name in enumerate(batch.schema.names)
                }

    def texts() -> dict[str, list[str]]:
        found: dict[str, set[str]] = {
            name: set() for name in schema.names if _is_text(schema.field(name).type)
        }  # fmt: skip
        for batch in batches() if found else ():
            for name, labels in found.items():
                labels.update(np.unique(batch[name]).tolist())
        return {name: sorted(labels) for name, labels in found.items()}

    with pyarrow.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    try:
        known = json.loads((schema.metadata or {}).get(_NOTE, b"{}"))
    except ValueError:
        known = {}
    return list(schema.names), batches, {**(known if isinstance(known, dict) else {}), "texts": texts}


def _is_text(type: Any) -> bool:
    """Dictionaries hold texts too, but not all batches need have the same one."""
    return str(type) in ("string", "large_string", "string_view") or str(type).startswith("dictionary<values=string")


# --- writing


def write_table(path: str, rows: Rows) -> int:
    """Write all rows into a file, as its name ends; how many there were."""
    partial = f"{path}.{os.getpid()}.partial"
    write = {".csv": _write_csv, ".parquet": _write_parquet, ".npz": _write_npz}[ending_of(path)]
    try:
        count = write(partial, rows)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise
    return count


def _flat(name: str, dimensions: Mapping[str, Any]) -> list[str]:
    return [f"{axis}{_SUFFIXES[name]}" for axis in dimensions] if name in _SUFFIXES else [name]


def _flattened(batch: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """A batch with a column for each coordinate; values that have names become these."""
    found: dict[str, Any] = {"id": batch["id"]}
    for name in _POSITIONS[rows.type]:
        column = batch[name]
        if name == "points":
            found[name] = column
        else:
            found |= {part: column[:, axis] for axis, part in enumerate(_flat(name, rows.dimensions))}
    for name, column in batch.items():
        if name not in found and name not in _POSITIONS[rows.type]:
            declared = rows.properties.get(name, {})
            found[name] = _labelled(column, declared) if "enum_labels" in declared else column
    return found


def _labelled(values: npt.NDArray[Any], declared: Mapping[str, Any]) -> npt.NDArray[Any]:
    """The names of values; a value that has none stays a number."""
    labels = list(declared["enum_labels"])
    numbers = np.array(declared.get("enum_values") or range(len(labels)))
    order = np.argsort(numbers)
    places = order[np.minimum(np.searchsorted(numbers[order], values), len(numbers) - 1)]
    return np.where(numbers[places] == values, np.array(labels, object)[places], values.astype(str).astype(object))


def _write_csv(path: str, rows: Rows) -> int:
    count = 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for batch in rows.batches():
            flat = _flattened(batch, rows)
            if not count:
                writer.writerow(flat)
            writer.writerows(zip(*(_texts(column) for column in flat.values()), strict=True))
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
    pyarrow = _pyarrow()
    note = {
        "type": rows.type, "dimensions": rows.dimensions, "relationships": rows.relationships,
        "properties": rows.properties,
    }  # fmt: skip
    writer, count = None, 0
    try:
        for batch in rows.batches():
            flat = _flattened(batch, rows)
            table = pyarrow.table({name: _arrow(pyarrow, column) for name, column in flat.items()})
            table = table.replace_schema_metadata({_NOTE: json.dumps(note).encode()})
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
        flat = pyarrow.array(np.ascontiguousarray(column).reshape(-1))
        return pyarrow.FixedSizeListArray.from_arrays(flat, column.shape[1])
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
