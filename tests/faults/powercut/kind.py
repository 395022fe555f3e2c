"""What a kind of write is, and what kinds of several formats have in common.

Each step gives what it changes one value: 2, then 3; what was there before has 1. A check gives the values that it
finds, one for each unit that is old or new as a whole (0 where nothing is stored), and fails for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from zvcore.errors import NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zvcore.stores import LocalStore

STEPS = (2, 3)
# What a chunk that was being overwritten may be, and none that is written.
TORN = -1
DAMAGED = -2


@dataclass(frozen=True)
class Kind:
    """A kind of write.

    begin   makes what is there before, in a folder
    step    one write, into a store in that folder: the write of this value
    check   the values of what the writes change; it sees to the rest itself
    """

    name: str
    begin: Callable[[Path], Any]
    step: Callable[[LocalStore, int], Any]
    check: Callable[[Path], list[int]]


def value_of(values: Any) -> int:
    """The one value of a unit: that of a step, or 0 for what is not stored."""
    found = np.unique(np.asarray(values))
    assert len(found) == 1 and found[0] in (0, 1, *STEPS), f"neither old nor new: {found[:8]}"
    return int(found[0])


def in_order(done: Mapping[int, bool]) -> int:
    """The last value whose step is done, and those of all before it; 1 if none is."""
    found = 1
    for value, there in done.items():
        if not there:
            break
        found = value
    return found


def nothing(path: Path) -> None:
    path.mkdir()


def opened(path: Path) -> Any:
    """The array that is there, or None."""
    try:
        found = zvcore.open(path)
    except (NotFoundError, UnsupportedError):
        return None
    if isinstance(found, zvcore.precomputed.Volume):
        return found[0] if len(found) else None
    return found if isinstance(found, zvcore.Array) else None


def array_of(**options: Any) -> Callable[[Path], Any]:
    def make(path: Path) -> Any:
        array = zvcore.create(path, dtype="u4", **options)
        array[...] = 1
        return array

    return make


def assign(region: Any = ..., **options: Any) -> Callable[[LocalStore, int], Any]:
    def step(store: LocalStore, value: int) -> None:
        zvcore.open(store, mode="r+", **options)[region] = value

    return step


def by_unit(side: tuple[int, ...], region: Any = None, **options: Any) -> Callable[[Path], list[int]]:
    """One value for each cell of this size; those outside of the region, if there is one, were never changed."""

    def check(path: Path) -> list[int]:
        values = zvcore.open(path, **options)[...]
        found = []
        for at in np.ndindex(*(n // s for n, s in zip(values.shape, side, strict=True))):
            cell = tuple(slice(i * s, i * s + s) for i, s in zip(at, side, strict=True))
            value = value_of(values[cell])
            if region is None or all(c.start < r.stop and r.start < c.stop for c, r in zip(cell, region, strict=True)):
                found.append(value)
            else:
                assert value == 1, f"what nobody changed has the value {value}"
        return found

    return check


def rewritten(name: str, options: dict[str, Any], unit: tuple[int, ...], region: Any = None, **how: Any) -> Kind:
    """An array that is there is written again."""
    step = assign(... if region is None else region, **opening(options), **how)
    return Kind(name, array_of(**options), step, by_unit(unit, region, **opening(options)))


def new(name: str, options: dict[str, Any], unit: tuple[int, ...]) -> Kind:
    """An array in which nothing is stored is written."""

    def begin(path: Path) -> None:
        zvcore.create(path, dtype="u4", **options)

    return Kind(name, begin, assign(**opening(options)), by_unit(unit, **opening(options)))


def opening(options: dict[str, Any]) -> dict[str, Any]:
    return {"scale": 0} if options["format"] == "precomputed" else {}


# --- attributes and members


def step_attributes(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").attrs.update({f"a{i}": value for i in range(20)})


def check_attributes(path: Path) -> list[int]:
    attrs = dict(zvcore.open(path).attrs)
    return [value_of([attrs.get(f"a{i}", 1) for i in range(20)])]


def begin_group(format: str) -> Callable[[Path], Any]:
    def begin(path: Path) -> None:
        zvcore.open(path, mode="w", format=format).create_group("kept")

    return begin


def step_deep(store: LocalStore, value: int) -> None:
    group = zvcore.open(store, mode="r+")
    group.create_dataset(f"a{value}/b/c", shape=(8,), dtype="u4", chunks=(8,), codec=None)[...] = 1


def check_deep(path: Path) -> list[int]:
    group = zvcore.open(path)
    assert "kept" in group
    done = {}
    for value in STEPS:
        name = f"a{value}/b/c"
        there = f"a{value}" in group and f"a{value}/b" in group and name in group
        member = group[name] if there else None
        # In N5, a folder without attributes is a group.
        done[value] = isinstance(member, zvcore.Array) and value_of(member[...]) == 1
    return [in_order(done)]


def step_create(format: str) -> Callable[[LocalStore, int], Any]:
    def step(store: LocalStore, value: int) -> None:
        place = store.child(f"deep/er/{value}")
        zvcore.create(place, format=format, shape=(8, 8, 8), dtype="u4", chunks=(8, 8, 8))[...] = 1

    return step


def check_create(path: Path) -> list[int]:
    arrays = {value: opened(path / "deep" / "er" / str(value)) for value in STEPS}
    return [in_order({value: one is not None and value_of(one[...]) == 1 for value, one in arrays.items()})]


def begin_members(format: str) -> Callable[[Path], Any]:
    def begin(path: Path) -> None:
        group = zvcore.open(path, mode="w", format=format)
        for name in ("kept", "a/2", "a/3"):
            group.create_dataset(name, shape=(16, 16), dtype="u4", chunks=(8, 8), codec=None)[...] = 1

    return begin


def step_delete_member(store: LocalStore, value: int) -> None:
    group = zvcore.open(store, mode="r+")
    del group[f"a/{value}"]


def kinds_of_groups(said: str, format: str) -> list[Kind]:
    """Writes of groups and of their members."""
    return [
        Kind(f"{said} dataset deep in groups", begin_group(format), step_deep, check_deep),
        Kind(f"{said} array, created", nothing, step_create(format), check_create),
        Kind(f"{said} member, removed", begin_members(format), step_delete_member, check_members),
    ]


def check_members(path: Path) -> list[int]:
    """A member that is there is whole."""
    group = zvcore.open(path)
    assert (group["kept"][...] == 1).all()
    # In N5, a folder without attributes is a group.
    left = {value: isinstance(group.get(f"a/{value}", None), zvcore.Array) for value in STEPS}
    for value, there in left.items():
        assert not there or (group[f"a/{value}"][...] == 1).all(), "a part of a member that was removed"
    return [in_order({value: not there for value, there in left.items()})]
