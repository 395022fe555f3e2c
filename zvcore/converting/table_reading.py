"""Tables in files as annotations and points. Whatever is wrong with what stands in a file is an error of zvcore."""

from __future__ import annotations

import csv
import itertools
from contextlib import contextmanager
from dataclasses import replace
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
from zvcore.documents import parse_any
from zvcore.documents.members import Items, Member, Number, Object, Place, Table, Text
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError, ZvcoreError
from zvcore.exchange.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["faults_of", "read_table"]

_ROWS = 1 << 16
# The csv module takes 128 KiB for more than any field: lines of thousands of points are longer.
_LONGEST_FIELD = 1 << 30
_NOTED = Table(
    Member("type", Text(*POSITIONS), default=None, null=True),
    Member("dimensions", Object(), default=None, null=True),
    Member("relationships", Items(Text()), default=(), null=True),
    Member("properties", Object(), default={}, null=True),
)
_PROPERTY = Table(
    Member("type", Text(), default="", null=True),
    Member("enum_values", Items(Number()), default=(), null=True),
    Member("enum_labels", Items(Text()), default=(), null=True),
)


@contextmanager
def faults_of(path: str | None) -> Iterator[None]:
    """What is wrong with values that come from this file, as an error that names it; None: they come from no file."""
    try:
        yield
    except ZvcoreError:
        raise
    except NotImplementedError as error:
        if path is None:
            raise
        raise UnsupportedError(str(error), key=path) from error
    except (ValueError, OverflowError, csv.Error) as error:
        if path is None:
            raise
        raise MetadataError(str(error), key=path) from error
    except OSError as error:
        # pyarrow's for bytes that it does not understand have no number.
        if path is None or error.errno is not None:
            raise
        raise CorruptDataError(str(error).strip(), key=path) from error


def read_table(path: str, options: dict[str, Any]) -> Rows:
    """The rows of a file. Takes out of the options what tells what its columns are: `kind`, `dimensions`,
    `relationships` and `properties`.
    """
    with faults_of(path):
        names, batches, known = (_read_csv if ending_of(path) == ".csv" else _read_parquet)(path)
    losses: list[str] = []
    kind = options.pop("kind", None) or known.get("type") or kind_of_columns(names)
    if kind not in POSITIONS:
        raise ValueError(f"annotations are {', '.join(POSITIONS)}, not {kind!r}")
    given = options.pop("dimensions", None)
    if given is None and known.get("dimensions"):
        with faults_of(path):
            given = _dimensions(known["dimensions"])
    if given is None:
        given = dict.fromkeys(known_axes(names), NANOMETER)
        losses.append("coordinates are taken to be nanometers; give dimensions= for others")
    dimensions = _dimensions(given)
    relationships = [str(name) for name in options.pop("relationships", None) or known.get("relationships") or ()]
    missing = [name for name in relationships if name not in names]
    if missing:
        raise MetadataError(f"there is no column {missing[0]!r}", key=path, found=", ".join(names))
    properties: dict[str, dict[str, Any]] = {**known.get("properties", {}), **(options.pop("properties", None) or {})}
    rows = Rows(kind, dimensions, batches, properties, relationships, losses=losses, source=path)
    with faults_of(path):
        if ending_of(path) == ".csv":
            return _typed(path, rows, names)
        for name, labels in known["texts"]().items():
            if name not in properties and name not in relationships:
                properties[name] = _names(labels)
    return rows


def _dimensions(given: Any) -> dict[str, tuple[float, str]]:
    try:
        return {str(name): (float(scale), str(unit)) for name, (scale, unit) in dict(given).items()}
    except (TypeError, ValueError):
        raise ValueError(f"dimensions are {{name: (scale, unit)}}, not {given!r}") from None


def _names(labels: Sequence[str]) -> dict[str, Any]:
    return {"type": "uint8" if len(labels) <= 256 else "uint16", "enum_labels": list(labels)}


def _read_csv(path: str) -> tuple[list[str], Callable[[], Iterator[dict[str, Any]]], dict[str, Any]]:
    def batches() -> Iterator[dict[str, Any]]:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            while lines := _next_lines(reader):
                # An empty line is no row.
                lines = [line for line in lines if line]
                wrong = next((line for line in lines if len(line) != len(names)), None)
                if wrong is not None:
                    raise MetadataError(
                        f"a row has another number of columns, before line {reader.line_num + 1}", key=path,
                        expected=len(names), found=len(wrong),
                    )  # fmt: skip
                columns = zip(*lines, strict=True) if lines else [()] * len(names)
                yield {name: np.array(texts, str) for name, texts in zip(names, columns, strict=True)}

    with open(path, newline="", encoding="utf-8-sig") as file:
        names = [name.strip() for name in next(csv.reader(file), [])]
    if len(set(names)) < len(names):
        raise MetadataError("two columns have the same name", key=path, found=", ".join(names))
    return names, batches, {}


def _next_lines(reader: Any) -> list[list[str]]:
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        return list(itertools.islice(reader, _ROWS))
    finally:
        csv.field_size_limit(before)


def _typed(path: str, rows: Rows, names: Sequence[str]) -> Rows:
    """The texts of a CSV file as numbers, where all of a column are such. The file is read twice."""
    texts = rows.batches
    places = {part for name in POSITIONS.get(rows.type, ()) for part in flat(name, rows.dimensions)}
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
    if kinds.get("id", int) is not int:
        raise MetadataError("the column 'id' holds what is no whole number of 64 bits", key=path)
    for name in wanted:
        if name in places:
            raise MetadataError(f"the column {name!r} holds what is no number", key=path)
        lengths = {len(text) if _is_colour(text) else 0 for text in labels[name]}
        if lengths in ({7}, {9}):
            rows.properties[name] = {"type": "rgb" if lengths == {7} else "rgba"}
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

    return replace(rows, batches=batches)


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


def _read_parquet(path: str) -> tuple[list[str], Callable[[], Iterator[dict[str, Any]]], dict[str, Any]]:
    pyarrow = pyarrow_module()

    def batches() -> Iterator[dict[str, Any]]:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield {name: _parquet_column(batch, number, path) for number, name in enumerate(batch.schema.names)}

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
    if "id" in schema.names and not str(schema.field("id").type).startswith(("int", "uint")):
        raise MetadataError("the column 'id' holds what are no whole numbers", key=path, found=schema.field("id").type)
    return list(schema.names), batches, {**_noted((schema.metadata or {}).get(NOTE), path), "texts": texts}


def _parquet_column(batch: Any, number: int, path: str) -> Any:
    column = batch.column(number)
    if not _is_text(column.type):
        return column
    if column.null_count:
        name = batch.schema.names[number]
        raise MetadataError(f"{column.null_count} texts are missing in the column {name!r}", key=path)
    return np.array(column.to_pylist(), str)


def _noted(raw: bytes | None, path: str) -> dict[str, Any]:
    """What such a file says of its columns; nothing where another program wrote something of that name."""
    if raw is None:
        return {}
    document = parse_any(raw, path)
    if not isinstance(document, dict):
        return {}
    place = Place(path, f"${NOTE.decode()}")
    found = _NOTED.load(document, place)
    for name, one in found["properties"].items():
        _PROPERTY.load(one, place.member("properties").member(name))
    return {name: value for name, value in found.items() if value}


def _is_text(type: Any) -> bool:
    """Dictionaries hold texts too, but not all batches need have the same one."""
    return str(type) in ("string", "large_string", "string_view") or str(type).startswith("dictionary<values=string")
