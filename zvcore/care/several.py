"""A place that is no dataset: a folder of several, each of which is verified, or a group without its document."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore.care.refusals import refusal
from zvcore.converting.note import KEY as NOTE
from zvcore.converting.note import unfinished_at
from zvcore.errors import CorruptDataError, InvalidKeyError, UnsupportedError, ZvcoreError
from zvcore.format import formats, marks
from zvcore.opening import detect, may_be_dataset, store_at, unreadable
from zvcore.report import Problem, Report, What
from zvcore.stores import LocalStore
from zvcore.stores.absolute import absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zvcore.format import Format
    from zvcore.opening import Path
    from zvcore.stores import Store

__all__ = ["Datasets", "SeveralDatasetsError", "datasets_in", "refused", "root_of", "verify_several", "verify_unmarked"]

# In how many folders that are no datasets datasets are looked for in turn.
_MOST_NESTED = 1000
# How many datasets a hint names.
_NAMED = 100
# What names of datasets end with, and those of members of groups hardly ever do.
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]*\Z")


class SeveralDatasetsError(UnsupportedError):
    """What is done to one dataset at a time was asked for of a folder of several.

    names  of these, within the folder
    """

    names: Sequence[str] = ()


@dataclass(frozen=True)
class Datasets:
    """What lies directly in a folder that is no dataset itself.

    path     of the folder
    folders  datasets that are folders, also if their documents cannot be read or their conversion has not ended
    files    datasets that are files
    nested   folders in which such datasets lie in turn
    passed   how many folders were not looked into for that
    unmarked the format of them all, if groups of it need no document
    """

    path: str
    folders: tuple[str, ...]
    files: tuple[str, ...]
    nested: tuple[Datasets, ...] = ()
    passed: int = 0
    unmarked: Format | None = None

    @property
    def names(self) -> list[str]:
        return sorted([*self.folders, *self.files])

    @property
    def separate(self) -> bool:
        """Whether these are datasets of their own, and not the members of a group that has lost its document.

        Their names tell: those of datasets have endings, those of members have not.
        """
        address = self.path.partition("://")
        here = address[2].partition("/")[2] if address[1] else absolute(self.path)
        if _ENDING.search(here.rstrip("/").rpartition("/")[2]):
            return False
        return any(map(_ENDING.search, self.folders)) if self.folders else bool(self.files or self.nested)

    def hint(self) -> list[Problem]:
        """An oddity that names the datasets, for a place that looks like a group without its document."""
        if not self.names:
            return []
        named = ", ".join(self.names[:_NAMED])
        told = f"if this is no group, but a folder of several datasets, verify each of them: {named}"
        return [Problem("", told, fatal=False, kind=What.MISSING)]


def datasets_in(path: str, storage_options: Mapping[str, Any] | None) -> Datasets:
    """What lies directly in a folder that is no dataset itself, and in the folders there that are none."""
    found, rest = _directly_in(path.rstrip("/"), storage_options)
    # What a link leads to is looked at where it is.
    rest = [place for place in rest if "://" in place or not os.path.islink(place)]
    nested = [_directly_in(place, storage_options)[0] for place in rest[:_MOST_NESTED]]
    passed = max(0, len(rest) - _MOST_NESTED)
    return replace(found, nested=tuple(one for one in nested if one.names), passed=passed)


def _directly_in(path: str, storage_options: Mapping[str, Any] | None) -> tuple[Datasets, list[str]]:
    """(the datasets in a folder, the paths of other folders in it)."""
    folders: list[str] = []
    files: list[str] = []
    rest: list[str] = []
    kinds: dict[str, Format | None] = {}
    with _passing_over():
        parent = store_at(path or "/", "r", storage_options)
        within, objects = parent.list_dir()
        folders_here = {*within}
        # Folders of this machine are asked once each whether any of these is there: there may be very many.
        notes = _documents() if isinstance(parent, LocalStore) else None
        for name in [*within, *filter(may_be_dataset, objects)]:
            with _passing_over(folders if name in folders_here else files, name):
                if notes is not None and name in folders_here:
                    store: Store = parent.child(name)
                    marked = {*filter(store.exists, notes)}
                else:
                    store, marked = store_at(f"{path}/{name}", "r", storage_options), None
                kinds[name] = detect(store, marked)
                if kinds[name] is not None:
                    (folders if store.file is None else files).append(name)
                elif unreadable(store, marked) is not None or _is_unfinished(store, marked):
                    folders.append(name)
                else:
                    rest.append(name)
    # What is called like a dataset beside it, and has no document, has lost it.
    endings = {ending[0] for ending in map(_ENDING.search, folders) if ending}
    lost = {name for name in rest if (ending := _ENDING.search(name)) and ending[0] in endings}
    formats = {kinds.get(name) for name in [*folders, *files]}
    only = formats.pop() if len(formats) == 1 and not lost else None
    unmarked = only if only is not None and only.unmarked and not files else None
    found = Datasets(path, tuple(sorted([*folders, *lost])), tuple(sorted(files)), unmarked=unmarked)
    return found, [f"{path}/{name}" for name in sorted(rest) if name not in lost]


@contextmanager
def _passing_over(damaged: list[str] | None = None, name: str = "") -> Iterator[None]:
    """What cannot be opened or asked is no dataset that could be verified. What cannot even be listed is an error.

    What has damage that keeps it from being looked at is added to `damaged`: checking it will tell.
    """
    try:
        yield
    except InvalidKeyError:
        raise
    except (CorruptDataError, OSError) as error:
        if damaged is not None:
            damaged.append(name)
        elif not isinstance(error, ZvcoreError):
            raise
    except ZvcoreError:
        pass


def _documents() -> list[str]:
    """The names of all documents that say what a folder is."""
    likely, others = marks(formats().values())
    return [*likely, *others, NOTE]


def _is_unfinished(store: Store, marked: set[str] | None) -> bool:
    return (marked is None or NOTE in marked) and unfinished_at(store) is not None


def verify_several(datasets: Datasets, verify: Callable[[str], Report]) -> Report:
    """What `verify` reports of all of these, together; places begin with the name of the dataset."""
    report = Report()
    for name in datasets.names:
        place = f"{datasets.path}/{name}"
        _include(report, name, _verified(place, verify), place)
    for below in datasets.nested:
        name = below.path.rpartition("/")[2]
        _include(report, name, verify_several(below, verify) if below.separate else verify(below.path), below.path)
    if datasets.passed:
        told = f"in {datasets.passed} more folders that are no datasets none were looked for"
        report.add("", told, fatal=False, kind=What.MISSING)
    return report


def _verified(place: str, verify: Callable[[str], Report]) -> Report:
    """That one cannot even be opened does not stop the others."""
    try:
        return verify(place)
    except (CorruptDataError, OSError) as error:
        return refused(error, place)


def refused(error: CorruptDataError | OSError, place: Path) -> Report:
    """The report on a place that cannot even be opened."""
    report = Report()
    root = root_of(place)
    report.tell(Problem.of(refusal(error, root), root))
    return report


def verify_unmarked(datasets: Datasets, verify: Callable[[str, str], Report]) -> Report:
    """The report on a group of a format whose groups need no document; nothing tells its format, which is odd."""
    assert datasets.unmarked is not None
    name = datasets.unmarked.name
    report = verify(datasets.path, name)
    what = f"{datasets.unmarked.unmarked}: it can be opened with format={name!r}"
    report.add("", what, fatal=False, kind=What.MISSING)
    return report


def root_of(path: Path) -> str:
    """What the full names of the objects at a path begin with."""
    if not isinstance(path, str | os.PathLike):
        return store_at(path).root
    text = os.fsdecode(path)
    return text.rstrip("/") if "://" in text else absolute(text)


def _include(report: Report, name: str, found: Report, place: str) -> None:
    here = root_of(place)
    found.problems = [replace(one, where="") if one.where == here else one for one in found.problems]
    report.extend(found, name)
    if found.datasets:
        report.datasets.update({f"{name}/{inner}": one for inner, one in found.datasets.items()})
    else:
        report.datasets[name] = found.verdict
