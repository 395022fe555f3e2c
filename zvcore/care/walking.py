"""Walking through the nodes of a dataset and the objects of an array: all of them, or those that were asked for."""

from __future__ import annotations

import threading
from operator import lt
from typing import TYPE_CHECKING, Any, NamedTuple

from zvcore.care.refusals import refusal, tell_strange_names
from zvcore.documents import LARGEST_TOLD
from zvcore.documents.values import DEEPEST
from zvcore.report import Problem, What, join
from zvcore.stores.copying import is_backup
from zvcore.stores.key_selection import keys_of, within
from zvcore.stores.others import Other

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = [
    "DEEPEST_GROUP", "NAMED", "Grid", "below", "look_at_all", "name_untold", "objects", "stray_objects",
    "tells_too_much",
]  # fmt: skip

# How deep groups are that `inspect` describes: its answer is a document too, and each level takes two of its levels.
DEEPEST_GROUP = DEEPEST // 2
# How many nodes are looked at at once: each may decode as many chunks as one alone.
_NODES_AHEAD = 8
# How many of the things that a document names and that are not there are told of one by one: it may name a million.
NAMED = 1000


def below(only: Sequence[str] | None, folder: str) -> Sequence[str] | None:
    """Which objects of a folder were asked for: None for all of them, an empty list for none."""
    if only is None:
        return None
    meant = within(only, folder)
    return None if "" in meant else meant


def look_at_all(
    store: Store,
    report: Report,
    only: Sequence[str] | None,
    look: Callable[[Store, Report, Sequence[str] | None], Iterable[str]],
) -> None:
    """Call `look(store, report, only)` for the node at the root of the store and for each one below.

    It returns the names of the members to visit next. With `only`, members that contain none of these objects are
    skipped; `look` gets the names within its own node, or None for all of it. The walk keeps a list of what is left
    instead of recursing, so groups may be nested to any depth. Where looking means to wait for a network, some nodes
    are looked at before it is their turn, in other threads; the watcher is called by one at a time.
    """
    waiting = [("", only)]
    watch = _by_turns(report.watch)
    ahead: dict[str, tuple[Report, list[str]]] = {}

    def looked(entry: tuple[str, Sequence[str] | None]) -> tuple[Report, list[str]]:
        path, meant = entry
        part = report.part()
        part.watch = watch
        node = store.child(path) if path else store
        try:
            return part, list(look(node, part, meant))
        except OSError as error:
            # Others may be sound, or have other damage.
            part.tell(Problem.of(refusal(error, node.root)))
            return part, []

    while waiting:
        if waiting[-1][0] not in ahead:
            some = [one for one in waiting[: -1 - _at_once(store) : -1] if one[0] not in ahead]
            ahead.update(zip([path for path, _ in some], store.each(looked, some), strict=True))
        path, meant = waiting.pop()
        part, members = ahead.pop(path)
        report.extend(part, path)
        for name in reversed(members):
            inside = below(meant, name)
            if inside is None or inside:
                waiting.append((join(path, name), inside))


def _at_once(store: Store) -> int:
    return _NODES_AHEAD if store.parts_ahead() else 1


def _by_turns(watch: Callable[[int], Any] | None) -> Callable[[int], Any] | None:
    """The same watcher, for whoever calls it while others do."""
    if watch is None:
        return None
    turn = threading.Lock()

    def told(objects: int) -> None:
        with turn:
            watch(objects)

    return told


class Grid(NamedTuple):
    """Which objects an array has.

    extents   how many objects along each axis
    position  the place of an object in the grid, None for a key that is no object's
    guests    what else may lie in the folder
    word      what such an object is called
    owner     what the array is called
    """

    extents: Sequence[int]
    position: Callable[[str], tuple[int, ...] | None]
    guests: Container[str]
    word: str = "chunk"
    owner: str = "array"


def objects(
    store: Store, grid: Grid, report: Report, only: Sequence[str] | None = None
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(key, place in the grid) of every object that readers look for; the others are reported."""
    place, extents = grid.position, grid.extents
    for key in keys_of(store, only, tell_strange_names(report)):
        position = place(key)
        if position is None:
            if key not in grid.guests and not is_backup(key):
                report.add(key, f"not the key of a {grid.word}", fatal=False, kind=What.STRAY)
        elif not all(map(lt, position, extents)):
            what = f"the {grid.word} lies outside the {grid.owner}, so no reader finds it"
            report.add(key, what, chunk=position, fatal=False, kind=What.STRAY)
        else:
            yield key, position
    for prefix in [""] if only is None else only:
        _folders_in_places(store, grid, report, prefix)


def _folders_in_places(store: Store, grid: Grid, report: Report, prefix: str) -> None:
    """Report folders that have the very names of objects: readers would take these for never stored."""
    for key, other in store.others(prefix):
        position = grid.position(key) if other is Other.FOLDER else None
        if position is not None and all(map(lt, position, grid.extents)):
            report.add(key, f"a folder lies where the {grid.word} should be", chunk=position, kind=What.STORE)


def stray_objects(names: Iterable[str], guests: Container[str], report: Report) -> None:
    """Report what is in a group besides its documents."""
    for name in names:
        if name not in guests and not is_backup(name):
            report.add(name, "not an object of a group", fatal=False, kind=What.STRAY)


def name_untold(untold: Iterable[str], key: str, teller: str, report: Report) -> None:
    """Name the members of which the document of a group does not tell: somebody added them later."""
    count = 0
    for name in untold:
        count += 1
        if count <= NAMED:
            what = f"{teller} does not tell of {name}, and readers that use it do not find it"
            report.add(key, what, fatal=False, kind=What.DOCUMENT)
    if count > NAMED:
        what = f"{teller} does not tell of {count - NAMED} more members that are there"
        report.add(key, what, fatal=False, kind=What.DOCUMENT)


def tells_too_much(store: Store, key: str, member: str, report: Report) -> None:
    """Report a document that has more of a group's members than is looked at."""
    size = store.size(key) or 0
    if size > LARGEST_TOLD:
        what = f"{member} is not looked at: it is too large, and the members tell of themselves"
        report.add(key, what, expected=f"at most {LARGEST_TOLD} bytes", found=size, fatal=False, kind=What.UNSUPPORTED)
