"""What hangs on objects and on groups of them: what the store has, together with what is appended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.casting import is_held_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.zvf.vector_store import Level

__all__ = ["as_stored", "merged_group_attributes", "merged_groups"]


def as_stored(what: str, new: npt.NDArray[Any], old: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values in the type of those that the store has; ValueError for what that cannot hold."""
    if new.shape[1:] != old.shape[1:]:
        raise ValueError(f"{what} has rows of shape {new.shape[1:]}, and of {old.shape[1:]} in the store")
    if new.dtype.kind not in "fiub" or not is_held_by(old.dtype, new):
        raise ValueError(f"{what} is {new.dtype} and {old.dtype} in the store, which cannot hold all of its values")
    return new.astype(old.dtype)


def merged_groups(level: Level | None, given: Mapping[int, Any]) -> dict[int, Any]:
    """The members of each group: those that it has, then the new ones."""
    groups: dict[int, Any] = {} if level is None else dict(level.groups())
    for number, members in given.items():
        if int(number) < 0:
            raise ValueError(f"group ids must be >= 0, got {number}")
        groups[int(number)] = [*groups.get(int(number), ()), *members]
    if level is not None:
        # Groups at the end may be empty; what hangs on them tells of them.
        rows = max((len(level.group_attribute(name)) for name in level.group_attribute_names()), default=0)
        if rows:
            groups.setdefault(rows - 1, ())
    return groups


def merged_group_attributes(
    level: Level | None, groups: Mapping[int, Any], given: Mapping[str, Any]
) -> dict[str, npt.NDArray[Any]]:
    """A row for each group: those of the store, then what is given for the groups that are new."""
    values = {name: np.asarray(rows) for name, rows in given.items()}
    count = max(groups, default=-1) + 1
    if level is None:
        for name, one in values.items():
            # The i-th row is of group i, so numbers that are not given to groups have a row too.
            if one.ndim < 1 or len(one) != count:
                there = len(one) if one.ndim else "no"
                raise ValueError(f"group attribute {name!r} has {there} rows for the groups 0 to {count - 1}")
        return values
    had = {name: level.group_attribute(name) for name in level.group_attribute_names()}
    known = max(max(level.groups(), default=-1) + 1, *map(len, had.values()), 0)
    found = {}
    for name in [*had, *(name for name in values if name not in had)]:
        if name not in values and count == known:
            found[name] = had[name]
            continue
        if name not in values:
            raise ValueError(f"the store has the group attribute {name!r}, of which the new groups have no values")
        expected = count - known if name in had else count
        if values[name].ndim < 1 or len(values[name]) != expected:
            rows = len(values[name]) if values[name].ndim else "no"
            first = known if name in had else 0
            raise ValueError(f"group attribute {name!r} has {rows} rows for the {expected} groups from {first} on")
        if name in had and len(had[name]) != known:
            raise ValueError(f"group attribute {name!r} has {len(had[name])} rows for {known} groups in the store")
        found[name] = values[name]
        if name in had:
            new = as_stored(f"group attribute {name!r}", values[name], had[name])
            found[name] = np.concatenate([had[name], new])
    return found
