"""Attributes of points as columns of a table: of names as they are, of several numbers a column for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.zvf.attributes import AttributeForm
    from zvcore.zvf.vector_store import Level

__all__ = ["Columns", "columns_of"]

# The columns of positions and of ids.
_POINT = "point"
_ID = "id"
# More numbers than these are no columns: a document may claim any count.
_MOST = 256


@dataclass
class Columns:
    """What becomes of the attributes of a level.

    names    {attribute: its columns}
    types    {column: the name of its type}, of those that hold numbers
    texts    {column: the different texts in it}, of those that hold texts
    missing  the columns in which values may be missing
    losses   what has no place in columns, in words
    """

    names: dict[str, list[str]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)

    def split(self, attributes: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """(column, values) of the attributes of some points."""
        for name, columns in self.names.items():
            values = attributes[name]
            if len(columns) == 1:
                yield columns[0], values if values.shape[1:] != (1,) else values[:, 0]
                continue
            table = values.reshape(len(values), len(columns))
            yield from ((column, table[:, number]) for number, column in enumerate(columns))


def columns_of(level: Level) -> Columns:
    """The columns that the attributes of vertices become."""
    found = Columns()
    names = level.attribute_names()
    taken = {_POINT, *names}
    for name in names:
        form = level.attribute_cells(name)[1]
        count = prod(form.row_shape)
        if count > _MOST:
            found.losses.append(f"the attribute {name!r} is left out: it has {count} numbers for each point")
            continue
        columns = [name]
        if count > 1 and not _is_colour(form):
            columns = [_free(f"{name}_{number}", taken) for number in range(count)]
            found.losses.append(f"the attribute {name!r} becomes {count} columns, {columns[0]!r} to {columns[-1]!r}")
        elif name == _POINT:
            columns = [_free(f"{name}_property", taken)]
            found.losses.append(f"the attribute {name!r} is called {columns[0]!r}: positions have its name")
        found.names[name] = columns
        _describe(found, form, columns)
    return found


def _is_colour(form: AttributeForm) -> bool:
    return form.dtype == np.uint8 and form.row_shape in ((3,), (4,))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _describe(found: Columns, form: AttributeForm, columns: Sequence[str]) -> None:
    categories = form.categories
    if form.missing is not None and categories is not None:
        found.missing.extend(columns)
    elif form.number_type is not None and columns != [_ID]:
        # Ids are ids, of whatever type they are stored.
        found.types.update(dict.fromkeys(columns, form.number_type.name))
    elif categories is not None and all(isinstance(one, str) for one in categories):
        found.texts.update({column: [*categories] for column in columns})
