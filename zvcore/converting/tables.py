"""Tables in files (CSV, Parquet through pyarrow, npz): how their names end, and what their columns are called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from zvcore.converting import TABLES
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "NANOMETER",
    "NOTE",
    "POSITIONS",
    "READ",
    "WRITTEN",
    "ending_of",
    "flat",
    "kind_of_columns",
    "known_axes",
    "pyarrow_module",
]

READ = tuple(f".{name}" for name in TABLES)
WRITTEN = (*READ, ".npz")
# What Parquet files keep of the annotations besides their columns, among the metadata of the schema.
NOTE = b"zvcore"
# The columns that say where annotations of each type lie.
POSITIONS = {
    "point": ("point",), "line": ("point_a", "point_b"), "axis_aligned_bounding_box": ("point_a", "point_b"),
    "ellipsoid": ("center", "radii"), "polyline": ("points",),
}  # fmt: skip
# The unit that coordinates are taken to have where nothing tells of it.
NANOMETER = (1e-9, "m")
_SUFFIXES = {"point": "", "point_a": "_a", "point_b": "_b", "center": "", "radii": "_radius"}


def ending_of(path: Any) -> str:
    """How the name of a file ends, in small letters; "" of what is no path."""
    return os.path.splitext(os.fspath(path))[1].lower() if isinstance(path, str | os.PathLike) else ""


def flat(name: str, dimensions: Iterable[str]) -> list[str]:
    """The columns of a table that a column of positions becomes: one for each coordinate."""
    return [f"{axis}{_SUFFIXES[name]}" for axis in dimensions] if name in _SUFFIXES else [name]


def known_axes(names: Collection[str]) -> list[str]:
    """The axes of a table with columns of these names, where nothing else tells of them."""
    return [axis for axis in ("x", "y", "z", "t") if axis in names or f"{axis}_a" in names] or ["x", "y", "z"]


def kind_of_columns(names: Collection[str]) -> str:
    """Of which type the annotations of a table are, where nothing but the names of its columns tells."""
    if "points" in names:
        return "polyline"
    if "radii" in names or any(name.endswith("_radius") for name in names):
        return "ellipsoid"
    return "line" if "point_a" in names or any(f"{axis}_a" in names for axis in "xyz") else "point"


def pyarrow_module() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnsupportedError("Parquet is read and written through pyarrow: pip install pyarrow") from None
    return pyarrow
