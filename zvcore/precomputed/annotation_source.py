"""What users give as annotations: mappings of columns, structured arrays, tables of pandas and pyarrow, batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.ragged import Ragged

__all__ = ["Named", "as_columns", "batches_of", "length_of", "sliced"]


class Named:
    """A column of names: codes, and the names that they stand for."""

    def __init__(self, codes: npt.NDArray[Any], names: list[str]) -> None:
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < max(len(names), 1):
            raise ValueError("a column of categories has missing values")
        self.codes = codes
        self.names = names

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Named:
        """From strings. Not through an array of str, in which all are as long as the longest."""
        texts = values.tolist()
        if any(text is None or text != text for text in texts):
            raise ValueError("a column of texts has missing values")
        texts = [str(text) for text in texts]
        names = sorted(set(texts))
        numbers = {name: number for number, name in enumerate(names)}
        return cls(np.fromiter((numbers[text] for text in texts), np.int64, len(texts)), names)


def batches_of(source: Any) -> tuple[dict[str, Any] | None, Iterator[dict[str, Any]]]:
    """(all columns, batches): the first is None where the source is an iterable of batches."""
    if isinstance(source, Mapping | np.ndarray) or _is_table(source):
        whole = as_columns(source)
        return whole, iter([whole])
    if isinstance(source, Iterable):
        return None, map(as_columns, source)
    raise TypeError(
        f"annotations are columns by their names, a table, or batches of these, not {type(source).__name__}"
    )


def _is_table(source: Any) -> bool:
    return hasattr(source, "columns") or (hasattr(source, "schema") and hasattr(source, "column"))


def as_columns(source: Any) -> dict[str, Any]:
    """The columns of a mapping, of a structured array, or of a table, by their names."""
    if isinstance(source, Mapping):
        return {str(name): _column(column) for name, column in source.items()}
    if isinstance(source, np.ndarray) and source.dtype.names is not None:
        return {name: source[name] for name in source.dtype.names}
    if hasattr(source, "schema") and hasattr(source, "column"):
        return {str(name): _arrow(source.column(number)) for number, name in enumerate(source.schema.names)}
    if hasattr(source, "columns"):
        return {str(name): _column(source[name]) for name in source.columns}
    raise TypeError(f"a batch is columns by their names, a structured array or a table, not {type(source).__name__}")


def _column(column: Any) -> Any:
    """A numpy array, `Ragged`, `Named`, or rows as they are."""
    if np.ma.is_masked(column):
        raise ValueError("a column has missing values: fill them in")
    if isinstance(column, np.ndarray | Ragged | Named):
        return np.asarray(column) if isinstance(column, np.ma.MaskedArray) else column
    if hasattr(column, "combine_chunks") or hasattr(column, "null_count"):
        return _arrow(column.to_arrow() if hasattr(column, "to_arrow") else column)
    categories = getattr(column, "cat", None)
    if categories is not None and hasattr(categories, "codes"):
        return Named(np.asarray(categories.codes), [str(one) for one in categories.categories])
    if hasattr(column, "to_numpy"):
        return column.to_numpy()
    if hasattr(column, "__array__"):
        return np.asarray(column)
    return column


def _arrow(column: Any) -> Any:
    """A column of pyarrow: lists become `Ragged`, dictionaries `Named`."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if hasattr(column, "num_chunks"):
        column = column.chunk(0) if column.num_chunks == 1 else column.to_numpy()
        if isinstance(column, np.ndarray):
            return column
    kind = str(column.type)
    if kind.startswith("fixed_size_list"):
        _refuse_missing(column)
        width = column.type.list_size
        flat = _arrow(column.flatten())
        return flat.reshape(-1, width, *flat.shape[1:]) if isinstance(flat, np.ndarray) else flat
    if kind.startswith(("list", "large_list")):
        lengths = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Ragged(_arrow(column.flatten()), offsets)
    if kind.startswith("dictionary"):
        _refuse_missing(column)
        return Named(column.indices.to_numpy(zero_copy_only=False), [str(one) for one in column.dictionary.to_pylist()])
    if not kind.startswith(("float", "double", "halffloat")):
        _refuse_missing(column)
    return column.to_numpy(zero_copy_only=False)


def _refuse_missing(column: Any) -> None:
    if column.null_count:
        raise ValueError(f"a column of {column.type} has {column.null_count} missing values")


def length_of(columns: Mapping[str, Any]) -> int:
    """How many rows there are; ValueError if columns differ."""
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"columns have different lengths: {', '.join(f'{n!r} {k}' for n, k in counts.items())}")
    return next(iter(counts.values()), 0)


def sliced(columns: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """The rows, so many at a time."""
    count = length_of(columns)
    if count <= size:
        yield dict(columns)
        return
    for first in range(0, count, size):
        last = min(count, first + size)
        yield {name: _rows(column, first, last) for name, column in columns.items()}


def _rows(column: Any, first: int, last: int) -> Any:
    if isinstance(column, Ragged):
        return column.rows(first, last)
    if isinstance(column, Named):
        return Named(column.codes[first:last], column.names)
    return column[first:last]
