"""References as tables of Parquet, as fsspec's `LazyReferenceMapper` reads them: a folder for each array."""

from __future__ import annotations

import base64
import json
import math
import os
from typing import TYPE_CHECKING, Any

from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores.plain_files import complete_folder
from zvcore.stores.presence import is_there

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["write_tables"]

# How many references one table has.
_RECORDS = 10_000


def write_tables(entries: Iterable[tuple[str, Any]], out: str, fsync: bool | None = None) -> int:
    """Write documents and chunks, by their keys in Zarr v2, those of one array together; returns how many chunks."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UnsupportedError("references as Parquet need pyarrow: pip install pyarrow") from error
    if is_there(out):
        raise ConflictError("something is there already; tables of references are a folder of their own", key=out)
    documents: dict[str, Any] = {}
    # Number of a table of the array -> number of a row -> its reference.
    tables: dict[int, dict[int, Any]] = {}
    grid: list[int] = []
    folder = ""
    count = 0

    def finish() -> None:
        for number, rows in tables.items():
            os.makedirs(os.path.join(partial, folder), exist_ok=True)
            path = os.path.join(partial, folder, f"refs.{number}.parq")
            parquet.write_table(pa.table(_columns(pa, rows)), path, compression="zstd")
        tables.clear()

    with complete_folder(out, fsync) as partial:
        for key, value in entries:
            array, _, name = key.rpartition("/")
            if name.startswith(".z"):
                documents[key] = json.loads(value)
                if name == ".zarray":
                    finish()
                    folder = array
                    document = documents[key]
                    grid = [-(-n // m) for n, m in zip(document["shape"], document["chunks"], strict=True)]
                continue
            row = _number([int(part) for part in name.split(".")], grid)
            tables.setdefault(row // _RECORDS, {})[row % _RECORDS] = value
            count += 1
        finish()
        with open(os.path.join(partial, ".zmetadata"), "w", encoding="utf-8") as file:
            json.dump({"metadata": documents, "record_size": _RECORDS}, file)
    return count


def _number(place: list[int], grid: list[int]) -> int:
    """A chunk's number in its grid, the last axis the fastest."""
    return sum(n * math.prod(grid[axis + 1 :]) for axis, n in enumerate(place)) if grid else 0


def _columns(pa: Any, rows: dict[int, Any]) -> dict[str, Any]:
    paths: list[Any] = [None] * _RECORDS
    raws: list[Any] = [None] * _RECORDS
    offsets, sizes = [0] * _RECORDS, [0] * _RECORDS
    columns: tuple[list[Any], ...] = (paths, offsets, sizes)
    for row, reference in rows.items():
        if isinstance(reference, list):
            for column, value in zip(columns, reference, strict=False):
                column[row] = value
        else:
            raws[row] = base64.b64decode(reference.removeprefix("base64:"))
    return {
        "path": pa.array(paths, pa.string()), "offset": pa.array(offsets, pa.int64()),
        "size": pa.array(sizes, pa.int64()), "raw": pa.array(raws, pa.binary()),
    }  # fmt: skip
